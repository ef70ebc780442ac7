// The RAPL reader with perf_event_open stated, for tests; NewRaplReader(options) has the
// kernel's.
#ifndef XPLANE_TIME_SRC_POWER_RAPL_H_
#define XPLANE_TIME_SRC_POWER_RAPL_H_

#include <memory>
#include <vector>

#include "power/perf_energy.h"
#include "power/reader.h"
#include "power/sensor.h"
#include "xplane_time/power.h"

namespace xplane_time::power {

std::unique_ptr<Reader> NewRaplReader(const PowerSourceOptions& options, PerfOpen open);

// RAPL through the kernel's powercap tree, Intel's and AMD's alike.
//
//   SYSFS/class/powercap/intel-rapl:0        name "package-0", energy_uj, max_energy_range_uj
//                        intel-rapl:0:0      name "core" (uncore, dram), part of the package
//                        intel-rapl:1        name "psys": the board, packages included
//                        intel-rapl-mmio:0   the same package by another way: not counted twice
//
// Definitions: Documentation/power/powercap/powercap.rst of the kernel.

// The counters that can be read, packages and their dram in the total. `absences` gets what
// cannot, files that one fix helps together. By zones: linear.
std::vector<Sensor> PowercapSensors(const PowerRoots& roots, std::vector<PowerAbsence>* absences);

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_RAPL_H_
