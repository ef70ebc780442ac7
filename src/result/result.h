// Result: the output of a command as data. Every output format is made from it.
//
//   Result result("xplane-time.kernels.v1");
//   result.Say([&](FieldSink* sink) { sink->Field("complete", true); });
//   result.Add(TableOf("kernels", rows));
//
// Rows and objects pass their fields to a FieldSink, in the order of the JSON contract. JSON, CSV
// and Arrow tables are sinks, so their names, order and values cannot differ. Text is passed as the
// producer's bytes; the sink escapes it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace xplane_time::result {

enum class FieldType : uint8_t { kBool, kInt64, kUint64, kDouble, kText };

// monostate: unknown (null, or an empty cell). A double that is not finite is also unknown. Unknown
// values have a type as well, because a field has the same type in every row.
class FieldValue
    : public std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string_view> {
 public:
  // NOLINTBEGIN: implicit, like the value itself
  FieldValue(bool value) : variant(value), type_(FieldType::kBool) {}
  FieldValue(std::signed_integral auto value) : variant(int64_t{value}), type_(FieldType::kInt64) {}
  FieldValue(std::unsigned_integral auto value)
      : variant(uint64_t{value}), type_(FieldType::kUint64) {}
  FieldValue(double value) : variant(value), type_(FieldType::kDouble) {}
  FieldValue(const std::convertible_to<std::string_view> auto& value)
      : variant(std::string_view(value)), type_(FieldType::kText) {}
  template <typename T>
  FieldValue(const std::optional<T>& value)
      : FieldValue(value ? FieldValue(*value) : Unknown(FieldValue(T()).type_)) {}
  // NOLINTEND
  static FieldValue Unknown(FieldType type) { return FieldValue(type); }

  FieldType type() const { return type_; }

 private:
  explicit FieldValue(FieldType type) : type_(type) {}
  FieldType type_;
};

inline FieldValue KnownText(std::string_view text) {  // unknown if it is empty
  return text.empty() ? FieldValue::Unknown(FieldType::kText) : FieldValue(text);
}

struct Table;

class FieldSink {
 public:
  virtual ~FieldSink() = default;
  virtual void Field(std::string_view name, const FieldValue& value) = 0;
  // Begins a group of fields: an object in JSON, a prefix in CSV. If `known` is false, all fields
  // inside are unknown, and the object is null.
  virtual void BeginGroup(std::string_view, bool /*known*/) {}
  virtual void EndGroup() {}
  // An interval of two numbers: an array in JSON, NAME_lo and NAME_hi in CSV.
  virtual void Interval(std::string_view, std::optional<double> /*lo*/,
                        std::optional<double> /*hi*/) {}
  // Lists and objects, which JSON alone supports.
  virtual void Texts(std::string_view, std::span<const std::string>) {}
  // A list in a row. Formats without lists write a text separated by "; ".
  virtual void RowTexts(std::string_view name, std::span<const std::string> texts) {
    Texts(name, texts);
  }
  virtual void Numbers(std::string_view, std::span<const std::optional<double>>) {}
  virtual void Rows(const Table&) {}
  // A JSON text. Invalid JSON becomes a string.
  virtual void Raw(std::string_view, std::string_view) {}
};

// Converts fields to the cells of a flat row: group names become prefixes, and fields of an unknown
// group are unknown.
class FlatSink : public FieldSink {
 public:
  void Field(std::string_view name, const FieldValue& value) final {
    Cell(prefix_, name, known_ ? value : FieldValue::Unknown(value.type()));
  }
  void BeginGroup(std::string_view name, bool known) override {
    prefix_ = std::string(name) + "_";
    known_ = known;
  }
  void EndGroup() override {
    prefix_.clear();
    known_ = true;
  }
  void Interval(std::string_view name, std::optional<double> lo, std::optional<double> hi) final {
    const bool known = lo && hi && std::isfinite(*lo) && std::isfinite(*hi);
    Field(std::string(name) + "_lo", known ? lo : std::nullopt);
    Field(std::string(name) + "_hi", known ? hi : std::nullopt);
  }
  void RowTexts(std::string_view name, std::span<const std::string> texts) final {
    std::string joined;
    for (const std::string& text : texts) joined.append(joined.empty() ? "" : "; ").append(text);
    Field(name, KnownText(joined));
  }

 protected:
  virtual void Cell(std::string_view prefix, std::string_view name, const FieldValue& value) = 0;

 private:
  bool known_ = true;
  std::string prefix_;
};

// Passes fields under their names in the struct; or the results of functions of fields, which get
// the name of the field inside the brackets:
//
//   XPLANE_TIME_FIELDS(sink, row.n, ClockName(row.clock));   // sink->Field("n", row.n); ...
#define XPLANE_TIME_FIELDS(sink, ...) \
  ::xplane_time::result::NamedFields( \
      sink, [] { return std::string_view(#__VA_ARGS__); }, __VA_ARGS__)
template <size_t kCount>
constexpr std::array<std::string_view, kCount> NamesIn(std::string_view expressions) {
  std::array<std::string_view, kCount> names;
  for (std::string_view& name : names) {
    name = expressions.substr(0, expressions.find(','));
    expressions.remove_prefix(std::min(name.size() + 2, expressions.size()));
    name.remove_prefix(name.rfind('.') + 1);
    name = name.substr(0, name.find(')'));
  }
  return names;
}
template <typename Expressions, typename... Values>
void NamedFields(FieldSink* sink, Expressions, const Values&... values) {
  constexpr auto kNames = NamesIn<sizeof...(Values)>(Expressions()());
  size_t at = 0;
  (sink->Field(kNames[at++], values), ...);
}

// Rows of one kind, as data. Printers request the fields of one row at a time.
struct Table {
  std::string name;
  size_t rows = 0;
  // Passes the fields of row number `row`. For `row` == `rows`: fields of an empty row, for their
  // names.
  std::function<void(size_t row, FieldSink* sink)> visit = {};
};

// `rows`: a vector, which the table owns, or a span, whose rows must outlive it. `visit(row,
// sink)`.
template <typename Rows, typename Visit>
Table TableOf(std::string name, Rows rows, Visit visit) {
  const size_t count = rows.size();
  return {std::move(name), count,
          [rows = std::move(rows), visit = std::move(visit)](size_t at, FieldSink* sink) {
            if (at == rows.size()) return visit(typename Rows::value_type(), sink);
            visit(rows[at], sink);
          }};
}
template <typename Rows>
Table TableOf(std::string name, Rows rows) {
  return TableOf(std::move(name), std::move(rows),
                 [](const auto& row, FieldSink* sink) { VisitRow(row, sink); });
}

using Members = std::function<void(FieldSink*)>;  // fields of the document itself

// The parts are in the order of the JSON. Rows of spans are not copied and must outlive the result.
struct Result {
  std::string schema;
  std::vector<std::variant<Members, Table>> parts = {};
  Table csv = {};

  explicit Result(std::string of_schema) : schema(std::move(of_schema)) {}
  void Say(Members members) { parts.emplace_back(std::move(members)); }
  void Add(Table table) { parts.emplace_back(std::move(table)); }
};

}  // namespace xplane_time::result
