# Power run: asks the records of a data set through a client, and measures the energy of each.
add_library(xplane_time_power_run STATIC
  earlier_tools/power_run_directory.cc
  earlier_tools/power_run_rates.cc
  earlier_tools/power_run_result_json.cc
  workload/client_command.cc
  workload/dataset_python.cc
  workload/datasets.cc
  workload/power_run.cc
  workload/run_rows.cc
  workload/telemetry.cc
  workload/text_records.cc)
target_link_libraries(xplane_time_power_run
  PUBLIC xplane_time_power
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings> xplane_time_json
          xplane_time_harness xplane_time_trackers PkgConfig::re2)
set_target_properties(xplane_time_power_run PROPERTIES POSITION_INDEPENDENT_CODE ON)
xplane_time_public_headers(xplane_time_power_run "Energy of each answer of a model" power_run)
# Clients by name. Only the headers of libcurl are needed here; the library is loaded at run time.
add_library(xplane_time_clients STATIC
  workload/api_key.cc
  workload/chat_json.cc
  workload/chat_ollama.cc
  workload/chat_openai.cc
  workload/clients.cc
  workload/curl_library.cc
  workload/event_stream.cc
  workload/http_connection.cc
  workload/model_server.cc
  workload/surrogates.cc)
target_include_directories(xplane_time_clients SYSTEM PRIVATE ${CURL_INCLUDE_DIRS})
target_link_libraries(xplane_time_clients
  PUBLIC xplane_time_power_run
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings> xplane_time_json xplane_time_harness
          xplane_time_stats ${CMAKE_DL_LIBS})
