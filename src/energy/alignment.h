// Where a log lies on the trace's axis, when no clock tells: where its power goes up and down with
// what ran.
//
//   power    ___/```\_/`\____        by the log's clock
//   running  __[   ]_[ ]____         by the trace's
//              ^ the offset at which a line through (running, power) leaves least
#pragma once

#include <vector>

#include "energy/busy.h"
#include "energy/regression.h"

namespace xplane_time::energy {

// Offsets (what to add to the log's times) that fit best, the best first, at most `most`, two
// periods apart or more. `busy`: of all kernels. Empty: too few updates, or nothing fits.
// O(offsets x windows), of each at most some thousands.
std::vector<double> LikelyOffsetsS(const Sensor& sensor, const BusyCurve& busy, double capture_s,
                                   size_t most);

}  // namespace xplane_time::energy
