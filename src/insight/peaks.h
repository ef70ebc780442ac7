// Peaks: what a device could compute and move at most.
//
//   PeaksOf(plane)   // {.flops_per_s = 1.3074e15, .bytes_per_s = 5.3248e12, ... kTable}
//
// A TPU's plane tells both. A GPU's plane tells its memory's bandwidth, and its clock and cores;
// how much a core computes a clock is in a table here, the only one.
#pragma once

#include "xplane_time/headroom.h"
#include "xplane_time/trace.h"

namespace xplane_time::insight {

// `unbelievable`: a stat of the plane was left out, since no device is like that.
DevicePeaks PeaksOf(const Plane& plane, bool* unbelievable);

// Of products whose left operand has this xla.PrimitiveType.
std::optional<double> FlopsPeakFor(const DevicePeaks& peaks, int32_t type);

}  // namespace xplane_time::insight
