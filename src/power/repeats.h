// Repeats: windows of one name, as `power record -r 5` makes them, as one row.
//
//   run 10 J, run #2 12 J, run #3 unknown   ->   run: 3 windows, 2 known, mean 11 J, std 1.41 J
#ifndef XPLANE_TIME_SRC_POWER_REPEATS_H_
#define XPLANE_TIME_SRC_POWER_REPEATS_H_

#include <vector>

#include "xplane_time/power.h"

namespace xplane_time::power {

// A row for each name of two windows and more and each sensor, then the total where several
// sensors are in it. All windows have the same sensors in the same order. O(energies).
std::vector<RepeatedEnergy> RepeatsOf(const std::vector<WindowSummary>& windows);

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_REPEATS_H_
