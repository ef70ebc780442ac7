// power: readings of power and energy, while a command runs or from a log.
//
// Subcommands sources, record and replay share one object; `action_` is the chosen one. Record
// starts the recorder, waits for --idle, then runs the program in a window `run` (repeatedly with
// -r), or records for a duration or until a signal. Signals are passed on to the program.
// Afterwards the log is summarized and printed, with an optional picture. The exit code is that of
// the program.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "command.h"
#include "energy/calibration_log.h"
#include "output/results.h"
#include "process.h"
#include "status.h"
#include "xplane_time/power.h"

namespace xplane_time::tools {
namespace {

constexpr char kRunWindow[] = "run";

// Prints a message and adds it to the log.
void Note(PowerRecorder* recorder, std::string_view code, const std::string& message) {
  Tell(message);
  static_cast<void>(recorder->Note(code, message));
}

std::string CannotRun(const std::string& program, const CommandEnd& end) {
  return absl::StrCat(program, ": cannot start: ", strerror(end.start_errno));
}

// A log that cannot be written is reported at the end, so only invalid windows are errors here.
absl::Status UsableWindow(const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? status : absl::OkStatus();
}

struct Measured {
  int exit_code = 0;     // the first that is not 0, over all runs
  bool nothing = false;  // the program could not be run at all
};

class Power : public Command {
 public:
  Power(CLI::App* app, CommandLine* line) : Command(app) {
    app->require_subcommand(0, 1);
    record_.from.children_only = true;
    Heading(app, kOwn).Flag("--json-schema", &printing_.json_schema,
                            "Print the JSON Schema of summaries");
    AddSources(AddAction(line, &Power::Sources,
                         {"sources", "List available and missing sensors, and how to enable them",
                          "  xplane-time power sources\n"
                          "  xplane-time power sources --source nvml,rapl --format json\n"}));
    AddRecord(AddAction(line, &Power::Record,
                        {.name = "record",
                         .help = "Record power while a command runs (after --)",
                         .examples = R"(  xplane-time power record -- python train.py
  xplane-time power record --idle 10 -r 5 --log power.jsonl -- ./bench
  xplane-time power record --source nvml --duration 60 --plot
)",
                         .about_extra = "the command and its arguments follow --"}));
    CLI::App* const replay =
        AddAction(line, &Power::Replay,
                  {.name = "replay",
                   .help = "Summarize a log, or a CSV file of nvidia-smi",
                   .examples = R"(  xplane-time power replay power.jsonl --svg power.svg
  xplane-time power replay power.jsonl --co2 400 --pue 1.2 --format json
  xplane-time power replay nvidia-smi.csv --estimator trapezoid
)",
                   .about_extra = "only one LOG is allowed"});
    replay->add_option("LOG", log_path_, "Log written by power record --log, or CSV of nvidia-smi")
        ->required();
    AddSummary(replay);
    AddPowerRun(line, app);
    AddPowerCalibrate(line, app);
    AddPowerPlan(line, app);
    AddPowerClients(line, app);
    AddPowerDatasets(line, app);
  }

  absl::Status Check() override {
    files_.ReadsReplayed(record_.from.sources);
    files_.Reads("LOG", log_path_);
    files_.Reads("--calibration", calibration_path_);
    files_.Writes("--log", record_.log_path);
    files_.PrintsOutput(printing_.path);
    files_.Prints("--svg", svg_path_);
    if (action_ == nullptr && !printing_.json_schema) {
      return UsageError(
          "power: no subcommand given; choose sources, record, replay, run, calibrate, plan, "
          "clients or datasets; see xplane-time power --help");
    }
    if (plot_ && printing_.format != "table") {
      return UsageError("--plot applies only to the table; use --svg for a chart");
    }
    const bool runs = !program_.empty();
    if (runs && action_ != &Power::Record) {
      return UsageError("only power record and power run accept a command after --");
    }
    if (runs && duration_s_ > 0) {
      return UsageError("--duration applies only without a command");
    }
    if (!runs && (repeat_ > 1 || idle_s_ > 0)) {
      return UsageError(
          "--repeat and --idle require a command: xplane-time power record -- COMMAND...");
    }
    return absl::OkStatus();
  }

  std::string schema() const override {
    return action_ == &Power::Sources ? "power-sources" : "power";
  }

  absl::StatusOr<int> Run() override { return (this->*action_)(); }

 private:
  using Action = absl::StatusOr<int> (Power::*)();

  // ---- Options

  CLI::App* AddAction(CommandLine* line, Action action, CommandText text) {
    text.parent = app_;
    return line->AddApp(text, [this, action] { action_ = action; });
  }

