// Half-open intervals of one timeline: their union, their nesting, and the self time of each event.
//
//   |--- 10 ---|             [0, 10)
//        |--- 10 ---|        [5, 15)
//                   |- 5 -|  [15, 20)   touches the previous one: both merge
//   union 20, sum 25
//
// The caller keeps the intervals of different devices apart. Lengths beyond an int64 saturate.
// Tolerances stop at the ends of the axis.
//
// Nesting:
//
//   A |----------------------------|     self(A) = A - (B u C) = 28 - 18
//   B    |---------|                     child of A
//   D      |--|                          child of B
//   C                 |------|           child of A
//   E                     |------------| ends past A: not inside A
//
// e is inside p if p.start - tolerance <= e.start and e.end <= p.end + tolerance, p is not e, and p
// is longer than e. If both have the same length, p must come first in the order (start ascending,
// duration descending, position ascending). The parent of e is the last such p in that order, which
// is the innermost one. Without tolerance this is the usual nesting of a call stack.
//
// Self time = duration - union of the direct children, clipped to the parent. With a tolerance,
// children may extend beyond the parent; the clipping keeps self time from becoming negative.
//
// Example:
//
//   assert(UnionLengthPs({{0, 10}, {5, 15}, {15, 20}}) == 20);
//   const std::vector<Interval> events = {{0, 28}, {3, 13}, {18, 26}, {22, 35}};
//   const Nesting nesting = Nest(events, /*tolerance_ps=*/0);
//   assert(nesting.parent[1] == 0 && nesting.self_ps[0] == 10);
//   assert(nesting.parent[3] == kNoParent);  // it ends after the first event
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

// Accumulates the length of a union. Add() takes the intervals in order of start; it asserts the
// order in debug builds. O(1) per interval.
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

// Length of the union of intervals in any order. O(n log n), or O(n) if sorted by start.
int64_t UnionLengthPs(std::vector<Interval> intervals);

// The union as disjoint intervals in order of start. Touching intervals merge; empty ones vanish.
std::vector<Interval> MergeIntervals(std::vector<Interval> intervals);

inline constexpr uint32_t kNoParent = ~uint32_t{0};

struct Nesting {
  std::vector<uint32_t> parent;  // index of the innermost event around it, or kNoParent
  // all indices in nesting order; with tolerance 0, parents come before children
  std::vector<uint32_t> order;
  std::vector<int64_t> self_ps;   // >= 0
  std::vector<int64_t> child_ps;  // union of the direct children; self + child = duration
  // Number of events that start inside an earlier sibling and end after all earlier ones. Events
  // without a parent are siblings.
  uint64_t partial_overlaps = 0;
};

// Nests the intervals of one timeline, given in any order. tolerance_ps >= 0. O(n log n), or O(n)
// if they are sorted and the tolerance is 0.
Nesting Nest(std::span<const Interval> events, int64_t tolerance_ps);

// The length of the union of the `events` inside `parent`, with the same rule and tolerance as
// Nest() and clipped to the parent. It is the child time of one event; the caller passes only the
// events to count. `self` is the index of the parent in `events`, which is excluded. If the parent
// is not among them, pass kNoParent: it then comes before equal events in the order. O(n log n), or
// O(n) if sorted by start.
int64_t ChildTimePs(const Interval& parent, uint32_t self, std::span<const Interval> events,
                    int64_t tolerance_ps);

}  // namespace xplane_time
