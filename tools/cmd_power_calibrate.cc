// power calibrate: determines how the sensors of this machine publish, with a load that is switched
// on and off.
#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "command.h"
#include "energy/calibration_log.h"
#include "output/results.h"
#include "power/machine.h"
#include "power/sources.h"
#include "process.h"
#include "status.h"
#include "xplane_time/power.h"

namespace xplane_time::tools {
namespace {

constexpr std::pair<absl::StatusCode, int> kLoadExits[] = {
    {absl::StatusCode::kNotFound, kExitNotThere},
    {absl::StatusCode::kFailedPrecondition, kExitNotThere},
    {absl::StatusCode::kCancelled, kExitInterrupted}};

// Not a multiple of usual publication periods, so that polls fall at all phases.
constexpr int64_t kGpuPollNs = 23'000'000, kPollNs = 1'100'000;
constexpr double kGetsReadyS = 300;  // a built-in load, which reports that it is ready

// A product is short, so the load stops soon after the signal. The code removes the current
// directory, which -c puts first, from the import path.
constexpr char kGpuLoad[] = R"(
import sys
if sys.path[0] == "":
    del sys.path[0]
import os, signal
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
try:
    import jax, jax.numpy as jnp
except ImportError as error:
    sys.exit(f"the GPU load requires JAX: {error}")
if jax.default_backend() == "cpu":
    sys.exit("the GPU load requires a JAX installation that finds a GPU")
a = jnp.ones((4096, 4096), jnp.bfloat16)
step = jax.jit(lambda b: jax.lax.fori_loop(0, 8, lambda i, c: c @ a * (1 / 4096), b))
step(a).block_until_ready()
os.kill(os.getpid(), signal.SIGSTOP)
while True:
    step(a).block_until_ready()
)";

constexpr char kCpuLoad[] =
    "i=0; while [ $i -lt $0 ]; do while :; do :; done & i=$((i+1)); done; kill -STOP $$; wait";

class PowerCalibrate : public Command {
 public:
  explicit PowerCalibrate(CLI::App* app) : Command(app) {
    app->add_option("LOG", log_path_, "Log written by --log; it replaces a new measurement");
    AddSensors(app, /*of_energy=*/true, "", &record_.from);
    const Heading load(app, "Load");
    load.OneOf("--load", &load_, {"auto", "gpu", "cpu"},
               "Load if no command is given: gpu (matrix products with JAX), cpu (all cores), or "
               "auto (gpu if there is a GPU sensor) (default auto)");
    load.Value(
        "--duration", &duration_s_, "S",
        "Duration of the measurement, during which the load is switched on and off, in seconds "
        "(default 30)",
        Between(5, 100'000));
    load.Value("--warm-up", &warm_up_s_, "S",
               "Maximum warm-up time of the command, in seconds; a command that stops itself "
               "(SIGSTOP) is ready at that moment (default 2)",
               Between(0, 100'000));
    load.Value("--log", &record_.log_path, "FILE",
               "Write the readings to FILE (docs/power-log.md)");
    printing_.AddFormat(app, kResultFormats);
    printing_.AddPath(app);
    printing_.AddMessages(app);
  }

  absl::Status Check() override {
    files_.ReadsReplayed(record_.from.sources);
    files_.Reads("LOG", log_path_);
    files_.Writes("--log", record_.log_path);
    files_.PrintsOutput(printing_.path);
    if (log_path_.empty()) return absl::OkStatus();
    if (!program_.empty())
      return UsageError("LOG already contains a load; no command is allowed after --");
    return Refuse({"--load", "--duration", "--warm-up", "--log", "--source"},
                  "requires a load that runs now; LOG already contains one");
  }

  std::string schema() const override { return "power-calibration"; }

  absl::StatusOr<int> Run() override {
    if (!log_path_.empty()) return PrintCalibrations(log_path_);
    RETURN_IF_ERROR(ChooseLoad());
    RememberStopSignals();
    const double most_s = Given(*app_, "--warm-up") || !is_built_in_ ? warm_up_s_ : kGetsReadyS;
    ASSIGN_OR_RETURN(const SwitchedCommand load,
                     WithExits(SwitchedCommand::Start(program_, most_s), kLoadExits));
    record_.command = is_built_in_ ? "" : absl::StrJoin(program_, " ");
    ASSIGN_OR_RETURN(const auto recorder, WithExits(PowerRecorder::Start(record_), kRecorderExits));
    RETURN_IF_ERROR(SwitchOnAndOff(load, recorder.get()));
    RETURN_IF_ERROR(WithExit(recorder->Stop(), kExitCannotWrite));
    return PrintCalibrations(recorder->log_path());
  }

 private:
  enum class Load : uint8_t { kAuto, kGpu, kCpu };

  // Chooses the load and the polling period. Returns an error if there is no sensor.
  absl::Status ChooseLoad() {
    const bool takes_what_is_there = record_.from.sources.empty();
    if (takes_what_is_there) record_.from.sources = power::SourceNames(/*of_energy=*/true);
    const PowerInventory inventory = ListPowerSources(record_.from);
    bool has_sensor = false, has_gpu = false;
    for (const PowerChannel& each : inventory.channels) {
      if (!IsPowerOrEnergy(each)) continue;
      has_sensor = true;
      has_gpu |= power::FactsOf(each.source).measures == power::Measures::kGpus;
    }
    if (!has_sensor) {
      std::string why = "no power or energy sensor to calibrate";
      for (const PowerAbsence& each : inventory.absences) {
        absl::StrAppend(&why, "; ", output::AbsenceLine(each));
      }
      return WithExit(FailedPrecondition(why), kExitNotThere);
    }
    // Keep only sources with channels, because a requested source without channels is an error.
    if (takes_what_is_there) {
      std::erase_if(record_.from.sources, [&](const std::string& source) {
        return std::ranges::count(inventory.channels, source, &PowerChannel::source) == 0;
      });
    }
    record_.period_ns = has_gpu ? kGpuPollNs : kPollNs;
    is_built_in_ = program_.empty();
    if (!is_built_in_) return absl::OkStatus();
    if (load_ == Load::kGpu || (load_ == Load::kAuto && has_gpu)) {
      program_ = {"python3", "-c", kGpuLoad};
    } else {
      program_ = {"sh", "-c", kCpuLoad, absl::StrCat(std::thread::hardware_concurrency())};
    }
    return absl::OkStatus();
  }

  // The load is on during windows of the log.
  absl::Status SwitchOnAndOff(const SwitchedCommand& load, PowerRecorder* recorder) const {
    stats::Random random(static_cast<uint64_t>(power::ClocksNow().monotonic_ns));
    if (!printing_.quiet) Tell(absl::StrCat("switching a load on and off for ", duration_s_, " s"));
    const auto interrupted = [] { return WithExit(Cancelled("interrupted"), kExitInterrupted); };
    if (!SleepUnlessStopped(energy::kIdleEndS)) return interrupted();
    bool on = false;
    for (const double length_s : energy::SquareWave(duration_s_, &random)) {
      on = !on;
      RETURN_IF_ERROR(on ? recorder->Begin(energy::kLoadWindow)
                         : recorder->End(energy::kLoadWindow));
      load.Switch(on);
      if (!SleepUnlessStopped(length_s)) return interrupted();
      if (load.HasEnded()) {
        return WithExit(
            FailedPrecondition(
                program_[0],
                ": the load ended before it was measured; it must run for the whole --duration"),
            kExitTooLittle);
      }
    }
    if (!SleepUnlessStopped(energy::kIdleEndS)) return interrupted();
    return absl::OkStatus();
  }

  absl::StatusOr<int> PrintCalibrations(const std::string& log_path) const {
    ASSIGN_OR_RETURN(const energy::SensorCalibrations found, energy::CalibrateLog(log_path));
    RETURN_IF_ERROR(Print(output::PowerCalibrationOutput(found)).status());
    const bool any = std::ranges::any_of(
        found.sensors, [](const auto& each) { return each.found.lag_s.has_value(); });
    return any ? 0 : kExitTooLittle;
  }

  std::string log_path_;  // the log to read
  PowerRecordOptions record_;
  Load load_ = Load::kAuto;
  bool is_built_in_ = false;
  double duration_s_ = 30, warm_up_s_ = 2;
};

}  // namespace

void AddPowerCalibrate(CommandLine* line, CLI::App* parent) {
  line->Add<PowerCalibrate>({.name = "calibrate",
                             .help = "Measure the period, window and lag of this machine's sensors",
                             .examples = R"(  xplane-time power calibrate -o calibration.json
  xplane-time power calibrate --duration 60 -- ./burn
  xplane-time power calibrate kept.jsonl
  xplane-time power record --calibration calibration.json -- ./bench
)",
                             .runs_program = true,
                             .about_extra = "the command and its arguments follow --",
                             .parent = parent});
}

}  // namespace xplane_time::tools
