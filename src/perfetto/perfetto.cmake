# Timelines and power as Perfetto traces.
add_library(xplane_time_perfetto STATIC
  perfetto/nesting.cc
  perfetto/timeline_trace.cc
  perfetto/trace_writer.cc)
target_link_libraries(xplane_time_perfetto
  PUBLIC xplane_time_energy xplane_time_insight xplane_time_output
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings>)
