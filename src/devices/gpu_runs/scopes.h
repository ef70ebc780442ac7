// ScopeRoots: the outermost annotation scope around each scope of a capture.
//
// The profiler numbers scopes; a plane of their own has a stat for each, whose key is the
// scope and whose value the scope around it (0: none).
#ifndef XPLANE_TIME_SRC_DEVICES_GPU_RUNS_SCOPES_H_
#define XPLANE_TIME_SRC_DEVICES_GPU_RUNS_SCOPES_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "xplane_time/trace.h"

namespace xplane_time::gpu_runs {

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

#endif  // XPLANE_TIME_SRC_DEVICES_GPU_RUNS_SCOPES_H_
