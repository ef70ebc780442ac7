# Reading and writing JSON.
add_library(xplane_time_json STATIC json/json.cc)
target_include_directories(xplane_time_json
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>)
target_link_libraries(xplane_time_json
  PUBLIC absl::flat_hash_map absl::strings $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings>)
target_compile_features(xplane_time_json PUBLIC cxx_std_20)
set_target_properties(xplane_time_json PROPERTIES POSITION_INDEPENDENT_CODE ON)
