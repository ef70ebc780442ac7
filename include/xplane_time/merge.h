// Merge: the union of half-open intervals.
//
//   |--- 10 ---|             [0, 10)
//        |--- 10 ---|        [5, 15)
//                   |- 5 -|  [15, 20)   touches: merges, nothing counted twice
//   union 20, sum 25
//
// Intervals of different devices must never meet here; the caller keeps them apart.
// Lengths that do not fit an int64 saturate.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace xplane_time {

struct Interval {
  int64_t start_ps = 0;
  int64_t end_ps = 0;  // >= start_ps
  friend bool operator==(const Interval&, const Interval&) = default;
};

// Accumulates a union from intervals in order of start. O(1) an interval.
// Add() with a start before that of the interval before it is an error of the caller
// (asserted in debug builds).
class UnionLength {
 public:
  void Add(int64_t start_ps, int64_t end_ps) {
    assert(start_ps <= end_ps && start_ps >= last_start_ps_);
    const int64_t from_ps = std::max(start_ps, covered_to_ps_);
    last_start_ps_ = start_ps;
    if (from_ps >= end_ps) return;
    covered_to_ps_ = end_ps;
    int64_t more_ps = 0;
    if (__builtin_sub_overflow(end_ps, from_ps, &more_ps) ||
        __builtin_add_overflow(length_ps_, more_ps, &length_ps_)) {
      length_ps_ = kMostPs;
    }
  }
  int64_t length_ps() const { return length_ps_; }

 private:
  static constexpr int64_t kMostPs = std::numeric_limits<int64_t>::max();
  int64_t last_start_ps_ = std::numeric_limits<int64_t>::min();
  int64_t covered_to_ps_ = std::numeric_limits<int64_t>::min();
  int64_t length_ps_ = 0;
};

// Length of the union; any order. O(n log n), O(n) where sorted by start.
int64_t UnionLengthPs(std::vector<Interval> intervals);

// The union itself: disjoint, not touching, in order of start. Empty intervals vanish.
std::vector<Interval> MergeIntervals(std::vector<Interval> intervals);

}  // namespace xplane_time
