// Made: captures with times as a test wants them, from a seed.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "xplane_time/measurements.h"

namespace xplane_time::testing {

class Noise {
 public:
  explicit Noise(uint64_t seed) : engine_(seed) {}
  double Uniform() { return (static_cast<double>(engine_() >> 11) + 0.5) * 0x1p-53; }
  double Normal() {
    const double radius = std::sqrt(-2 * std::log(Uniform()));
    return radius * std::cos(2 * std::numbers::pi * Uniform());
  }
  // "capture 3": captures of one source are one capture.
  std::string NextSource() { return "capture " + std::to_string(++sources_); }

 private:
  std::mt19937_64 engine_;
  int sources_ = 0;
};

struct MadeFunction {
  std::string name;
  double typical_ps = 1e7;
  double noise = 0.01;  // of the log of a sample
};

// One capture: `offset` is the log by which this process is off.
inline Measurements Capture(const std::vector<MadeFunction>& functions, int samples, double offset,
                            Noise* noise) {
  Measurements out;
  out.source = noise->NextSource();
  for (const MadeFunction& function : functions) {
    Series& series = out.series.emplace_back();
    series.function = function.name;
    series.device = "GPU:0";
    series.metric = "active";
    series.clock = "profile";
    for (int i = 0; i < samples; ++i) {
      const double log_time =
          std::log(function.typical_ps) + offset + function.noise * noise->Normal();
      series.samples.push_back({std::exp(log_time), i + 1});
    }
  }
  return out;
}

// A capture of energies: functions take `run_j` each, stated with errors of `error` (a share). The
// process is off by `offset`, each value by what was stated.
inline Measurements Energies(const std::vector<double>& run_j, double error, double offset,
                             Noise* noise, std::string source = "energies") {
  Measurements out;
  out.source = std::move(source);
  for (size_t f = 0; f < run_j.size(); ++f) {
    Series& series = out.series.emplace_back();
    series.function = "jit_autotune_fn_" + std::to_string(f);
    series.variant_id = std::to_string(f);
    series.device = "GPU:0";
    series.metric = kEnergyMetric;
    series.samples = {{run_j[f] * std::exp(offset + error * noise->Normal()), 0}};
    series.log_error = error;
  }
  return out;
}

// `count` captures whose processes differ by `offset_std`.
inline std::vector<Measurements> Captures(int count, const std::vector<MadeFunction>& functions,
                                          double offset_std, Noise* noise, int samples = 20) {
  std::vector<Measurements> out;
  for (int i = 0; i < count; ++i) {
    out.push_back(Capture(functions, samples, offset_std * noise->Normal(), noise));
  }
  return out;
}

// Variants that ran in rounds: rows of `log_times` are rounds, columns variants; NaN: not
// run. Ids are "0", "1", ...
inline Measurements Rounds(const std::vector<std::vector<double>>& log_times) {
  Measurements out;
  out.source = "rounds";
  const size_t variants = log_times.empty() ? 0 : log_times[0].size();
  for (size_t v = 0; v < variants; ++v) {
    Series& series = out.series.emplace_back();
    series.function = "jit_autotune_fn_" + std::to_string(v);
    series.variant_id = std::to_string(v);
    series.device = "GPU:0";
    series.metric = "active";
    series.clock = "profile";
    for (size_t r = 0; r < log_times.size(); ++r) {
      if (std::isnan(log_times[r][v])) continue;
      series.samples.push_back(
          {std::exp(log_times[r][v]), static_cast<int64_t>(r * variants + v + 1)});
    }
  }
  return out;
}

}  // namespace xplane_time::testing
