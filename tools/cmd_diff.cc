// diff: the changes between two sides, kernel by kernel; the rows add up to the total change.
#include <string>
#include <vector>

#include "output/results.h"
#include "status.h"
#include "trace_command.h"
#include "xplane_time/diff.h"

namespace xplane_time::tools {
namespace {

class DiffCommand : public TraceCommand {
 public:
  explicit DiffCommand(CLI::App* app)
      : TraceCommand(app, {.traces = false, .categories = true, .unit = true, .progress = false}) {
    sides_.AddTo(app, "each a trace (file, run or log directory)");
    const Heading own = Own(), select(app, kSelect), time(app, kTime), decision(app, kDecision);
    own.Parsed("--per", &diff_.per, "NAME",
               "Unit of comparison: step (marked steps), run (of each function) or capture "
               "(default: the first that all captures have)",
               ParseDiffPer);
    select.Value("--function", &report_.function, "RE",
                 "Include only runs of functions that match (RE2, unanchored)");
    select.Value("--exclude", &report_.exclude, "RE", "Exclude functions that match");
    select.Value("--prefix", &report_.prefix, "TEXT",
                 "Include only functions with names that start with TEXT");
    time.Count("--skip-runs", &report_.skip_runs,
               "Exclude the first N runs of each function and device, or the first N steps");
    CompareOptions& d = diff_.decision;
    decision.Share("--min-effect", &d.min_effect,
                   "Ignore changes of a row up to this share of its time (default 1%)");
    decision.Share("--alpha", &d.alpha,
                   "Maximum probability, over all rows together, of reporting a change in an "
                   "unchanged program (default 0.1%)");
    TwoSides::AddCaptures(decision, &d);
  }

  absl::Status Check() override {
    sides_.NameFiles(find_, &files_);
    files_.PrintsOutput(printing_.path);
    if (!printing_.json_schema) RETURN_IF_ERROR(sides_.Check("diff", find_));
    return CheckLayout();
  }

  absl::StatusOr<int> Run() override {
    RETURN_IF_ERROR(CheckFilters());
    RecordOptions();
    diff_.select = report_;
    diff_.find = find_;
    diff_.read = read_;
    diff_.read.leave_out_damaged_hosts = true;
    absl::StatusOr<DiffReport> report = FindDiff(sides_.base(), sides_.head(), diff_);
    RETURN_IF_ERROR(report.status());
    WarnOfLeftOut(report->diagnostics);
    return Print(output::DiffOutput(*report, printing_.how));
  }

 private:
  void RecordOptions() {
    std::vector<GivenOption>& given = printing_.how.given;
    given = GivenOptions(report_);
    if (diff_.per.has_value()) given.push_back({"per", std::string(DiffPerName(*diff_.per))});
    if (printing_.how.top.has_value()) {
      given.push_back({"top", static_cast<int64_t>(*printing_.how.top)});
    }
  }

  TwoSides sides_;
  DiffOptions diff_;
};

}  // namespace

void AddDiff(CommandLine* line) {
  line->Add<DiffCommand>({"diff",
                          "Show the change of each kernel; the rows add up to the total change",
                          R"(  xplane-time diff base.xplane.pb head.xplane.pb
  xplane-time diff base.xplane.pb head.xplane.pb --function jit_train --top 20
  xplane-time diff --base base*.xplane.pb --head head*.xplane.pb --format markdown
)"});
}

}  // namespace xplane_time::tools
