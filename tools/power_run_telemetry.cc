// What power run measures with: a recorder, its log, and windows of it.
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cmd_power_run.h"
#include "scratch.h"
#include "xplane_time/power.h"

namespace xplane_time::tools {
namespace {

// The recorder, its log in a temporary file, and the telemetry over both.
class Recorded : public Telemetry {
 public:
  Recorded(std::unique_ptr<PowerRecorder> recorder, std::string log_path)
      : log_path_(std::move(log_path)),
        recorder_(std::move(recorder)),
        telemetry_(NewRecorderTelemetry(recorder_.get(), log_path_)) {}
  ~Recorded() override { unlink(log_path_.c_str()); }

  RunHardware Hardware() override { return telemetry_->Hardware(); }
  absl::Status Begin(std::string_view name) override { return telemetry_->Begin(name); }
  absl::StatusOr<WindowSummary> End(std::string_view name) override {
    return telemetry_->End(name);
  }

 private:
  std::string log_path_;
  std::unique_ptr<PowerRecorder> recorder_;
  std::unique_ptr<Telemetry> telemetry_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Telemetry>> RecordedTelemetry(const PowerRunCommand& command,
                                                             int64_t pid) {
  if (command.from.sources == std::vector<std::string>{"none"}) return NewNoTelemetry();
  std::string log_path = ScratchFolder() + "/xplane-time-power.XXXXXX";
  const int fd = mkstemp(log_path.data());
  if (fd < 0) {
    return absl::InternalError(
        absl::StrCat(ScratchFolder(), ": no temporary file can be made; see TMPDIR"));
  }
  close(fd);
  PowerRecordOptions options;
  options.from = command.from;
  options.from.pid = pid;
  options.log_path = log_path;
  auto recorder = PowerRecorder::Start(options);
  if (!recorder.ok()) {
    unlink(log_path.c_str());
    return absl::Status(recorder.status().code(),
                        absl::StrCat(recorder.status().message(),
                                     "; --source none runs without, every value null"));
  }
  return std::make_unique<Recorded>(*std::move(recorder), std::move(log_path));
}

}  // namespace xplane_time::tools
