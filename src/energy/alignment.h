// Finds where a power log lies on the axis of a trace if no clock relates the two: where the power
// rises and falls together with the kernels.
//
//   power    ___/```\_/`\____        on the log's clock
//   running  __[   ]_[ ]____         on the trace's clock
//              ^ the offset at which a line fitted to (running, power) leaves the smallest residual
#pragma once

#include <vector>

#include "energy/busy.h"
#include "energy/regression.h"

namespace xplane_time::energy {

// Returns the offsets (to add to the log's times) that fit best: at most `most`, the best first,
// two periods or more apart. `busy` is when any kernel ran. The result is empty if there are too
// few updates or if no offset fits. O(offsets x windows), at most some thousands each.
std::vector<double> LikelyOffsetsS(const Sensor& sensor, const BusyCurve& busy, double capture_s,
                                   size_t most);

}  // namespace xplane_time::energy
