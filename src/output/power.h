// Power summaries as text, and as pictures.
//
//   RenderPower(summary, {.width = 80}, PowerFormat::kTable, {})
//   RenderPower(summary, {}, PowerFormat::kOpenMetrics, {.g_per_kwh = 350, .pue = 1.2})
//   PowerSvg(summary)       // a picture by itself: no scripts, no fonts from elsewhere
//
// Energies are `measured`; kWh and CO2e are `modelled`, only from a given intensity, of the
// total of a window. Unknown is null, an empty cell or "-", with its reason. Tables fit
// OutputOptions::width columns and cut windows by `top` (20); the other formats have all.
#ifndef XPLANE_TIME_SRC_OUTPUT_POWER_H_
#define XPLANE_TIME_SRC_OUTPUT_POWER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "output/output.h"
#include "output/rows.h"
#include "xplane_time/power.h"

namespace xplane_time::output {

enum class PowerFormat : uint8_t { kTable, kJson, kCsv, kMarkdown, kOpenMetrics };

// What a grid emits for an energy, and what a building adds to it.
struct CarbonModel {
  std::optional<double> g_per_kwh = {};  // empty: nothing is modelled
  double pue = 1;                        // power usage effectiveness, at least 1
};

struct ModelledCarbon {
  double kwh = 0, co2e_g = 0;
};
// Empty where the energy or the intensity is not known.
std::optional<ModelledCarbon> CarbonOf(const std::optional<double>& energy_j,
                                       const CarbonModel& model);

std::string RenderPower(const PowerSummary& summary, const OutputOptions& options,
                        PowerFormat format, const CarbonModel& carbon);

// The run: power over time of each device, for a terminal and as SVG. Gaps are shown as gaps.
std::string PowerPlot(const PowerSummary& summary, const OutputOptions& options);
std::string PowerSvg(const PowerSummary& summary);

// The parts, one file each.
std::string PowerTable(const PowerSummary& summary, const OutputOptions& options,
                       const CarbonModel& carbon);
std::string PowerMarkdown(const PowerSummary& summary, const OutputOptions& options,
                          const CarbonModel& carbon);
std::string PowerJson(const PowerSummary& summary, const CarbonModel& carbon);
std::string PowerCsv(const PowerSummary& summary, const CarbonModel& carbon);
std::string PowerOpenMetrics(const PowerSummary& summary, const CarbonModel& carbon);

// An energy beside its window.
struct PowerRow {
  const WindowSummary* window = nullptr;
  EnergyEstimate energy;
};
// A gauge beside its window and channel.
struct PowerGaugeRow {
  const WindowSummary* window = nullptr;
  const PowerChannel* channel = nullptr;
  GaugeSummary gauge;
};
std::vector<PowerRow> PowerRows(const PowerSummary& summary);
std::vector<PowerGaugeRow> PowerGaugeRows(const PowerSummary& summary);

void VisitRow(const PowerGaugeRow& row, FieldSink* sink);
void VisitRow(const ReaderQuality& reader, FieldSink* sink);
void VisitRow(const EnergyEstimate& energy, FieldSink* sink);
void VisitRow(const PowerTotal& total, FieldSink* sink);
void VisitRow(const RepeatedEnergy& row, FieldSink* sink);
void VisitRow(const PowerRow& row, FieldSink* sink);

std::string_view LimitsName(EnergyLimits limits);  // bounds, interval, unbounded
std::string_view KindOf(const PowerTotal& total);  // measured, modelled, both; empty: unknown

// "nvml 0 gpu", or with the device's id where it has no index.
std::string DomainName(const PowerSummary& summary, const std::string& source,
                       const std::string& device, const std::string& domain);
// "step", "step #2"; "whole run".
std::string WindowName(const WindowSummary& window);

}  // namespace xplane_time::output

#endif  // XPLANE_TIME_SRC_OUTPUT_POWER_H_
