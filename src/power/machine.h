// What a log's header says of the machine.
#ifndef XPLANE_TIME_SRC_POWER_MACHINE_H_
#define XPLANE_TIME_SRC_POWER_MACHINE_H_

#include <string>

namespace xplane_time::power {

// An object: host, kernel, cpu, cpus, memory_bytes, boot_id; what cannot be read is null.
std::string MachineJson(const std::string& procfs);

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_MACHINE_H_
