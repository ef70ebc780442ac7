// DurationCounts: how often each duration occurred. Clocks tick, so even millions of
// executions of a kernel have few distinct durations, and order statistics stay exact.
// Where there are too many after all, Round() keeps their leading bits only; count,
// total, minimum and maximum stay exact.
#ifndef XPLANE_TIME_SRC_TIMING_DURATION_COUNTS_H_
#define XPLANE_TIME_SRC_TIMING_DURATION_COUNTS_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace xplane_time {

struct DurationCount {
  int64_t duration_ps = 0;
  uint64_t count = 0;  // 0: an empty slot
};

// The median of `count` durations, by the rule of Percentile (aggregate.h).
double CountedMedian(std::span<const DurationCount> sorted, uint64_t count);

class DurationCounts {
 public:
  void Add(int64_t duration_ps, uint64_t times = 1) {
    if (kept_bits_ != 0) duration_ps = AddRounded(duration_ps, times);
    if (slots_.empty()) Grow();
    DurationCount* slot = Find(duration_ps);
    if (slot->count == 0) slot = Insert(duration_ps);
    slot->count += times;
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
  void Round(int bits);
  bool rounded() const { return kept_bits_ != 0; }
  size_t memory_bytes() const { return slots_.size() * sizeof(DurationCount); }

  // Ascending.
  std::vector<DurationCount> Sorted() const {
    std::vector<DurationCount> sorted;
    sorted.reserve(distinct_);
    for (const DurationCount& slot : slots_) {
      if (slot.count != 0) sorted.push_back(slot);
    }
    std::sort(sorted.begin(), sorted.end(), [](const DurationCount& a, const DurationCount& b) {
      return a.duration_ps < b.duration_ps;
    });
    return sorted;
  }

 private:
  // Its slot, or the empty one where it would be.
  DurationCount* Find(int64_t duration_ps) {
    DurationCount* const slots = slots_.data();
    size_t at = (static_cast<uint64_t>(duration_ps) * 0x9e3779b97f4a7c15) >> shift_;
    while (slots[at].duration_ps != duration_ps && slots[at].count != 0) {
      at = (at + 1) & (slots_.size() - 1);
    }
    return &slots[at];
  }
  DurationCount* Insert(int64_t duration_ps);
  void Grow();

  // The duration to keep.
  int64_t AddRounded(int64_t duration_ps, uint64_t times);

  std::vector<DurationCount> slots_;  // a power of two, open addressing
  int shift_ = 64;
  size_t distinct_ = 0;  // slots in use
  int kept_bits_ = 0;    // 0: all
  Sum exact_;            // where durations are rounded
};

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_TIMING_DURATION_COUNTS_H_
