#include "arrow/report_tables.h"

#include <cmath>
#include <string>
#include <utility>

#include "result/rows_power.h"
#include "result/rows_trace.h"

namespace xplane_time::arrow {
namespace {

using result::FieldSink, result::FieldType, result::FieldValue;

// Counts are signed: differences of them are meant to be negative at times.
ColumnType TypeOf(FieldType type) {
  switch (type) {
    case FieldType::kBool:
      return ColumnType::kBool;
    case FieldType::kInt64:
    case FieldType::kUint64:
      return ColumnType::kInt64;
    case FieldType::kDouble:
      return ColumnType::kDouble;
    case FieldType::kText:
      break;
  }
  return ColumnType::kText;
}

// Each field adds to its column; the first row, of defaults, makes the columns.
class TableSink : public result::FlatSink {
 public:
  void StartRow() { at_ = 0; }
  Table Take() { return std::move(table_); }
  void EndHeader() { header_ = false; }

 protected:
  void Cell(std::string_view prefix, std::string_view name, const FieldValue& value) override {
    if (header_) {
      table_.columns.emplace_back(std::string(prefix).append(name), TypeOf(value.type()));
      return;
    }
    Column& column = table_.columns[at_++];
    const auto* number = std::get_if<double>(&value);
    if (number != nullptr && !std::isfinite(*number)) return column.Add(std::monostate());
    if (const auto* count = std::get_if<uint64_t>(&value); count != nullptr) {
      return column.Add(static_cast<int64_t>(*count));
    }
    column.Add(value);
  }

 private:
  Table table_;
  size_t at_ = 0;
  bool header_ = true;
};

template <typename Row, typename Visit>
Table MakeTable(std::span<const Row> rows, Visit visit) {
  TableSink sink;
  visit(Row(), &sink);
  sink.EndHeader();
  for (const Row& row : rows) {
    sink.StartRow();
    visit(row, &sink);
  }
  return sink.Take();
}

template <typename Row>
Table MakeTable(std::span<const Row> rows) {
  return MakeTable(rows, [](const Row& row, FieldSink* sink) { VisitRow(row, sink); });
}

}  // namespace

Table InputsTable(std::span<const InputRow> rows) { return MakeTable(rows); }
Table DevicesTable(std::span<const DeviceRow> rows) { return MakeTable(rows); }
Table KernelsTable(std::span<const KernelRow> rows) { return MakeTable(rows); }
Table SamplesTable(std::span<const SampleRow> rows) { return MakeTable(rows); }
Table TreeTable(std::span<const TreeRow> rows) { return MakeTable(rows); }
Table DiagnosticsTable(std::span<const DiagnosticRow> rows) { return MakeTable(rows); }

Table FunctionsTable(std::span<const FunctionRow> rows, bool with_device) {
  return MakeTable(rows, [with_device](const FunctionRow& row, FieldSink* sink) {
    VisitRow(row, with_device, sink);
  });
}

Table PlanesTable(const PlanesReport& report) {
  const auto rows = result::PlaneLines(report);
  return MakeTable(std::span(rows));
}

Table StatsTable(const PlanesReport& report) {
  const auto rows = result::PlaneStats(report);
  return MakeTable(std::span(rows));
}

Table PowerEnergiesTable(const PowerSummary& summary) {
  const auto rows = result::PowerRows(summary);
  return MakeTable(std::span(rows));
}

Table PowerGaugesTable(const PowerSummary& summary) {
  const auto rows = result::PowerGaugeRows(summary);
  return MakeTable(std::span(rows));
}

Table PowerReadersTable(const PowerSummary& summary) {
  return MakeTable(std::span(summary.readers));
}

Table PowerRepeatsTable(const PowerSummary& summary) {
  return MakeTable(std::span(summary.repeats));
}

}  // namespace xplane_time::arrow
