// report: the whole of a trace; what is meant where no command is named.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "commands.h"
#include "near_names.h"
#include "output/results.h"
#include "status.h"
#include "trace_command.h"

namespace xplane_time::tools {
namespace {

class ReportCommand : public CompatibleCommand {
 public:
  explicit ReportCommand(CLI::App* app)
      : CompatibleCommand(app,
                          {.executions = true, .tolerance = true, .runs = true, .sort = true}) {
    AddCompat();
    Own().Flag("--samples", &report_.samples, "In JSON: one row a run as well");
  }

  absl::StatusOr<int> Run() override {
    auto done = CompatibleCommand::Run();
    if (!absl::IsNotFound(done.status()) || !MayBeACommand()) return done;
    const std::vector<std::string> commands = CommandNames(*app_->get_parent()),
                                   near = NearNames(traces_[0], commands, 1);
    return NotFound(
        done.status().message(), near.empty() ? "; if a command is meant: " : "; did you mean the ",
        near.empty() ? absl::StrJoin(commands, ", ") : absl::StrCat("command ", near[0], "?"));
  }

 protected:
  absl::Status CheckOwn() const override {
    RETURN_IF_ERROR(CheckMetricOfCsv());
    if (printing_.how.format == output::Format::kJson) return absl::OkStatus();
    return Refuse(
        *app_, {"--samples"},
        "is for --format json; xplane-time functions --samples shows runs as a table or CSV");
  }

  absl::StatusOr<std::string> OwnText(const Opened& opened) override {
    ASSIGN_OR_RETURN(const Report report, MakeReport(opened));
    return output::Render(output::ReportOutput(report, printing_.how), printing_.how);
  }

 private:
  // A mistyped command reads as a trace.
  bool MayBeACommand() const {
    return traces_[0].find_first_of("./") == std::string::npos &&
           !std::filesystem::exists(traces_[0]);
  }
};

}  // namespace

void AddReport(CommandLine* line) {
  line->Add<ReportCommand>({"report", "Capture, devices, functions, kernels, problems (default)",
                            R"(  xplane-time trace.xplane.pb
  xplane-time logdir --device gpu:0 --format json -o report.json
  xplane-time run1.xplane.pb run2.xplane.pb
)"});
}

}  // namespace xplane_time::tools
