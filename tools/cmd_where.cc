// where: how each device's time was spent.
#include <atomic>
#include <utility>

#include "insight/timeline.h"
#include "output/page/timeline_data.h"
#include "output/results.h"
#include "status.h"
#include "trace_command.h"
#include "xplane_time/where.h"

namespace xplane_time::tools {
namespace {

class Where : public TraceCommand {
 public:
  explicit Where(CLI::App* app) : TraceCommand(app, {.categories = true, .unit = true}) {
    Own().Flag("--steps", &steps_, "Tables and CSV: print one row per step and device");
    Own().Flag("--gaps", &gaps_,
               "List the idle gaps of the devices, the longest first, with the kernels around them "
               "and the host's activity; CSV: one row per gap. --top N limits them (default: 10 in "
               "tables, otherwise at most 10,000 of each device)");
    AddStepNames();
  }

  absl::Status Check() override {
    if (steps_ && gaps_) return UsageError("--steps and --gaps exclude each other");
    return TraceCommand::Check();
  }

  absl::StatusOr<int> Run() override {
    ASSIGN_OR_RETURN(const Opened opened, Open());
    output::OutputOptions& how = printing_.how;
    how.given = GivenOptions(report_);
    if (how.top.has_value()) how.given.push_back({"top", static_cast<int64_t>(*how.top)});
    insight::Timeline timeline;
    const bool is_page = how.format == output::Format::kHtml;
    const auto report = WithProgress(
        opened, [&](std::atomic<uint64_t>* events_done) -> absl::StatusOr<WhereReport> {
          WhereOptions options;
          options.device = report_.device;
          options.categories = report_.categories;
          options.step = report_.step;
          options.threads = report_.threads;
          options.events_done = events_done;
          if (gaps_) options.gaps = MaxGaps();
          if (!is_page) return FindWhere(opened.trace, options, opened.diagnostics);
          ASSIGN_OR_RETURN(
              insight::WhereAndTimeline both,
              insight::FindWhereAndTimeline(opened.trace, options, opened.diagnostics));
          timeline = std::move(both.timeline);
          return std::move(both.where);
        });
    RETURN_IF_ERROR(report.status());
    WarnOfLeftOut(report->diagnostics);
    using output::WhereRows;
    output::Output output = output::WhereOutput(*report, how,
                                                steps_  ? WhereRows::kSteps
                                                : gaps_ ? WhereRows::kGaps
                                                        : WhereRows::kDevices);
    if (is_page) output.timeline = output::TimelineData(std::move(timeline));
    return Print(output);
  }

 private:
  size_t MaxGaps() const {
    constexpr size_t kMaxGaps = 10'000;  // of a device
    constexpr size_t kMaxInTable = 10;
    const output::Format format = printing_.how.format;
    const bool is_text = format == output::Format::kTable || format == output::Format::kMarkdown;
    return printing_.how.top.value_or(is_text ? kMaxInTable : kMaxGaps);
  }

  bool steps_ = false, gaps_ = false;
};

}  // namespace

void AddWhere(CommandLine* line) {
  line->Add<Where>({"where", "Divide each device's time into work, exposed transfers and waiting",
                    R"(  xplane-time where trace.xplane.pb
  xplane-time where trace.xplane.pb --steps
  xplane-time where trace.xplane.pb --gaps --top 20
  xplane-time where trace.json --steps --step-re '^execute_context'
  xplane-time where logdir --device all --format json -o where.json
)"});
}

}  // namespace xplane_time::tools
