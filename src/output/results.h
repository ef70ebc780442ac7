// The output of each command: its result as data, and its view. One file per command.
//
// Arguments must outlive the Output.
#pragma once

#include "output/output.h"
#include "xplane_time/brief.h"
#include "xplane_time/compare.h"
#include "xplane_time/compat.h"
#include "xplane_time/diff.h"
#include "xplane_time/energy.h"
#include "xplane_time/fleet.h"
#include "xplane_time/headroom.h"
#include "xplane_time/pick.h"
#include "xplane_time/power.h"
#include "xplane_time/where.h"

namespace xplane_time {
struct ClientKind;
}
namespace xplane_time::energy {
struct SensorCalibrations;
struct PlannedExperiment;
}  // namespace xplane_time::energy
namespace xplane_time {
struct DatasetFormat;
}

namespace xplane_time::output {

// Sorts the rows of a report by `options` (trace_views.h), for the next three functions. Valid keys
// of `sort`: for kReport those of functions and of kernels; rows without the key keep their order by
// time. Errors: InvalidArgument, with the valid keys.
enum class SortKeys { kReport, kFunctions, kKernels };
absl::Status OrderReport(const OutputOptions& options, SortKeys keys, Report* report);

// The whole report; CSV has its function rows.
Output ReportOutput(const Report& report, const OutputOptions& options);

// Functions a device and combined; `by_id`: Report::variants; `samples`: Report::samples. CSV has
// one of them: samples before variants before functions.
Output FunctionsOutput(const Report& report, const OutputOptions& options, bool by_id,
                       bool samples);
// To the view of functions: a histogram of each one's runs, which the report has as samples.
void AddDistributions(const Report& report, Output* output);
Output KernelsOutput(const Report& report, const OutputOptions& options);
Output TreeOutput(const TreeReport& report, const OutputOptions& options);
// The rows of the tables and of CSV: devices, steps or idle gaps. With kGaps, the gaps of all
// devices are sorted by length, and `top` limits them.
enum class WhereRows : uint8_t { kDevices, kSteps, kGaps };
Output WhereOutput(const WhereReport& report, const OutputOptions& options, WhereRows shown);
// CSV has the lines, or the stats if the report has them. `all`: the total number of planes; the
// report has the first of them.
Output PlanesOutput(const PlanesReport& report, const OutputOptions& options, size_t all = 0);

// CSV has its ops.
Output HeadroomOutput(const HeadroomReport& report, const OutputOptions& options);

// Its first findings; CSV has them. `by_bytes`: because no more of them fit.
Output BriefOutput(const BriefReport& report, size_t most_findings, const OutputOptions& options,
                   bool by_bytes = false, bool with_ops = true);
// How much of a brief is printed.
struct BriefSize {
  size_t findings = 5;
  size_t bytes = SIZE_MAX;  // of the text; at least kLeastBriefBytes
};
inline constexpr size_t kLeastBriefBytes = 64;
// In the format of `options`, in which `render` renders; CSV has the findings. Errors:
// InvalidArgument: JSON or CSV of no finding is larger.
using RenderOutput = std::function<absl::StatusOr<std::string>(const Output&)>;
absl::StatusOr<std::string> BriefText(const BriefReport& report, const BriefSize& size,
                                      const OutputOptions& options,
                                      const RenderOutput& render = {});  // {}: Render

// CSV has its rows.
Output DiffOutput(const DiffReport& report, const OutputOptions& options);
// Parts of its view, for others: what changed, the sum, functions; and that in one line.
std::vector<Section> DiffSections(const DiffReport& report, const OutputOptions& options);
std::string DiffHeadline(const DiffReport& report, Unit unit);

// `csv`: the table that is CSV, of those of the JSON; empty: hosts.
Output FleetOutput(const FleetReport& report, std::string_view csv = "");

// CSV has its kernels.
// `csv`: the table that is CSV, of those of the JSON; empty: kernels, without a trace layers.
Output EnergyOutput(const EnergyReport& report, const OutputOptions& options,
                    std::string_view csv = "");
// Its timelines, as a picture.
std::string EnergySvg(const EnergyReport& report);

// `why`: the diff, if requested; null: not requested.
Output CompareOutput(const Comparison& comparison, const DiffReport* why = nullptr);
Output PickOutput(const PickResult& choice);

// The numbers of earlier tools (compat.h), with their own names and units.
Output CompatOutput(const compat::Answer& answer, const OutputOptions& options);

// The columns of a command (or of "samples") that are asked for, parted by commas: names of grid.h.
//
//   ParseColumns("functions", "Median, runs")   {"median", "runs"}
//   ParseColumns("functions", "size").status()
//   // InvalidArgument: --columns: unknown column "size"; valid columns: function, variant, ...
absl::StatusOr<std::vector<std::string>> ParseColumns(std::string_view command,
                                                      std::string_view text);

// The emissions of a grid per energy, and the overhead of a building.
struct CarbonModel {
  std::optional<double> g_per_kwh = {};  // empty: emissions are not modelled
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

// The measured properties of sensors; CSV has one row per sensor.
Output PowerCalibrationOutput(const energy::SensorCalibrations& calibrations);
// An experiment to come: what it costs, and its steps; CSV has the steps.
Output PowerPlanOutput(const energy::PlannedExperiment& experiment);
// Who can answer in power run; CSV has a row a parameter.
Output PowerClientsOutput(std::span<const ClientKind> clients);

// The data sets of power run; CSV has a row each.
Output PowerDatasetsOutput(std::span<const DatasetFormat> formats);

// Shared by the files on power.
struct ModelledCarbon {
  double kwh = 0, co2e_g = 0;
};
// Empty if the energy or the intensity is unknown.
std::optional<ModelledCarbon> CarbonOf(const std::optional<double>& energy_j,
                                       const CarbonModel& model);

// "nvml 0 gpu", or with the device's id if it has no index. The devices must outlive it.
class DomainNames {
 public:
  explicit DomainNames(const PowerInventory& inventory);
  std::string Of(const std::string& source, const std::string& device,
                 const std::string& domain) const;

 private:
  std::map<std::pair<std::string_view, std::string_view>, int32_t> indices_;
};
// "step", "step #2"; "whole run".
std::string WindowName(const WindowSummary& window);
// "nvml: absent: why; the way out".
std::string AbsenceLine(const PowerAbsence& absence);

View PowerView(const PowerSummary& summary, const OutputOptions& options,
               const CarbonModel& carbon);

}  // namespace xplane_time::output
