// HostEvidence: what the host recorded about the GPU programs of one host: launches by
// correlation id, and the events that execute a module.
#ifndef XPLANE_TIME_SRC_TIMING_HOST_EVIDENCE_H_
#define XPLANE_TIME_SRC_TIMING_HOST_EVIDENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "timing/launch_table.h"
#include "xplane_time/diagnostics.h"
#include "xplane_time/merge.h"
#include "xplane_time/select.h"
#include "xplane_time/trace.h"

namespace xplane_time {

struct HostEvidence {
  struct Execution {
    uint32_t line;
    Interval interval;
    int64_t furthest_end_ps = 0;  // of this one and all before it
  };
  LaunchTable launches;
  absl::flat_hash_map<std::string, std::vector<Execution>> executions;  // by module, by start
  size_t device_count = 0;  // GPUs of that host that have events
};

// Evidence for the devices on `device.plane`'s host. Reads the host planes of that
// capture and host, lines in parallel. What is wrong with host events is not told.
absl::StatusOr<HostEvidence> CollectHostEvidence(const Trace& trace, const DevicePlane& device,
                                                 int threads);

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_TIMING_HOST_EVIDENCE_H_
