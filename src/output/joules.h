// Joules in tables: a column has one unit, cells three digits that count.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace xplane_time::output {

// "61.3", "0.00713"; unknown: "-".
std::string Figure(std::optional<double> value);

// "mJ", and how many of it a joule has: in which the largest is at least 1.
struct JouleUnit {
  const char* name;
  double per_j;

  std::string Cell(std::optional<double> joules) const {
    return Figure(joules ? std::optional(*joules * per_j) : std::nullopt);
  }
};
JouleUnit JouleUnitOf(const std::vector<std::optional<double>>& joules);

}  // namespace xplane_time::output
