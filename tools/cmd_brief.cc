// brief: the main findings of a trace, in a few sentences.
#include <atomic>
#include <utility>
#include <vector>

#include "output/results.h"
#include "status.h"
#include "trace_command.h"
#include "xplane_time/brief.h"

namespace xplane_time::tools {
namespace {

class Brief : public TraceCommand {
 public:
  explicit Brief(CLI::App* app)
      : TraceCommand(app, {.categories = true, .rows = false, .columns = false}) {
    const Heading own = Own();
    own.Count("--limit,--top", &size_.findings, "Maximum number of findings (default 5)");
    own.Value(
        "--bytes", &size_.bytes, "N",
        "Maximum size of the output in bytes; findings are omitted from the last on, then all "
        "but the headline",
        CLI::Range(size_t{output::kLeastBriefBytes}, size_t{1} << 30));
    AddStepNames();
  }

  absl::Status Check() override {
    RETURN_IF_ERROR(TraceCommand::Check());
    return printing_.how.is_file() ? Refuse({"--bytes"}, "applies only to text formats")
                                   : absl::OkStatus();
  }

  absl::StatusOr<int> Run() override {
    ASSIGN_OR_RETURN(const Opened opened, Open());
    printing_.how.given = GivenOptions(report_);
    const auto report = WithProgress(opened, [&](std::atomic<uint64_t>* events_done) {
      return FindBrief(opened.trace,
                       {.device = report_.device,
                        .categories = report_.categories,
                        .step = report_.step,
                        .threads = report_.threads,
                        .events_done = events_done,
                        .arguments = Arguments()},
                       opened.diagnostics);
    });
    RETURN_IF_ERROR(report.status());
    WarnOfLeftOut(report->diagnostics);
    ASSIGN_OR_RETURN(const std::string text,
                     output::BriefText(*report, size_, printing_.how,
                                       [&](const auto& output) { return Rendered(output); }));
    return Print(text);
  }

 private:
  // Arguments for the commands that a brief recommends.
  std::vector<std::string> Arguments() const {
    std::vector<std::string> arguments = traces_;
    if (!find_.run.empty()) arguments.insert(arguments.end(), {"--run", find_.run});
    return arguments;
  }

  output::BriefSize size_;
};

}  // namespace

void AddBrief(CommandLine* line) {
  line->Add<Brief>({"brief", "List the main findings, their possible savings and reasons",
                    R"(  xplane-time brief trace.xplane.pb
  xplane-time brief logdir --limit 3 --bytes 1000
  xplane-time brief trace.xplane.pb --format json
)"});
}

}  // namespace xplane_time::tools
