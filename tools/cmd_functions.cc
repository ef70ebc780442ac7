#include <algorithm>

#include "commands.h"

namespace xplane_time::tools {

absl::StatusOr<std::string> RunFunctions(const Options& options, const Opened& opened) {
  auto report = MakeReport(options, opened);
  if (!report.ok()) return report.status();
  const size_t most = options.output.top.value_or(report->samples.size());
  report->samples.resize(std::min(most, report->samples.size()));
  return output::Render(
      output::FunctionsOutput(*report, options.output, options.by_id, options.samples),
      options.output);
}

}  // namespace xplane_time::tools
