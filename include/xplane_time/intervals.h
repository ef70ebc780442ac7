// Intervals of one timeline, half-open: their union, which is inside which, and what time is an
// event's own.
//
//   |--- 10 ---|             [0, 10)
//        |--- 10 ---|        [5, 15)
//                   |- 5 -|  [15, 20)   touches: merges, nothing counted twice
//   union 20, sum 25
//
// Intervals of different devices must never meet here; the caller keeps them apart.
// Lengths that do not fit an int64 saturate; tolerances stop at the ends of the axis.
//
// Nesting:
//
//   A |----------------------------|     self(A) = A - (B u C) = 28 - 18
//   B    |---------|                     child of A
//   D      |--|                          child of B
//   C                 |------|           child of A
//   E                     |------------| ends past A: not inside A
//
// e is inside p if p.start - tolerance <= e.start and e.end <= p.end + tolerance, p is
// not e, and p is longer than e or, at equal length, comes first in the order (start
// ascending, duration descending, position ascending). The parent of e is the last
// such p in that order: the innermost. Without tolerance this is the usual nesting of
// a call stack.
//
// Self time = duration - union of the direct children, clipped to the parent.
// Children that stick out (tolerance) are clipped, so self is never negative.
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

inline constexpr uint32_t kNoParent = ~uint32_t{0};

struct Nesting {
  std::vector<uint32_t> parent;   // index of the innermost event around it, or kNoParent
  std::vector<uint32_t> order;    // all indices in nesting order: parents before children
                                  // where the tolerance is 0
  std::vector<int64_t> self_ps;   // >= 0
  std::vector<int64_t> child_ps;  // union of the direct children; self + child = duration
  // Events that start inside an earlier sibling and end past all earlier ones; events
  // without a parent are siblings.
  uint64_t partial_overlaps = 0;
};

// Nests the intervals of one timeline; any order. O(n log n); O(n) where sorted and
// the tolerance is 0. tolerance_ps >= 0.
Nesting Nest(std::span<const Interval> events, int64_t tolerance_ps);

// The total length of the union of those `events` inside `parent` (same rule and
// tolerance, clipped to the parent; `self` is the parent's own index, excluded by
// identity, or kNoParent if it is not among them: then it comes before its equals).
// Child time of a single event with a filter chosen by the caller: pass only what
// matched. O(n log n); O(n) where sorted by start.
int64_t ChildTimePs(const Interval& parent, uint32_t self, std::span<const Interval> events,
                    int64_t tolerance_ps);

}  // namespace xplane_time
