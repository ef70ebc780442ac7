// VisibleDevices: which device a program means by ordinal 0, 1, ... under an environment.
//
//   devices of the machine + CUDA_VISIBLE_DEVICES, ... + --map  ->  ordinal -> device
//
//   VisibleDevices({{"GPU-aa", "H100"}, {"GPU-bb", "H100"}},
//                  {{"CUDA_VISIBLE_DEVICES", "1"}}, {});     // device_of: {0: 1}
//   ... {{"CUDA_VISIBLE_DEVICES", "1,7,0"}} ...              // {0: 1}: 7 ends the list
//   ... an H100 and an L4, {{"CUDA_VISIBLE_DEVICES", "0"}}   // device_of empty, `unknown` says
//                                                            // why: fastest first
//
// The rules, as CUDA's:
// - Entries are indices (read as strtoul does: "1x" is 1) or UUIDs, told by the first entry; a
//   UUID may be cut after any character that still leaves it unique. One that names no device
//   ends the list; one that comes twice makes it empty; "", -1 and words hide everything.
// - Indices count in CUDA's order: PCI's with CUDA_DEVICE_ORDER=PCI_BUS_ID, else fastest
//   first, which is known only where all devices are one model.
// - A MIG instance counts as its GPU. A program sees one instance at most, so it ends the list.
// - NVIDIA_VISIBLE_DEVICES speaks to the container runtime, not to CUDA: it is not read.
// - A map that names a device of the list is the whole answer for the list.
//
// Pure and thread-safe. Sources: CUDA C++ Programming Guide, "CUDA Environment Variables"; MIG
// User Guide, "CUDA Device Enumeration".
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "xplane_time/power.h"

namespace xplane_time::power {

// A physical device, in the order of its PCI address.
struct GpuIdentity {
  std::string id;     // GPU-...
  std::string model;  // devices of one name are equally fast
  std::vector<std::string> mig_instances = {};
  bool mig = false;  // is split, maybe into no instance yet
};

struct Visibility {
  std::map<int32_t, size_t> device_of;  // by ordinal: place in the list of devices
  std::string unknown;                  // why device_of is empty; empty: it is the answer
  std::vector<std::string> not_found;   // ids in the map that no device of the list has

  // Whether the program may use the device at `place`; true where it cannot be told.
  bool MaySee(size_t place) const;
};

Visibility VisibleDevices(const std::vector<GpuIdentity>& devices,
                          const PowerEnvironment& environment,
                          const std::map<int32_t, std::string>& map);

}  // namespace xplane_time::power
