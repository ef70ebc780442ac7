# Power: sensors, the recorder, its log and summaries of logs. NVML is only loaded at run time.
add_library(xplane_time_power STATIC
  power/gpu_settings.cc
  power/hwmon.cc
  power/log_reader.cc
  power/log_writer.cc
  power/nvidia_smi_log.cc
  power/nvml.cc
  power/nvml_api.cc
  power/nvml_gpm.cc
  power/process.cc
  power/rapl.cc
  power/reader.cc
  power/recorder.cc
  power/sources.cc
  power/summarizer.cc
  power/sysfs.cc
  power/visible_devices.cc)
target_include_directories(xplane_time_power
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>
         $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
         $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(xplane_time_power
  PUBLIC xplane_time xplane_time_stats absl::status absl::statusor absl::strings absl::int128
  PRIVATE $<BUILD_INTERFACE:xplane_time_warnings> absl::flat_hash_map absl::str_format absl::time
          xplane_time_json xplane_time_stats PkgConfig::re2 Threads::Threads ${CMAKE_DL_LIBS})
target_compile_features(xplane_time_power PUBLIC cxx_std_20)
set_target_properties(xplane_time_power PROPERTIES POSITION_INDEPENDENT_CODE ON)
xplane_time_public_headers(xplane_time_power "Records power sensors; energies of time windows" power)
