#include "timing/duration_counts.h"

#include <limits>

#include "stats/order_statistics.h"
#include "saturate.h"

namespace xplane_time {

double CountedMedian(std::span<const DurationCount> sorted, uint64_t count) {
  return stats::Between(stats::CountedAtRank(sorted, (count - 1) / 2).value,
                        stats::CountedAtRank(sorted, count / 2).value, 0.5);
}

void DurationCounts::Sum::Add(int64_t duration_ps, uint64_t times) {
  int64_t together_ps = 0;
  if (__builtin_mul_overflow(duration_ps, times, &together_ps)) {
    together_ps = std::numeric_limits<int64_t>::max();
  }
  total_ps = SaturatingAdd(total_ps, together_ps);
  min_ps = count == 0 ? duration_ps : std::min(min_ps, duration_ps);
  max_ps = count == 0 ? duration_ps : std::max(max_ps, duration_ps);
  count += times;
}

DurationCounts::Sum DurationCounts::Total() const {
  if (rounded()) return exact_;
  Sum sum;
  counts_.ForEach([&sum](const DurationCount& each) { sum.Add(each.value, each.count); });
  return sum;
}

}  // namespace xplane_time
