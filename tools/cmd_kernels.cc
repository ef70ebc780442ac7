#include "commands.h"

namespace xplane_time::tools {

absl::StatusOr<std::string> RunKernels(const Options& options, const Opened& opened) {
  auto report = MakeReport(options, opened);
  if (!report.ok()) return report.status();
  return output::Render(output::KernelsOutput(*report, options.output), options.output);
}

}  // namespace xplane_time::tools
