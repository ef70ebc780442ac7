# Programs carry Abseil and re2 in them (Dependencies.cmake sees to the others): resolving their
# names in some 30 shared libraries takes longer than reading a small trace. Not for shared
# libraries of our own: Debian does not build its archives for those.
function(xplane_time_prefer_archive target)
  get_target_property(location ${target} IMPORTED_LOCATION_NONE)
  string(REGEX REPLACE "\\.so[.0-9]*$" ".a" archive "${location}")
  if(EXISTS "${archive}")
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_NONE "${archive}")
  endif()
endfunction()

get_property(imported DIRECTORY PROPERTY IMPORTED_TARGETS)
list(FILTER imported INCLUDE REGEX "^absl::")
foreach(target IN LISTS imported)
  xplane_time_prefer_archive(${target})
endforeach()

find_library(re2_archive libre2.a)
if(re2_archive)
  set_target_properties(PkgConfig::re2 PROPERTIES INTERFACE_LINK_LIBRARIES
                                                  "${re2_archive};Threads::Threads")
endif()
