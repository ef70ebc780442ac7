#include "output/page/kept_rows.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "status.h"

namespace xplane_time::output {
namespace {

using result::FieldValue, result::Table;

// The first of these that a row has is its time.
constexpr std::string_view kTimes[] = {"active_ps", "span_ps", "total_ps", "duration_ps"};

class TimeSink : public result::FlatSink {
 public:
  size_t which = std::size(kTimes);
  std::optional<double> ps;

 protected:
  void Cell(std::string_view prefix, std::string_view name, const FieldValue& value) override {
    const size_t at = static_cast<size_t>(std::ranges::find(kTimes, name) - std::begin(kTimes));
    if (!prefix.empty() || at >= which) return;
    which = at;
    ps.reset();
    if (const auto* const number = std::get_if<int64_t>(&value)) ps = static_cast<double>(*number);
    if (const auto* const number = std::get_if<double>(&value)) ps = *number;
  }
};

KeptRows KeptOf(const Table& table, size_t most) {
  KeptRows kept{.table = table.name, .all = table.rows, .rows = std::vector<size_t>(table.rows)};
  std::iota(kept.rows.begin(), kept.rows.end(), 0);
  std::vector<double> times_ps(table.rows);
  for (size_t row = 0; row < table.rows; ++row) {
    TimeSink sink;
    table.visit(row, &sink);
    kept.longest |= sink.ps.has_value();
    times_ps[row] = sink.ps.value_or(-1);
  }
  const auto end = kept.rows.begin() + static_cast<ptrdiff_t>(most);
  std::ranges::nth_element(kept.rows, end, [&](size_t a, size_t b) {
    return std::pair(-times_ps[a], a) < std::pair(-times_ps[b], b);
  });
  kept.rows.resize(most);
  std::ranges::sort(kept.rows);
  return kept;
}

// "160,000"
std::string Digits(size_t number) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

template <typename T>
void Pick(std::span<const size_t> rows, std::vector<T>* cells) {
  if (cells->empty()) return;
  std::vector<T> picked;
  picked.reserve(rows.size());
  for (const size_t row : rows) picked.push_back(std::move((*cells)[row]));
  *cells = std::move(picked);
}

}  // namespace

std::string KeptRows::Words() const {
  return absl::StrCat(Digits(rows.size()), " of ", Digits(all), " ", table, ", the ",
                      longest ? "longest" : "first", "; all are in --format json");
}

std::vector<KeptRows> KeptRowsOf(const result::Result& result, size_t most) {
  std::vector<KeptRows> kept;
  for (const auto& part : result.parts) {
    const auto* const table = std::get_if<Table>(&part);
    if (table != nullptr && table->rows > most) kept.push_back(KeptOf(*table, most));
  }
  return kept;
}

result::Result Shortened(result::Result result, const std::vector<KeptRows>& kept) {
  for (auto& part : result.parts) {
    auto* const table = std::get_if<Table>(&part);
    if (table == nullptr) continue;
    const auto found = std::ranges::find(kept, table->name, &KeptRows::table);
    if (found == kept.end()) continue;
    *table = {table->name, found->rows.size(),
              [visit = std::move(table->visit), rows = found->rows, empty = found->all](
                  size_t at, result::FieldSink* sink) {
                visit(at == rows.size() ? empty : rows[at], sink);
              }};
  }
  return result;
}

bool Shorten(const std::vector<KeptRows>& kept, const std::string& table, size_t most,
             Section* section) {
  const size_t all = section->grid.rows();
  if (all <= most) return false;
  const auto found = std::ranges::find(kept, table, &KeptRows::table);
  KeptRows of_grid{.table = "rows", .all = all, .rows = std::vector<size_t>(most)};
  std::iota(of_grid.rows.begin(), of_grid.rows.end(), 0);
  const bool is_of_table = found != kept.end() && found->all == all;
  if (is_of_table) of_grid = *found;
  for (Column& column : section->grid.columns) {
    Pick(of_grid.rows, &column.cells);
    Pick(of_grid.rows, &column.exact);
  }
  section->notes.push_back(of_grid.Words());
  return is_of_table;
}

}  // namespace xplane_time::output
