// Kernels.
#include <map>

#include "absl/strings/str_cat.h"
#include "output/results.h"
#include "output/trace_views.h"

namespace xplane_time::output {
namespace {

using result::TableOf;

// The width that names keep before other columns are dropped.
constexpr size_t kKernelWidth = 26, kFunctionWidth = 14;

// The time to which `share` is relative, summed over devices: a row's own time divided by its
// share.
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
  if (merged->source != row.source) merged->source.reset();
  merged->flops.reset();
  merged->bytes_accessed.reset();
  merged->impossible_count += row.impossible_count;
  merged->flops_per_s.reset();
  merged->bytes_per_s.reset();
  merged->roof_share.reset();
  merged->launch.reset();
  merged->launch_count.reset();
  merged->launch_configs.reset();
}

using KernelRows = std::span<const KernelRow>;
using KernelGrid = RowGrid<KernelRows>;

// Hidden if the value is unknown in every row.
void AddRate(const char* header, std::optional<double> KernelRow::*per_s, int drop,
             KernelGrid* grid) {
  grid->Number(header, per_s, FormatRate).Drop(drop).HideIfUnknown();
}

bool IsMarked(const KernelRow& row) { return row.impossible_count > 0; }

// A table of one function can do without its name, and has room for source lines.
bool PrefersSources(const KernelRows& rows) {
  const bool has_sources =
      std::ranges::any_of(rows, [](const KernelRow& row) { return row.source.has_value(); });
  return has_sources && std::ranges::all_of(rows, [&](const KernelRow& row) {
           return row.function == rows[0].function;
         });
}

// Explains the sign of marked rows.
void AddLegend(const KernelRows& rows, Section* section) {
  if (std::ranges::any_of(rows, IsMarked)) {
    section->notes.emplace_back(
        "note: ! executions with an impossible duration; total, mean and share include them");
  }
}

// The columns of both tables, from kernel to category; `all` adds the others. Columns that make
// room for names in a narrow table have a `drop`.
void AddNumbers(const KernelRows& rows, const OutputOptions& options, bool all, KernelGrid* grid) {
  // One unit for the totals, one for single executions.
  const Unit of_all = CommonUnit(grid->Values(&KernelRow::total_ps), options.unit);
  const Unit of_one = CommonUnit(grid->Values(&KernelRow::mean_ps), options.unit);
  // If kernels contain others, self time determines the order and the shares.
  const bool nested = std::any_of(rows.begin(), rows.end(), [](const KernelRow& row) {
    return row.self_ps && *row.self_ps != row.total_ps;
  });
  grid->Name("kernel", kKernelWidth, &KernelRow::kernel);
  grid->Number("count", &KernelRow::count);
  grid->Times("self", of_all, &KernelRow::self_ps).HideIf(!nested);
  grid->Times("total", of_all, &KernelRow::total_ps).Drop(nested ? 2 : 0);
  grid->Times("mean", of_one, &KernelRow::mean_ps);
  if (all) {
    grid->Times("median", of_one, &KernelRow::median_ps).Drop(4);
    grid->Times("std", of_one, &KernelRow::std_ps).Drop(5);
    grid->Times("min", of_one, &KernelRow::min_ps).Drop(6);
    grid->Times("max", of_one, &KernelRow::max_ps).Drop(7);
  }
  grid->Number("share %", &KernelRow::share, FormatPercent);
  if (all) {
    AddRate("FLOP/s", &KernelRow::flops_per_s, /*drop=*/2, grid);
    AddRate("B/s", &KernelRow::bytes_per_s, /*drop=*/3, grid);
    grid->Number("roof %", &KernelRow::roof_share, FormatPercent).Drop(1).HideIfUnknown();
  }
  // Without the folder, which takes the room of other columns.
  const auto line = [](const KernelRow& row) -> std::optional<std::string> {
    if (!row.source.has_value()) return std::nullopt;
    return WithoutFolder(*row.source);
  };
  const bool comes_first = PrefersSources(rows);
  grid->Name("source", comes_first ? 24 : 12, line).Drop(comes_first ? 1 : 4).HideIfUnknown();
  grid->Text("category", [](const KernelRow& row) { return CategoryName(row.category); })
      .Drop(3)
      .HideIf(std::all_of(rows.begin(), rows.end(),
                          [](const KernelRow& row) { return row.category == Category::kCompute; }));
  grid->Text("note",
             [](const KernelRow& row) {
               return IsMarked(row) ? absl::StrCat(row.impossible_count, "!") : std::string();
             })
      .HideIf(std::ranges::none_of(rows, IsMarked));
}

// The most frequent launch configuration. --columns chooses among these columns without --wide.
void AddLaunch(const KernelRows& rows, const OutputOptions& options, KernelGrid* grid) {
  const auto show = [&](Column& column, bool is_useful = true) {
    column.right = true;
    column.HideIfUnknown();
    if (!options.wide || !is_useful) column.HideIf(true);
  };
  const auto whole = [](auto field) {
    return [field](const KernelRow& row) {
      return row.launch.has_value() ? (*row.launch).*field : std::nullopt;
    };
  };
  const auto dimensions = [](auto field) {
    return [field](const KernelRow& row) -> std::optional<std::string> {
      if (!row.launch.has_value() || ((*row.launch).*field).empty()) return std::nullopt;
      return (*row.launch).*field;
    };
  };
  show(grid->Number("regs", whole(&LaunchConfig::registers)));
  show(grid->Number("shared B", whole(&LaunchConfig::shared_bytes)));
  show(grid->Number("occ %", whole(&LaunchConfig::theoretical_occupancy), FormatPercent));
  show(grid->Number("est occ %", whole(&LaunchConfig::estimated_occupancy), FormatPercent));
  show(grid->Text("grid", dimensions(&LaunchConfig::grid)));
  show(grid->Text("block", dimensions(&LaunchConfig::block)));
  const bool differ = std::ranges::any_of(
      rows, [](const KernelRow& row) { return row.launch_configs.value_or(1) > 1; });
  show(grid->Number("configs", &KernelRow::launch_configs), differ);
}

// Redundant if no kernel belongs to a function. The column stays if several kernels have the same
// name.
void AddFunction(const KernelRows& rows, KernelGrid* grid) {
  std::map<std::string_view, std::optional<std::string>> functions;
  const bool tells = std::ranges::any_of(rows, [&](const KernelRow& row) {
    return functions.try_emplace(row.kernel, row.function).first->second != row.function;
  });
  grid->Name("function", kFunctionWidth, &KernelRow::function)
      .Drop(tells                  ? 0
            : PrefersSources(rows) ? 2
                                   : 1)
      .HideIfUnknown();
}

// How many of `all` kernels are not in `rows` is a note.
Section KernelSection(const KernelRows& rows, size_t all, const OutputOptions& options) {
  Section section = {.title = "kernels"};
  if (all == 0) section.notes.emplace_back("none");
  NoteMore(all, rows.size(), "kernels", kByTop, &section.notes);
  const DeviceNames names(rows);
  KernelGrid grid(rows);
  AddNumbers(rows, options, /*all=*/true, &grid);
  grid.Name("device", 7, [&](const KernelRow& row) { return names.Name(row.device); })
      .HideIf(names.count() < 2);
  AddFunction(rows, &grid);
  grid.Id("program", 7, &KernelRow::program_id).HideIf(!ProgramTellsApart(rows)).Drop(2);
  const Column& clock =
      grid.Text("clock", [](const KernelRow& row) { return ClockName(row.clock); })
          .Drop(8)
          .HideIfSame();
  AddLaunch(rows, options, &grid);
  const auto differing = std::ranges::count_if(
      rows, [](const KernelRow& row) { return row.launch_configs.value_or(1) > 1; });
  if ((options.wide || !options.columns.empty()) && differing > 0) {
    section.notes.push_back(absl::StrCat(
        "note: executions of ", Counted(static_cast<uint64_t>(differing), "kernel"),
        " differ in their launch configuration (configs); the most frequent one is shown"));
  }
  if (!rows.empty()) {
    section.title.append(names.count() == 1 ? ", " + names.Name(rows[0].device)
                                            : ", share of each device's time");
    if (clock.hidden) section.title.append(", " + clock.cells[0] + " clock");
  }
  AddLegend(rows, &section);
  section.grid = std::move(grid).Take();
  return section;
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

Section TopKernelSection(const std::vector<KernelRow>& merged, const OutputOptions& options,
                         size_t most) {
  const bool of_some_runs = std::any_of(
      options.given.begin(), options.given.end(),
      [](const GivenOption& given) { return given.name == "skip_runs" || given.name == "trim"; });
  Section section = {.title =
                         absl::StrCat("kernels, all devices and programs",
                                      of_some_runs ? ", all runs" : "", "; share of self time")};
  if (merged.empty()) section.notes.emplace_back("none");
  const KernelRows rows = TopRows(merged, most, "kernels", "xplane-time kernels", &section.notes);
  KernelGrid grid(rows);
  AddNumbers(rows, options, /*all=*/false, &grid);
  AddFunction(rows, &grid);
  AddLegend(rows, &section);
  section.grid = std::move(grid).Take();
  return section;
}

Output KernelsOutput(const Report& report, const OutputOptions& options) {
  const KernelRows rows = Top(report.kernels, options.top);
  Output out{.result = result::Result("xplane-time.kernels.v1")};
  AddHead(report.inputs, &report.capture, options.given, &out.result);
  out.result.Add(TableOf("kernels", rows));
  out.result.Add(TableOf("diagnostics", std::span(report.diagnostics)));
  out.result.csv = TableOf("", rows);
  out.view = [&report, rows](const OutputOptions& how) {
    return View{.lines = FilterLines(how, /*with_devices=*/false),
                .sections = {KernelSection(rows, report.kernels.size(), how)},
                .diagnostics = DiagnosticLines(report.diagnostics, /*with_infos=*/false)};
  };
  return out;
}

}  // namespace xplane_time::output
