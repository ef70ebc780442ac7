# find_package(xplane_time) and pkg-config xplane_time; the tool and its completions.
include(CMakePackageConfigHelpers)

set(config ${PROJECT_BINARY_DIR}/cmake)
install(TARGETS xplane_time EXPORT xplane_time_targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# xplane_time::tune and what it stands on; each says by its name what it has.
set(XPLANE_TIME_INSTALL_TUNE OFF)
if(TARGET xplane_time_tune)
  set(XPLANE_TIME_INSTALL_TUNE ON)
  foreach(part compare decide energy fleet harness insight json output power power_run space stats summary
               trackers tune)
    set_target_properties(xplane_time_${part} PROPERTIES EXPORT_NAME ${part})
    add_library(xplane_time::${part} ALIAS xplane_time_${part})
    install(TARGETS xplane_time_${part} EXPORT xplane_time_targets
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endforeach()
endif()
if(TARGET xplane_time_c AND NOT XPLANE_TIME_STATIC_DEPENDENCIES)
  install(TARGETS xplane_time_c LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(DIRECTORY include/xplane_time DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT xplane_time_targets NAMESPACE xplane_time::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/xplane_time)
configure_package_config_file(cmake/xplane_time-config.cmake.in ${config}/xplane_time-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/xplane_time)
write_basic_package_version_file(${config}/xplane_time-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${config}/xplane_time-config.cmake ${config}/xplane_time-config-version.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/xplane_time)
# Relative to the .pc file, so that an install tree may move.
file(RELATIVE_PATH prefix_from_pc ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/xplane_time.pc.in ${config}/xplane_time.pc @ONLY)
install(FILES ${config}/xplane_time.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(XPLANE_TIME_INSTALL_TUNE)
  configure_file(cmake/xplane_time_tune.pc.in ${config}/xplane_time_tune.pc @ONLY)
  install(FILES ${config}/xplane_time_tune.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
if(XPLANE_TIME_BUILD_TOOLS)
  install(TARGETS xplane-time RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES tools/completions/xplane-time.bash
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME xplane-time)
  install(FILES tools/completions/_xplane-time
          DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES tools/completions/xplane-time.fish
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
