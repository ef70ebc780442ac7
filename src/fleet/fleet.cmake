# Many captures: mergeable summaries, and hosts that are slower than the others.
add_library(xplane_time_summary STATIC
  fleet/merge.cc
  fleet/outliers.cc
  fleet/summary_file.cc
  fleet/waits.cc)
target_link_libraries(xplane_time_summary
  PUBLIC xplane_time
  PRIVATE absl::flat_hash_map $<BUILD_INTERFACE:xplane_time_warnings> xplane_time_stats ZLIB::ZLIB)
# Makes summaries from traces.
add_library(xplane_time_fleet STATIC fleet/summarize.cc)
target_link_libraries(xplane_time_fleet
  PUBLIC xplane_time_insight xplane_time_summary
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings> xplane_time_compare xplane_time_stats)
foreach(part summary fleet)
  target_include_directories(xplane_time_${part}
    PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>)
  target_compile_features(xplane_time_${part} PUBLIC cxx_std_20)
  set_target_properties(xplane_time_${part} PROPERTIES POSITION_INDEPENDENT_CODE ON)
endforeach()
xplane_time_public_headers(xplane_time_fleet "Mergeable summaries of many captures" fleet)
