#include "read/plane_index.h"

#include "read/internals.h"

namespace xplane_time {

PlaneIndex::PlaneIndex(const Trace& trace) {
  for (uint32_t i = 0; i < trace.planes.size(); ++i) {
    const Plane& plane = trace.planes[i];
    const HostKey host = MakeHostKey(plane);
    all_[host].push_back(i);
    if (!plane.name.starts_with("/host:")) continue;
    host_planes_[host].push_back(i);
    if (plane.name.starts_with("/host:__ScopeRangeCallStack__")) {
      scope_planes_[plane.file].push_back(i);
    }
  }
}

std::span<const uint32_t> PlaneIndex::ScopePlanes(uint32_t file) const {
  const auto found = scope_planes_.find(file);
  return found == scope_planes_.end() ? std::span<const uint32_t>() : found->second;
}

std::span<const uint32_t> PlaneIndex::Find(const ByHost& planes, const Plane& own) {
  const auto found = planes.find(MakeHostKey(own));
  return found == planes.end() ? std::span<const uint32_t>() : found->second;
}

std::shared_ptr<const PlaneIndex> EventSource::IndexPlanes(const Trace& trace) const {
  const std::lock_guard<std::mutex> lock(index_mutex_);
  if (index_ == nullptr) index_ = std::make_shared<const PlaneIndex>(trace);
  return index_;
}

std::shared_ptr<const PlaneIndex> IndexPlanes(const Trace& trace) {
  // A trace built by hand has no source that could cache the index.
  return trace.source == nullptr ? std::make_shared<const PlaneIndex>(trace)
                                 : trace.source->IndexPlanes(trace);
}

}  // namespace xplane_time
