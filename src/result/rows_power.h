// The fields of a summary of power, and of what sensors there are.
#pragma once

#include <string_view>
#include <vector>

#include "result/result.h"
#include "xplane_time/power.h"

namespace xplane_time::result {

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

// Tables `devices`, `channels` and `absent`.
void VisitInventory(const PowerInventory& inventory, Result* result);

std::string_view LimitsName(EnergyLimits limits);  // bounds, interval, unbounded
std::string_view KindOf(const PowerTotal& total);  // measured, modelled, both; empty: unknown
FieldValue ReasonOrUnknown(PowerReason reason);    // unknown where nothing is amiss

}  // namespace xplane_time::result
