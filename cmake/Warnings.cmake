# Warnings for our own code, not for generated code or users of the library.
add_library(xplane_time_warnings INTERFACE)
target_compile_options(xplane_time_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
option(XPLANE_TIME_WERROR "Treat warnings as errors" OFF)
if(XPLANE_TIME_WERROR)
  target_compile_options(xplane_time_warnings INTERFACE -Werror)
endif()
