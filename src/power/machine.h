// What a log's header says of the machine.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace xplane_time::power {

// An object: host, kernel, cpu, cpus, memory_bytes, boot_id; what cannot be read is null.
std::string MachineJson(const std::string& procfs);

// The three clocks of a log: MONOTONIC for durations, REALTIME for the calendar, BOOTTIME to tell
// a suspended machine from a step of the calendar.

struct Clocks {
  int64_t monotonic_ns = 0, realtime_ns = 0, boottime_ns = 0;
};
Clocks ClocksNow();

int64_t NowOf(clockid_t clock);  // nanoseconds, as all below
int64_t MonotonicNow();
int64_t ThreadCpuNow();  // of the calling thread

}  // namespace xplane_time::power
