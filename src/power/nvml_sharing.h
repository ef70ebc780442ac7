// Who else uses a GPU: the processes on it, less the measured one and what it started.
//
//   pids + procfs  ->  OtherProcesses  ->  {others, note}
//
// The measured process's own are found by their parents in procfs. A pid that procfs does not
// have, and any in a pid namespace of its own, tells nothing (the driver may count in the
// host's): then `others` is empty and `note` says so. Processes that start later are not seen.
#ifndef XPLANE_TIME_SRC_POWER_NVML_SHARING_H_
#define XPLANE_TIME_SRC_POWER_NVML_SHARING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "power/nvml_api.h"

namespace xplane_time::power {

struct Sharing {
  std::vector<int64_t> others;
  std::string note;  // why it is not known; empty: it is
};

Sharing OtherProcesses(const std::vector<int64_t>& pids, int64_t own_pid,
                       const std::string& procfs);

// Of compute processes on the device; own_pid 0 is this process.
Sharing SharingOf(const NvmlApi& nvml, NvmlDevice device, int64_t own_pid,
                  const std::string& procfs);

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_NVML_SHARING_H_
