// Says: whether a status' message has this part. Abseil's string_view is its own here, so
// the conversion is in one place.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace xplane_time::testing {

inline bool Says(const absl::Status& status, std::string_view part) {
  return std::string(status.message()).find(part) != std::string::npos;
}

// At the message's very beginning.
inline bool Begins(const absl::Status& status, std::string_view part) {
  return std::string(status.message()).starts_with(part);
}

}  // namespace xplane_time::testing
