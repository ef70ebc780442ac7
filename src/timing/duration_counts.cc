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
  for (const DurationCount& slot : slots_) {
    if (slot.count != 0) sum.Add(slot.duration_ps, slot.count);
  }
  return sum;
}

// Of one that has no slot yet. At most half of the slots are in use.
DurationCount* DurationCounts::Insert(int64_t duration_ps) {
  if (2 * (distinct_ + 1) > slots_.size()) Grow();
  ++distinct_;
  DurationCount* slot = Find(duration_ps);
  slot->duration_ps = duration_ps;
  return slot;
}

void DurationCounts::Grow() {
  std::vector<DurationCount> old(slots_.empty() ? 8 : 2 * slots_.size());
  old.swap(slots_);
  shift_ = 64 - std::countr_zero(slots_.size());
  for (const DurationCount& slot : old) {
    if (slot.count != 0) *Find(slot.duration_ps) = slot;
  }
}

int64_t DurationCounts::AddRounded(int64_t duration_ps, uint64_t times) {
  exact_.Add(duration_ps, times);
  const int spare_bits =
      static_cast<int>(std::bit_width(static_cast<uint64_t>(duration_ps))) - kept_bits_;
  return spare_bits > 0 ? duration_ps >> spare_bits << spare_bits : duration_ps;
}

void DurationCounts::Round(int bits) {
  const Sum exact = Total();
  std::vector<DurationCount> old;
  old.swap(slots_);
  distinct_ = 0;
  kept_bits_ = bits;
  for (const DurationCount& slot : old) {
    if (slot.count != 0) Add(slot.duration_ps, slot.count);
  }
  exact_ = exact;
}

}  // namespace xplane_time