  void AddReading(CLI::App* app) {
    AddSensors(app, /*of_energy=*/false, "", &record_.from);
    Heading(app, kSensors)
        .Flag("--gpm", &record_.from.gpm,
              "Also record utilization of SMs, tensor cores and DRAM of NVIDIA GPUs (Hopper and "
              "later)");
  }

  void AddSources(CLI::App* app) {
    AddReading(app);
    printing_.AddFormat(app, {"table", "json"});
    printing_.AddPath(app);
    Heading(app, kOwn).Flag("--json-schema", &printing_.json_schema,
                            "Print the JSON Schema of this list");
  }

  void AddRecord(CLI::App* app) {
    AddReading(app);
    const Heading recording(app, "Recording");
    recording.Value("--log", &record_.log_path, "FILE",
                    "Write the readings to FILE (docs/power-log.md)");
    recording.Value("--duration", &duration_s_, "S",
                    "Duration of a recording without a command, in seconds (default: until Ctrl-C)",
                    Between(0.001, 100'000'000));
    recording.Value("--idle", &idle_s_, "S", "Measure idle power for S seconds before the command",
                    Between(0.001, 1'000'000));
    recording.Value("-r,--repeat", &repeat_, "N",
                    "Runs of the command, with one window each (default 1)",
                    CLI::Range(1, 1'000'000));
    recording
        .Taken<double>(
            "--period", [this](double ms) { record_.period_ns = std::llround(ms * 1e6); }, "MS",
            "Time between readings, in milliseconds (default 50 for nvml and hwmon, 10 for rapl, "
            "100 for process)")
        ->check(Between(1, 1'000'000));
    recording.Value("--calibration", &calibration_path_, "FILE",
                    "File written by power calibrate, with the periods and windows of the sensors");
    AddSummary(app);
    Heading(app, kOut).Flag("--quiet", &printing_.quiet, "Print only errors on standard error");
  }

