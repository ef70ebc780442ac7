// Joules: energies as people read them.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "output/text.h"

namespace xplane_time::output {

// "61.3", "0.00713": three digits that count; unknown: "-".
inline std::string Figure(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return "-";
  const double size = std::abs(*value);
  if (size >= 1e5 || size == 0) return FormatFixed(*value, 0);
  return FormatFixed(*value, std::clamp(2 - static_cast<int>(std::floor(std::log10(size))), 0, 9));
}

// A unit for energies up to this one, and what a J is in it: {"mJ", 1e3}.
inline std::pair<const char*, double> JouleUnit(double largest) {
  if (largest >= 1 || largest == 0) return {"J", 1};
  return largest >= 1e-3 ? std::pair("mJ", 1e3) : std::pair("uJ", 1e6);
}

}  // namespace xplane_time::output
