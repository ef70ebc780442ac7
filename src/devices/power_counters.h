// The counters of a trace that tell a device's power, by name. An event of no length on the
// device's line `_counters_`; the value is its stat of the same name. As libtpu and XLA's profilers
// name them.
#pragma once

#include <string_view>

namespace xplane_time {

inline constexpr std::string_view kCountersLine = "_counters_";
inline constexpr std::string_view kPowerCounter = "power_mw";
inline constexpr std::string_view kEnergyCounterSuffix = "_energy_nj";

inline bool IsPowerCounter(std::string_view name) {
  return name == kPowerCounter || name.ends_with(kEnergyCounterSuffix);
}

}  // namespace xplane_time
