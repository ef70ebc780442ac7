// Normalize: nanoseconds and picoseconds on one int64 axis.
//
//   start_ps = (line.timestamp_ns - base_ns) * 1000 + event.offset_ps
//
// In saved captures, times count from the start of the capture, and base_ns is 0. Producers that do
// not normalize leave Unix time in nanoseconds (1.77e18) in timestamp_ns. A product with 1000 would
// overflow 64 bits. In this case base_ns is the smallest such timestamp, and it is subtracted
// first, in integers. Absolute time in ps = start_ps + 1000 * base_ns, without loss. An int64 holds
// 106 days of picoseconds.
//
// Example:
//
//   const int64_t base_ns = 1'770'000'000'000'000'000;
//   assert(ToAxisPs(base_ns + 3, base_ns, /*offset_ps=*/250) == 3'250);
//   assert(!ToAxisPs(base_ns, /*base_ns=*/0, 250).has_value());  // beyond the axis
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "xplane_time/trace.h"

namespace xplane_time {

// A timestamp_ns of this value (11.6 days) or more cannot be relative to the start of a capture.
inline constexpr int64_t kEpochTimestampNs = 1'000'000'000'000'000;

// Returns the base: the smallest epoch timestamp of the lines with events, or 0 if there is none.
int64_t ChooseBaseNs(std::span<const Line> lines);

// Limit of the axis: 53 days from the base. Events beyond it count as damaged. Within it, the
// difference of any two times fits an int64.
inline constexpr int64_t kAxisLimitPs = int64_t{1} << 62;

// The start of an event on the axis, or nullopt if it does not fit an int64.
std::optional<int64_t> ToAxisPs(int64_t timestamp_ns, int64_t base_ns, int64_t offset_ps);

// start + duration, or nullopt if it does not fit or the duration is negative.
std::optional<int64_t> EndPs(int64_t start_ps, int64_t duration_ps);

}  // namespace xplane_time
