// The RAPL reader with perf_event_open stated, for tests; NewRaplReader(options) has the
// kernel's.
#ifndef XPLANE_TIME_SRC_POWER_RAPL_H_
#define XPLANE_TIME_SRC_POWER_RAPL_H_

#include <memory>

#include "power/perf_energy.h"
#include "power/reader.h"

namespace xplane_time::power {

std::unique_ptr<Reader> NewRaplReader(const PowerSourceOptions& options, PerfOpen open);

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_RAPL_H_
