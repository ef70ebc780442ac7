# The energy of kernels, by a regression of sensor readings on the executions.
add_library(xplane_time_energy STATIC
  energy/alignment.cc
  energy/attribution.cc
  energy/busy.cc
  energy/calibrate.cc
  energy/calibration_log.cc
  energy/energies.cc
  energy/energy.cc
  energy/goal.cc
  energy/layers.cc
  energy/plan.cc
  energy/plan_sensor.cc
  energy/polled_phase.cc
  energy/publications.cc
  energy/regression.cc
  energy/sensors.cc
  energy/trace_counters.cc)
target_link_libraries(xplane_time_energy
  PUBLIC xplane_time xplane_time_power xplane_time_stats $<BUILD_INTERFACE:Eigen3::Eigen>
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings> xplane_time_json)
target_include_directories(xplane_time_energy
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>)
target_compile_features(xplane_time_energy PUBLIC cxx_std_20)
set_target_properties(xplane_time_energy PROPERTIES POSITION_INDEPENDENT_CODE ON)
xplane_time_public_headers(xplane_time_energy "Energy of kernels, functions and layers" energy)
