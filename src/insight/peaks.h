// Peaks: the maximum FLOP/s and bytes/s of a device.
//
//   PeaksOf(plane)   // {.flops_per_s = 1.3074e15, .bytes_per_s = 5.3248e12, ... kTable}
//
// A TPU's plane states both. A GPU's plane states its memory bandwidth, its clock and its cores. A
// table here has the FLOPs of a core per clock.
#pragma once

#include "xplane_time/headroom.h"
#include "xplane_time/trace.h"

namespace xplane_time::insight {

// `unbelievable`: a stat of the plane was ignored, because its value is impossible.
DevicePeaks PeaksOf(const Plane& plane, bool* unbelievable);

// The peak for products with this xla.PrimitiveType as left operand.
std::optional<double> FlopsPeakFor(const DevicePeaks& peaks, int32_t type);

}  // namespace xplane_time::insight
