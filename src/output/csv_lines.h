// CSV lines: a header and one line a row, from whatever visits a row's fields.
#ifndef XPLANE_TIME_SRC_OUTPUT_CSV_LINES_H_
#define XPLANE_TIME_SRC_OUTPUT_CSV_LINES_H_

#include <charconv>
#include <string>
#include <string_view>

#include "output/csv.h"
#include "output/rows.h"
#include "output/text.h"

namespace xplane_time::output {

template <typename T>
void AppendCsvInteger(T value, std::string* out) {
  char buffer[24];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  out->append(buffer, static_cast<size_t>(end - buffer));
}

struct AppendCsvValue {
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
class CsvLine : public FlatSink {
 public:
  CsvLine(bool header, std::string* out) : header_(header), out_(out) {}

 protected:
  void Cell(std::string_view prefix, std::string_view name, const FieldValue& value) override {
    if (!first_) out_->push_back(',');
    first_ = false;
    if (header_) {
      out_->append(prefix).append(name);
    } else {
      std::visit(AppendCsvValue{out_}, value);
    }
  }

 private:
  bool header_;
  std::string* out_;
  bool first_ = true;
};

// A header and one line a row; `visit(row, sink)` gives the cells.
template <typename Row, typename Rows, typename Visit>
std::string CsvLines(const Rows& rows, Visit visit) {
  std::string out;
  CsvLine header(/*header=*/true, &out);
  visit(Row(), &header);
  out.push_back('\n');
  for (const Row& row : rows) {
    CsvLine line(/*header=*/false, &out);
    visit(row, &line);
    out.push_back('\n');
  }
  return out;
}

}  // namespace xplane_time::output

#endif  // XPLANE_TIME_SRC_OUTPUT_CSV_LINES_H_
