// CSV: one header row, then the same rows as JSON (RFC 4180, lines end in "\n").
//
// Nested names are joined by `_` (active_ps_mean, active_ps_median_ci95_lo), an unknown
// value is an empty cell, doubles have the shortest form that reads back the same.
#ifndef XPLANE_TIME_SRC_OUTPUT_CSV_H_
#define XPLANE_TIME_SRC_OUTPUT_CSV_H_

#include <cstddef>
#include <optional>
#include <string>

#include "output/ordering.h"
#include "xplane_time/planes.h"
#include "xplane_time/report.h"

namespace xplane_time::output {

// The samples, else the variants, else the functions.
std::string FunctionsCsv(const Report& report, const OrderedReport& rows, bool by_id, bool samples);
std::string KernelsCsv(const OrderedReport& rows);
std::string TreeCsv(const TreeReport& report, std::optional<size_t> top);
// The stats where the report has any, else the lines; a plane without lines is one row.
std::string PlanesCsv(const PlanesReport& report);

// Digits without an exponent at ordinary magnitudes; not finite: nothing.
void AppendCsvNumber(double value, std::string* out);

}  // namespace xplane_time::output

#endif  // XPLANE_TIME_SRC_OUTPUT_CSV_H_
