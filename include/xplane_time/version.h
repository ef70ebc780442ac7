// The version, for the preprocessor and at run time.
//
// Example:
//
//   static_assert(XPLANE_TIME_VERSION >= 100);  // 0.1.0 or later
//   std::cout << XPLANE_TIME_VERSION_STRING << '\n';
#pragma once

#define XPLANE_TIME_VERSION_MAJOR 0
#define XPLANE_TIME_VERSION_MINOR 1
#define XPLANE_TIME_VERSION_PATCH 0
#define XPLANE_TIME_VERSION_STRING "0.1.0"
// 10000 * major + 100 * minor + patch, for comparisons: #if XPLANE_TIME_VERSION >= 200
#define XPLANE_TIME_VERSION \
  (XPLANE_TIME_VERSION_MAJOR * 10000 + XPLANE_TIME_VERSION_MINOR * 100 + XPLANE_TIME_VERSION_PATCH)
