#include "devices/gpu_runs/scopes.h"

#include <algorithm>
#include <vector>

namespace xplane_time::gpu_runs {

ScopeRoots::ScopeRoots(const Trace& trace, uint32_t plane) {
  for (const Plane& scopes : trace.planes) {
    if (scopes.file != trace.planes[plane].file) continue;
    if (!scopes.name.starts_with("/host:__ScopeRangeCallStack__")) continue;
    for (const Stat& stat : scopes.stats) {
      parent_[stat.metadata_id] = static_cast<int64_t>(stat.value.bits);
    }
  }
}

// Remembers the roots of what it passes.
int64_t ScopeRoots::Find(int64_t scope) {
  std::vector<int64_t> path;
  absl::flat_hash_map<int64_t, size_t> place;  // in the path
  int64_t root = scope;
  for (;;) {
    const auto known = root_.find(root);
    if (known != root_.end()) {
      root = known->second;
      break;
    }
    const auto [before, inserted] = place.try_emplace(root, path.size());
    if (!inserted) {
      root = *std::min_element(path.begin() + static_cast<ptrdiff_t>(before->second), path.end());
      break;
    }
    path.push_back(root);
    const auto parent = parent_.find(root);
    if (parent == parent_.end() || parent->second == 0) break;
    root = parent->second;
  }
  for (const int64_t passed : path) root_[passed] = root;
  return root;
}

}  // namespace xplane_time::gpu_runs
