// energy: joules of kernels and functions, from a trace and a power log.
#include <map>
#include <vector>

#include "absl/strings/numbers.h"
#include "output/results.h"
#include "progress.h"
#include "status.h"
#include "trace_command.h"
#include "xplane_time/energy.h"

namespace xplane_time::tools {
namespace {

class Energy : public TraceCommand {
 public:
  explicit Energy(CLI::App* app) : TraceCommand(app, {.executions = true}) {
    // Sensors know the profile's clock only, and all that ran draws power.
    for (const char* option : {"--clock", "--min-duration", "--max-events"}) {
      app->remove_option(app->get_option(option));
    }
    const Heading own = Own();
    own.Value("--power", &energy_.power_log, "LOG", "The log of xplane-time power record");
    own.List("--map", &map_, "N=ID", "Device N of the trace is ID of the log, or what begins so");
  }

  absl::Status Check() override {
    RETURN_IF_ERROR(TraceCommand::Check());
    if (printing_.json_schema) return absl::OkStatus();
    if (energy_.power_log.empty()) {
      return UsageError("--power LOG is missing; xplane-time power record writes one");
    }
    files_.Reads("--power", energy_.power_log);
    for (const std::string& each : map_) {
      const size_t equals = each.find('=');
      int32_t ordinal = 0;
      if (equals == each.npos || equals + 1 == each.size() ||
          !absl::SimpleAtoi(each.substr(0, equals), &ordinal) || ordinal < 0) {
        return UsageError("--map: '", each, "' is not N=ID, as in 0=GPU-8f6e");
      }
      if (!energy_.map.emplace(ordinal, each.substr(equals + 1)).second) {
        return UsageError("--map: device ", ordinal, " is named twice");
      }
      printing_.how.given.push_back({"map", each});
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int> Run() override {
    ASSIGN_OR_RETURN(const Opened opened, Open());
    const std::vector<GivenOption> given = GivenOptions(report_);
    printing_.how.given.insert(printing_.how.given.begin(), given.begin(), given.end());
    if (const auto top = printing_.how.top) {
      printing_.how.given.push_back({"top", static_cast<int64_t>(*top)});
    }
    std::atomic<uint64_t> events_done{0};
    energy_.trace = report_;
    energy_.trace.events_done = &events_done;
    absl::StatusOr<EnergyReport> report;
    {
      const ReadingProgress progress(printing_, opened.trace.event_count, &events_done);
      report = AttributeEnergy(opened.trace, energy_, opened.diagnostics);
    }
    RETURN_IF_ERROR(report.status());
    WarnOfLeftOut(report->diagnostics);
    if (const std::string filters = GivenFilters(); !filters.empty() && report->kernels.empty()) {
      return FailedPrecondition(report->inputs[0].path, ": no execution matches ", filters,
                                "; run without filters to see what is there");
    }
    return Print(output::EnergyOutput(*report, printing_.how));
  }

 private:
  EnergyOptions energy_;
  std::vector<std::string> map_;
};

}  // namespace

void AddEnergy(CommandLine* line) {
  line->Add<Energy>({"energy", "Joules of each kernel and function, with a power log",
                     R"(  xplane-time energy trace.xplane.pb --power power.jsonl
  xplane-time energy trace.xplane.pb --power power.jsonl --map 0=GPU-8f6e --format json
)"});
}

}  // namespace xplane_time::tools
