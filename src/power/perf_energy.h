// RAPL through the kernel's perf PMU `power`: the way where powercap is not there or not
// readable.
//
//   SYSFS/bus/event_source/devices/power/type            22
//                                        cpumask         0,18: one cpu of each package
//                                        events/energy-pkg         event=0x02
//                                        events/energy-pkg.scale   2.3283064365386962890625e-10
//                                        events/energy-pkg.unit    Joules
//
// The kernel extends these counters to 64 bits: they do not wrap. They begin with the reader.
#ifndef XPLANE_TIME_SRC_POWER_PERF_ENERGY_H_
#define XPLANE_TIME_SRC_POWER_PERF_ENERGY_H_

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "power/sensor.h"
#include "power/sysfs.h"
#include "xplane_time/power.h"

namespace xplane_time::power {

// perf_event_open(2) for all processes on one cpu: a descriptor, or -errno. Each read of it
// gives 8 bytes.
using PerfOpen = std::function<int(uint32_t type, uint64_t config, int cpu)>;
int OpenPerfEvent(uint32_t type, uint64_t config, int cpu);

// No sensor and no absence where there is no such PMU.
std::vector<Sensor> PerfEnergySensors(const PowerRoots& roots, const PerfOpen& open,
                                      std::vector<PowerAbsence>* absences);

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_PERF_ENERGY_H_
