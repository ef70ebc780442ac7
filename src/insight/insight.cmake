# Why it took so long: the exact partition of each device's time, and each op's roofline.
add_library(xplane_time_insight STATIC
  insight/brief.cc
  insight/brief_roofs.cc
  insight/brief_words.cc
  insight/findings.cc
  insight/declared_work.cc
  insight/diff.cc
  insight/diff_amounts.cc
  insight/diff_capture.cc
  insight/diff_match.cc
  insight/diff_sums.cc
  insight/diff_verdicts.cc
  insight/headline.cc
  insight/headroom.cc
  insight/host_compiles.cc
  insight/host_lanes.cc
  insight/idle_gaps.cc
  insight/kernels_alike.cc
  insight/op_costs.cc
  insight/op_traits.cc
  insight/partition.cc
  insight/peaks.cc
  insight/slow_runs.cc
  insight/timeline.cc
  insight/transfer_pairs.cc
  insight/variation.cc
  insight/where.cc
  insight/where_watch.cc)
target_link_libraries(xplane_time_insight
  PUBLIC xplane_time xplane_time_compare
  PRIVATE absl::flat_hash_map absl::flat_hash_set absl::node_hash_map
          $<BUILD_INTERFACE:xplane_time_warnings>
          xplane_time_json xplane_time_stats)
target_include_directories(xplane_time_insight
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>)
target_compile_features(xplane_time_insight PUBLIC cxx_std_20)
set_target_properties(xplane_time_insight PROPERTIES POSITION_INDEPENDENT_CODE ON)
xplane_time_public_headers(xplane_time_insight "Explains where the time of a trace goes"
  brief diff headroom where)
