// The two usual ways on from an error: hand it up.
//
//   RETURN_IF_ERROR(file.Close());
//   ASSIGN_OR_RETURN(const Trace trace, Open(path));
//
// Both are several statements: put braces around them after an `if`.
//
// And a new error, whose message is put together as by absl::StrCat (of std::string_view too):
//
//   return InvalidArgument(path, ": row ", row, " is too long; cut it");
#pragma once

#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace xplane_time {
namespace status_text {

inline absl::string_view Part(std::string_view text) { return {text.data(), text.size()}; }
template <typename T>
const T& Part(const T& part) {
  return part;
}

}  // namespace status_text

template <typename... Parts>
absl::Status InvalidArgument(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(status_text::Part(parts)...));
}
template <typename... Parts>
absl::Status FailedPrecondition(const Parts&... parts) {
  return absl::FailedPreconditionError(absl::StrCat(status_text::Part(parts)...));
}
template <typename... Parts>
absl::Status DataLoss(const Parts&... parts) {
  return absl::DataLossError(absl::StrCat(status_text::Part(parts)...));
}
template <typename... Parts>
absl::Status NotFound(const Parts&... parts) {
  return absl::NotFoundError(absl::StrCat(status_text::Part(parts)...));
}
template <typename... Parts>
absl::Status Internal(const Parts&... parts) {
  return absl::InternalError(absl::StrCat(status_text::Part(parts)...));
}
template <typename... Parts>
absl::Status Unavailable(const Parts&... parts) {
  return absl::UnavailableError(absl::StrCat(status_text::Part(parts)...));
}
template <typename... Parts>
absl::Status ResourceExhausted(const Parts&... parts) {
  return absl::ResourceExhaustedError(absl::StrCat(status_text::Part(parts)...));
}
template <typename... Parts>
absl::Status PermissionDenied(const Parts&... parts) {
  return absl::PermissionDeniedError(absl::StrCat(status_text::Part(parts)...));
}

}  // namespace xplane_time

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
