// The events of host threads for timelines: all events of the host lines of some hosts.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "read/plane_index.h"
#include "xplane_time/trace.h"

namespace xplane_time::insight {

// One host thread: a line, and others with its id. Columns of equal length, in the order of the
// file.
struct HostLane {
  uint32_t line = 0;      // into Trace::lines; the first
  bool launches = false;  // some event has a correlation id or marks a step
  std::vector<int64_t> start_ps = {}, duration_ps = {};  // profile clock
  std::vector<uint32_t> name = {};                       // into `names`
  std::vector<std::string> names = {};
};

// Reads the host planes of these hosts, without the timelines in `skipped` (Line::timeline). Lines
// without events that have a time are left out. Threads that launch come first, then those with
// more events. Memory: 20 bytes an event.
absl::StatusOr<std::vector<HostLane>> ReadHostLanes(const Trace& trace,
                                                    const std::set<HostKey>& hosts,
                                                    const absl::flat_hash_set<uint32_t>& skipped,
                                                    int threads);

}  // namespace xplane_time::insight
