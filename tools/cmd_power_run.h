// power run: options to a run, progress, and what is printed at its end.
#ifndef XPLANE_TIME_TOOLS_CMD_POWER_RUN_H_
#define XPLANE_TIME_TOOLS_CMD_POWER_RUN_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "options_power_run.h"
#include "xplane_time/power_run.h"

namespace xplane_time::tools {

// Telemetry for a command with this process id, so that tests may bring their own.
using TelemetryFactory =
    std::function<absl::StatusOr<std::unique_ptr<Telemetry>>(const PowerRunCommand&, int64_t pid)>;

// A recorder of the sources asked for. FailedPrecondition: no sensor.
absl::StatusOr<std::unique_ptr<Telemetry>> RecordedTelemetry(const PowerRunCommand& command,
                                                             int64_t pid);

// Returns the exit code.
int RunPowerRun(const PowerRunCommand& command, const TelemetryFactory& telemetry);

}  // namespace xplane_time::tools

#endif  // XPLANE_TIME_TOOLS_CMD_POWER_RUN_H_
