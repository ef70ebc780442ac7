// Converts times of Kineto: microseconds as decimal text, which a double cannot hold exactly. Unix
// time in microseconds has 16 digits before the point and three after it; at this size the steps of
// a double are 0.25.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/numeric/int128.h"

namespace xplane_time::kineto {

inline constexpr int64_t kPsPerUs = 1'000'000;

// "1712195495519689.012" in picoseconds, exactly. The seventh decimal is rounded, half away from
// zero. Exponents are allowed. Values beyond any axis become kFarPs or -kFarPs. nullopt: not a
// number.
std::optional<absl::int128> MicrosecondsToPs(std::string_view text);

inline constexpr absl::int128 kFarPs = absl::MakeInt128(int64_t{1} << 16, 0);  // 2^80

}  // namespace xplane_time::kineto
