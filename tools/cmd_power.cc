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

constexpr std::pair<absl::StatusCode, int> kRecorderExits[] = {
    {absl::StatusCode::kInternal, kExitCannotWrite},
    {absl::StatusCode::kFailedPrecondition, kExitNotThere}};  // no sensor

// Prints a message and adds it to the log.
void Note(PowerRecorder* recorder, std::string_view code, const std::string& message) {
  Tell(message);
  static_cast<void>(recorder->Note(code, message));
}

std::string CannotRun(const std::string& program, const CommandEnd& end) {
  return absl::StrCat(program, ": cannot run it: ", strerror(end.start_errno));
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
                         {"sources", "Which sensors there are, which not, and how to get them",
                          "  xplane-time power sources\n"
                          "  xplane-time power sources --source nvml,rapl --format json\n"}));
    AddRecord(AddAction(line, &Power::Record,
                        {.name = "record",
                         .help = "Readings while a command runs, after --",
                         .examples = R"(  xplane-time power record -- python train.py
  xplane-time power record --idle 10 -r 5 --log power.jsonl -- ./bench
  xplane-time power record --source nvml --duration 60 --plot
)",
                         .about_extra = "the command and its arguments come after --"}));
    CLI::App* const replay =
        AddAction(line, &Power::Replay,
                  {.name = "replay",
                   .help = "What a log says; nvidia-smi's CSV too",
                   .examples = R"(  xplane-time power replay power.jsonl --svg power.svg
  xplane-time power replay power.jsonl --co2 400 --pue 1.2 --format json
  xplane-time power replay nvidia-smi.csv --estimator trapezoid
)",
                   .about_extra = "one LOG at a time"});
    replay->add_option("LOG", log_path_, "What power record --log kept")->required();
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
          "power: which? sources, record, replay, run, calibrate, plan, clients or datasets; see "
          "xplane-time power "
          "--help");
    }
    if (plot_ && printing_.format != "table") {
      return UsageError("--plot is for the table; --svg for a picture");
    }
    const bool runs = !program_.empty();
    if (runs && action_ != &Power::Record) {
      return UsageError("only power record and power run have a command after --");
    }
    if (runs && duration_s_ > 0) {
      return UsageError("--duration is for recording without a command");
    }
    if (!runs && (repeat_ > 1 || idle_s_ > 0)) {
      return UsageError(
          "--repeat and --idle need a command: xplane-time power record -- COMMAND...");
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
              "Also how busy SMs, tensor cores and DRAM of NVIDIA GPUs are (Hopper "
              "and later)");
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
                    "Keep the readings there (docs/power-log.md)");
    recording.Value("--duration", &duration_s_, "S", "Without a command: so long [until Ctrl-C]",
                    Between(0.001, 100'000'000));
    recording.Value("--idle", &idle_s_, "S", "Before the command, measure so long what idle takes",
                    Between(0.001, 1'000'000));
    recording.Value("-r,--repeat", &repeat_, "N", "Run the command so often, a window each [1]",
                    CLI::Range(1, 1'000'000));
    recording
        .Taken<double>(
            "--period", [this](double ms) { record_.period_ns = std::llround(ms * 1e6); }, "MS",
            "Between readings [50 for nvml and hwmon, 10 for rapl, 100 for process]")
        ->check(Between(1, 1'000'000));
    recording.Value("--calibration", &calibration_path_, "FILE",
                    "What power calibrate wrote of these sensors, for the log's channels");
    AddSummary(app);
    Heading(app, kOut).Flag("--quiet", &printing_.quiet, "Errors only on standard error");
  }

  void AddSummary(CLI::App* app) {
    const Heading energy(app, "Energy"), out(app, kOut);
    energy.OneOf("--estimator", &summary_.estimator,
                 {"best", "counter", "held", "trapezoid", "endpoint-mean"},
                 "best (the counter, else held), counter, held, trapezoid or endpoint-mean [best]");
    CLI::Option* const co2 =
        energy.Value("--co2", &carbon_.g_per_kwh, "G",
                     "Grams of CO2e a kWh where it ran: adds Wh and CO2e, as modelled",
                     Between(0, 1'000'000'000));
    energy
        .Value("--pue", &carbon_.pue, "RATIO",
               "The building's energy over the machines', with --co2 [1]", Between(1, 100))
        ->needs(co2);
    out.Flag("--plot", &plot_, "With power over time");
    out.Value("--svg", &svg_path_, "FILE", "The same as a picture");
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
        "no sensor of power or energy here: energy stays unknown (xplane-time power sources says "
        "why, and how to get one)");
  }

  absl::StatusOr<Measured> Measure(PowerRecorder* recorder) const {
    if (program_.empty()) {
      constexpr double kForever = 1e8;
      if (duration_s_ == 0 && !printing_.quiet) Tell("recording; Ctrl-C ends it");
      const bool whole = SleepUnlessStopped(duration_s_ > 0 ? duration_s_ : kForever);
      if (whole || duration_s_ == 0) return Measured{};
      Note(recorder, "interrupted", "interrupted before --duration was over");
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
                        ": it left processes behind, which still run: what they use is not in "
                        "here; to measure a machine for a while: power record --duration S"));
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
                    .help = "Watts and joules of a command, a machine or a log",
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
