// The slow and obvious reference for intervals.h: loops over all pairs in 128-bit integers, written
// from the text of the header. It shares no code with src/timing.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <random>
#include <span>
#include <vector>

#include "xplane_time/intervals.h"

namespace xplane_time {

// O(n^2), in any order.
int64_t SlowUnionLength(std::span<const Interval> intervals);
std::vector<Interval> SlowMerge(std::span<const Interval> intervals);

// O(n^2); the child times take O(n^3) in the worst case.
Nesting SlowNest(std::span<const Interval> events, int64_t tolerance_ps);
int64_t SlowChildTime(const Interval& parent, uint32_t self, std::span<const Interval> events,
                      int64_t tolerance_ps);

// Calls `check` with every trace of up to `max_events` events with starts and lengths from 0 to
// `max_value`, in every order.
void ForEachTinyTrace(size_t max_events, int64_t max_value,
                      const std::function<void(std::span<const Interval>)>& check);

// `count` intervals with starts in [first, first + range) and lengths in [0, max_length].
std::vector<Interval> RandomIntervals(size_t count, int64_t first, uint64_t range,
                                      uint64_t max_length, std::mt19937_64& random);

// For messages: "[0, 4) [2, 3) ".
struct Shown {
  std::span<const Interval> intervals;
};
std::ostream& operator<<(std::ostream& out, const Shown& shown);

}  // namespace xplane_time
