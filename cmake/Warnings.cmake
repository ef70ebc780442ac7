# Warnings for our own code, not for generated code or users of the library.
add_library(xplane_time_warnings INTERFACE)
target_compile_options(xplane_time_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns of std::string's own operator+ (GCC bug 105651, fixed in 13).
  target_compile_options(xplane_time_warnings INTERFACE -Wno-restrict)
endif()
option(XPLANE_TIME_WERROR "Treat warnings as errors" OFF)
if(XPLANE_TIME_WERROR)
  target_compile_options(xplane_time_warnings INTERFACE -Werror)
endif()
