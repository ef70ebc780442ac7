// Formats of a result's data, in full precision: JSON and CSV.
//
// JSON has one row a line, so that documents can be read, compared and searched line by line. Times
// are integers in picoseconds; unknown is null; never NaN or Infinity.
//
// CSV has one header row, then the same rows (RFC 4180, lines end in "\n"). Nested names are joined
// by `_` (active_ps_mean, active_ps_median_ci95_lo), an unknown value is an empty cell.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "json/json.h"
#include "output/json_text.h"
#include "output/output.h"
#include "re2/re2.h"
#include "status.h"

namespace xplane_time::output {
namespace {

using result::FieldValue, result::Table;

// A JSON string. Most need no escapes.
void AppendText(std::string_view text, std::string* out) {
  const bool plain = std::ranges::all_of(
      text, [](char c) { return c >= ' ' && c < '\x7f' && c != '"' && c != '\\'; });
  if (!plain) {
    out->append(json::Dump(JsonUtf8(text)));
    return;
  }
  out->push_back('"');
  out->append(text);
  out->push_back('"');
}

struct AppendJson {
  std::string* out;
  void operator()(std::monostate) const { out->append("null"); }
  void operator()(bool value) const { out->append(value ? "true" : "false"); }
  void operator()(double value) const { out->append(json::Dump(json::NumberOrNull(value))); }
  void operator()(std::string_view text) const { AppendText(text, out); }
  void operator()(std::integral auto value) const {
    std::array<char, 24> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    out->append(digits.data(), end);
  }
};

// Appends the fields of an object, without its braces. A nested value stays on one line.
class JsonSink : public result::FieldSink {
 public:
  // Text between fields and after their names.
  struct Style {
    std::string_view between, colon;
  };
  static constexpr Style kOneLine = {",", ":"}, kFieldALine = {",\n  ", ": "};

  JsonSink(const Style& style, std::string* out) : style_(style), out_(out) {}

  void Field(std::string_view name, const FieldValue& value) override {
    if (Begin(name)) std::visit(AppendJson{out_}, value);
  }
  void BeginGroup(std::string_view name, bool known) override {
    Begin(name);
    out_->append(known ? "{" : "null");
    known_ = known;
    outside_ = std::exchange(style_, kOneLine);
    first_ = true;
  }
  void EndGroup() override {
    if (known_) out_->push_back('}');
    known_ = true;
    style_ = outside_;
    first_ = false;
  }
  void Interval(std::string_view name, std::optional<double> lo,
                std::optional<double> hi) override {
    const bool known = lo && hi && std::isfinite(*lo) && std::isfinite(*hi);
    if (!known) return Field(name, FieldValue::Unknown(result::FieldType::kDouble));
    Numbers(name, std::array{lo, hi});
  }
  void Texts(std::string_view name, std::span<const std::string> texts) override {
    List(name, texts.size(), [&](size_t i) { AppendText(texts[i], out_); });
  }
  void Numbers(std::string_view name, std::span<const std::optional<double>> numbers) override {
    List(name, numbers.size(),
         [&](size_t i) { std::visit(AppendJson{out_}, FieldValue(numbers[i])); });
  }
  void Rows(const Table& table) override {
    List(table.name, table.rows, [&](size_t row) { AppendRow(table, row); });
  }
  // A row a line.
  void LongRows(const Table& table) {
    Begin(table.name);
    out_->push_back('[');
    constexpr size_t kFewRows = 64;
    const size_t begin = out_->size();
    for (size_t row = 0; row < table.rows; ++row) {
      // The other rows are about as long or slightly longer. Reserving avoids the copies of a
      // growing string, and unused room costs little.
      if (row == kFewRows) {
        out_->reserve(begin + (out_->size() - begin) * (table.rows / kFewRows + 1) * 3 / 2);
      }
      out_->append(row == 0 ? "\n    " : ",\n    ");
      AppendRow(table, row);
    }
    out_->append(table.rows == 0 ? "]" : "\n  ]");
  }
  void Raw(std::string_view name, std::string_view text) override {
    if (!Begin(name)) return;
    const json::Json value = json::Parse(text);
    if (value.is_discarded()) return AppendText(text, out_);
    out_->append(EscapeInvisibleInJson(json::Dump(value)));
  }

 private:
  // False inside of an unknown group.
  bool Begin(std::string_view name) {
    if (!known_) return false;
    if (!first_) out_->append(style_.between);
    first_ = false;
    AppendText(name, out_);
    out_->append(style_.colon);
    return true;
  }
  void List(std::string_view name, size_t size, auto append) {
    if (!Begin(name)) return;
    out_->push_back('[');
    for (size_t i = 0; i < size; ++i) {
      if (i > 0) out_->push_back(',');
      append(i);
    }
    out_->push_back(']');
  }
  void AppendRow(const Table& table, size_t row) {
    out_->push_back('{');
    JsonSink sink(kOneLine, out_);
    table.visit(row, &sink);
    out_->push_back('}');
  }

  Style style_, outside_ = kOneLine;  // of a group
  std::string* const out_;
  bool first_ = true, known_ = true;
};

struct AppendCsvValue {
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
      std::visit(AppendCsvValue{out_}, value);
    }
  }

 private:
  bool header_;
  std::string* out_;
  bool first_ = true;
};

}  // namespace

std::string EscapeInvisibleInJson(std::string_view json) {
  // These characters occur only inside strings, and all are below U+10000.
  static const RE2 invisible(
      R"(([\x{7f}-\x{9f}\x{61c}\x{200b}\x{200e}\x{200f}\x{2028}-\x{202e}\x{2060}-\x{206f}\x{feff}]))");
  std::string out;
  re2::StringPiece rest(json.data(), json.size()), found;
  while (RE2::PartialMatch(rest, invisible, &found)) {
    out.append(rest.data(), found.data());
    const auto byte = [&](size_t i) {
      return static_cast<uint32_t>(static_cast<uint8_t>(found[i]));
    };
    uint32_t code = byte(0);
    if (found.size() == 2) code = (byte(0) & 0x1f) << 6 | (byte(1) & 0x3f);
    if (found.size() == 3) {
      code = (byte(0) & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
    }
    absl::StrAppendFormat(&out, "\\u%04x", code);
    rest.remove_prefix(static_cast<size_t>(found.data() - rest.data()) + found.size());
  }
  return out.append(rest.data(), rest.size());
}

// Members in order, the rows of a table one a line.
std::string JsonText(const result::Result& result) {
  std::string text = "{\n  ";
  JsonSink sink(JsonSink::kFieldALine, &text);
  sink.Field("schema", result.schema);
  for (const auto& part : result.parts) {
    if (const auto* table = std::get_if<Table>(&part); table != nullptr) {
      sink.LongRows(*table);
    } else {
      std::get<result::Members>(part)(&sink);
    }
  }
  text.append("\n}\n");
  return text;
}

std::string JsonValue(const result::Members& member) {
  std::string text;
  JsonSink sink({.between = ",", .colon = "\n"}, &text);  // names never contain a raw line feed
  member(&sink);
  return text.substr(text.find('\n') + 1);
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
