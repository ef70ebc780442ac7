// HostEvidence: what the host recorded about the GPU programs of one host: launches by
// correlation id, and the events that execute a module.
#ifndef XPLANE_TIME_SRC_TIMING_HOST_EVIDENCE_H_
#define XPLANE_TIME_SRC_TIMING_HOST_EVIDENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "scratch.h"
#include "xplane_time/diagnostics.h"
#include "xplane_time/merge.h"
#include "xplane_time/select.h"
#include "xplane_time/trace.h"

namespace xplane_time {

// Launches by correlation id. 24 bytes each, in a scratch file where they are many.
class LaunchTable {
 public:
  struct Launch {
    uint64_t correlation_id;
    int64_t start_ps;
    uint32_t line;           // Line::timeline
    bool ambiguous = false;  // several launches share the id: the first
  };

  void Add(const Launch& launch) {
    launches_.push_back(launch);
    if (launches_.size() >= next_order_) Order();
  }
  void AddAll(const LaunchTable& other) {
    for (const Launch& launch : other.launches_.values()) Add(launch);
  }
  // After the last Add().
  void Finish() { Order(); }
  // The only launch with this id; null where there is none, or several. Fast where ids
  // are near those asked for before: `*place` is the caller's, 0 at first.
  const Launch* Find(uint64_t correlation_id, size_t* place) const;

 private:
  void Order();

  ScratchVector<Launch> launches_;  // the first ordered_ in order, each id once
  size_t ordered_ = 0;
  size_t next_order_ = size_t{1} << 18;
};

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
