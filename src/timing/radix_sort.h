// RadixSort: ascending, in time linear in the number of values. Times of many runs lie
// close together, so that few digits differ.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace xplane_time {

inline void RadixSort(std::vector<int64_t>* values) {
  constexpr int kDigitBits = 8;
  constexpr size_t kFewValues = 512;  // for which comparing is faster
  if (values->size() < kFewValues) return std::sort(values->begin(), values->end());
  const auto [low, high] = std::minmax_element(values->begin(), values->end());
  const auto least = static_cast<uint64_t>(*low);
  const auto bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(*high) - least));
  std::vector<int64_t> other(values->size());
  for (int shift = 0; shift < bits; shift += kDigitBits) {
    const auto digit = [&](int64_t value) {
      constexpr uint64_t kMask = (uint64_t{1} << kDigitBits) - 1;
      return ((static_cast<uint64_t>(value) - least) >> shift) & kMask;
    };
    std::array<size_t, size_t{1} << kDigitBits> place = {};
    for (const int64_t value : *values) ++place[digit(value)];
    size_t next = 0;
    for (size_t& each : place) {
      const size_t count = each;
      each = next;
      next += count;
    }
    for (const int64_t value : *values) other[place[digit(value)]++] = value;
    values->swap(other);
  }
}

}  // namespace xplane_time
