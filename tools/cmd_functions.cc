#include "commands.h"

namespace xplane_time::tools {

absl::StatusOr<std::string> RunFunctions(const Options& options, const Opened& opened) {
  auto report = MakeReport(options, opened);
  if (!report.ok()) return report.status();
  return output::RenderFunctions(*report, options.output, options.by_id, options.samples);
}

}  // namespace xplane_time::tools
