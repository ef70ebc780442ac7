# The files and measurements of earlier tools, under their names (docs/power-seeds.md and
# docs/power-run.md). The rest of src does not use these names.
#
# Trackers for benchmark loops are a separate library, because the Python module links them. Only
# sha256.cc uses libcrypto.
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
xplane_time_public_headers(xplane_time_trackers "Memory, power and latency of benchmark loops" trackers)
