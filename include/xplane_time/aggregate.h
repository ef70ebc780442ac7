// Aggregate: summary statistics of the samples of one function.
//
// Example:
//
//   const std::vector<int64_t> values_ps = {5'000, 5'040, 4'980, 5'010, 4'990, 5'100};
//   const Summary summary = Summarize(values_ps, /*seed=*/1);
//   assert(summary.mean == 5020 && summary.median == 5005);
//   assert(*summary.median_ci95_lo == 4985 && *summary.median_ci95_hi == 5070);
//   assert(Summarize({}, 1).n == 0);  // every other field is then meaningless
//
// Sums are exact (128-bit integers). Means and deviations are doubles in ps; they are computed by
// Welford's method and merged by Chan's. Percentiles interpolate linearly between order statistics
// (numpy's default). The confidence interval of the median comes from a percentile bootstrap with
// 1000 replicates. The median of n draws with replacement is an order statistic of the sample, so
// each replicate is drawn directly: u ~ Beta(k, n + 1 - k), index floor(n u). This has the same
// distribution and costs O(1) per replicate instead of O(n).
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace xplane_time {

__extension__ typedef __int128 Int128;  // -Wpedantic accepts no other spelling

// Computes count, mean and spread in one pass; can be merged. Not thread-safe. The class keeps the
// exact sum instead of a running mean, so deviations are exact even for values far from 0.
class Moments {
 public:
  void Add(int64_t value);
  void Add(int64_t value, uint64_t times);
  void Merge(const Moments& other);

  uint64_t n() const { return n_; }
  Int128 sum() const { return sum_; }
  int64_t min() const { return min_; }
  int64_t max() const { return max_; }
  double mean() const { return static_cast<double>(sum_) / static_cast<double>(n_); }  // n > 0
  // std() has ddof 0 and needs n > 0; std_sample() has ddof 1 and needs n > 1.
  double std() const { return std::sqrt(m2_ / static_cast<double>(n_)); }
  double std_sample() const { return std::sqrt(m2_ / static_cast<double>(n_ - 1)); }

 private:
  uint64_t n_ = 0;
  Int128 sum_ = 0;
  int64_t min_ = 0, max_ = 0;
  double m2_ = 0;  // sum of squared deviations from the mean
};

// Statistics of the times of a row, in picoseconds. The JSON schema calls this type "S".
struct Summary {
  uint64_t n = 0;
  double mean = 0;
  double std = 0;                    // ddof 0
  std::optional<double> std_sample;  // ddof 1; needs n > 1
  int64_t min = 0, max = 0;
  double median = 0;
  double mad = 0;  // median absolute deviation, unscaled
  double p50 = 0, p95 = 0, p99 = 0;
  std::optional<double> median_ci95_lo, median_ci95_hi;  // needs n > 5
};

// Summarizes values in any order. Deterministic for a given seed. O(n log n).
Summary Summarize(std::span<const int64_t> values_ps, uint64_t seed);

// Linear interpolation. `sorted` is ascending and not empty; 0 <= fraction <= 1.
double Percentile(std::span<const int64_t> sorted, double fraction);

struct Trim {
  enum class Policy : uint8_t {
    kKeepAll,
    kDropExtremes,  // drops one minimum and one maximum if there are more than two samples
    kIqr,           // drops values outside [q1 - 1.5 iqr, q3 + 1.5 iqr]
    // drops values farther than 3 * 1.4826 * MAD from the median (keeps all if MAD is 0)
    kMad,
    kPercent,  // drops floor(n * percent / 100) values at each end
  };
  Policy policy = Policy::kKeepAll;
  double percent = 0;  // for kPercent: 0 <= percent < 50
};

// Parses "none", "drop-extremes", "iqr", "mad" or "percent:P". Errors: InvalidArgument.
absl::StatusOr<Trim> ParseTrim(std::string_view text);
std::string TrimName(const Trim& trim);

// For each sample, by position: whether the policy keeps it. At least one sample is kept if there
// are any.
std::vector<bool> KeptByTrim(std::span<const int64_t> values_ps, const Trim& trim);

}  // namespace xplane_time
