# Statistics: medians, quantiles, robust centres, distributions, random numbers. The library holds
# the parts that are not header-only.
add_library(xplane_time_stats STATIC
  stats/distributions.cc
  stats/location.cc)
target_include_directories(xplane_time_stats
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>)
target_link_libraries(xplane_time_stats PRIVATE $<BUILD_INTERFACE:xplane_time_warnings>)
target_compile_features(xplane_time_stats PUBLIC cxx_std_20)
set_target_properties(xplane_time_stats PROPERTIES POSITION_INDEPENDENT_CODE ON)
