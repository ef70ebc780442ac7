// power plan: plans an experiment that determines the energy of kernels with a given precision.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <re2/re2.h>

#include "energy/plan_sensor.h"
#include "output/results.h"
#include "process.h"
#include "status.h"
#include "trace_command.h"

namespace xplane_time::tools {
namespace {

constexpr double kPsPerS = 1e12;

// Parses "matmul=120us".
absl::StatusOr<energy::PlanKernel> ParseKernel(const std::string& text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  energy::PlanKernel kernel;
  std::string unit;
  static const RE2 kForm(R"((.+)=([0-9]{1,9}(?:\.[0-9]*)?)(ns|us|ms|s))");
  if (RE2::FullMatch(text, kForm, &kernel.name, &kernel.duration_s, &unit)) {
    kernel.duration_s *= std::ranges::find(kUnits, unit, [](const auto& each) {
                           return std::string(each.first);
                         })->second;
  }
  if (!(kernel.duration_s >= 1e-9)) {
    return InvalidArgument("'", text, "' is not a kernel with its time; write matmul=120us");
  }
  return kernel;
}

class PowerPlan : public TraceCommand {
 public:
  explicit PowerPlan(CLI::App* app) : TraceCommand(app, {.columns = false}) {
    Own()
        .Taken<std::vector<std::string>>(
            "--kernel", [this](const std::vector<std::string>& texts) { given_ = texts; },
            "NAME=TIME", "Kernel and its duration, such as matmul=120us; instead of a TRACE")
        ->allow_extra_args(false)
        ->check([](const std::string& text) {
          return std::string(ParseKernel(text).status().message());
        });
    Own().Share("--precision", &options_.precision, "Target precision of each energy (default 1%)");
    Own().Value("--sensor", &sensor_path_, "FILE",
                "Calibration written by power calibrate, or a power log (default: known properties "
                "of this machine's sensor model)");
    Own().Value("--most", &options_.most_s, "S",
                "Maximum duration of the experiment, in seconds (default 3600)",
                Between(1, 100'000));
    Own().Count("--seed", &options_.seed, "Seed of orders, lengths and pauses");
    AddSensorPlaces({app, kSensors}, &from_);
  }

  absl::Status Check() override {
    files_.Reads("--sensor", sensor_path_);
    for (const std::string& text : given_) {
      ASSIGN_OR_RETURN(energy::PlanKernel kernel, ParseKernel(text));
      if (std::ranges::count(kernels_, kernel.name, &energy::PlanKernel::name) > 0) {
        return UsageError("--kernel: ", kernel.name, " is given twice");
      }
      kernels_.push_back(std::move(kernel));
    }
    if (!kernels_.empty() && !traces_.empty()) {
      return UsageError("--kernel and TRACE exclude each other");
    }
    if (options_.precision <= 0 || options_.precision >= 1) {
      return UsageError("--precision must be above 0 and below 100%");
    }
    if (kernels_.empty()) return TraceCommand::Check();
    files_.PrintsOutput(printing_.path);
    return CheckLayout();
  }

  std::string schema() const override { return "power-plan"; }

  absl::StatusOr<int> Run() override {
    energy::PlannedExperiment experiment;
    experiment.kernels = kernels_;
    options_.threads = report_.threads;
    experiment.options = options_;
    if (kernels_.empty()) {
      ASSIGN_OR_RETURN(experiment.kernels, KernelsOfTrace());
    }
    ASSIGN_OR_RETURN(experiment.by, Sensor());
    experiment.plan = energy::PlanExperiment(experiment.kernels, experiment.by.sensor, options_);
    if (experiment.plan.steps.empty()) {
      return WithExit(
          FailedPrecondition("no experiment with ", experiment.kernels.size(),
                             experiment.kernels.size() == 1 ? " kernel" : " kernels", " fits into ",
                             options_.most_s, " s; allow more with --most"),
          kExitTooLittle);
    }
    RETURN_IF_ERROR(Print(output::PowerPlanOutput(experiment)).status());
    return experiment.plan.is_reached ? 0 : kExitTooLittle;
  }

 private:
  // The kernels with at least 1 % of the time; further kernels would cost more time than they are
  // worth.
  absl::StatusOr<std::vector<energy::PlanKernel>> KernelsOfTrace() const {
    ASSIGN_OR_RETURN(const Opened opened, Open());
    ASSIGN_OR_RETURN(const Report report, BuildReport(opened.trace, report_, opened.diagnostics));
    WarnOfLeftOut(report.diagnostics);
    constexpr double kLeastShare = 0.01;
    struct Total {
      double total_ps = 0, count = 0;
    };
    // By name and program, over all devices: kernels of the same name may differ between programs.
    using Key = std::array<std::string, 3>;
    std::vector<std::pair<Key, Total>> totals;
    double all_ps = 0;
    for (const KernelRow& row : report.kernels) {
      const Key key = {row.kernel, row.function.value_or(""), row.program_id.value_or("")};
      auto at = std::ranges::find(totals, key, [](const auto& each) { return each.first; });
      if (at == totals.end()) at = totals.insert(at, {key, {}});
      at->second.total_ps += static_cast<double>(row.total_ps);
      at->second.count += static_cast<double>(row.count);
      all_ps += static_cast<double>(row.total_ps);
    }
    std::vector<energy::PlanKernel> kernels;
    for (const auto& [key, total] : totals) {
      if (total.total_ps < kLeastShare * all_ps || total.total_ps <= 0) continue;
      kernels.push_back({key[0], total.total_ps / total.count / kPsPerS, key[1]});
    }
    if (kernels.empty())
      return FailedPrecondition(traces_[0], ": the trace contains no executions of kernels");
    return kernels;
  }

  absl::StatusOr<energy::PlannedFor> Sensor() const {
    if (!sensor_path_.empty()) return energy::SensorOfFile(sensor_path_);
    auto by = energy::SensorOfChip(ListPowerSources(from_).channels);
    if (by.ok()) return by;
    return WithExit(FailedPrecondition(by.status().message(),
                                       "; with --sensor FILE, give the output of power calibrate, "
                                       "or a power log, from the machine to measure"),
                    kExitNotThere);
  }

  std::vector<std::string> given_;
  std::vector<energy::PlanKernel> kernels_;
  std::string sensor_path_;
  PowerSourceOptions from_;
  energy::PlanOptions options_;
};

}  // namespace

void AddPowerPlan(CommandLine* line, CLI::App* parent) {
  line->Add<PowerPlan>(
      {.name = "plan",
       .help = "Plan an experiment: repetitions and order of kernels for a target precision",
       .examples = R"(  xplane-time power plan t.xplane.pb --precision 1%
  xplane-time power plan --sensor s.json --kernel matmul=120us --kernel gelu=8us
  xplane-time power plan t.xplane.pb --sensor p.jsonl --seed 7 -o plan.json
)",
       .parent = parent});
}

}  // namespace xplane_time::tools
