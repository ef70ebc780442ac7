// ValueCounts: quantiles of integers in bounded memory.
//
// Up to kMostExact values are kept and the answers exact. Beyond, values below 2^14 are
// counted one by one and larger ones by their leading 14 bits:
//
//   8192 .. 16383 by 1    16384 .. 32767 by 2    32768 .. 65535 by 4    ...
//
// so that an answer, the middle of such a span, is off by at most 1 in 2^14 (0.006 %). Memory:
// 64 KiB, and 32 KiB for each power of two that occurs. Add is constant time.
#ifndef XPLANE_TIME_SRC_STATS_VALUE_COUNTS_H_
#define XPLANE_TIME_SRC_STATS_VALUE_COUNTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace xplane_time::stats {

class ValueCounts {
 public:
  static constexpr size_t kMostExact = 16384;

  void Add(int64_t value) {
    ++count_;
    if (!sides_.empty()) return Count(value, 1);
    values_.push_back(value);
    if (values_.size() > kMostExact) Round();
  }
  void Merge(const ValueCounts& other);

  uint64_t count() const { return count_; }
  // The value with `rank` values before it, in ascending order; rank < count().
  double At(uint64_t rank) const;
  // The mean of the two in the middle where the count is even; empty without a value.
  std::optional<double> Median() const;
  // The least value that is at least as large as `share` of all.
  std::optional<double> Quantile(double share) const;

 private:
  static constexpr int kBits = 14;
  static constexpr size_t kHalf = size_t{1} << (kBits - 1);
  // By the bits that a value has beyond kBits; the first one is twice as long.
  using Spans = std::array<std::vector<uint32_t>, 64 - kBits>;
  void Count(int64_t value, uint32_t times);
  void Round();

  uint64_t count_ = 0;
  std::vector<int64_t> values_;
  // None while values are exact; then of negative values, by their complement, which is the
  // magnitude less one, and of the others.
  std::vector<Spans> sides_;
};

}  // namespace xplane_time::stats

#endif  // XPLANE_TIME_SRC_STATS_VALUE_COUNTS_H_
