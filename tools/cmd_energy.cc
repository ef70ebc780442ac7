// energy: joules of kernels and functions, from a trace and a power log.
#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/numbers.h"
#include "energy/goal.h"
#include "no_match.h"
#include "output/results.h"
#include "process.h"
#include "status.h"
#include "trace_command.h"
#include "xplane_time/energy.h"

namespace xplane_time::tools {
namespace {

// Times are relative to the begin of the first layer.
insight::Timeline TimelineOfLayers(const LayerRuns& layers, const DeviceRef& device) {
  std::vector<LayerRun> runs = layers.runs;
  std::ranges::sort(runs, {},
                    [](const LayerRun& run) { return std::pair(run.start_ns, -run.end_ns); });
  insight::Timeline timeline;
  insight::TimelineLane& lane = timeline.lanes.emplace_back();
  lane.device = device;
  lane.line = "layers";
  std::map<std::string, uint32_t> names;
  for (const LayerRun& run : runs) {
    const auto [name, is_new] =
        names.try_emplace(run.layer, static_cast<uint32_t>(timeline.names.size()));
    if (is_new) timeline.names.push_back(run.layer);
    constexpr int64_t kPsPerNs = 1000;
    lane.Add((run.start_ns - runs[0].start_ns) * kPsPerNs, (run.end_ns - run.start_ns) * kPsPerNs,
             name->second);
  }
  return timeline;
}

class Energy : public TraceCommand {
 public:
  explicit Energy(CLI::App* app) : TraceCommand(app, {.executions = true, .perfetto = true}) {
    // Sensors are only aligned with the profile's clock, and all executions draw power.
    for (const char* option : {"--clock", "--min-duration", "--max-events"}) {
      app->remove_option(app->get_option(option));
    }
    const Heading own = Own();
    own.Value("--power", &energy_.power_log, "LOG",
              "Log of xplane-time power record (default: power counters of the trace)");
    own.List("--map", &map_, "N=ID",
             "Map device N of the trace to ID, a device of the log or a counter of the trace; a "
             "prefix of the name is enough");
    own.Value("--layers", &layers_, "FILE",
              "CSV with the times of layers (layer_name, start_time, end_time in UNIX seconds); "
              "without a TRACE, these layers ran on --device");
    own.Value("--layer-re", &energy_.layer_pattern, "RE",
              "Layer names: the first group of RE in the name scope (default: the whole scope)");
    own.Flag("--fold", &energy_.fold,
             "Add up the forward and the backward pass of a layer, jvp(layer) and "
             "transpose(jvp(layer)); --layer-re searches the folded scope");
    own.Value("--plan", &plan_, "FILE",
              "Plan of the experiment (from power plan); report whether its goal was reached (exit "
              "code 12 if not)");
    const Heading out(app_, kOut);
    out.Value("--table", &table_, "NAME",
              "Table for --format csv: devices, kernels, functions, layers, sources or groups "
              "(default kernels; without a TRACE layers)",
              CLI::IsMember(std::vector<std::string>{"devices", "kernels", "functions", "layers",
                                                     "sources", "groups"}));
    out.Value("--svg", &svg_path_, "FILE", "Also write a chart of power and layers over time");
  }

