// QuantileSketch: quantiles of integers in bounded memory.
//
// Up to kMostExact values the answers are exact. Beyond, values keep their leading 14 bits, and an
// answer, the middle of what is rounded to one value, is off by at most 1 in 2^14 (0.006 %).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "stats/value_counts.h"

namespace xplane_time::stats {

class QuantileSketch {
 public:
  static constexpr size_t kMostExact = 16384;

  void Add(int64_t value) {
    values_.Add(value);
    Count(1);
  }
  void Merge(const QuantileSketch& other) {
    other.values_.ForEach(
        [this](const CountedValue& each) { values_.Add(each.value, each.count); });
    Count(other.count_);
  }

  uint64_t count() const { return count_; }
  // The mean of the two in the middle where the count is even; empty without a value.
  std::optional<double> Median() const;
  // The least value that is at least as large as `share` of all.
  std::optional<double> Quantile(double share) const;

 private:
  static constexpr int kBits = 14;

  void Count(uint64_t times) {
    count_ += times;
    if (count_ > kMostExact && !values_.rounded()) values_.Round(kBits);
  }
  // The value with `rank` values before it, in ascending order; rank < count().
  double At(const std::vector<CountedValue>& sorted, uint64_t rank) const;

  uint64_t count_ = 0;
  ValueCounts values_;
};

}  // namespace xplane_time::stats
