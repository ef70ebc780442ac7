// ValueCounts: the median of integers, exact while they have few distinct values.
//
// Where a table grows past its budget, values keep only their leading bits (14, then 12, 10
// and 8), so that the median is too small in magnitude by at most 1 in 2^13 (2^7 at worst).
#ifndef XPLANE_TIME_SRC_POWER_VALUE_COUNTS_H_
#define XPLANE_TIME_SRC_POWER_VALUE_COUNTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "timing/duration_counts.h"

namespace xplane_time::power {

class ValueCounts {
 public:
  void Add(int64_t value, size_t most_bytes, uint64_t times = 1) {
    // The complement of a negative value is its magnitude less one.
    DurationCounts& side = value < 0 ? negative_ : other_;
    side.Add(value < 0 ? ~value : value, times);
    if (side.memory_bytes() > most_bytes) Shrink(&side, most_bytes);
  }
  void Merge(const ValueCounts& other, size_t most_bytes);
  // Of the value with `rank` values before it, in ascending order.
  int64_t At(uint64_t rank) const;
  // The mean of the two in the middle where the count is even; empty without a value.
  std::optional<double> Median() const;
  // The value that is at least as large as `share` of all (nearest rank).
  std::optional<int64_t> Quantile(double share) const;
  uint64_t count() const;
  bool rounded() const { return other_.rounded() || negative_.rounded(); }

 private:
  void Shrink(DurationCounts* side, size_t most_bytes);

  DurationCounts other_, negative_;
};

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_VALUE_COUNTS_H_
