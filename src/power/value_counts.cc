#include "power/value_counts.h"

#include <algorithm>
#include <cmath>

namespace xplane_time::power {

void ValueCounts::Shrink(DurationCounts* side, size_t most_bytes) {
  for (const int bits : {14, 12, 10, 8}) {
    side->Round(bits);
    if (side->memory_bytes() <= most_bytes) return;
  }
}

void ValueCounts::Merge(const ValueCounts& other, size_t most_bytes) {
  for (const DurationCount& each : other.other_.Sorted()) {
    Add(each.duration_ps, most_bytes, each.count);
  }
  for (const DurationCount& each : other.negative_.Sorted()) {
    Add(~each.duration_ps, most_bytes, each.count);
  }
}

uint64_t ValueCounts::count() const { return other_.Total().count + negative_.Total().count; }

int64_t ValueCounts::At(uint64_t rank) const {
  const std::vector<DurationCount> negative = negative_.Sorted();
  int64_t value = 0;
  for (auto each = negative.rbegin(); each != negative.rend(); ++each) {
    if (rank < each->count) return ~each->duration_ps;
    rank -= each->count;
  }
  for (const DurationCount& each : other_.Sorted()) {
    value = each.duration_ps;
    if (rank < each.count) return value;
    rank -= each.count;
  }
  return value;
}

std::optional<double> ValueCounts::Median() const {
  const uint64_t n = count();
  if (n == 0) return std::nullopt;
  const auto low = static_cast<double>(At((n - 1) / 2));
  return n % 2 == 1 ? low : (low + static_cast<double>(At(n / 2))) / 2;
}

std::optional<int64_t> ValueCounts::Quantile(double share) const {
  const uint64_t n = count();
  if (n == 0) return std::nullopt;
  const double rank = std::ceil(share * static_cast<double>(n));
  return At(static_cast<uint64_t>(std::clamp(rank, 1.0, static_cast<double>(n))) - 1);
}

}  // namespace xplane_time::power
