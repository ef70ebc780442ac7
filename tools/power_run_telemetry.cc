// What power run measures with.
#include <string>
#include <vector>

#include "cmd_power_run.h"

#include "absl/strings/str_cat.h"

namespace xplane_time::tools {

absl::StatusOr<std::unique_ptr<Telemetry>> RecordedTelemetry(const PowerRunCommand& command,
                                                             int64_t pid) {
  if (command.from.sources == std::vector<std::string>{"none"}) return NewNoTelemetry();
  PowerRecordOptions options;
  options.from = command.from;
  options.from.pid = pid;
  auto recorder = PowerRecorder::Start(options);
  if (!recorder.ok()) {
    return absl::Status(recorder.status().code(),
                        absl::StrCat(recorder.status().message(),
                                     "; --source none runs without, every value null"));
  }
  return NewRecorderTelemetry(*std::move(recorder));
}

}  // namespace xplane_time::tools
