// Names of the power counters in traces. Readings are events of zero length on the device's line
// `_counters_`; the value is the event's stat of the same name. libtpu and XLA's profilers use
// these names.
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
