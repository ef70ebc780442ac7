// kernels: one row a kernel or op and device.
#include "commands.h"
#include "output/results.h"
#include "status.h"
#include "timing/filters.h"
#include "trace_command.h"

namespace xplane_time::tools {
namespace {

class Kernels : public TextCommand {
 public:
  explicit Kernels(CLI::App* app)
      : TextCommand(app, {.executions = true, .tolerance = true, .sort = true}) {
    Own().Value("--within", &within_, "RE", "Only kernels of functions that match");
  }

  absl::Status Check() override {
    if (!within_.empty()) {
      if (!report_.function.empty()) {
        return UsageError("--within and --function are the same: give one");
      }
      RETURN_IF_ERROR(NameFilter::Compile("--within", within_).status());
      report_.function = within_;
    }
    return TextCommand::Check();
  }

 protected:
  absl::StatusOr<std::string> Text(const Opened& opened) override {
    ASSIGN_OR_RETURN(const Report report, MakeReport(opened));
    return output::Render(output::KernelsOutput(report, printing_.how), printing_.how);
  }

 private:
  std::string within_;
};

}  // namespace

void AddKernels(CommandLine* line) {
  line->Add<Kernels>({"kernels", "One row a kernel or op and device",
                      R"(  xplane-time kernels trace.xplane.pb --top 20
  xplane-time kernels trace.xplane.pb --within jit_train --sort self
  xplane-time kernels trace.xplane.pb --exclude jit_init --format markdown
)"});
}

}  // namespace xplane_time::tools
