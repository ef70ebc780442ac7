// Says: whether the message of a status contains a text. Abseil's string_view is a separate type
// here, so the conversion is in one place.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace xplane_time::testing {

inline bool Says(const absl::Status& status, std::string_view part) {
  return std::string(status.message()).find(part) != std::string::npos;
}

// Whether the message begins with a text.
inline bool Begins(const absl::Status& status, std::string_view part) {
  return std::string(status.message()).starts_with(part);
}

}  // namespace xplane_time::testing
