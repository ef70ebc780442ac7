#include <ctime>

#include "power/reader.h"

namespace xplane_time::power {

int64_t MonotonicNow() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace xplane_time::power
