#include "commands.h"
#include "xplane_time/planes.h"

namespace xplane_time::tools {

absl::StatusOr<std::string> RunPlanes(const Options& options, const Opened& opened) {
  auto report =
      DescribePlanes(opened.trace, {options.report.device, options.with_stats}, opened.diagnostics);
  if (!report.ok()) return report.status();
  return output::RenderPlanes(*report, options.output);
}

}  // namespace xplane_time::tools