  absl::Status Check() override {
    RETURN_IF_ERROR(layers_.empty() || !traces_.empty() ? TraceCommand::Check()
                                                        : CheckLayersAlone());
    if (printing_.json_schema) return absl::OkStatus();
    if (printing_.how.format != output::Format::kCsv) {
      RETURN_IF_ERROR(Refuse({"--table"},
                             "applies only to --format csv; the other formats contain all tables"));
    }
    RETURN_IF_ERROR(CheckLayers());
    if (!plan_.empty()) files_.Reads("--plan", plan_);
    if (!svg_path_.empty()) files_.Prints("--svg", svg_path_);
    energy_.timelines =
        !svg_path_.empty() || printing_.how.format == output::Format::kHtml || prints_perfetto();
    if (energy_.power_log.empty() && traces_.empty()) {
      return UsageError("--power LOG is missing; record one with xplane-time power record");
    }
    if (!energy_.power_log.empty()) files_.Reads("--power", energy_.power_log);
    for (const std::string& each : map_) {
      const size_t equals = each.find('=');
      int32_t ordinal = 0;
      if (equals == each.npos || equals + 1 == each.size() ||
          !absl::SimpleAtoi(each.substr(0, equals), &ordinal) || ordinal < 0) {
        return UsageError("--map: '", each, "' is not N=ID, such as 0=GPU-8f6e");
      }
      const auto is_it = [&](const auto& other) { return other.second == each.substr(equals + 1); };
      if (std::ranges::any_of(energy_.map, is_it) && !energy_.map.contains(ordinal)) {
        return UsageError("--map: two devices are mapped to ", each.substr(equals + 1));
      }
      if (!energy_.map.emplace(ordinal, each.substr(equals + 1)).second) {
        return UsageError("--map: device ", ordinal, " is mapped twice");
      }
      printing_.how.given.push_back({"map", each});
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int> Run() override {
    if (!plan_.empty()) {
      ASSIGN_OR_RETURN(goal_, energy::ReadGoal(plan_));
    }
    if (!layers_.empty()) {
      ASSIGN_OR_RETURN(energy_.layers, ReadLayerRuns(layers_));
    }
    std::vector<GivenOption> given = GivenOptions(report_);
    if (energy_.fold) given.push_back({"fold", int64_t{1}});
    printing_.how.given.insert(printing_.how.given.begin(), given.begin(), given.end());
    energy_.trace = report_;
    if (traces_.empty()) {
      ASSIGN_OR_RETURN(EnergyReport report, AttributeLayers(energy_));
      return PrintAll(std::move(report), nullptr);
    }
    ASSIGN_OR_RETURN(const Opened opened, Open());
    const auto report = WithProgress(opened, [&](std::atomic<uint64_t>* events_done) {
      energy_.trace.events_done = events_done;
      return AttributeEnergy(opened.trace, energy_, opened.diagnostics);
    });
    RETURN_IF_ERROR(report.status());
    WarnOfLeftOut(report->diagnostics);
    if (!GivenFilters().empty() && report->kernels.empty()) {
      return NothingMatches(opened.trace, opened.diagnostics, report_, GivenFilters());
    }
    return PrintAll(*std::move(report), &opened);
  }

 private:
  // `opened` is null if there is no trace.
  absl::StatusOr<int> PrintAll(EnergyReport report, const Opened* opened) {
    bool is_reached = true;
    if (!plan_.empty()) {
      const energy::Verdict verdict = energy::Judge(goal_, report);
      is_reached = verdict.is_reached;
      EnergyFinding& finding = report.findings.emplace_back();
      finding.code = is_reached ? "precision_reached" : "precision_missed";
      finding.severity = is_reached ? "info" : "warning";
      finding.message = verdict.message;
    }
    if (!svg_path_.empty()) RETURN_IF_ERROR(WriteText(svg_path_, output::EnergySvg(report)));
    if (!prints_perfetto()) {
      RETURN_IF_ERROR(Print(output::EnergyOutput(report, printing_.how, table_)).status());
    } else if (opened != nullptr) {
      RETURN_IF_ERROR(PrintPerfetto(*opened, &report).status());
    } else {
      insight::Timeline timeline = TimelineOfLayers(energy_.layers, report.devices[0].device);
      RETURN_IF_ERROR(PrintPerfetto(std::move(timeline), &report, report.inputs).status());
    }
    return is_reached ? 0 : kExitTooLittle;
  }

  absl::Status CheckLayersAlone() {
    files_.PrintsOutput(printing_.path);
    const std::string without = "requires a TRACE";
    RETURN_IF_ERROR(Refuse({"--run", "--reader", "--threads", "--function", "--exclude", "--kernel",
                            "--exclude-kernel", "--scope", "--prefix", "--layer-re", "--fold"},
                           without));
    return CheckLayout();
  }

  absl::Status CheckLayers() {
    if (layers_.empty()) return absl::OkStatus();
    if (layers_ == "-") layers_ = "/dev/stdin";
    files_.Reads("--layers", layers_);
    return Refuse({"--layer-re", "--fold"}, "applies to name scopes, which --layers replaces");
  }

  EnergyOptions energy_;
  std::vector<std::string> map_;
  std::string layers_, svg_path_, plan_, table_;
  energy::Goal goal_;
};

}  // namespace

void AddEnergy(CommandLine* line) {
  line->Add<Energy>({"energy", "Energy of each kernel and function, from a power log",
                     R"(  xplane-time energy trace.xplane.pb --power power.jsonl
  xplane-time energy trace.xplane.pb --power power.jsonl --map 0=GPU-8f6e --format json
  xplane-time energy trace.xplane.pb --power power.jsonl --format csv --table functions
  xplane-time energy --layers layers.csv --power power.jsonl --device gpu:1
)"});
}

}  // namespace xplane_time::tools