  void AddSummary(CLI::App* app) {
    const Heading energy(app, "Energy"), out(app, kOut);
    energy.OneOf("--estimator", &summary_.estimator,
                 {"best", "counter", "held", "trapezoid", "endpoint-mean"},
                 "Energy estimator: best (counter if available, else held), counter, held, "
                 "trapezoid or endpoint-mean (default best)");
    CLI::Option* const co2 = energy.Value(
        "--co2", &carbon_.g_per_kwh, "G",
        "Carbon intensity in grams of CO2e per kWh; adds Wh and modelled CO2e to the output",
        Between(0, 1'000'000'000));
    energy
        .Value("--pue", &carbon_.pue, "RATIO",
               "Power usage effectiveness of the building, for --co2 (default 1)", Between(1, 100))
        ->needs(co2);
    out.Flag("--plot", &plot_, "Add a plot of power over time");
    out.Value("--svg", &svg_path_, "FILE", "Also write the plot as an SVG file");
    printing_.AddFormat(app, {"table", "json", "csv", "markdown", "openmetrics", "html", "sqlite"});
    printing_.AddPath(app);
  }

  // ---- Actions

  absl::StatusOr<int> Sources() {
    const PowerInventory inventory = ListPowerSources(record_.from);
    for (const PowerAbsence& each : inventory.absences) {
      if (each.source.empty()) return UsageError(each.message);  // unknown name
    }
    return Print(output::PowerSourcesOutput(inventory));
  }

  absl::StatusOr<int> Replay() { return PrintSummary(log_path_); }

  // Summarizes the log and prints it; also writes the picture.
  absl::StatusOr<int> PrintSummary(const std::string& log_path) const {
    ASSIGN_OR_RETURN(const PowerSummary summary, SummarizePowerLog(log_path, summary_));
    if (!svg_path_.empty()) RETURN_IF_ERROR(WriteText(svg_path_, output::PowerSvg(summary)));
    ASSIGN_OR_RETURN(std::string text, Rendered(output::PowerOutput(summary, carbon_)));
    if (plot_) text += "\n" + output::PowerPlot(summary, printing_.how);
    return Print(text);
  }

  absl::StatusOr<int> Record() {
    record_.command = absl::StrJoin(program_, " ");
    if (!program_.empty()) {  // checked before an earlier log is replaced and before --idle
      if (const auto end = CannotStart(program_[0])) {
        Tell(CannotRun(program_[0], *end));
        return end->exit_code;
      }
    }
    if (!calibration_path_.empty()) {
      ASSIGN_OR_RETURN(const auto calibrations, energy::ReadCalibrations(calibration_path_));
      record_.calibrated = energy::PriorsOf(calibrations);
    }
    PassSignalsOn();
    ASSIGN_OR_RETURN(const auto recorder, WithExits(PowerRecorder::Start(record_), kRecorderExits));
    TellOfSensors(*recorder);
    ASSIGN_OR_RETURN(const Measured measured, Measure(recorder.get()));
    const absl::Status stopped = recorder->Stop();
    if (!stopped.ok()) Tell(std::string(stopped.message()));
    if (measured.nothing) return measured.exit_code;
    absl::StatusOr<int> printed = PrintSummary(recorder->log_path());
    if (measured.exit_code == 0 && stopped.ok()) return printed;
    if (!printed.ok()) Fail(printed.status());
    return measured.exit_code != 0 ? measured.exit_code : kExitCannotWrite;
  }

  // Printed before a long measurement that would contain less than requested.
  void TellOfSensors(const PowerRecorder& recorder) const {
    if (printing_.quiet) return;
    for (const auto& [source, message] : recorder.raised_periods()) {
      Tell(absl::StrCat(source, ": ", message));
    }
    if (std::ranges::any_of(recorder.inventory().channels, IsPowerOrEnergy)) return;
    Tell(
        "no power or energy sensor found; energy is unknown (xplane-time power sources shows why, "
        "and how to enable one)");
  }

  absl::StatusOr<Measured> Measure(PowerRecorder* recorder) const {
    if (program_.empty()) {
      constexpr double kForever = 1e8;
      if (duration_s_ == 0 && !printing_.quiet) Tell("recording; press Ctrl-C to stop");
      const bool whole = SleepUnlessStopped(duration_s_ > 0 ? duration_s_ : kForever);
      if (whole || duration_s_ == 0) return Measured{};
      Note(recorder, "interrupted", "interrupted before --duration elapsed");
      return Measured{kExitInterrupted};
    }
    if (idle_s_ > 0) {
      RETURN_IF_ERROR(UsableWindow(recorder->Begin(summary_.idle_window)));
      SleepUnlessStopped(idle_s_);
      RETURN_IF_ERROR(UsableWindow(recorder->End(summary_.idle_window)));
      if (IsStopped()) {
        Note(recorder, "interrupted", "interrupted before the first run");
        return Measured{kExitInterrupted};
      }
    }
    return RunRepeatedly(recorder);
  }

  absl::StatusOr<Measured> RunRepeatedly(PowerRecorder* recorder) const {
    int exit_code = 0;
    uint32_t runs = 0;
    while (runs < repeat_ && !IsStopped()) {
      ASSIGN_OR_RETURN(const CommandEnd end, RunOnce(runs, recorder));
      if (exit_code == 0) exit_code = end.exit_code;
      if (end.start_errno != 0) return Measured{exit_code, /*nothing=*/runs == 0};
      ++runs;
      if (end.signal != 0) return Measured{exit_code};
    }
    if (runs < repeat_) {
      Note(recorder, "interrupted",
           absl::StrCat("interrupted after ", runs, " of ", repeat_, " runs"));
      if (exit_code == 0) exit_code = kExitInterrupted;
    }
    return Measured{exit_code};
  }

  // One run, in its own window.
  absl::StatusOr<CommandEnd> RunOnce(uint32_t run, PowerRecorder* recorder) const {
    RETURN_IF_ERROR(UsableWindow(recorder->Begin(kRunWindow)));
    const CommandEnd end = RunMeasured(program_);
    if (end.start_errno == 0) {
      static_cast<void>(recorder->Gauge("peak_rss_bytes", end.peak_rss_bytes));
    }
    RETURN_IF_ERROR(UsableWindow(recorder->End(kRunWindow)));
    const std::string& name = program_[0];
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
                        ": processes of the command still run; their later energy is not included. "
                        "To measure a machine for a while: power record --duration S"));
    }
    return end;
  }

  Action action_ = nullptr;
  std::string log_path_;  // the log to replay
  PowerRecordOptions record_;
  std::string calibration_path_;
  double duration_s_ = 0, idle_s_ = 0;  // 0: not given
  uint32_t repeat_ = 1;
  PowerSummaryOptions summary_;
  output::CarbonModel carbon_;
  bool plot_ = false;
  std::string svg_path_;
};

}  // namespace

void AddPower(CommandLine* line) {
  line->Add<Power>({.name = "power",
                    .help = "Measure power and energy of a command, a machine or a log",
                    .examples = R"(  xplane-time power sources
  xplane-time power record -- python train.py
  xplane-time power record --idle 10 -r 5 --log power.jsonl -- ./bench
  xplane-time power replay power.jsonl --format json
  xplane-time power run problems.jsonl -- python answer.py
)",
                    .runs_program = true},
                   line);
}

}  // namespace xplane_time::tools
