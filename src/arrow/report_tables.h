// Tables of finished results: the rows and columns of the CSV output (rows.h).
#ifndef XPLANE_TIME_SRC_ARROW_REPORT_TABLES_H_
#define XPLANE_TIME_SRC_ARROW_REPORT_TABLES_H_

#include <span>

#include "arrow/table.h"
#include "xplane_time/planes.h"
#include "xplane_time/power.h"
#include "xplane_time/report.h"

namespace xplane_time::arrow {

Table InputsTable(std::span<const InputRow> rows);
Table DevicesTable(std::span<const DeviceRow> rows);
// `with_device`: rows of devices, else combined ones or variants.
Table FunctionsTable(std::span<const FunctionRow> rows, bool with_device);
Table KernelsTable(std::span<const KernelRow> rows);
Table SamplesTable(std::span<const SampleRow> rows);
Table TreeTable(std::span<const TreeRow> rows);
Table DiagnosticsTable(std::span<const DiagnosticRow> rows);
// One row a line.
Table PlanesTable(const PlanesReport& report);
// One row a stat.
Table StatsTable(const PlanesReport& report);

// A row for each window and sensor; for each window and channel; for each reader.
Table PowerEnergiesTable(const PowerSummary& summary);
Table PowerGaugesTable(const PowerSummary& summary);
Table PowerReadersTable(const PowerSummary& summary);
Table PowerRepeatsTable(const PowerSummary& summary);

}  // namespace xplane_time::arrow

#endif  // XPLANE_TIME_SRC_ARROW_REPORT_TABLES_H_
