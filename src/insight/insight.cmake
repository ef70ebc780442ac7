# Where time went: the exact partition of each device's time.
add_library(xplane_time_insight STATIC
  insight/idle_gaps.cc
  insight/partition.cc
  insight/transfer_pairs.cc
  insight/where.cc
  insight/where_watch.cc)
target_link_libraries(xplane_time_insight
  PUBLIC xplane_time
  PRIVATE absl::flat_hash_map $<BUILD_INTERFACE:xplane_time_warnings>)
target_include_directories(xplane_time_insight
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>)
target_compile_features(xplane_time_insight PUBLIC cxx_std_20)
set_target_properties(xplane_time_insight PROPERTIES POSITION_INDEPENDENT_CODE ON)
