// planes: what there is in a trace.
#include <algorithm>

#include "commands.h"
#include "output/results.h"
#include "status.h"
#include "trace_command.h"
#include "xplane_time/planes.h"

namespace xplane_time::tools {
namespace {

class Planes : public TextCommand {
 public:
  explicit Planes(CLI::App* app) : TextCommand(app, {}) {
    Own().Flag("--stats", &with_stats_, "List names, types and counts of stats");
  }

 protected:
  absl::StatusOr<std::string> Text(const Opened& opened) override {
    ASSIGN_OR_RETURN(
        PlanesReport report,
        DescribePlanes(opened.trace, {report_.device, with_stats_}, opened.diagnostics));
    WarnOfLeftOut(report.diagnostics);
    const size_t most = printing_.how.top.value_or(report.planes.size());
    report.planes.resize(std::min(most, report.planes.size()));
    return output::Render(output::PlanesOutput(report, printing_.how), printing_.how);
  }

 private:
  bool with_stats_ = false;
};

}  // namespace

void AddPlanes(CommandLine* line) {
  line->Add<Planes>(
      {"planes", "Planes, lines, event counts, time ranges", R"(  xplane-time planes trace.xplane.pb
  xplane-time planes trace.xplane.pb --stats
)"});
}

}  // namespace xplane_time::tools
