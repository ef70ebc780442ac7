// What the host recorded about the GPU programs of one host: launches by correlation id, the
// events that execute a module, and annotation scopes.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "devices/gpu_runs/launch_table.h"
#include "xplane_time/merge.h"
#include "xplane_time/select.h"
#include "xplane_time/trace.h"

namespace xplane_time::gpu_runs {

struct HostEvidence {
  struct Execution {
    uint32_t line;
    Interval interval;
    int64_t furthest_end_ps = 0;  // of this one and all before it
  };
  using Executions = absl::flat_hash_map<std::string, std::vector<Execution>>;

  LaunchTable launches;
  Executions executions;    // by module, by start
  size_t device_count = 0;  // GPUs of that host that have events

  // Which of a module's executions launched the kernel with this id (0: none): of those around
  // the launch the last to begin on the launch's line, else the only one on any line.
  std::optional<size_t> ExecutionOf(const std::string& module, uint64_t correlation_id,
                                    LaunchTable::Place* place) const;
};

// The evidence of each host of some devices, read when it is first asked for. Thread-safe.
class EvidenceStore {
 public:
  // `trace` must outlive the store.
  EvidenceStore(const Trace& trace, const std::vector<DevicePlane>& devices, int threads);

  // Of the host of one of the devices. Reads the host planes of that capture and host, lines
  // in parallel. What is wrong with host events is not told.
  absl::StatusOr<const HostEvidence*> Of(const DevicePlane& device);

 private:
  struct Host {
    std::mutex mutex;
    std::optional<absl::StatusOr<HostEvidence>> evidence;
  };
  using Key = std::pair<uint32_t, std::string_view>;  // file and host
  Key HostOf(const DevicePlane& device) const {
    return {trace_.planes[device.plane].file, trace_.planes[device.plane].host};
  }

  const Trace& trace_;
  const int threads_;
  std::map<Key, Host> hosts_;
};

// The outermost annotation scope around each scope of a capture. The profiler numbers scopes;
// a plane of their own has a stat for each, whose key is the scope and whose value the scope
// around it (0: none).
class ScopeRoots {
 public:
  // Of the capture that holds a plane.
  ScopeRoots(const Trace& trace, uint32_t plane);
  // Of none: every scope is a root.
  ScopeRoots() = default;

  // 0 for 0. A damaged tree may have a cycle: its root is the least scope in it.
  int64_t Of(int64_t scope) {
    if (scope == 0 || parent_.empty()) return scope;
    const auto known = root_.find(scope);
    return known != root_.end() ? known->second : Find(scope);
  }

 private:
  int64_t Find(int64_t scope);

  absl::flat_hash_map<int64_t, int64_t> parent_;
  absl::flat_hash_map<int64_t, int64_t> root_;  // as far as asked for
};

}  // namespace xplane_time::gpu_runs
