// The fields of what a trace's times come to: report.h and planes.h.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "result/fields.h"
#include "xplane_time/planes.h"
#include "xplane_time/report.h"

namespace xplane_time::result {

void VisitRow(const InputRow& row, FieldSink* sink);
void VisitRow(const DeviceRow& row, FieldSink* sink);
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

// A plane beside one of its lines or stats, for flat tables. Both have names of their own,
// so that no column occurs twice. Null: none.
template <typename Row>
struct PlanePart {
  const PlaneRow* plane = nullptr;
  const Row* part = nullptr;
};
// A plane without lines has a row, too.
std::vector<PlanePart<LineRow>> PlaneLines(const PlanesReport& report);
std::vector<PlanePart<StatRow>> PlaneStats(const PlanesReport& report);
void VisitRow(const PlanePart<LineRow>& row, FieldSink* sink);
void VisitRow(const PlanePart<StatRow>& row, FieldSink* sink);

}  // namespace xplane_time::result
