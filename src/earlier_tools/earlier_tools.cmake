# What earlier tools kept of a benchmark, by their names: other products' vocabularies, told in
# docs/power-seeds.md and docs/power-run.md. Nothing else in src knows them.
#
# Trackers, for loops. A library of its own: the Python module links it, and libcrypto stays inside
# sha256.cc.
add_library(xplane_time_trackers STATIC
  earlier_tools/trackers.cc
  io/sha256.cc)
target_include_directories(xplane_time_trackers
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>)
target_link_libraries(xplane_time_trackers
  PUBLIC xplane_time absl::status absl::statusor absl::strings
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings> xplane_time_json
          OpenSSL::Crypto
          xplane_time_output)
set_target_properties(xplane_time_trackers PROPERTIES POSITION_INDEPENDENT_CODE ON)
