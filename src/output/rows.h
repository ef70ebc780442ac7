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
#include <vector>

#include "xplane_time/planes.h"
#include "xplane_time/report.h"

namespace xplane_time::output {

enum class FieldType : uint8_t { kBool, kInt64, kUint64, kDouble, kText };

// monostate: unknown (null, an empty cell). A double that is not finite is unknown too.
// The type is known in any case: a field has the same in every row.
class FieldValue
    : public std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string_view> {
 public:
  FieldValue(bool value) : variant(value), type_(FieldType::kBool) {}              // NOLINT
  FieldValue(int64_t value) : variant(value), type_(FieldType::kInt64) {}          // NOLINT
  FieldValue(uint64_t value) : variant(value), type_(FieldType::kUint64) {}        // NOLINT
  FieldValue(double value) : variant(value), type_(FieldType::kDouble) {}          // NOLINT
  FieldValue(std::string_view value) : variant(value), type_(FieldType::kText) {}  // NOLINT
  FieldValue(const std::optional<std::string>& value)                              // NOLINT
      : type_(FieldType::kText) {
    if (value) *this = FieldValue(std::string_view(*value));
  }
  template <typename T>
  FieldValue(const std::optional<T>& value)  // NOLINT: as the value itself
      : FieldValue(value.value_or(T())) {
    if (!value) *this = Unknown(type_);
  }
  static FieldValue Unknown(FieldType type) { return FieldValue(type); }

  FieldType type() const { return type_; }

 private:
  explicit FieldValue(FieldType type) : type_(type) {}
  FieldType type_;
};

inline FieldValue KnownText(std::string_view text) {  // unknown where it is empty
  return text.empty() ? FieldValue::Unknown(FieldType::kText) : FieldValue(text);
}

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

// Fields as the cells of a flat row: groups are prefixes, and what is in an unknown one is
// unknown.
class FlatSink : public FieldSink {
 public:
  void Field(std::string_view name, const FieldValue& value) final {
    Cell(prefix_, name, known_ ? value : FieldValue::Unknown(value.type()));
  }
  void BeginGroup(std::string_view name, bool known) final;
  void EndGroup() final;
  void Interval(std::string_view name, std::optional<double> lo, std::optional<double> hi) final;

 protected:
  virtual void Cell(std::string_view prefix, std::string_view name, const FieldValue& value) = 0;

 private:
  bool known_ = true;
  std::string prefix_;
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

}  // namespace xplane_time::output

#endif  // XPLANE_TIME_SRC_OUTPUT_ROWS_H_
