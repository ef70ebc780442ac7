#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cmd_power_run.h"
#include "commands.h"
#include "measured_command.h"
#include "output/results.h"
#include "output/schema.h"
#include "output/text.h"
#include "xplane_time/power.h"

namespace xplane_time::tools {
namespace {

constexpr int kExitNoSensor = 69, kExitCannotWrite = 73, kExitInterrupted = 130;
constexpr char kRunWindow[] = "run";

void Tell(const std::string& message) {
  std::fprintf(stderr, "xplane-time: %s\n", output::Printable(message).c_str());
}

int FailPower(const absl::Status& status) {
  const int exit_code = Fail(status);
  if (absl::IsInternal(status)) return kExitCannotWrite;
  return absl::IsFailedPrecondition(status) ? kExitNoSensor : exit_code;
}

int RunSources(const PowerCommand& command, output::OutputOptions how) {
  PowerSourceOptions from = command.record.from;
  from.environment = EnvironmentOfDevices();
  from.children_only = true;
  how.format = command.format == "json" ? output::Format::kJson : output::Format::kTable;
  const PowerInventory inventory = ListPowerSources(from);
  for (const PowerAbsence& each : inventory.absences) {
    if (each.source.empty()) return Fail(absl::InvalidArgumentError(each.message));  // no such name
  }
  return WriteText(command.output_path, output::Render(output::PowerSourcesOutput(inventory), how));
}

output::Format FormatOf(std::string_view name) {
  using output::Format;
  for (const auto& [known, format] : {std::pair("json", Format::kJson),
                                      {"csv", Format::kCsv},
                                      {"markdown", Format::kMarkdown},
                                      {"openmetrics", Format::kOpenMetrics}}) {
    if (name == known) return format;
  }
  return Format::kTable;
}

// Sums it up and prints it; the picture too.
int Print(const PowerCommand& command, const std::string& log_path, output::OutputOptions how) {
  auto summary = SummarizePowerLog(log_path, command.summary);
  if (!summary.ok()) return Fail(summary.status());
  const output::CarbonModel carbon = {.g_per_kwh = command.grams_co2e_per_kwh, .pue = command.pue};
  if (!command.svg_path.empty()) {
    const int drawn = WriteText(command.svg_path, output::PowerSvg(*summary));
    if (drawn != 0) return drawn;
  }
  how.format = FormatOf(command.format);
  std::string text = output::Render(output::PowerOutput(*summary, carbon), how);
  if (command.plot) text += "\n" + output::PowerPlot(*summary, how);
  return WriteText(command.output_path, text);
}

// On standard error, before hours of measuring nothing or less than was asked for.
void TellOfSensors(const PowerCommand& command, const PowerRecorder& recorder) {
  if (command.quiet) return;
  for (const auto& [source, message] : recorder.raised_periods()) {
    Tell(absl::StrCat(source, ": ", message));
  }
  for (const PowerChannel& each : recorder.inventory().channels) {
    if (IsPowerOrEnergy(each)) return;
  }
  Tell(
      "no sensor of power or energy here: energy stays unknown (xplane-time power sources says "
      "why, and how to get one)");
}

// On standard error, and in the log.
void Note(PowerRecorder* recorder, std::string_view code, const std::string& message) {
  Tell(message);
  static_cast<void>(recorder->Note(code, message));
}

std::string CannotRun(const std::string& program, const CommandEnd& end) {
  return absl::StrCat(program, ": cannot run it: ", strerror(end.start_errno));
}

// One run, in a window of its own.
absl::StatusOr<CommandEnd> RunOnce(const PowerCommand& command, uint32_t run,
                                   PowerRecorder* recorder) {
  if (absl::Status begun = recorder->Begin(kRunWindow); absl::IsInvalidArgument(begun)) {
    return begun;
  }
  const CommandEnd end = RunMeasured(command.command);
  if (end.peak_rss_bytes > 0) {
    static_cast<void>(recorder->Gauge("peak_rss_bytes", end.peak_rss_bytes));
  }
  if (absl::Status ended = recorder->End(kRunWindow); absl::IsInvalidArgument(ended)) {
    return ended;
  }
  const std::string& name = command.command[0];
  if (end.start_errno != 0) {
    Note(recorder, "cannot_run", CannotRun(name, end));
  } else if (end.exit_code != 0) {
    Note(recorder, "command_failed",
         absl::StrCat(name, ": run ", run + 1, " ended with ",
                      end.signal != 0 ? absl::StrCat("signal ", end.signal)
                                      : absl::StrCat("exit ", end.exit_code)));
  }
  if (end.left_behind) {
    Note(recorder, "left_behind",
         absl::StrCat(name,
                      ": it left processes behind, which still run: what they use is not in here; "
                      "to measure a machine for a while: power record --duration S"));
  }
  return end;
}

struct Measured {
  int exit_code = 0;     // of runs the first that is not 0
  bool nothing = false;  // there was no run, because it cannot be run
};

absl::StatusOr<Measured> RunRepeatedly(const PowerCommand& command, PowerRecorder* recorder) {
  int exit_code = 0;
  uint32_t runs = 0;
  while (runs < command.repeat && SignalReceived() == 0) {
    const auto end = RunOnce(command, runs, recorder);
    if (!end.ok()) return end.status();
    if (exit_code == 0) exit_code = end->exit_code;
    if (end->start_errno != 0) return Measured{exit_code, /*nothing=*/runs == 0};
    ++runs;
    if (end->signal != 0) return Measured{exit_code};
  }
  if (runs < command.repeat) {
    Note(recorder, "interrupted",
         absl::StrCat("interrupted after ", runs, " of ", command.repeat, " runs"));
    if (exit_code == 0) exit_code = kExitInterrupted;
  }
  return Measured{exit_code};
}

absl::StatusOr<Measured> Measure(const PowerCommand& command, PowerRecorder* recorder) {
  if (command.command.empty()) {
    constexpr double kForever = 1e8;
    if (command.duration_s == 0 && !command.quiet) Tell("recording; Ctrl-C ends it");
    const bool whole = SleepUnlessStopped(command.duration_s > 0 ? command.duration_s : kForever);
    if (whole || command.duration_s == 0) return Measured{};
    Note(recorder, "interrupted", "interrupted before --duration was over");
    return Measured{kExitInterrupted};
  }
  if (command.idle_s > 0) {
    absl::Status status = recorder->Begin(command.summary.idle_window);
    if (absl::IsInvalidArgument(status)) return status;
    SleepUnlessStopped(command.idle_s);
    status = recorder->End(command.summary.idle_window);
    if (absl::IsInvalidArgument(status)) return status;
    if (SignalReceived() != 0) {
      Note(recorder, "interrupted", "interrupted before the first run");
      return Measured{kExitInterrupted};
    }
  }
  return RunRepeatedly(command, recorder);
}

int RunRecord(const PowerCommand& command, const output::OutputOptions& how) {
  PowerRecordOptions options = command.record;
  options.from.environment = EnvironmentOfDevices();
  options.from.children_only = true;
  options.command = absl::StrJoin(command.command, " ");
  if (!command.command.empty()) {  // before an earlier log is replaced, or --idle is waited for
    const std::string& name = command.command[0];
    if (const auto end = CannotStart(name)) {
      Tell(CannotRun(name, *end));
      return end->exit_code;
    }
  }
  PassSignalsOn();
  auto recorder = PowerRecorder::Start(options);
  if (!recorder.ok()) return FailPower(recorder.status());
  TellOfSensors(command, **recorder);
  auto measured = Measure(command, recorder->get());
  if (!measured.ok()) return Fail(measured.status());
  const absl::Status stopped = (*recorder)->Stop();
  if (!stopped.ok()) Tell(std::string(stopped.message()));
  if (measured->nothing) return measured->exit_code;
  const int printed = Print(command, (*recorder)->log_path(), how);
  if (measured->exit_code != 0) return measured->exit_code;
  return stopped.ok() ? printed : kExitCannotWrite;
}

}  // namespace

PowerEnvironment EnvironmentOfDevices() {
  PowerEnvironment variables;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string_view text = *each;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) {
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
  }
  return variables;
}

int RunPower(const Options& options) {
  if (options.power.json_schema) {
    const PowerAction action = options.power.action;
    const char* schema = action == PowerAction::kSources ? "power-sources"
                         : action == PowerAction::kRun   ? "power-run"
                                                         : "power";
    return WriteText(options.power.output_path, output::JsonSchema(schema));
  }
  switch (options.power.action) {
    case PowerAction::kSources:
      return RunSources(options.power, options.output);
    case PowerAction::kRecord:
      return RunRecord(options.power, options.output);
    case PowerAction::kRun: {
      PowerRunCommand command = options.power.run;
      command.from.environment = EnvironmentOfDevices();
      return RunPowerRun(command, RecordedTelemetry);
    }
    case PowerAction::kNone:
    case PowerAction::kReplay:
      break;
  }
  return Print(options.power, options.power.log_path, options.output);
}

}  // namespace xplane_time::tools
