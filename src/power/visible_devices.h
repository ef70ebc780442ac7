// VisibleDevices: finds the device that a program means by ordinal 0, 1, ... in an environment.
//
//   devices of the machine + CUDA_VISIBLE_DEVICES, ... + --map  ->  ordinal -> device
//
//   VisibleDevices({{"GPU-aa", "H100"}, {"GPU-bb", "H100"}},
//                  {{"CUDA_VISIBLE_DEVICES", "1"}}, {});     // device_of: {0: 1}
//   ... {{"CUDA_VISIBLE_DEVICES", "1,7,0"}} ...              // {0: 1}: 7 ends the list
//   ... an H100 and an L4, {{"CUDA_VISIBLE_DEVICES", "0"}}   // device_of is empty; `unknown`:
//                                                            // the order is fastest first
//
// The rules are those of CUDA:
// - Entries are indices (read like strtoul: "1x" is 1) or UUIDs; the first entry decides which. A
//   UUID may be cut after any character if it stays unique. An entry that names no device ends the
//   list. A repeated entry makes the list empty. "", -1 and words hide all devices.
// - Indices count in CUDA's order: PCI order with CUDA_DEVICE_ORDER=PCI_BUS_ID, else fastest first,
//   which is only known if all devices are the same model.
// - A MIG instance counts as its GPU. A program sees one instance at most, so an instance ends the
//   list.
// - NVIDIA_VISIBLE_DEVICES is for the container runtime, not for CUDA. It is not read.
// - A map that names a device of the list replaces the environment.
//
// Pure and thread-safe. Sources: CUDA C++ Programming Guide, "CUDA Environment Variables"; MIG User
// Guide, "CUDA Device Enumeration".
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "xplane_time/power.h"

namespace xplane_time::power {

// A physical device. Devices are in the order of their PCI addresses.
struct GpuIdentity {
  std::string id;     // GPU-...
  std::string model;  // devices with the same name are equally fast
  std::vector<std::string> mig_instances = {};
  bool mig = false;  // is split into instances, possibly zero so far
};

struct Visibility {
  std::map<int32_t, size_t> device_of;  // by ordinal: index in the list of devices
  std::string unknown;                  // why device_of is unknown; empty if it is known
  std::vector<std::string> not_found;   // ids in the map that no listed device has

  // Whether the program may use the device at `place`; true if it is unknown.
  bool MaySee(size_t place) const;
};

Visibility VisibleDevices(const std::vector<GpuIdentity>& devices,
                          const PowerEnvironment& environment,
                          const std::map<int32_t, std::string>& map);

}  // namespace xplane_time::power
