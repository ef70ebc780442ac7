#include "tests/decide/simulated_device.h"

#include <algorithm>
#include <cmath>

namespace xplane_time::testing {

double SimulatedDevice::Drift() {
  constexpr double kCorrelation = 0.9;
  const DeviceNoise& noise = config_.noise;
  const double step = noise.drift * random_.Normal();
  switch (noise.drift_kind) {
    case DeviceNoise::Drift::kIndependent:
      drift_ = step;
      break;
    case DeviceNoise::Drift::kAutocorrelated:
      drift_ = kCorrelation * drift_ + std::sqrt(1 - kCorrelation * kCorrelation) * step;
      break;
    case DeviceNoise::Drift::kRandomWalk:
      drift_ += step;
      break;
  }
  const bool is_slow_clock = random_.Uniform() < 0.5;
  return drift_ + (is_slow_clock ? std::log1p(noise.clock_levels) : 0);
}

double SimulatedDevice::Spike() {
  const DeviceNoise& noise = config_.noise;
  if (random_.Uniform() >= noise.spike_rate) return 0;
  const double at = random_.Uniform();
  if (noise.spikes_log_uniform) {
    return std::log1p(noise.spike_min * std::pow(noise.spike_max / noise.spike_min, at));
  }
  return std::log1p(noise.spike_min + (noise.spike_max - noise.spike_min) * at);
}

RoundResult SimulatedDevice::Run(uint64_t batch, uint64_t round, std::span<const uint32_t> order) {
  constexpr double kUnitPs = 1e8;
  constexpr double kSlopeRuns = 20;
  const double drift = Drift();
  const double slope = config_.noise.slope * random_.Normal() / kSlopeRuns;
  RoundResult result{.batch = batch, .round = round};
  for (uint32_t slot = 0; slot < order.size(); ++slot) {
    const double sd = config_.sds.empty() ? config_.noise.sd : config_.sds[order[slot]];
    const double log_time = config_.log_times[order[slot]] + drift + slope * slot +
                            sd * random_.Normal() + Spike() +
                            (slot == 0 ? std::log1p(config_.noise.first_run) : 0);
    result.samples.push_back(
        {.variant = order[slot], .slot = slot, .t_ps = std::llround(kUnitPs * std::exp(log_time))});
  }
  return result;
}

double SimulatedDevice::Regret(uint32_t pick) const {
  const auto& log_times = config_.log_times;
  return std::expm1(log_times[pick] - *std::min_element(log_times.begin(), log_times.end()));
}

}  // namespace xplane_time::testing
