# Many captures: summaries that merge, and who is slower than the others.
add_library(xplane_time_fleet STATIC
  fleet/merge.cc
  fleet/outliers.cc
  fleet/summarize.cc
  fleet/summary_file.cc)
target_link_libraries(xplane_time_fleet
  PUBLIC xplane_time xplane_time_insight
  PRIVATE absl::flat_hash_map $<BUILD_INTERFACE:xplane_time_warnings> xplane_time_compare
          xplane_time_stats)
target_include_directories(xplane_time_fleet
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>)
target_compile_features(xplane_time_fleet PUBLIC cxx_std_20)
set_target_properties(xplane_time_fleet PROPERTIES POSITION_INDEPENDENT_CODE ON)
