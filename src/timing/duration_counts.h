// DurationCounts: how often each duration occurred (stats/value_counts.h). Rounded ones keep their
// leading bits only; count, total, minimum and maximum stay exact.
#pragma once

#include <cstdint>
#include <span>

#include "stats/value_counts.h"

namespace xplane_time {

using DurationCount = stats::CountedValue;  // `value`: picoseconds

// The median of `count` durations, by the rule of Percentile (aggregate.h).
double CountedMedian(std::span<const DurationCount> sorted, uint64_t count);

class DurationCounts {
 public:
  void Add(int64_t duration_ps, uint64_t times = 1) {
    if (rounded()) exact_.Add(duration_ps, times);
    counts_.Add(duration_ps, times);
  }

  // Of all durations; the total saturates.
  struct Sum {
    uint64_t count = 0;
    int64_t total_ps = 0;
    int64_t min_ps = 0, max_ps = 0;  // where the count is not 0

    void Add(int64_t duration_ps, uint64_t times);
  };
  Sum Total() const;

  // From now on (and for all before) only the leading `bits` of each duration are kept.
  void Round(int bits) {
    exact_ = Total();
    counts_.Round(bits);
  }
  bool rounded() const { return counts_.rounded(); }
  size_t memory_bytes() const { return counts_.memory_bytes(); }
  std::vector<DurationCount> Sorted() const { return counts_.Sorted(); }  // ascending

 private:
  stats::ValueCounts counts_;
  Sum exact_;  // where durations are rounded
};

}  // namespace xplane_time
