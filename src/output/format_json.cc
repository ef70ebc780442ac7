// JSON: one row a line, so that documents can be read, compared and searched line by line. Times
// are integers in picoseconds; unknown is null; never NaN or Infinity.
#include <cmath>
#include <utility>

#include "json/json.h"
#include "output/output.h"
#include "output/text.h"

namespace xplane_time::output {
namespace {

using json::Json;
using result::FieldValue, result::Table;

struct ToJson {
  Json operator()(std::monostate) const { return nullptr; }
  Json operator()(double value) const { return json::NumberOrNull(value); }
  Json operator()(std::string_view text) const { return ValidUtf8(text); }
  template <typename T>
  Json operator()(T value) const {
    return value;
  }
};

// The fields of one object.
class JsonSink : public result::FieldSink {
 public:
  void Field(std::string_view name, const FieldValue& value) override {
    Set(name, std::visit(ToJson(), value));
  }
  void BeginGroup(std::string_view name, bool known) override {
    group_ = name;
    group_known_ = known;
    members_ = Json::object();
  }
  void EndGroup() override {
    const std::string name = std::exchange(group_, "");
    Set(name, group_known_ ? std::move(members_) : Json());
  }
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
  void Rows(const Table& table) override;
  void Raw(std::string_view name, std::string_view text) override {
    Json value = json::Parse(text);
    Set(name, value.is_discarded() ? Json(ValidUtf8(text)) : std::move(value));
  }

  Json Take() { return std::move(object_); }

 private:
  void Set(std::string_view name, Json value) {
    (group_.empty() ? object_ : members_)[ValidUtf8(name)] = std::move(value);
  }

  Json object_ = Json::object(), members_;
  std::string group_;
  bool group_known_ = false;
};

Json RowJson(const Table& table, size_t row) {
  JsonSink sink;
  table.visit(row, &sink);
  return sink.Take();
}

void JsonSink::Rows(const Table& table) {
  Json out = Json::array();
  for (size_t row = 0; row < table.rows; ++row) out.push_back(RowJson(table, row));
  Set(table.name, std::move(out));
}

// Members in order, the rows of a table one a line.
class Document {
 public:
  explicit Document(std::string_view schema) {
    text_ = "{\n  \"schema\": " + json::Dump(Json(schema));
  }
  void operator()(const result::Members& members) {
    JsonSink sink;
    members(&sink);
    const Json object = sink.Take();
    for (const auto& [name, value] : object.items()) Name(name).append(json::Dump(value));
  }
  void operator()(const Table& table) {
    Name(table.name).push_back('[');
    for (size_t row = 0; row < table.rows; ++row) {
      text_.append(row == 0 ? "\n    " : ",\n    ").append(json::Dump(RowJson(table, row)));
    }
    text_.append(table.rows == 0 ? "]" : "\n  ]");
  }
  std::string Finish() && { return std::move(text_) + "\n}\n"; }

 private:
  std::string& Name(std::string_view name) {
    return text_.append(",\n  ").append(json::Dump(Json(name))).append(": ");
  }
  std::string text_;
};

}  // namespace

std::string JsonText(const result::Result& result) {
  Document document(result.schema);
  for (const auto& part : result.parts) std::visit(document, part);
  return std::move(document).Finish();
}

}  // namespace xplane_time::output
