# Search spaces: their formats, and their configurations.
add_library(xplane_time_space STATIC
  tune/expression.cc
  tune/space.cc
  tune/space_choose.cc
  tune/space_import.cc
  tune/space_json.cc)
target_include_directories(xplane_time_space
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>)
target_link_libraries(xplane_time_space
  PUBLIC xplane_time absl::flat_hash_set
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings> xplane_time_json xplane_time_stats PkgConfig::re2
          ZLIB::ZLIB)
set_target_properties(xplane_time_space PROPERTIES POSITION_INDEPENDENT_CODE ON)

# Tunings and the store of measurements. Only store*.cc use SQLite.
add_library(xplane_time_tune STATIC
  tune/device_check.cc
  tune/device_settings.cc
  tune/device_state.cc
  tune/energy_block.cc
  tune/energy_harness.cc
  tune/harness_protocol.cc
  tune/harness_fleet.cc
  tune/measuring.cc
  tune/outcome_json.cc
  tune/process_harness.cc
  tune/search_run.cc
  tune/serve_harness.cc
  tune/session_json.cc
  tune/store.cc
  tune/store_sqlite.cc
  tune/store_tuned.cc
  tune/tune.cc)
target_include_directories(xplane_time_tune
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>)
target_link_libraries(xplane_time_tune
  PUBLIC xplane_time xplane_time_space xplane_time_harness xplane_time_decide xplane_time_compare
         xplane_time_power absl::flat_hash_map absl::flat_hash_set
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings> xplane_time_json xplane_time_energy
          PkgConfig::re2 SQLite::SQLite3 ZLIB::ZLIB)
xplane_time_public_headers(xplane_time_tune "Search spaces, tuning, and tables of tuned configurations"
  harness space store tune tuned_table)
