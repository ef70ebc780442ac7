# Results as pages. Style, script and d3 are built in, so that a page is self-contained.
find_file(XPLANE_TIME_D3 d3.min.js PATHS /usr/share/nodejs/d3/dist NO_DEFAULT_PATH REQUIRED
          DOC "d3 5 (Debian: node-d3)")
set(page ${CMAKE_CURRENT_SOURCE_DIR}/output/page)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page}/page.css ${page}/page.js
             ${page}/d3_licence.txt)
file(READ ${page}/page.css page_style)
file(READ ${page}/page.js page_script)
file(READ ${XPLANE_TIME_D3} d3_script)
file(READ ${page}/d3_licence.txt d3_licence)
configure_file(output/page/assets.cc.in ${PROJECT_BINARY_DIR}/generated/page_assets.cc @ONLY)
# As schema.cc in output.cmake.
set_source_files_properties(${PROJECT_BINARY_DIR}/generated/page_assets.cc PROPERTIES
  SKIP_UNITY_BUILD_INCLUSION ON)
add_library(xplane_time_page STATIC
  output/page/kept_rows.cc
  output/page/page.cc
  output/page/timeline_data.cc
  ${PROJECT_BINARY_DIR}/generated/page_assets.cc)
target_link_libraries(xplane_time_page
  PUBLIC xplane_time_output
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings> xplane_time_json xplane_time_trackers
          absl::strings ZLIB::ZLIB)
set_target_properties(xplane_time_page PROPERTIES POSITION_INDEPENDENT_CODE ON)
