// Rows: the fields of every row, once, in the order of the JSON contract.
//
// Enters: a row struct. Leaves: calls of a FieldSink, one a field. JSON and CSV are
// both sinks, and so cannot differ in names, order or values. Text is given as the
// producer's bytes; the sink escapes it.
#ifndef XPLANE_TIME_SRC_OUTPUT_ROWS_H_
#define XPLANE_TIME_SRC_OUTPUT_ROWS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "xplane_time/planes.h"
#include "xplane_time/report.h"

namespace xplane_time::output {

// monostate: unknown (null, an empty cell). A double that is not finite is unknown too.
using FieldValue = std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string_view>;

class FieldSink {
 public:
  virtual ~FieldSink() = default;
  virtual void Field(std::string_view name, const FieldValue& value) = 0;
  // Fields that belong together: an object in JSON, a prefix in CSV. While
  // `known` is false all fields inside are unknown, and the object is null.
  virtual void BeginGroup(std::string_view name, bool known) = 0;
  virtual void EndGroup() = 0;
  // Two numbers: an array in JSON, NAME_lo and NAME_hi in CSV.
  virtual void Interval(std::string_view name, std::optional<double> lo,
                        std::optional<double> hi) = 0;
};

void VisitRow(const InputRow& row, FieldSink* sink);
void VisitRow(const DeviceRow& row, FieldSink* sink);
// `with_device`: the fields of DEVICE and the program id, unknown where the row has none.
void VisitRow(const FunctionRow& row, bool with_device, FieldSink* sink);
void VisitRow(const KernelRow& row, FieldSink* sink);
void VisitRow(const SampleRow& row, FieldSink* sink);
void VisitRow(const TreeRow& row, FieldSink* sink);
// Without its lines and stats.
void VisitRow(const PlaneRow& row, FieldSink* sink);
void VisitRow(const LineRow& row, FieldSink* sink);
void VisitRow(const StatRow& row, FieldSink* sink);
void VisitRow(const DiagnosticRow& row, FieldSink* sink);

}  // namespace xplane_time::output

#endif  // XPLANE_TIME_SRC_OUTPUT_ROWS_H_
