// The rules of other tools, on a simulated device: what they pick, and after how many runs.
//
// Each is the rule alone, as its documentation or source has it, and not the tool: search,
// caches and verification are left out. A round is at most 20 runs long and drifts as one, so
// rules that measure one variant after the other compare across rounds, as they do on a device.
#pragma once

#include <cstdint>

#include "tests/decide/simulated_device.h"

namespace xplane_time::bench {

struct Picked {
  uint32_t pick = 0;
  int64_t runs = 0;
};

using Device = testing::SimulatedDevice;

// tune-jax: `rounds` rounds of everything in shuffled order; trimmed mean plus 0.1 std.
Picked TuneJax(Device& device, uint32_t variants, int rounds, uint64_t seed);
// kernel_tuner: `runs` runs of each, one variant after the other; their mean.
Picked MeanOf(Device& device, uint32_t variants, int runs);
// XLA: the same; their minimum.
Picked MinimumOf(Device& device, uint32_t variants, int runs);
// nvbench: each variant until its relative standard error is at most `relative_se`, with 10 to
// 1000 runs; the mean.
Picked UntilStandardError(Device& device, uint32_t variants, double relative_se);
// Rounds of the survivors, `rounds` before each halving by the mean of all their runs.
Picked SuccessiveHalving(Device& device, uint32_t variants, int rounds, uint64_t seed);

}  // namespace xplane_time::bench
