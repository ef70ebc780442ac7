// where: what each device's time went to.
#include <atomic>
#include <utility>

#include "output/results.h"
#include "trace_command.h"
#include "xplane_time/where.h"

namespace xplane_time::tools {
namespace {

class Where : public TraceCommand {
 public:
  explicit Where(CLI::App* app) : TraceCommand(app, {.unit = true}) {
    Own().Flag("--steps", &steps_, "Tables and CSV: one row a step and device");
  }

  absl::StatusOr<int> Run() override {
    ASSIGN_OR_RETURN(const Opened opened, Open());
    output::OutputOptions& how = printing_.how;
    how.given = GivenOptions(report_);
    if (how.top.has_value()) how.given.push_back({"top", static_cast<int64_t>(*how.top)});
    const auto report = WithProgress(opened, [&](std::atomic<uint64_t>* events_done) {
      return FindWhere(
          opened.trace,
          {.device = report_.device, .threads = report_.threads, .events_done = events_done},
          opened.diagnostics);
    });
    RETURN_IF_ERROR(report.status());
    WarnOfLeftOut(report->diagnostics);
    output::Output output = output::WhereOutput(*report, how, steps_);
    RETURN_IF_ERROR(AddTimeline(opened, &output));
    return Print(output);
  }

 private:
  bool steps_ = false;
};

}  // namespace

void AddWhere(CommandLine* line) {
  line->Add<Where>({"where", "What each device's time went to: work, exposed transfers, waiting",
                    R"(  xplane-time where trace.xplane.pb
  xplane-time where trace.xplane.pb --steps
  xplane-time where logdir --device all --format json -o where.json
)"});
}

}  // namespace xplane_time::tools
