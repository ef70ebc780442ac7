// The machine's description in a log, and its clocks.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>

namespace xplane_time::power {

// An object with host, kernel, cpu, cpus, memory_bytes, boot_id; null if a value cannot be read.
std::string MachineJson(const std::string& procfs);

inline int64_t NowOf(clockid_t clock) {  // nanoseconds, like all times below
  timespec now = {};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}
inline int64_t MonotonicNow() { return NowOf(CLOCK_MONOTONIC); }

// The three clocks of a log: MONOTONIC for durations, REALTIME for the calendar, and BOOTTIME to
// distinguish a suspended machine from a step of the calendar clock.
struct Clocks {
  int64_t monotonic_ns = 0, realtime_ns = 0, boottime_ns = 0;
};
inline Clocks ClocksNow() {
  return {NowOf(CLOCK_MONOTONIC), NowOf(CLOCK_REALTIME), NowOf(CLOCK_BOOTTIME)};
}

}  // namespace xplane_time::power
