// Index of the planes that belong to the same host as a given plane.
//
//   for (const uint32_t index : IndexPlanes(trace)->OfHost(device)) {
//     const Plane& plane = trace.planes[index];   // a plane of the device's file and host
//   }
//
// A search through all planes for each device takes quadratic time in traces with many devices. The
// index of a trace is built at its first use. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "xplane_time/trace.h"

namespace xplane_time {

using HostKey = std::pair<uint32_t, std::string_view>;  // Plane::file and Plane::host
inline HostKey MakeHostKey(const Plane& plane) { return {plane.file, plane.host}; }

class PlaneIndex {
 public:
  explicit PlaneIndex(const Trace& trace);

  // All planes of the same file and host, in the order of the trace.
  std::span<const uint32_t> OfHost(const Plane& own) const { return Find(all_, own); }
  // The planes among them with a name that begins with "/host:".
  std::span<const uint32_t> HostPlanes(const Plane& own) const { return Find(host_planes_, own); }
  // The planes of a file that list the parent of each scope.
  std::span<const uint32_t> ScopePlanes(uint32_t file) const;

 private:
  using ByHost = std::map<HostKey, std::vector<uint32_t>>;

  static std::span<const uint32_t> Find(const ByHost& planes, const Plane& own);

  ByHost all_, host_planes_;
  std::map<uint32_t, std::vector<uint32_t>> scope_planes_;
};

// `trace` must not change afterwards.
std::shared_ptr<const PlaneIndex> IndexPlanes(const Trace& trace);

}  // namespace xplane_time
