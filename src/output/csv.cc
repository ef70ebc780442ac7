#include "output/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "output/rows.h"
#include "output/text.h"

namespace xplane_time::output {
namespace {

template <typename T>
void AppendInteger(T value, std::string* out) {
  char buffer[24];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  out->append(buffer, static_cast<size_t>(end - buffer));
}

struct AppendValue {
  std::string* out;
  void operator()(std::monostate) const {}
  void operator()(bool value) const { out->append(value ? "true" : "false"); }
  void operator()(double value) const { AppendCsvNumber(value, out); }
  void operator()(std::string_view text) const { AppendCsvCell(ValidUtf8(text), out); }
  template <typename T>
  void operator()(T value) const {
    AppendInteger(value, out);
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
      std::visit(AppendValue{out_}, value);
    }
  }

 private:
  bool header_;
  std::string* out_;
  bool first_ = true;
};

// A header and one line a row; `visit(row, sink)` gives the cells.
template <typename Row, typename Rows, typename Visit>
std::string Lines(const Rows& rows, Visit visit) {
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

// Lets a range-for see rows through pointers.
template <typename Row>
class Pointees {
 public:
  explicit Pointees(const std::vector<const Row*>& rows) : rows_(rows) {}
  struct Iterator {
    typename std::vector<const Row*>::const_iterator it;
    const Row& operator*() const { return **it; }
    Iterator& operator++() {
      ++it;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return it != other.it; }
  };
  Iterator begin() const { return {rows_.begin()}; }
  Iterator end() const { return {rows_.end()}; }

 private:
  const std::vector<const Row*>& rows_;
};

constexpr auto kVisitRow = [](const auto& row, FieldSink* sink) { VisitRow(row, sink); };

std::string FunctionLines(const std::vector<const FunctionRow*>& rows) {
  const bool with_device =
      rows.empty() || std::any_of(rows.begin(), rows.end(),
                                  [](const FunctionRow* row) { return row->device.has_value(); });
  return Lines<FunctionRow>(
      Pointees<FunctionRow>(rows),
      [with_device](const FunctionRow& row, FieldSink* sink) { VisitRow(row, with_device, sink); });
}

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

std::string FunctionsCsv(const Report& report, const OrderedReport& rows, bool by_id,
                         bool samples) {
  if (samples) return Lines<SampleRow>(report.samples, kVisitRow);
  return FunctionLines(by_id ? rows.variants : rows.functions);
}

std::string KernelsCsv(const OrderedReport& rows) {
  return Lines<KernelRow>(Pointees<KernelRow>(rows.kernels), kVisitRow);
}

std::string TreeCsv(const TreeReport& report, std::optional<size_t> top) {
  const size_t shown = std::min(report.rows.size(), top.value_or(report.rows.size()));
  return Lines<TreeRow>(std::span<const TreeRow>(report.rows).first(shown), kVisitRow);
}

std::string PlanesCsv(const PlanesReport& report) {
  const bool with_stats = std::any_of(report.planes.begin(), report.planes.end(),
                                      [](const PlaneRow& p) { return !p.stats.empty(); });
  if (with_stats) return Lines<PlanePart<StatRow>>(PlaneStats(report), kVisitRow);
  return Lines<PlanePart<LineRow>>(PlaneLines(report), kVisitRow);
}

}  // namespace xplane_time::output
