// ValueCounts: a count of each integer value. Clocks and sensors have coarse steps, so even
// millions of values have few distinct ones, and order statistics stay exact. If there are too many
// distinct values, Round() keeps only their leading bits:
//
//   14 bits kept:   8192 .. 16383 by 1    16384 .. 32767 by 2    32768 .. 65535 by 4    ...
//
// It uses open addressing; Add() takes constant time. QuantileSketch rounds automatically.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "stats/order_statistics.h"

namespace xplane_time::stats {

struct CountedValue {
  int64_t value = 0;
  uint64_t count = 0;  // 0: an empty slot
};

// The entry of the value with this rank. `rank` must be below the sum of the counts.
inline const CountedValue& CountedAtRank(std::span<const CountedValue> sorted, uint64_t rank) {
  auto at = sorted.begin();
  for (; rank >= at->count; ++at) rank -= at->count;
  return *at;
}

class ValueCounts {
 public:
  void Add(int64_t value, uint64_t times = 1) {
    const int spare = SpareBits(value);
    value = value >> spare << spare;
    if (slots_.empty()) Grow();
    CountedValue* slot = Find(value);
    if (slot->count == 0) slot = Insert(value);
    slot->count += times;
  }

  // From now on, keeps only the leading `bits` of each value. Existing values are also rounded.
  void Round(int bits) {
    const std::vector<CountedValue> old = std::exchange(slots_, {});
    distinct_ = 0;
    kept_bits_ = bits;
    for (const CountedValue& slot : old) {
      if (slot.count != 0) Add(slot.value, slot.count);
    }
  }
  bool rounded() const { return kept_bits_ != 0; }
  // The number of low bits that are dropped from a value. The complement of a negative value is its
  // magnitude minus one.
  int SpareBits(int64_t value) const {
    if (!rounded()) return 0;
    const auto magnitude = static_cast<uint64_t>(value < 0 ? ~value : value);
    return std::max(0, static_cast<int>(std::bit_width(magnitude)) - kept_bits_);
  }
  size_t memory_bytes() const { return slots_.size() * sizeof(CountedValue); }

  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const CountedValue& slot : slots_) {
      if (slot.count != 0) visit(slot);
    }
  }

  // Ascending. A rounded value is the smallest value that it represents.
  std::vector<CountedValue> Sorted() const {
    std::vector<CountedValue> sorted;
    sorted.reserve(distinct_);
    ForEach([&sorted](const CountedValue& slot) { sorted.push_back(slot); });
    std::ranges::sort(sorted, {}, &CountedValue::value);
    return sorted;
  }

 private:
  // The slot of a value, or the empty slot for it.
  CountedValue* Find(int64_t value) {
    CountedValue* const slots = slots_.data();
    size_t at = (static_cast<uint64_t>(value) * 0x9e3779b97f4a7c15) >> shift_;
    while (slots[at].value != value && slots[at].count != 0) at = (at + 1) & (slots_.size() - 1);
    return &slots[at];
  }

  // Inserts a value that has no slot. At most half of the slots are in use.
  CountedValue* Insert(int64_t value) {
    if (2 * (distinct_ + 1) > slots_.size()) Grow();
    ++distinct_;
    CountedValue* slot = Find(value);
    slot->value = value;
    return slot;
  }

  void Grow() {
    std::vector<CountedValue> old(slots_.empty() ? 8 : 2 * slots_.size());
    old.swap(slots_);
    shift_ = 64 - std::countr_zero(slots_.size());
    for (const CountedValue& slot : old) {
      if (slot.count != 0) *Find(slot.value) = slot;
    }
  }

  std::vector<CountedValue> slots_;  // their number is a power of two
  int shift_ = 64;
  size_t distinct_ = 0;  // slots in use
  int kept_bits_ = 0;    // 0: all
};

// Quantiles of integers in bounded memory. They are exact for up to kMostExact values. Beyond that,
// values keep their leading 14 bits, and a quantile is the middle of the values that are rounded to
// one; its error is at most 1 in 2^14 (0.006 %).
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
  // The mean of the two middle values if the count is even; empty without values.
  std::optional<double> Median() const {
    if (count_ == 0) return std::nullopt;
    const std::vector<CountedValue> sorted = values_.Sorted();
    const double low = At(sorted, (count_ - 1) / 2);
    return count_ % 2 == 1 ? low : (low + At(sorted, count_ / 2)) / 2;
  }
  // The smallest value such that the fraction `share` of all is at most as large.
  std::optional<double> Quantile(double share) const {
    if (count_ == 0) return std::nullopt;
    return At(values_.Sorted(), NearestRank(count_, share));
  }

 private:
  static constexpr int kBits = 14;

  void Count(uint64_t times) {
    count_ += times;
    if (count_ > kMostExact && !values_.rounded()) values_.Round(kBits);
  }

  // The value with this rank in ascending order; rank < count(). For rounded values, the middle of
  // their range.
  double At(const std::vector<CountedValue>& sorted, uint64_t rank) const {
    const int64_t value = CountedAtRank(sorted, rank).value;
    return static_cast<double>(value) + (std::ldexp(1.0, values_.SpareBits(value)) - 1) / 2;
  }

  uint64_t count_ = 0;
  ValueCounts values_;
};

}  // namespace xplane_time::stats
