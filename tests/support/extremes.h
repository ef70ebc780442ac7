// The extreme values of 64-bit times.
#pragma once

#include <cstdint>
#include <limits>

namespace xplane_time::testing {

inline constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

}  // namespace xplane_time::testing
