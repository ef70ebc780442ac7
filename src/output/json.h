// JSON: the documents of the contract (xplane-time.report.v1 and its sisters).
//
// One row a line, so that documents can be read, compared and searched line by line.
// Times are integers in picoseconds; unknown is null; never NaN or Infinity.
#ifndef XPLANE_TIME_SRC_OUTPUT_JSON_H_
#define XPLANE_TIME_SRC_OUTPUT_JSON_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "output/ordering.h"
#include "xplane_time/planes.h"
#include "xplane_time/report.h"

namespace xplane_time::output {

// `options`: those that were given, of OutputOptions.
using Options = std::vector<GivenOption>;
std::string ReportJson(const Report& report, const OrderedReport& rows, const Options& options);
std::string FunctionsJson(const Report& report, const OrderedReport& rows, bool by_id, bool samples,
                          const Options& options);
std::string KernelsJson(const Report& report, const OrderedReport& rows, const Options& options);
std::string TreeJson(const TreeReport& report, std::optional<size_t> top, const Options& options);
std::string PlanesJson(const PlanesReport& report, const Options& options);

// `text` as a JSON string with its quotes; invalid UTF-8 as \xNN.
std::string JsonString(std::string_view text);

// A finite double, shortest form that reads back the same; else "null".
std::string JsonNumber(double value);

}  // namespace xplane_time::output

#endif  // XPLANE_TIME_SRC_OUTPUT_JSON_H_
