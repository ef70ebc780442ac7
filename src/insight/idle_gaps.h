// What the host did while devices were idle.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "devices/gpu_runs/host_evidence.h"
#include "xplane_time/intervals.h"
#include "xplane_time/trace.h"
#include "xplane_time/where.h"

namespace xplane_time::insight {

struct HostGap {
  WhereGap* gap;      // filled
  uint32_t plane;     // of the device
  Interval interval;  // profile clock
};

// Fills `host_thread` and `host_event`. Reads the host lines of the devices' hosts once, `threads`
// at a time; without those parts of which it is known that no gap is in their extent.
absl::Status FindHostEvents(const Trace& trace, const gpu_runs::PartExtents& known,
                            std::vector<HostGap> gaps, int threads);

}  // namespace xplane_time::insight
