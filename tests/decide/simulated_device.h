// SimulatedDevice: a device whose noise is known, for tests and for bench/decide_simulation.
//
//   SimulatedDevice device({.log_times = {0, 0.01}, .seed = 7});      // the second: 1 % slower
//   RoundResult result = device.Run(batch, round, {1, 0});
//   device.Regret(1) == 0.01005
//
// A sample is the product of the variant's time, the round's drift, log-normal noise and, at
// times, a spike. Everything comes from the seed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stats/random.h"
#include "xplane_time/decide.h"

namespace xplane_time::testing {

struct DeviceNoise {
  double sd = 0.01;     // of a sample
  double drift = 0.02;  // of a round, common to its samples
  enum class Drift : uint8_t { kIndependent, kAutocorrelated, kRandomWalk };
  Drift drift_kind = Drift::kIndependent;
  double spike_rate = 0.02;
  double spike_min = 0.10, spike_max = 0.50;  // excess time
  bool spikes_log_uniform = false;
  double clock_levels = 0;  // distance of two clocks, one of them a round
  double first_run = 0;     // excess time of the first run of a round
  double slope = 0;         // sd of the drift over 20 runs within a round
};

class SimulatedDevice {
 public:
  struct Config {
    std::vector<double> log_times;
    DeviceNoise noise = {};
    std::vector<double> sds = {};  // of each variant's samples; empty: the noise's
    uint64_t seed = 0;
  };
  explicit SimulatedDevice(Config config) : config_(std::move(config)), random_(config_.seed) {}

  RoundResult Run(uint64_t batch, uint64_t round, std::span<const uint32_t> order);

  double Regret(uint32_t pick) const;

 private:
  double Drift();
  double Spike();

  Config config_;
  stats::Random random_;
  double drift_ = 0;
};

}  // namespace xplane_time::testing
