#include <charconv>
#include <cmath>

#include "output/csv.h"
#include "output/output.h"
#include "output/text.h"

namespace xplane_time::output {
namespace {

struct AppendValue {
  std::string* out;
  void operator()(std::monostate) const {}
  void operator()(bool value) const { out->append(value ? "true" : "false"); }
  void operator()(double value) const { AppendCsvNumber(value, out); }
  void operator()(std::string_view text) const { AppendCsvCell(ValidUtf8(text), out); }
  template <typename T>
  void operator()(T value) const {
    AppendCsvInteger(value, out);
  }
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
      out_->append(prefix).append(name);
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

void AppendCsvNumber(double value, std::string* out) {
  if (!std::isfinite(value)) return;
  const double magnitude = std::abs(value);
  const bool ordinary = magnitude == 0 || (magnitude >= 1e-5 && magnitude < 1e21);
  char buffer[64];
  const auto format = ordinary ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, format).ptr;
  out->append(buffer, static_cast<size_t>(end - buffer));
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
