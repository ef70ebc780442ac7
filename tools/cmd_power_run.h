// power run, with the telemetry of a test.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "command.h"
#include "xplane_time/power_run.h"

namespace xplane_time::tools {

// Telemetry of sources for a command with their process id. Errors: FailedPrecondition: no sensor.
using TelemetryFactory = std::function<absl::StatusOr<std::unique_ptr<Telemetry>>(
    const PowerSourceOptions& from, bool quiet)>;

// Without a factory: a recorder of the sources.
void AddPowerRun(CommandLine* line, CLI::App* parent, TelemetryFactory telemetry_of = {});

}  // namespace xplane_time::tools
