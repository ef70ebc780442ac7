// power run, and what it shares with the other commands of power.
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

// Without a factory: a recorder of the sources. Tests bring their own.
void AddPowerRun(CommandLine* line, CLI::App* parent, TelemetryFactory telemetry_of = {});

// Which sensors, and where they are. `also`: what else a source may be.
void AddSensors(CLI::App* app, const char* also, PowerSourceOptions* from);
// The logs that are sources.
void NameReplayed(const PowerSourceOptions& from, FileRoles* files);

}  // namespace xplane_time::tools
