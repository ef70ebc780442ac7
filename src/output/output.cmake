# Finished results, as data and as text. JSON stays inside the sources.
#
# A schema is schemas/NAME.v1.json; @PART@ in it is schemas/defs/PART.json, which several share.
file(GLOB schema_parts CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/output/schemas/defs/*.json)
foreach(path ${schema_parts})
  get_filename_component(part ${path} NAME_WE)
  file(READ ${path} text)
  string(STRIP "${text}" ${part})
endforeach()
file(GLOB schemas CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/output/schemas/*.v1.json)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${schemas} ${schema_parts})
set(schema_table "")
foreach(path ${schemas})
  get_filename_component(name ${path} NAME_WE)
  file(READ ${path} text)
  string(CONFIGURE "${text}" text @ONLY)
  string(APPEND schema_table "    {\"${name}\", R\"schema(${text})schema\"},\n")
endforeach()
configure_file(output/schema.cc.in ${PROJECT_BINARY_DIR}/generated/schema.cc @ONLY)
# It lies in the build directory, so the compiler cache would not find a unit that includes it.
set_source_files_properties(${PROJECT_BINARY_DIR}/generated/schema.cc PROPERTIES
  SKIP_UNITY_BUILD_INCLUSION ON)
# These use libraries that only some programs with this library link. In units of their own, they do
# not get into the others.
set_source_files_properties(output/grid_figures.cc output/grid_result.cc output/power_clients.cc
                            output/tuning.cc output/tuning_export.cc PROPERTIES
  SKIP_UNITY_BUILD_INCLUSION ON)
file(GLOB views CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/output/*.cc
                                  ${CMAKE_CURRENT_SOURCE_DIR}/result/*.cc)
add_library(xplane_time_output STATIC ${views} ${PROJECT_BINARY_DIR}/generated/schema.cc)
target_include_directories(xplane_time_output
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>)
target_link_libraries(xplane_time_output
  PUBLIC xplane_time xplane_time_compare xplane_time_energy xplane_time_fleet
         xplane_time_insight xplane_time_power
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings> xplane_time_json absl::str_format absl::time
          PkgConfig::re2)
# The same results as columns in memory, for other languages and libraries.
add_library(xplane_time_arrow STATIC
  arrow/event_table.cc
  arrow/table.cc)
target_link_libraries(xplane_time_arrow
  PUBLIC xplane_time_output
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings> PkgConfig::re2)
set_target_properties(xplane_time_output xplane_time_arrow PROPERTIES
                      POSITION_INDEPENDENT_CODE ON)
# The C interface: a shared library if its dependencies are shared libraries.
if(XPLANE_TIME_STATIC_DEPENDENCIES)
  add_library(xplane_time_c STATIC c/c_api.cc)
else()
  add_library(xplane_time_c SHARED c/c_api.cc)
  set_target_properties(xplane_time_c PROPERTIES CXX_VISIBILITY_PRESET hidden)
endif()
target_include_directories(xplane_time_c
  PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
         $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(xplane_time_c PRIVATE xplane_time_arrow $<BUILD_INTERFACE:xplane_time_warnings>)
xplane_time_public_headers(xplane_time_c "C interface to xplane_time" arrow_c_data c)
