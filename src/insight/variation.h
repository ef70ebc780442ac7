// Variation: whether a device is slower than its peers, and whether it got slower.
//
// Enters: what a function's runs took on each device, in their order. Leaves: p-values of a null
// hypothesis (no device is more than kLeastRatio slower than its peers; runs may come in any
// order), which hold whatever the distribution of a run's noise, as long as runs are independent.
// The caller corrects for how many it asks (HolmAdjusted).
//
//   SlowerThanPeers({{100, 101, 99}, {100, 99, 100}, {120, 121, 119}})[2]   // ratio 1.2, p 2e-6
//   GotSlower({10, 10, 11, 10, ..., 13, 13, 14, 13})                        // ratio 1.3
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace xplane_time::insight {

// Smaller differences are normal: devices of one kind differ by a few percent.
inline constexpr double kLeastRatio = 1.05;

struct PeerTest {
  double ratio = 1;    // to the median of the others, run by run
  double p_value = 1;  // one-sided: of Student's t of the logarithm of that ratio
};
// By device; `times`: equally many for each device, all above 0. Empty below three runs. With two
// devices, each is the other's only peer.
std::optional<std::vector<PeerTest>> SlowerThanPeers(
    std::span<const std::vector<double>> times_by_device);

struct SlowedTest {
  double ratio = 1;         // of slow runs to the others, medians
  double fast_level = 0;    // the median of the others
  double p_value = 1;       // of both ways below, corrected
  bool is_for_good = true;  // slower from some run on; else for stretches
  std::vector<bool> slow;   // by run
};
// Two tests: Pettitt's for a permanent change, and Wald and Wolfowitz's for two levels that
// alternate in long stretches. A slow beginning does not count. Empty below kLeastRuns runs. O(n
// log n).
inline constexpr size_t kLeastRuns = 12;
std::optional<SlowedTest> GotSlower(std::span<const double> times);

}  // namespace xplane_time::insight
