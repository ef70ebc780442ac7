#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "output/sections.h"
#include "output/text.h"
#include "output/units.h"

namespace xplane_time::output {
namespace {

// What names keep before other columns give way.
constexpr size_t kKernelWidth = 26, kFunctionWidth = 14;

using DeviceKey = std::tuple<uint32_t, std::string_view, std::string_view, int64_t>;

DeviceKey KeyOf(const DeviceRef& device) {
  return {device.input, device.host, device.plane, device.ordinal.value_or(-1)};
}

// The time that `share` is of, summed over devices: a row's own time over its share.
double SharedTime(const std::vector<KernelRow>& rows) {
  std::map<DeviceKey, std::pair<double, double>> best;  // the largest row is the most exact
  for (const KernelRow& row : rows) {
    const auto own = static_cast<double>(row.self_ps.value_or(row.total_ps));
    auto& [largest, time] = best[KeyOf(row.device)];
    if (row.share && *row.share > 0 && own > largest) {
      largest = own;
      time = own / *row.share;
    }
  }
  double sum = 0;
  for (const auto& [key, value] : best) sum += value.second;
  return sum;
}

void AddTo(const KernelRow& row, KernelRow* merged) {
  merged->count += row.count;
  merged->total_ps += row.total_ps;
  merged->self_ps = merged->self_ps && row.self_ps
                        ? std::optional<int64_t>(*merged->self_ps + *row.self_ps)
                        : std::nullopt;
  merged->mean_ps = static_cast<double>(merged->total_ps) /
                    static_cast<double>(std::max<uint64_t>(merged->count, 1));
  if (merged->min_ps && row.min_ps) merged->min_ps = std::min(*merged->min_ps, *row.min_ps);
  if (merged->max_ps && row.max_ps) merged->max_ps = std::max(*merged->max_ps, *row.max_ps);
  merged->median_ps.reset();
  merged->std_ps.reset();
  merged->program_id.reset();
}

template <typename Get>
std::vector<std::string> Cells(const std::vector<const KernelRow*>& rows, Get get) {
  std::vector<std::string> cells;
  for (const KernelRow* row : rows) cells.push_back(get(*row));
  return cells;
}

template <typename Get>
std::vector<std::optional<double>> Values(const std::vector<const KernelRow*>& rows, Get get) {
  std::vector<std::optional<double>> values;
  for (const KernelRow* row : rows) {
    const auto value = get(*row);
    values.push_back(value ? std::optional<double>(static_cast<double>(*value)) : std::nullopt);
  }
  return values;
}

// One of a pair, "copy-start.3" and "copy-done.3": the work is done between the two.
bool IsHalf(std::string_view kernel) {
  const size_t dash = kernel.rfind('-');
  if (dash == kernel.npos) return false;
  const std::string_view end = kernel.substr(dash, kernel.find('.', dash) - dash);
  return end == "-start" || end == "-done";
}

// What `amount` of a row's executions comes to a second; not shown where no row knows it.
void AddRate(const char* header, const std::vector<const KernelRow*>& rows,
             std::optional<int64_t> KernelRow::*amount, Grid* grid) {
  constexpr double kPsPerSecond = 1e12;
  bool any = false;
  auto cells = Cells(rows, [&](const KernelRow& row) {
    std::optional<double> rate;
    if (row.*amount && row.total_ps > 0 && !IsHalf(row.kernel)) {
      rate = static_cast<double>(*(row.*amount)) / static_cast<double>(row.total_ps) * kPsPerSecond;
    }
    any |= rate.has_value();
    return FormatRate(rate);
  });
  grid->columns.push_back(NumberColumn(header, std::move(cells), /*drop=*/3));
  grid->columns.back().hidden = !any;
}

// Count to category, the columns of both tables; `all` adds the others. What gives way to
// the names in a narrow table has a `drop`.
void AddNumbers(const std::vector<const KernelRow*>& rows, const OutputOptions& options, bool all,
                Grid* grid) {
  // One unit for the totals, one for single executions.
  const auto total = Values(rows, [](const auto& row) { return std::optional(row.total_ps); });
  const auto mean = Values(rows, [](const auto& row) { return std::optional(row.mean_ps); });
  Unit unit = CommonUnit(total, options.unit);
  const auto times = [&](const char* header, int drop, auto get) {
    grid->columns.push_back(TimesColumn(header, Values(rows, get), unit, drop));
  };
  grid->columns.push_back(NumberColumn(
      "count", Cells(rows, [](const auto& row) { return std::to_string(row.count); })));
  // Where kernels contain others, self time is what orders the rows and what shares are of.
  const bool nested = std::any_of(rows.begin(), rows.end(), [](const KernelRow* row) {
    return row->self_ps && *row->self_ps != row->total_ps;
  });
  times("self", 0, [](const KernelRow& row) { return row.self_ps; });
  grid->columns.back().hidden = !nested;
  grid->columns.push_back(TimesColumn("total", total, unit, nested ? 2 : 0));
  unit = CommonUnit(mean, options.unit);
  grid->columns.push_back(TimesColumn("mean", mean, unit));
  if (all) {
    times("median", 4, [](const KernelRow& row) { return row.median_ps; });
    times("std", 5, [](const KernelRow& row) { return row.std_ps; });
    times("min", 6, [](const KernelRow& row) { return row.min_ps; });
    times("max", 7, [](const KernelRow& row) { return row.max_ps; });
  }
  grid->columns.push_back(NumberColumn(
      "share %", Cells(rows, [](const auto& row) { return FormatPercent(row.share); })));
  if (all) {
    AddRate("FLOP/s", rows, &KernelRow::flops, grid);
    AddRate("B/s", rows, &KernelRow::bytes_accessed, grid);
  }
  grid->columns.push_back(TextColumn("category", Cells(rows, [](const auto& row) {
                                       return std::string(CategoryName(row.category));
                                     })));
  grid->columns.back().drop = 3;
  grid->columns.back().hidden = std::all_of(rows.begin(), rows.end(), [](const KernelRow* row) {
    return row->category == Category::kCompute;
  });
}

// Nothing new where no kernel belongs to a function.
void AddFunction(const std::vector<const KernelRow*>& rows, Grid* grid) {
  grid->columns.push_back(NameColumn(
      "function",
      Cells(rows,
            [](const KernelRow& row) { return row.function ? Printable(*row.function) : "-"; }),
      kFunctionWidth));
  grid->columns.back().drop = 1;
  grid->columns.back().hidden =
      std::none_of(rows.begin(), rows.end(), [](const auto* row) { return row->function; });
}

}  // namespace

std::vector<KernelRow> MergeKernels(const std::vector<KernelRow>& rows) {
  std::vector<KernelRow> merged;
  std::map<std::pair<std::string_view, std::string_view>, size_t> index;
  for (const KernelRow& row : rows) {
    const std::string_view function = row.function ? std::string_view(*row.function) : "";
    const auto [it, is_new] = index.try_emplace({row.kernel, function}, merged.size());
    if (is_new) {
      merged.push_back(row);
    } else {
      AddTo(row, &merged[it->second]);
    }
  }
  const double shared_time = SharedTime(rows);
  for (KernelRow& row : merged) {
    row.share.reset();
    if (row.self_ps && shared_time > 0) row.share = static_cast<double>(*row.self_ps) / shared_time;
  }
  return merged;
}

Section TopKernelSection(const std::vector<const KernelRow*>& merged, const OutputOptions& options,
                         size_t most) {
  const bool of_some_runs = std::any_of(
      options.given.begin(), options.given.end(),
      [](const GivenOption& given) { return given.name == "skip_runs" || given.name == "trim"; });
  Section section = {
      .title = absl::StrCat("kernels, all devices and programs", of_some_runs ? ", all runs" : "",
                            "; share of self time"),
      .grid = {},
      .notes = {}};
  if (merged.empty()) {
    section.notes.emplace_back("none");
    return section;
  }
  std::vector<const KernelRow*> rows = merged;
  rows.resize(std::min(rows.size(), most));
  section.grid.columns.push_back(
      NameColumn("kernel", Cells(rows, [](const KernelRow& row) { return Printable(row.kernel); }),
                 kKernelWidth));
  AddNumbers(rows, options, /*all=*/false, &section.grid);
  AddFunction(rows, &section.grid);
  if (merged.size() > rows.size()) {
    section.notes.push_back(
        MoreNote(merged.size() - rows.size(), "kernels", "xplane-time kernels"));
  }
  return section;
}

Section KernelSection(const std::vector<const KernelRow*>& rows, size_t all,
                      const OutputOptions& options) {
  Section section = {.title = "kernels", .grid = {}, .notes = {}};
  if (all == 0) section.notes.emplace_back("none");
  if (all > rows.size()) {
    section.notes.push_back(MoreNote(all - rows.size(), "kernels", "without --top"));
  }
  if (rows.empty()) return section;
  std::vector<const DeviceRef*> devices;
  for (const KernelRow* row : rows) devices.push_back(&row->device);
  const DeviceNames names(devices);
  auto device = Cells(rows, [&](const KernelRow& row) { return names.Name(row.device); });
  auto clock = Cells(rows, [](const KernelRow& row) { return std::string(ClockName(row.clock)); });
  section.title.append(names.count() == 1 ? ", " + device[0] : ", share of each device's time");
  if (!Varies(clock)) section.title.append(", " + clock[0] + " clock");
  auto& columns = section.grid.columns;
  columns.push_back(
      NameColumn("kernel", Cells(rows, [](const KernelRow& row) { return Printable(row.kernel); }),
                 kKernelWidth));
  AddNumbers(rows, options, /*all=*/true, &section.grid);
  const bool several_clocks = Varies(clock);
  columns.push_back(NameColumn("device", std::move(device), 7));
  columns.back().hidden = names.count() < 2;
  AddFunction(rows, &section.grid);
  columns.push_back(TextColumn("clock", std::move(clock)));
  columns.back().drop = 8;
  columns.back().hidden = !several_clocks;
  return section;
}

}  // namespace xplane_time::output
