// The events of the host while devices were idle.
//
// Each host line of a device's host is read once, as far as it overlaps a gap. Its events become
// segments of self time: at each instant, the event that began last among those that run.
//
//   outer  |------------------|           gap          |---------|
//   inner       |----|                    segments   outer |inn.| outer
//
// Then one pass over the segments and the gaps of a device, both in order, adds up the self time of
// each gap by name. The time is O((events + gaps) log(events + gaps)) for each line and device. A
// host is asked about at most kMaxDevices devices, those with the longest gaps, so that the time
// does not grow with the product of devices and events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "devices/gpu_runs/host_evidence.h"
#include "xplane_time/intervals.h"
#include "xplane_time/trace.h"
#include "xplane_time/where.h"

namespace xplane_time::insight {

inline constexpr size_t kMaxDevices = 64;    // of one host
inline constexpr size_t kMaxHostEvents = 5;  // in WhereGap::host_events

struct HostGap {
  WhereGap* gap;         // filled
  uint32_t plane;        // of the device
  Interval interval;     // profile clock
  uint32_t launch_line;  // Line::timeline of the launch that ends it; kNone: unknown
};

// Fills the fields of `gaps` that name the host's threads and events. Gaps of one plane do not
// overlap. `known`: the extents of parts of lines, so that parts without a gap are not read.
absl::Status FindHostEvents(const Trace& trace, const gpu_runs::PartExtents& known,
                            std::vector<HostGap> gaps, int threads);

}  // namespace xplane_time::insight
