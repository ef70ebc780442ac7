// The fields of the rows of reports (report.h), energies (energy.h), power summaries and
// inventories of sensors (power.h).
#pragma once

#include "result/result.h"
#include "xplane_time/energy.h"
#include "xplane_time/power.h"
#include "xplane_time/report.h"

namespace xplane_time::result {

// The fields called DEVICE in the JSON contract; null: unknown.
void VisitDevice(const DeviceRef* device, FieldSink* sink);
void VisitRow(const InputRow& row, FieldSink* sink);
void VisitRow(const DeviceRow& row, FieldSink* sink);
// The group `steps`; null: unknown.
void VisitSteps(const std::optional<StepSummary>& steps, FieldSink* sink);
// `with_device`: with the fields of DEVICE and the program id, which are unknown if the row has
// none.
void VisitRow(const FunctionRow& row, bool with_device, FieldSink* sink);
// `rows`: FunctionRows or pointers to them; either all with the fields of DEVICE, or all without.
template <typename Rows>
Table FunctionTable(std::string name, Rows rows, bool with_device) {
  return TableOf(
      std::move(name), std::move(rows),
      [with_device](const FunctionRow& row, FieldSink* sink) { VisitRow(row, with_device, sink); });
}
void VisitRow(const KernelRow& row, FieldSink* sink);
void VisitRow(const SampleRow& row, FieldSink* sink);
void VisitRow(const TreeRow& row, FieldSink* sink);
// Without its lines and stats.
void VisitRow(const PlaneRow& row, FieldSink* sink);
void VisitRow(const LineRow& row, FieldSink* sink);
void VisitRow(const StatRow& row, FieldSink* sink);
void VisitRow(const DiagnosticRow& row, FieldSink* sink);

// Rows of energies (energy.h). `name`: the kind of the rows, such as "kernel".
void VisitRow(const EnergyDevice& row, FieldSink* sink);
void VisitRow(const EnergyGroup& row, FieldSink* sink);
void VisitRow(const EnergyFinding& row, FieldSink* sink);
Table EnergyTable(std::string table, std::string name, std::span<const EnergyRow> rows);

// Planes with their lines (a plane without lines also has a row), and planes with their stats. The
// column names of lines and stats differ from those of planes.
Table PlaneLines(const PlanesReport& report);
Table PlaneStats(const PlanesReport& report);

// An energy with its window.
struct PowerRow {
  const WindowSummary* window = nullptr;
  const EnergyEstimate* energy = nullptr;
};
// A gauge with its window and channel.
struct PowerGaugeRow {
  const WindowSummary* window = nullptr;
  const PowerChannel* channel = nullptr;
  const GaugeSummary* gauge = nullptr;
};
std::vector<PowerRow> PowerRows(const PowerSummary& summary);
std::vector<PowerGaugeRow> PowerGaugeRows(const PowerSummary& summary);

void VisitRow(const GaugeSummary& gauge, FieldSink* sink);
void VisitRow(const PowerGaugeRow& row, FieldSink* sink);
void VisitRow(const ReaderQuality& reader, FieldSink* sink);
void VisitRow(const EnergyEstimate& energy, FieldSink* sink);
void VisitRow(const PowerTotal& total, FieldSink* sink);
void VisitRow(const RepeatedEnergy& row, FieldSink* sink);
void VisitRow(const PowerRow& row, FieldSink* sink);

// Adds the tables `devices`, `channels` and `absent`.
void VisitInventory(const PowerInventory& inventory, Result* result);

std::string_view LimitsName(EnergyLimits limits);  // bounds, interval, unbounded
std::string_view KindOf(
    const PowerTotal& total);  // measured, modelled, measured and modelled; empty: unknown
FieldValue ReasonOrUnknown(PowerReason reason);  // unknown if there is no reason

}  // namespace xplane_time::result
