# Finds the fastest variant: pure, without files or clocks. JSON is confined to protocol.cc.
add_library(xplane_time_decide STATIC
  decide/comparer.cc
  decide/decider.cc
  decide/observations.cc
  decide/planner.cc
  decide/protocol.cc
  decide/race.cc)
target_compile_features(xplane_time_decide PUBLIC cxx_std_20)
target_include_directories(xplane_time_decide
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>
         $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
         $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(xplane_time_decide
  PUBLIC absl::status absl::statusor absl::strings xplane_time_stats
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings> xplane_time_json)
set_target_properties(xplane_time_decide PROPERTIES POSITION_INDEPENDENT_CODE ON)
xplane_time_public_headers(xplane_time_decide "Finds the fastest variant with few runs" decide)
