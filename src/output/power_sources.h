// What `power sources` prints: sensors that are there, those that are not, and the way to them.
#ifndef XPLANE_TIME_SRC_OUTPUT_POWER_SOURCES_H_
#define XPLANE_TIME_SRC_OUTPUT_POWER_SOURCES_H_

#include <string>

#include "output/output.h"
#include "xplane_time/power.h"

namespace xplane_time::output {

// A table, or JSON (schema xplane-time.power-sources.v1).
std::string RenderPowerSources(const PowerInventory& inventory, const OutputOptions& options);

// "nvml: absent: why; the way out".
std::string AbsenceLine(const PowerAbsence& absence);

}  // namespace xplane_time::output

#endif  // XPLANE_TIME_SRC_OUTPUT_POWER_SOURCES_H_
