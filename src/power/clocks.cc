#include "power/clocks.h"

#include <ctime>

namespace xplane_time::power {
namespace {

int64_t Read(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

Clocks ClocksNow() { return {Read(CLOCK_MONOTONIC), Read(CLOCK_REALTIME), Read(CLOCK_BOOTTIME)}; }

int64_t MonotonicNow() { return Read(CLOCK_MONOTONIC); }

int64_t ThreadCpuNow() { return Read(CLOCK_THREAD_CPUTIME_ID); }

}  // namespace xplane_time::power
