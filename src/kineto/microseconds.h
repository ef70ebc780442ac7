// Times of Kineto: microseconds as decimal text, which a double cannot hold. A microsecond of the
// Unix epoch has 16 digits before the point and three after it; a double has steps of 0.25 there.
#pragma once

#include <optional>
#include <string_view>

#include "absl/numeric/int128.h"

namespace xplane_time::kineto {

// "1712195495519689.012" in picoseconds, exact; the seventh decimal rounds, a half away from zero.
// An exponent is allowed. What is beyond any axis is kFarPs, or minus it. Nothing: not a number.
std::optional<absl::int128> MicrosecondsToPs(std::string_view text);

inline constexpr absl::int128 kFarPs = absl::MakeInt128(int64_t{1} << 16, 0);  // 2^80

}  // namespace xplane_time::kineto
