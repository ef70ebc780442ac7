#include "timing/duration_counts.h"

#include <limits>

#include "timing/saturate.h"
#include "xplane_time/aggregate.h"

namespace xplane_time {

double CountedMedian(std::span<const DurationCount> sorted, uint64_t count) {
  // The two in the middle; the same one where the count is odd.
  const uint64_t ranks[2] = {(count - 1) / 2, count / 2};
  int64_t middle[2] = {0, 0};
  for (size_t i = 0; i < 2; ++i) {
    uint64_t before = 0;
    for (const DurationCount& each : sorted) {
      before += each.count;
      middle[i] = each.duration_ps;
      if (before > ranks[i]) break;
    }
  }
  return Percentile(middle, 0.5);
}

DurationCounts::Sum DurationCounts::Total() const {
  Sum sum;
  for (const DurationCount& slot : slots_) {
    int64_t together_ps = 0;
    if (__builtin_mul_overflow(slot.duration_ps, slot.count, &together_ps)) {
      together_ps = std::numeric_limits<int64_t>::max();
    }
    sum.count += slot.count;
    sum.total_ps = SaturatingAdd(sum.total_ps, together_ps);
  }
  return sum;
}

}  // namespace xplane_time
