// Table: what a person reads in a terminal.
//
// Every line fits OutputOptions::width columns. Times of a column share one unit, named
// in its header. The report is at most two screens of 80 x 24.
#ifndef XPLANE_TIME_SRC_OUTPUT_TABLE_H_
#define XPLANE_TIME_SRC_OUTPUT_TABLE_H_

#include <string>

#include "output/ordering.h"
#include "output/output.h"

namespace xplane_time::output {

std::string ReportTable(const Report& report, const OrderedReport& rows,
                        const OutputOptions& options);
std::string FunctionsTable(const Report& report, const OrderedReport& rows,
                           const OutputOptions& options, bool by_id, bool samples);
std::string KernelsTable(const Report& report, const OrderedReport& rows,
                         const OutputOptions& options);
std::string TreeTable(const TreeReport& report, const OutputOptions& options);
std::string PlanesTable(const PlanesReport& report, const OutputOptions& options);

}  // namespace xplane_time::output

#endif  // XPLANE_TIME_SRC_OUTPUT_TABLE_H_
