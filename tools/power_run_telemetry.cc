// What power run measures with.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "cmd_power_run.h"

#include "absl/strings/str_cat.h"

namespace xplane_time::tools {
namespace {

constexpr char kWithout[] = "; --source none runs without, every energy null";

bool HasEnergy(const PowerInventory& inventory) {
  return std::any_of(inventory.channels.begin(), inventory.channels.end(), IsPowerOrEnergy);
}

}  // namespace

// Memory and the like can be read anywhere: nobody who asks for energies is content with them,
// unless they named what has no more.
absl::StatusOr<std::unique_ptr<Telemetry>> RecordedTelemetry(const PowerRunCommand& command,
                                                             int64_t pid) {
  if (command.from.sources == std::vector<std::string>{"none"}) return NewNoTelemetry();
  PowerRecordOptions options;
  options.from = command.from;
  options.from.pid = pid;
  auto recorder = PowerRecorder::Start(options);
  if (!recorder.ok()) {
    return absl::Status(recorder.status().code(),
                        absl::StrCat(recorder.status().message(), kWithout));
  }
  if (!HasEnergy((*recorder)->inventory())) {
    constexpr char kNone[] =
        "no sensor of power or energy here (xplane-time power sources says why, and how to get "
        "one)";
    if (command.from.sources.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(kNone, kWithout));
    }
    if (!command.quiet) std::fprintf(stderr, "xplane-time: %s: energy stays unknown\n", kNone);
  }
  return NewRecorderTelemetry(*std::move(recorder));
}

}  // namespace xplane_time::tools
