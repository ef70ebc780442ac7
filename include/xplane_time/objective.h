// Objective: the quantity that decide, tune, compare and pick minimize.
//
// Example:
//
//   static_assert(ObjectiveName(Objective::kEdp) == "edp");
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace xplane_time {

enum class Objective : uint8_t { kTime, kEnergy, kEdp, kEd2p, kPareto };
constexpr std::array<std::string_view, 5> NamesOf(Objective) {
  return {"time", "energy", "edp", "ed2p", "pareto"};
}
constexpr std::string_view ObjectiveName(Objective objective) {
  return NamesOf(objective)[static_cast<size_t>(objective)];
}

}  // namespace xplane_time
