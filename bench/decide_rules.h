// The rules of other tools on a simulated device: their picks, and the runs that they need.
//
// Each rule follows the documentation or source of its tool, without search, caches and
// verification. A round has at most 20 runs and drifts as a unit. Rules that measure one variant
// after another therefore compare variants across rounds, as they do on a real device.
#pragma once

#include <cstdint>

#include "tests/decide/simulated_device.h"

namespace xplane_time::bench {

struct Picked {
  uint32_t pick = 0;
  int64_t runs = 0;
};

using Device = testing::SimulatedDevice;

// tune-jax: `rounds` rounds of all variants in shuffled order; trimmed mean plus 0.1 standard
// deviations.
Picked TuneJax(Device& device, uint32_t variants, int rounds, uint64_t seed);
// kernel_tuner: `runs` runs of each variant, one variant after another; their mean.
Picked MeanOf(Device& device, uint32_t variants, int runs);
// XLA: the same runs; their minimum.
Picked MinimumOf(Device& device, uint32_t variants, int runs);
// nvbench: runs each variant until its relative standard error is at most `relative_se`, with 10 to
// 1000 runs; the mean.
Picked UntilStandardError(Device& device, uint32_t variants, double relative_se);
// Rounds of the remaining variants. After every `rounds` rounds, half of the variants are dropped
// by the mean of all their runs.
Picked SuccessiveHalving(Device& device, uint32_t variants, int rounds, uint64_t seed);

}  // namespace xplane_time::bench
