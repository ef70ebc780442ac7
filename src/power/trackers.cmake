# What a benchmark loop keeps of itself. A library of its own: the Python module links it, and
# libcrypto stays inside sha256.cc.
add_library(xplane_time_trackers STATIC
  power/fingerprint.cc
  power/sha256.cc
  power/trackers.cc
  power/whole_file.cc)
target_include_directories(xplane_time_trackers
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>)
target_link_libraries(xplane_time_trackers
  PUBLIC xplane_time absl::status absl::statusor absl::strings
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings> xplane_time_json
          OpenSSL::Crypto
          xplane_time_output)
set_target_properties(xplane_time_trackers PROPERTIES POSITION_INDEPENDENT_CODE ON)
