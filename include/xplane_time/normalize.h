// Normalize: nanoseconds and picoseconds onto one int64 axis.
//
//   start_ps = (line.timestamp_ns - base_ns) * 1000 + event.offset_ps
//
// Saved captures count from the capture's start and base_ns is 0. Un-normalized
// producers leave Unix epoch nanoseconds (1.77e18) in timestamp_ns, and times 1000
// overflows 64 bits; then base_ns is the smallest such timestamp and is subtracted
// first, in integers. Absolute time in ps = start_ps + 1000 * base_ns, nothing lost.
// An int64 holds 106 days of picoseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "xplane_time/trace.h"

namespace xplane_time {

// A timestamp_ns from here on (11.6 days) cannot be relative to a capture's start.
inline constexpr int64_t kEpochTimestampNs = 1'000'000'000'000'000;

// The base for lines that have events: 0, or the smallest epoch timestamp.
int64_t ChooseBaseNs(std::span<const Line> lines);

// Events beyond this (53 days from the base) are damaged: within it, the difference of
// any two times fits an int64.
inline constexpr int64_t kAxisLimitPs = int64_t{1} << 62;

// The event's start on the axis, or nothing where it does not fit.
std::optional<int64_t> ToAxisPs(int64_t timestamp_ns, int64_t base_ns, int64_t offset_ps);

// start + duration; nothing where it does not fit or the duration is negative.
std::optional<int64_t> EndPs(int64_t start_ps, int64_t duration_ps);

}  // namespace xplane_time
