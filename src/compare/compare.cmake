# Decisions: take measurements of any kind and return verdicts.
add_library(xplane_time_compare STATIC
  compare/clock_steps.cc
  compare/compare.cc
  compare/differences.cc
  compare/files.cc
  compare/input_json.cc
  compare/input_summary.cc
  compare/measurements.cc
  compare/needed_captures.cc
  compare/option_facts.cc
  compare/pick.cc
  compare/series.cc)
target_include_directories(xplane_time_compare
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>)
target_link_libraries(xplane_time_compare
  PUBLIC xplane_time xplane_time_stats
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings> xplane_time_json xplane_time_summary)
set_target_properties(xplane_time_compare PROPERTIES POSITION_INDEPENDENT_CODE ON)
xplane_time_public_headers(xplane_time_compare "Compares captures; picks the fastest variant"
  compare measurements pick)
