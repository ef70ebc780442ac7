#include "timing/duration_counts.h"

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

}  // namespace xplane_time
