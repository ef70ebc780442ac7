# Power run: records through a command, each with its energy.
add_library(xplane_time_power_run STATIC
  power/run/command_client.cc
  power/run/directory.cc
  power/run/json_lines_source.cc
  power/run/result_json.cc
  power/run/run.cc
  power/run/telemetry.cc)
target_link_libraries(xplane_time_power_run
  PUBLIC xplane_time_power
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings> xplane_time_json
          xplane_time_harness xplane_time_trackers)
