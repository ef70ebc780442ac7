#include "output/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>

#include "output/csv_lines.h"

namespace xplane_time::output {
namespace {

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
  return CsvLines<FunctionRow>(
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
  if (samples) return CsvLines<SampleRow>(report.samples, kVisitRow);
  return FunctionLines(by_id ? rows.variants : rows.functions);
}

std::string KernelsCsv(const OrderedReport& rows) {
  return CsvLines<KernelRow>(Pointees<KernelRow>(rows.kernels), kVisitRow);
}

std::string TreeCsv(const TreeReport& report, std::optional<size_t> top) {
  const size_t shown = std::min(report.rows.size(), top.value_or(report.rows.size()));
  return CsvLines<TreeRow>(std::span<const TreeRow>(report.rows).first(shown), kVisitRow);
}

std::string PlanesCsv(const PlanesReport& report) {
  const bool with_stats = std::any_of(report.planes.begin(), report.planes.end(),
                                      [](const PlaneRow& p) { return !p.stats.empty(); });
  if (with_stats) return CsvLines<PlanePart<StatRow>>(PlaneStats(report), kVisitRow);
  return CsvLines<PlanePart<LineRow>>(PlaneLines(report), kVisitRow);
}

}  // namespace xplane_time::output
