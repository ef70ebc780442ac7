// Formats of a result's data, in full precision: JSON and CSV.
//
// JSON has one row a line, so that documents can be read, compared and searched line by line. Times
// are integers in picoseconds; unknown is null; never NaN or Infinity.
//
// CSV has one header row, then the same rows (RFC 4180, lines end in "\n"). Nested names are joined
// by `_` (active_ps_mean, active_ps_median_ci95_lo), an unknown value is an empty cell.
#include <cmath>
#include <utility>

#include "json/json.h"
#include "output/output.h"

namespace xplane_time::output {
namespace {

using json::Json;
using result::FieldValue, result::Table;

struct ToJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(double value) const { return json::NumberOrNull(value); }
  Json operator()(std::string_view text) const { return ValidUtf8(text); }
  Json operator()(std::integral auto value) const { return value; }
};

// The fields of one object.
class JsonSink : public result::FieldSink {
 public:
  void Field(std::string_view name, const FieldValue& value) override {
    Set(name, std::visit(ToJson(), value));
  }
  void BeginGroup(std::string_view name, bool known) override {
    Json& group = object_[ValidUtf8(name)];
    group = known ? Json::object() : Json();
    at_ = known ? &group : &unknown_;
  }
  void EndGroup() override { at_ = &object_; }
  void Interval(std::string_view name, std::optional<double> lo,
                std::optional<double> hi) override {
    const bool known = lo && hi && std::isfinite(*lo) && std::isfinite(*hi);
    Set(name, known ? Json::array({*lo, *hi}) : Json());
  }
  void Texts(std::string_view name, std::span<const std::string> texts) override {
    Json out = Json::array();
    for (const std::string& text : texts) out.push_back(ValidUtf8(text));
    Set(name, std::move(out));
  }
  void Numbers(std::string_view name, std::span<const std::optional<double>> numbers) override {
    Json out = Json::array();
    for (const std::optional<double>& number : numbers) out.push_back(json::OrNull(number));
    Set(name, std::move(out));
  }
  void Rows(const Table& table) override {
    Json out = Json::array();
    for (size_t row = 0; row < table.rows; ++row) out.push_back(OfRow(table, row));
    Set(table.name, std::move(out));
  }
  void Raw(std::string_view name, std::string_view text) override {
    Json value = json::Parse(text);
    Set(name, value.is_discarded() ? Json(ValidUtf8(text)) : std::move(value));
  }

  Json Take() { return std::move(object_); }
  static Json OfRow(const Table& table, size_t row) {
    JsonSink sink;
    table.visit(row, &sink);
    return sink.Take();
  }

 private:
  void Set(std::string_view name, Json value) { (*at_)[ValidUtf8(name)] = std::move(value); }

  Json object_ = Json::object(), unknown_ = Json::object();
  Json* at_ = &object_;  // or the group that is open
};

struct AppendValue {
  std::string* out;
  void operator()(std::monostate) const {}
  void operator()(bool value) const { out->append(value ? "true" : "false"); }
  void operator()(auto number) const { AppendCsvNumber(number, out); }
  void operator()(std::string_view text) const { AppendCsvCell(ValidUtf8(text), out); }
};

// Appends the cells of one line; with `header`, the names instead of the values.
class CsvLine : public result::FlatSink {
 public:
  CsvLine(bool header, std::string* out) : header_(header), out_(out) {}

 protected:
  void Cell(std::string_view prefix, std::string_view name,
            const result::FieldValue& value) override {
    if (!first_) out_->push_back(',');
    first_ = false;
    if (header_) {
      AppendCsvCell(ValidUtf8(std::string(prefix).append(name)), out_);
    } else {
      std::visit(AppendValue{out_}, value);
    }
  }

 private:
  bool header_;
  std::string* out_;
  bool first_ = true;
};

}  // namespace

// Members in order, the rows of a table one a line.
std::string JsonText(const result::Result& result) {
  std::string text = "{\n  \"schema\": " + json::Dump(result.schema);
  const auto named = [&text](std::string_view name) -> std::string& {
    return text.append(",\n  ").append(json::Dump(name)).append(": ");
  };
  for (const auto& part : result.parts) {
    if (const auto* table = std::get_if<Table>(&part); table != nullptr) {
      named(table->name).push_back('[');
      for (size_t row = 0; row < table->rows; ++row) {
        text.append(row == 0 ? "\n    " : ",\n    ");
        text.append(json::Dump(JsonSink::OfRow(*table, row)));
      }
      text.append(table->rows == 0 ? "]" : "\n  ]");
    } else {
      JsonSink sink;
      std::get<result::Members>(part)(&sink);
      const Json object = sink.Take();
      for (const auto& [name, value] : object.items()) named(name).append(json::Dump(value));
    }
  }
  return text + "\n}\n";
}

std::string CsvText(const result::Table& table) {
  std::string out;
  const auto append = [&](size_t row, bool header) {
    CsvLine line(header, &out);
    table.visit(row, &line);
    out.push_back('\n');
  };
  append(table.rows, /*header=*/true);
  for (size_t row = 0; row < table.rows; ++row) append(row, /*header=*/false);
  return out;
}

}  // namespace xplane_time::output
