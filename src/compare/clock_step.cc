#include "compare/clock_step.h"

#include <algorithm>
#include <vector>

namespace xplane_time::compare {

// Only traces tell their clock.
ClockSteps::Key ClockSteps::KeyOf(const Series& series) {
  if (!series.clock.empty()) return {series.clock, series.device};
  return {"", series.variant_id.value_or("") + "\n" + series.function};
}

ClockSteps::ClockSteps(std::span<const Measurements> base, std::span<const Measurements> head) {
  std::map<Key, std::vector<double>> times_ps;
  for (const auto side : {base, head}) {
    for (const Measurements& capture : side) {
      for (const Series& series : capture.series) {
        std::vector<double>& times = times_ps[KeyOf(series)];
        for (const Sampled& sample : series.samples) times.push_back(sample.time_ps);
      }
    }
  }
  for (auto& [key, times] : times_ps) {
    std::sort(times.begin(), times.end());
    double least = 0;
    for (size_t i = 1; i < times.size(); ++i) {
      const double step = times[i] - times[i - 1];
      if (step > 0 && (least == 0 || step < least)) least = step;
    }
    step_ps_[key] = least;
  }
}

double ClockSteps::StepPs(const Series& series) const {
  const auto found = step_ps_.find(KeyOf(series));
  return found == step_ps_.end() ? 0 : found->second;
}

}  // namespace xplane_time::compare
