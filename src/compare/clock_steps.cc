#include "compare/clock_steps.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace xplane_time::compare {

// Only traces name their clock.
ClockKey ClockOf(const Series& series) {
  if (!series.clock.empty()) return {series.clock, series.device};
  return {"", series.variant_id.value_or("") + "\n" + series.function};
}

ClockSteps FindClockSteps(std::span<const Measurements> captures,
                          std::span<const Measurements> other_side) {
  std::map<ClockKey, std::vector<double>> times_ps;
  for (const std::span<const Measurements> side : {captures, other_side}) {
    for (const Measurements& capture : side) {
      for (const Series& series : capture.series) {
        std::vector<double>& times = times_ps[ClockOf(series)];
        for (const Sampled& sample : series.samples) times.push_back(sample.value);
      }
    }
  }
  ClockSteps steps_ps;
  for (auto& [key, times] : times_ps) {
    std::sort(times.begin(), times.end());
    double& least = steps_ps[key];
    for (size_t i = 1; i < times.size(); ++i) {
      const double step = times[i] - times[i - 1];
      if (step > 0 && (least == 0 || step < least)) least = step;
    }
  }
  return steps_ps;
}

// The error of a time is up to half a step. It is the same in all runs of a function and
// independent between two functions: two uniform errors.
double FindResolution(double step_ps, double log_time) {
  return step_ps / std::exp(log_time) * std::sqrt(2.0 / 12);
}

}  // namespace xplane_time::compare
