#include "commands.h"

namespace xplane_time::tools {

absl::StatusOr<std::string> RunTree(const Options& options, const Opened& opened) {
  if (!options.output.sort.empty() && options.output.sort != "total") {
    return absl::InvalidArgumentError("--sort " + options.output.sort +
                                      ": a tree is ordered by total only");
  }
  TreeOptions tree;
  tree.select = options.report;
  tree.line = options.line;
  tree.name = options.name;
  tree.max_depth = options.depth;
  auto report = BuildTree(opened.trace, tree, opened.diagnostics);
  if (!report.ok()) return report.status();
  WarnOfLeftOut(options, report->diagnostics);
  return output::Render(output::TreeOutput(*report, options.output), options.output);
}

}  // namespace xplane_time::tools
