// The energy of one window, computed directly from the definitions in docs/power.md. It examines
// every reading again for every window. src/power/energy.h is checked against it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "power/energy.h"

namespace xplane_time::testing {

using TimedValue = std::pair<int64_t, int64_t>;  // nanoseconds, milliwatts or microjoules

power::EnergyPart SlowEnergy(const power::EnergyRules& rules,
                             const std::vector<TimedValue>& readings,
                             const std::vector<power::Suspension>& suspensions, int64_t begin_ns,
                             int64_t end_ns);

}  // namespace xplane_time::testing
