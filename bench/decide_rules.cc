#include "bench/decide_rules.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "stats/random.h"

namespace xplane_time::bench {
namespace {

// Runs variants in any order, cut into rounds, and keeps the times by variant.
class Bench {
 public:
  Bench(Device& device, uint32_t variants) : device_(device), times_(variants) {}

  void Run(uint32_t variant) {
    pending_.push_back(variant);
    ++runs_;
    if (pending_.size() == kBlockRuns) Flush();
  }
  // Ends the round.
  void Flush() {
    if (pending_.empty()) return;
    for (const Sample& sample : device_.Run(0, 0, pending_).samples) {
      times_[sample.variant].push_back(static_cast<double>(sample.t_ps));
    }
    pending_.clear();
  }

  const std::vector<double>& times(uint32_t variant) const { return times_[variant]; }

  template <typename Score>
  Picked Least(Score score) {
    Flush();
    Picked picked{.runs = runs_};
    double least = INFINITY;
    for (uint32_t v = 0; v < times_.size(); ++v) {
      const double value = score(times_[v]);
      if (value < least) {
        least = value;
        picked.pick = v;
      }
    }
    return picked;
  }

 private:
  Device& device_;
  std::vector<std::vector<double>> times_;
  std::vector<uint32_t> pending_;
  int64_t runs_ = 0;
};

double Mean(const std::vector<double>& times) {
  return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
}

double Std(const std::vector<double>& times) {
  const double mean = Mean(times);
  double squares = 0;
  for (const double time : times) squares += (time - mean) * (time - mean);
  return std::sqrt(squares / static_cast<double>(times.size()));
}

// Mean without the fastest and the slowest time.
double TrimmedMean(std::vector<double> times) {
  if (times.size() <= 2) return Mean(times);
  std::sort(times.begin(), times.end());
  return Mean({times.begin() + 1, times.end() - 1});
}

std::vector<uint32_t> Everyone(uint32_t variants) {
  std::vector<uint32_t> all(variants);
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

Bench OneAfterTheOther(Device& device, uint32_t variants, int runs) {
  Bench bench(device, variants);
  for (uint32_t v = 0; v < variants; ++v) {
    for (int i = 0; i < runs; ++i) bench.Run(v);
  }
  return bench;
}

}  // namespace

Picked TuneJax(Device& device, uint32_t variants, int rounds, uint64_t seed) {
  Bench bench(device, variants);
  stats::Random random(seed);
  std::vector<uint32_t> order = Everyone(variants);
  for (int round = 0; round < rounds; ++round) {
    random.Shuffle(order);
    for (const uint32_t v : order) bench.Run(v);
    bench.Flush();
  }
  return bench.Least(
      [](const std::vector<double>& times) { return TrimmedMean(times) + 0.1 * Std(times); });
}

Picked MeanOf(Device& device, uint32_t variants, int runs) {
  return OneAfterTheOther(device, variants, runs).Least(Mean);
}

Picked MinimumOf(Device& device, uint32_t variants, int runs) {
  return OneAfterTheOther(device, variants, runs).Least([](const std::vector<double>& times) {
    return *std::min_element(times.begin(), times.end());
  });
}

Picked UntilStandardError(Device& device, uint32_t variants, double relative_se) {
  constexpr size_t kFewest = 10, kMost = 1000;
  Bench bench(device, variants);
  for (uint32_t v = 0; v < variants; ++v) {
    for (size_t runs = 0; runs < kMost;) {
      for (size_t i = 0; i < kFewest; ++i, ++runs) bench.Run(v);
      bench.Flush();
      const std::vector<double>& times = bench.times(v);
      const double se = Std(times) / std::sqrt(static_cast<double>(times.size()));
      if (se <= relative_se * Mean(times)) break;
    }
  }
  return bench.Least(Mean);
}

Picked SuccessiveHalving(Device& device, uint32_t variants, int rounds, uint64_t seed) {
  Bench bench(device, variants);
  stats::Random random(seed);
  std::vector<uint32_t> left = Everyone(variants);
  while (left.size() > 1) {
    for (int round = 0; round < rounds; ++round) {
      random.Shuffle(left);
      for (const uint32_t v : left) bench.Run(v);
      bench.Flush();
    }
    std::sort(left.begin(), left.end(),
              [&](uint32_t a, uint32_t b) { return Mean(bench.times(a)) < Mean(bench.times(b)); });
    left.resize((left.size() + 1) / 2);
  }
  const uint32_t winner = left.front();
  Picked picked = bench.Least(Mean);
  picked.pick = winner;
  return picked;
}

}  // namespace xplane_time::bench
