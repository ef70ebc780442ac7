// functions: one row a compiled function and device, a run, or a variant.
#include <algorithm>

#include "commands.h"
#include "output/results.h"
#include "status.h"
#include "trace_command.h"

namespace xplane_time::tools {
namespace {

class Functions : public CompatibleCommand {
 public:
  explicit Functions(CLI::App* app)
      : CompatibleCommand(app, {.executions = true, .runs = true, .sort = true}) {
    AddCompat();
    const Heading own = Own();
    own.Flag("--samples", &report_.samples, "One row a run");
    own.Flag("--by-id", &report_.by_variant, "One row a variant id");
  }

  absl::Status Check() override {
    if (report_.samples && report_.by_variant) {
      return UsageError("--samples and --by-id exclude each other");
    }
    return CompatibleCommand::Check();
  }

 protected:
  std::string columns_of() const override { return report_.samples ? "samples" : "functions"; }

  absl::Status CheckOwn() const override {
    if (report_.samples && printing_.how.format != output::Format::kJson) {
      RETURN_IF_ERROR(
          Refuse(*app_, {"--sort"},
                 "means nothing with --samples, whose rows are in the order of their starts"));
      if (report_.trim.policy == Trim::Policy::kKeepAll) {
        RETURN_IF_ERROR(Refuse(
            *app_, {"--metric"},
            "means nothing with --samples, whose rows have all three; --trim would look at it"));
      }
    }
    return CheckMetricOfCsv();
  }

  absl::StatusOr<std::string> OwnText(const Opened& opened) override {
    ASSIGN_OR_RETURN(Report report, MakeReport(opened));
    const size_t most = printing_.how.top.value_or(report.samples.size());
    report.samples.resize(std::min(most, report.samples.size()));
    return output::Render(
        output::FunctionsOutput(report, printing_.how, report_.by_variant, report_.samples),
        printing_.how);
  }
};

}  // namespace

void AddFunctions(CommandLine* line) {
  line->Add<Functions>({"functions", "One row a compiled function and device",
                        R"(  xplane-time functions trace.xplane.pb --device gpu
  xplane-time functions trace.xplane.pb --by-id --format csv
  xplane-time functions trace.xplane.pb --function '^jit_step$' --samples
)"});
}

}  // namespace xplane_time::tools
