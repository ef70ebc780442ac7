// The step of the clock that times come from, as far as the times show it.
//
// Input: captures. Output: for each clock, the smallest difference between two different samples.
// In a trace, all functions of a device share a clock. The times of a benchmark are means over
// iterations, so each function has its own step.
//
//   samples   100   100   104   110 ns
//   step                 4                 the error of a time is up to half a step
//
// This is an upper bound, because few samples may not include two adjacent values. O(samples log
// samples).
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>

#include "xplane_time/measurements.h"

namespace xplane_time::compare {

using ClockKey = std::pair<std::string, std::string>;
using ClockSteps = std::map<ClockKey, double>;  // picoseconds; 0: all samples are equal

ClockKey ClockOf(const Series& series);

// The steps over all captures; a comparison has two sides of them.
ClockSteps FindClockSteps(std::span<const Measurements> captures,
                          std::span<const Measurements> other_side = {});

// The standard deviation of a log ratio of two times that is due to the step. `log_time`: the mean
// of the logarithms of both times.
double FindResolution(double step_ps, double log_time);

}  // namespace xplane_time::compare
