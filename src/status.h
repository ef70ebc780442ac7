// The two usual ways on from an error: hand it up.
//
//   RETURN_IF_ERROR(file.Close());
//   ASSIGN_OR_RETURN(const Trace trace, Open(path));
//
// Both are several statements: put braces around them after an `if`.
#ifndef XPLANE_TIME_SRC_STATUS_H_
#define XPLANE_TIME_SRC_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define XPLANE_TIME_JOIN_NAMES(a, b) a##b
#define XPLANE_TIME_STATUS_NAME(line) XPLANE_TIME_JOIN_NAMES(status_of_line_, line)
#define XPLANE_TIME_VALUE_NAME(line) XPLANE_TIME_JOIN_NAMES(value_of_line_, line)

#define RETURN_IF_ERROR(...)                                          \
  if (absl::Status XPLANE_TIME_STATUS_NAME(__LINE__) = (__VA_ARGS__); \
      !XPLANE_TIME_STATUS_NAME(__LINE__).ok())                        \
  return XPLANE_TIME_STATUS_NAME(__LINE__)

#define ASSIGN_OR_RETURN(target, ...)                            \
  auto XPLANE_TIME_VALUE_NAME(__LINE__) = (__VA_ARGS__);         \
  if (!XPLANE_TIME_VALUE_NAME(__LINE__).ok())                    \
    return std::move(XPLANE_TIME_VALUE_NAME(__LINE__)).status(); \
  target = *std::move(XPLANE_TIME_VALUE_NAME(__LINE__))

#endif  // XPLANE_TIME_SRC_STATUS_H_
