#include "commands.h"

namespace xplane_time::tools {

absl::StatusOr<std::string> RunFunctions(const Options& options, const Opened& opened) {
  auto report = BuildReport(opened.trace, options.report, opened.diagnostics);
  if (!report.ok()) return report.status();
  return output::RenderFunctions(*report, options.output, options.by_id, options.samples);
}

}  // namespace xplane_time::tools
