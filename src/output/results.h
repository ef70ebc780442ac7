// What each command prints: its result as data, and its view. A file a command.
//
// What is given outlives the Output.
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "output/output.h"
#include "xplane_time/compare.h"
#include "xplane_time/compat.h"
#include "xplane_time/pick.h"
#include "xplane_time/planes.h"
#include "xplane_time/power.h"
#include "xplane_time/report.h"

namespace xplane_time::output {

// The whole report; CSV has its function rows. Errors, as of the next two: InvalidArgument (sort).
absl::StatusOr<Output> ReportOutput(const Report& report, const OutputOptions& options);

// Functions a device and combined; `by_id`: Report::variants; `samples`: Report::samples. CSV has
// one of them: samples before variants before functions.
absl::StatusOr<Output> FunctionsOutput(const Report& report, const OutputOptions& options,
                                       bool by_id, bool samples);
absl::StatusOr<Output> KernelsOutput(const Report& report, const OutputOptions& options);
Output TreeOutput(const TreeReport& report, const OutputOptions& options);
// CSV has the lines, or, where the report has them, the stats.
Output PlanesOutput(const PlanesReport& report, const OutputOptions& options);

Output CompareOutput(const Comparison& comparison);
Output PickOutput(const PickResult& choice);

// The numbers of earlier tools (compat.h), with their own names and units.
Output CompatOutput(const compat::Answer& answer, const OutputOptions& options);

// What a grid emits for an energy, and what a building adds to it.
struct CarbonModel {
  std::optional<double> g_per_kwh = {};  // empty: nothing is modelled
  double pue = 1;                        // power usage effectiveness, at least 1
};
// Energies are `measured`; kWh and CO2e are `modelled`, only from a given intensity, of the total
// of a window. Unknown is null, an empty cell or "-", with its reason.
Output PowerOutput(const PowerSummary& summary, const CarbonModel& carbon);
// The run: power over time of each device, for a terminal and as SVG by itself (no scripts, no
// fonts from elsewhere). Gaps are shown as gaps.
std::string PowerPlot(const PowerSummary& summary, const OutputOptions& options);
std::string PowerSvg(const PowerSummary& summary);

// Sensors that are there, those that are not, and the way to them.
Output PowerSourcesOutput(const PowerInventory& inventory);

}  // namespace xplane_time::output
