#include "commands.h"
#include "xplane_time/planes.h"

namespace xplane_time::tools {

absl::StatusOr<std::string> RunPlanes(const Options& options, const Opened& opened) {
  auto report =
      DescribePlanes(opened.trace, {options.report.device, options.with_stats}, opened.diagnostics);
  if (!report.ok()) return report.status();
  WarnOfLeftOut(options, report->diagnostics);
  const size_t most = options.output.top.value_or(report->planes.size());
  report->planes.resize(std::min(most, report->planes.size()));
  return output::Render(output::PlanesOutput(*report, options.output), options.output);
}

}  // namespace xplane_time::tools
