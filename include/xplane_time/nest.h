// Nest: which event is inside which, and what time is an event's own.
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
// Children that stick out (tolerance) are clipped, so self is never negative. Lengths
// that do not fit an int64 saturate; tolerances stop at the ends of the axis.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "xplane_time/merge.h"

namespace xplane_time {

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
