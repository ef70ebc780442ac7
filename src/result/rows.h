// The fields of what a trace's times come to (report.h), of energies (energy.h), of a summary of
// power, and of what sensors there are.
#pragma once

#include "result/result.h"
#include "xplane_time/energy.h"
#include "xplane_time/power.h"
#include "xplane_time/report.h"

namespace xplane_time::result {

// The fields of DEVICE; null: unknown.
void VisitDevice(const DeviceRef* device, FieldSink* sink);
void VisitRow(const InputRow& row, FieldSink* sink);
void VisitRow(const DeviceRow& row, FieldSink* sink);
// The group `steps`; null: unknown.
void VisitSteps(const std::optional<StepSummary>& steps, FieldSink* sink);
// `with_device`: the fields of DEVICE and the program id, unknown where the row has none.
void VisitRow(const FunctionRow& row, bool with_device, FieldSink* sink);
// `rows`, of functions or of pointers to them: all with the fields of DEVICE, or all without.
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

// Of energy (energy.h). `name`: what the rows are, "kernel".
void VisitRow(const EnergyDevice& row, FieldSink* sink);
void VisitRow(const EnergyGroup& row, FieldSink* sink);
void VisitRow(const EnergyFinding& row, FieldSink* sink);
Table EnergyTable(std::string table, std::string name, std::span<const EnergyRow> rows);

// Planes, each beside its lines (one without lines has a row, too) or beside its stats. Both have
// names of their own, so that no column occurs twice.
Table PlaneLines(const PlanesReport& report);
Table PlaneStats(const PlanesReport& report);

// An energy beside its window.
struct PowerRow {
  const WindowSummary* window = nullptr;
  const EnergyEstimate* energy = nullptr;
};
// A gauge beside its window and channel.
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

// Tables `devices`, `channels` and `absent`.
void VisitInventory(const PowerInventory& inventory, Result* result);

std::string_view LimitsName(EnergyLimits limits);  // bounds, interval, unbounded
std::string_view KindOf(
    const PowerTotal& total);  // measured, modelled, measured and modelled; empty: unknown
FieldValue ReasonOrUnknown(PowerReason reason);  // unknown where nothing is amiss

}  // namespace xplane_time::result
