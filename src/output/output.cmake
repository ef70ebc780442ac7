# Finished results to text. JSON stays inside json.cc.
foreach(command report planes functions kernels tree events compare pick compat tune power power-run power-sources)
  file(READ ${CMAKE_CURRENT_SOURCE_DIR}/output/schemas/${command}.v1.json SCHEMA_${command})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${CMAKE_CURRENT_SOURCE_DIR}/output/schemas/${command}.v1.json)
endforeach()
configure_file(output/schema.cc.in ${PROJECT_BINARY_DIR}/generated/schema.cc @ONLY)
add_library(xplane_time_output STATIC
  output/compat.cc
  output/columns.cc
  output/csv.cc
  output/decision_csv.cc
  output/decision_json.cc
  output/decisions.cc
  output/events.cc
  output/grid.cc
  output/interchange.cc
  output/json.cc
  output/markdown.cc
  output/ordering.cc
  output/output.cc
  output/page.cc
  output/power.cc
  output/power_inventory_json.cc
  output/power_json.cc
  output/power_openmetrics.cc
  output/power_plot.cc
  output/power_rows.cc
  output/power_sources.cc
  output/power_svg.cc
  output/rows.cc
  output/sections.cc
  output/sections_compare.cc
  output/sections_capture.cc
  output/sections_functions.cc
  output/sections_kernels.cc
  output/sections_pick.cc
  output/sections_tree.cc
  output/table.cc
  output/text.cc
  output/tuning.cc
  output/units.cc
  ${PROJECT_BINARY_DIR}/generated/schema.cc)
target_include_directories(xplane_time_output
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>)
target_link_libraries(xplane_time_output
  PUBLIC xplane_time xplane_time_compare xplane_time_power
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings> xplane_time_json)

# The same results as columns in memory, for other languages and libraries.
add_library(xplane_time_arrow STATIC
  arrow/event_table.cc
  arrow/export.cc
  arrow/report_tables.cc
  arrow/table.cc)
target_link_libraries(xplane_time_arrow
  PUBLIC xplane_time_output
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings> PkgConfig::re2)
set_target_properties(xplane_time_output xplane_time_arrow PROPERTIES
                      POSITION_INDEPENDENT_CODE ON)

# The C interface: a shared library where what it needs is shared, too.
if(XPLANE_TIME_STATIC_DEPENDENCIES)
  add_library(xplane_time_c STATIC c/c_api.cc)
else()
  add_library(xplane_time_c SHARED c/c_api.cc)
  set_target_properties(xplane_time_c PROPERTIES CXX_VISIBILITY_PRESET hidden)
endif()
target_include_directories(xplane_time_c PUBLIC ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(xplane_time_c PRIVATE xplane_time_arrow xplane_time_warnings)
