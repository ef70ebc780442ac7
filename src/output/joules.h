// Joules: energies as people read them.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "output/text.h"

namespace xplane_time::output {

// "61.3", "0.00713": three digits that count; unknown: "-".
inline std::string Figure(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return "-";
  const double size = std::abs(*value);
  if (size >= 1e5 || size == 0) return FormatFixed(*value, 0);
  return FormatFixed(*value, std::clamp(2 - static_cast<int>(std::floor(std::log10(size))), 0, 9));
}

// "mJ", and how many of it a joule has: in which the largest is at least 1.
struct JouleUnit {
  const char* name;
  double per_j;

  std::string Cell(std::optional<double> joules) const {
    return Figure(joules ? std::optional(*joules * per_j) : std::nullopt);
  }
};

inline JouleUnit JouleUnitOf(const std::vector<std::optional<double>>& joules) {
  double largest = 0;
  for (const auto& each : joules) largest = std::max(largest, each.value_or(0));
  if (largest >= 1 || largest == 0) return {"J", 1};
  return largest >= 1e-3 ? JouleUnit{"mJ", 1e3} : JouleUnit{"uJ", 1e6};
}

}  // namespace xplane_time::output
