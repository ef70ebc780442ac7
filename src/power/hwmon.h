// The energy accumulator in amdgpu's gpu_metrics, a binary file in the PCI device's directory.
//
// Only formats 1.4 and 1.5 (MI300): their definition states the unit, 2^-16 J. In 1.0 to 1.3
// the unit differs by chip, and 2.x and 3.x (APUs) have no accumulator.
// Definition: kgd_pp_interface.h of the kernel.
#ifndef XPLANE_TIME_SRC_POWER_HWMON_H_
#define XPLANE_TIME_SRC_POWER_HWMON_H_

#include <string>

#include "power/sysfs.h"

namespace xplane_time::power {

// In uJ. All bits set is how the driver says that it has none: kUnsupported.
FileNumber ReadGpuMetricsEnergy(const std::string& path);

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_HWMON_H_
