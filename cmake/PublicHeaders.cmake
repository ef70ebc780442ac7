# Public headers belong to one library each. Install.cmake makes the exported target and the .pc
# file of each library from these lists, and tests compare docs/cpp.md with them.

# The library TARGET defines everything that HEADERS (names without folder and suffix) declare.
function(xplane_time_public_headers target description)
  set_target_properties(${target} PROPERTIES XPLANE_TIME_HEADERS "${ARGN}"
                                             XPLANE_TIME_DESCRIPTION "${description}")
  set_property(GLOBAL APPEND PROPERTY XPLANE_TIME_PUBLIC_LIBRARIES ${target})
endfunction()

# What a user of TARGET links, itself included: our own libraries in link order (dependents first),
# and other libraries.
function(xplane_time_link_closure target own_variable others_variable)
  set(own "")
  set(others "")
  get_target_property(items ${target} INTERFACE_LINK_LIBRARIES)
  if(NOT items)
    set(items "")
  endif()
  foreach(item IN LISTS items)
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" item "${item}")
    if(item MATCHES "^\\$<BUILD_INTERFACE:")
      continue()
    elseif(item MATCHES "^xplane_time")
      xplane_time_link_closure(${item} own_of_item others_of_item)
      # A library stands before all that it needs: keep the last position of each.
      list(APPEND own ${own_of_item})
      list(APPEND others ${others_of_item})
    else()
      list(APPEND others ${item})
    endif()
  endforeach()
  list(REVERSE own)
  list(REMOVE_DUPLICATES own)
  list(REVERSE own)
  list(REMOVE_DUPLICATES others)
  set(${own_variable} ${target} ${own} PARENT_SCOPE)
  set(${others_variable} "${others}" PARENT_SCOPE)
endfunction()
