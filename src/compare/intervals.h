// Intervals: the difference of two sides, and how many differences may be told at once.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "stats/location.h"

namespace xplane_time::compare {

using stats::Centre;

// Holm's step-down: adjusted p-values, in the order of the input, at most 1.
std::vector<double> HolmAdjusted(std::span<const double> p_values);

// What the logs of times on both sides say about their difference.
struct Difference {
  double estimate = 0;  // head - base
  double standard_error = 0;
  double df = 0;      // 0: nothing is known about the error
  double spread = 0;  // std of a capture's centre; df 0: as far as its own samples show it
  // Std of what the clock's resolution does to the estimate: part of standard_error that more
  // captures do not reduce.
  double resolution = 0;
};
// `base` and `head`: one centre a capture, not empty.
Difference UnpairedDifference(std::span<const Centre> base, std::span<const Centre> head,
                              std::optional<double> offset_std);
// Of equal length.
Difference PairedDifference(std::span<const Centre> base, std::span<const Centre> head,
                            std::optional<double> offset_std);

}  // namespace xplane_time::compare
