# Child processes that exchange lines with tune and power run.
add_library(xplane_time_harness STATIC
  harness/messages.cc
  harness/process.cc)
target_include_directories(xplane_time_harness
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>)
target_link_libraries(xplane_time_harness
  PUBLIC absl::status absl::statusor absl::strings xplane_time_json
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings>)
target_compile_features(xplane_time_harness PUBLIC cxx_std_20)
set_target_properties(xplane_time_harness PROPERTIES POSITION_INDEPENDENT_CODE ON)
