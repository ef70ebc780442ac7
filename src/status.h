// Macros that return errors to the caller.
//
//   RETURN_IF_ERROR(file.Close());
//   ASSIGN_OR_RETURN(const Trace trace, Open(path));
//
// Both expand to several statements: put braces around them after an `if`.
//
// Functions that make errors, with a message that is concatenated as by Cat:
//
//   return InvalidArgument(path, ": row ", row, " is too long; cut it");
//
// Cat and Append are absl::StrCat and absl::StrAppend, and also accept std::string_view.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace xplane_time {

// Converts to absl::string_view, which need not be std::string_view.
inline absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

namespace cat {

inline absl::string_view Part(std::string_view text) { return Absl(text); }
template <typename T>
const T& Part(const T& part) {
  return part;
}

}  // namespace cat

template <typename... Parts>
std::string Cat(const Parts&... parts) {
  return absl::StrCat(cat::Part(parts)...);
}
template <typename... Parts>
void Append(std::string* text, const Parts&... parts) {
  absl::StrAppend(text, cat::Part(parts)...);
}

template <absl::StatusCode kCode>
struct ErrorOf {
  template <typename... Parts>
  absl::Status operator()(const Parts&... parts) const {
    return absl::Status(kCode, Cat(parts...));
  }
};
inline constexpr ErrorOf<absl::StatusCode::kCancelled> Cancelled;
inline constexpr ErrorOf<absl::StatusCode::kDataLoss> DataLoss;
inline constexpr ErrorOf<absl::StatusCode::kFailedPrecondition> FailedPrecondition;
inline constexpr ErrorOf<absl::StatusCode::kInternal> Internal;
inline constexpr ErrorOf<absl::StatusCode::kInvalidArgument> InvalidArgument;
inline constexpr ErrorOf<absl::StatusCode::kNotFound> NotFound;
inline constexpr ErrorOf<absl::StatusCode::kPermissionDenied> PermissionDenied;
inline constexpr ErrorOf<absl::StatusCode::kResourceExhausted> ResourceExhausted;
inline constexpr ErrorOf<absl::StatusCode::kUnavailable> Unavailable;

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
