// HostCompiles: when each host traced, lowered or compiled programs.
//
//   const HostCompiles compiles = HostCompiles::Read(trace, threads);
//   compiles.Of(plane).intervals    // of the plane's host, on the profile clock: disjoint, in
//   order
//
// devices/gpu_runs/host_work.h defines which names count.
// Lines are read only of hosts that have such a name; one that is damaged is left out.
#pragma once

#include <map>
#include <vector>

#include "read/plane_index.h"
#include "xplane_time/intervals.h"
#include "xplane_time/trace.h"

namespace xplane_time::insight {

class HostCompiles {
 public:
  struct OfHost {
    std::vector<Interval> intervals;
    uint64_t compiles = 0;  // programs, as far as the names show
  };

  static HostCompiles Read(const Trace& trace, int threads);

  const OfHost& Of(const Plane& device) const;

 private:
  std::map<HostKey, OfHost> hosts_;
};

}  // namespace xplane_time::insight
