// Functions, variants and samples.
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "output/results.h"
#include "output/trace_views.h"

namespace xplane_time::output {
namespace {

using result::FunctionTable, result::TableOf;

constexpr std::string_view kNoFunctions = "none: no kernel belongs to a compiled function";

std::string_view MetricText(Metric metric) {
  if (metric == Metric::kActive) return "active time";
  return metric == Metric::kSpan ? "span" : "sum of kernels";
}

std::optional<std::string_view> ClockText(const FunctionRow& row) {
  return row.clock ? std::optional(ClockName(*row.clock)) : std::nullopt;
}

// A caveat for the numbers of a row: a sign in the row, explained below the table.
struct Remark {
  std::string_view sign, meaning;
  uint64_t (*count)(const FunctionRow& row);  // 0: does not apply
  bool tells_count = false;
};

constexpr Remark kRemarks[] = {
    {"?", "the split into runs is uncertain",
     [](const FunctionRow& row) -> uint64_t { return row.status == RowStatus::kRunsUncertain; }},
    {"u", "runs do not match across devices",
     [](const FunctionRow& row) -> uint64_t { return row.status == RowStatus::kDevicesUnmatched; }},
    {"l", "launches of its runs have no execution in the trace (lost)",
     [](const FunctionRow& row) -> uint64_t { return row.status == RowStatus::kLostExecutions; }},
    {"o", "no ops, only spans are known",
     [](const FunctionRow& row) -> uint64_t {
       return row.status == RowStatus::kNoOps && !row.is_range;
     }},
    {"e", "N runs without an execution in the trace",
     [](const FunctionRow& row) { return row.empty_runs; }, true},
    {"s", "N suspect runs, excluded, also from shares",
     [](const FunctionRow& row) { return row.suspect_runs; }, true},
    {"d", "N samples dropped, also from shares",
     [](const FunctionRow& row) { return row.dropped_samples - row.empty_runs; }, true},
};

// "? 2s"
std::string NoteText(const FunctionRow& row) {
  std::string note;
  for (const Remark& remark : kRemarks) {
    const uint64_t count = remark.count(row);
    if (count == 0) continue;
    if (!note.empty()) note.push_back(' ');
    if (remark.tells_count) note.append(std::to_string(count));
    note.append(remark.sign);
  }
  return note;
}

struct Listing {
  std::span<const FunctionRow> rows;
  std::function<std::string(const FunctionRow& row)> device;  // as shown
  double total_ps = 0;                                        // of all rows, shown or not
};

// Explains the signs that occur; empty if no sign does.
std::string NoteLegend(const Listing& table) {
  std::string legend;
  for (const Remark& remark : kRemarks) {
    const auto applies = [&](const FunctionRow& row) { return remark.count(row) > 0; };
    if (std::ranges::none_of(table.rows, applies)) continue;
    legend.append(legend.empty() ? "note: " : "; ").append(remark.tells_count ? "N" : "");
    legend.append(remark.sign).append(remark.tells_count ? ": " : " ").append(remark.meaning);
  }
  return legend;
}

// Half of the median's interval (its longer side) as a share of the median.
std::string ErrorText(const std::optional<Summary>& summary, bool unicode) {
  if (!summary || !summary->median_ci95_lo || !summary->median_ci95_hi) return "-";
  const double side = std::max(*summary->median_ci95_hi - summary->median,
                               summary->median - *summary->median_ci95_lo);
  if (summary->median <= 0 || !std::isfinite(side)) return "-";
  return (unicode ? "±" : "+-") + FormatFixed(side / summary->median * 100, 1) + "%";
}

// Whether a function occurs more than once on a device, so that rows need the program.
bool NeedsProgram(const Listing& table) {
  std::set<std::pair<std::string, std::string_view>> seen;
  return std::ranges::any_of(table.rows, [&](const FunctionRow& row) {
    return row.program_id && !seen.emplace(table.device(row), row.function).second;
  });
}

// Counts only devices with executions.
bool HaveSeveralDevices(const Listing& table) {
  std::set<std::string> names;
  for (const FunctionRow& row : table.rows) names.insert(table.device(row));
  names.erase("");
  return names.size() > 1;
}

// The clock of every row that has the metric; empty if clocks differ.
std::string_view CommonClock(const Listing& table, Metric metric) {
  std::string_view common;
  for (const FunctionRow& row : table.rows) {
    if (!row.metric(metric)) continue;
    const std::string_view clock = ClockText(row).value_or("");
    if (clock.empty() || (!common.empty() && clock != common)) return "";
    common = clock;
  }
  return common;
}

using FunctionGrid = RowGrid<std::span<const FunctionRow>>;

void AddTimes(const Listing& table, const OutputOptions& options, bool all, FunctionGrid* grid) {
  using Number = std::optional<double>;
  const Metric metric = options.metric;
  const auto of = [metric](auto member) {
    return [metric, member](const FunctionRow& row) {
      const std::optional<Summary>& summary = row.metric(metric);
      return summary ? Number(static_cast<double>((*summary).*member)) : std::nullopt;
    };
  };
  const auto total = [metric](const FunctionRow& row) { return TotalPs(row, metric); };
  // One unit for single runs; the total has its own.
  const Unit unit = CommonUnit(grid->Values(of(&Summary::median)), options.unit);
  grid->Times("median", unit, of(&Summary::median));
  grid->Number("95% CI", [&](const FunctionRow& row) {
    return ErrorText(row.metric(metric), options.unicode);
  });
  grid->Times("mean", unit, of(&Summary::mean)).Drop(1);
  if (all) {
    grid->Times("std", unit, of(&Summary::std)).Drop(3);
    grid->Times("min", unit, of(&Summary::min)).Drop(4);
    grid->Times("max", unit, of(&Summary::max)).Drop(5);
    grid->Times("total", options.unit, total).Drop(2);
  }
  const auto share = [&](const FunctionRow& row) {
    const Number of_row = row.is_range ? std::nullopt : total(row);
    return of_row && table.total_ps > 0 ? Number(*of_row / table.total_ps) : std::nullopt;
  };
  grid->Number("share %", share, FormatPercent)
      .HideIf(std::ranges::any_of(table.rows, &FunctionRow::is_range));
}

// The rows of `count`. A note has the number of other rows and `where` to find them.
Section BuildSection(const Listing& table, std::string_view title, const OutputOptions& options,
                     bool all, size_t count, std::string_view where) {
  Section section;
  section.title = std::string(title) + ", " + std::string(MetricText(options.metric));
  const std::string_view clock = CommonClock(table, options.metric);
  if (!clock.empty()) section.title.append(", ").append(clock).append(" clock");
  const bool several_devices = HaveSeveralDevices(table);
  if (count == 0) section.notes.emplace_back(kNoFunctions);
  const std::string device = table.rows.empty() ? "" : table.device(table.rows[0]);
  if (!several_devices && !device.empty()) {
    section.title.append(", " + device);
    if (!table.rows[0].device) section.title.append(" devices");
  }
  std::string legend = NoteLegend(table);
  FunctionGrid grid(table.rows);
  grid.Name("function", 18, &FunctionRow::function);
  grid.Id("variant", 0, &FunctionRow::variant_id).HideIfUnknown();
  grid.Id("program", 7, &FunctionRow::program_id).HideIf(!NeedsProgram(table));
  grid.Name("device", 7, table.device).HideIf(!several_devices);
  grid.Number("runs", &FunctionRow::runs);
  AddTimes(table, options, all, &grid);
  if (all) {
    const auto one_decimal = [](const std::optional<double>& kernels) {
      return kernels ? FormatFixed(*kernels, 1) : "-";
    };
    grid.Number("kernels/run", &FunctionRow::kernels_per_run, one_decimal).Drop(6);
  }
  // Clock and notes are shown only if they vary or occur.
  grid.Text("clock", ClockText).HideIf(!clock.empty());
  grid.Text("note", NoteText).HideIf(legend.empty());
  section.grid = std::move(grid).Take();
  if (!legend.empty()) section.notes.push_back(std::move(legend));
  NoteMore(count, table.rows.size(), title, where, &section.notes);
  return section;
}

double SumOfTotals(std::span<const FunctionRow> rows, Metric metric) {
  double sum = 0;
  for (const FunctionRow& row : rows) {
    if (!row.is_range) sum += TotalPs(row, metric).value_or(0);
  }
  return sum;
}

using FunctionKey = std::pair<std::string_view, std::string_view>;

FunctionKey MakeFunctionKey(const FunctionRow& row) {
  return {row.function, row.variant_id ? std::string_view(*row.variant_id) : std::string_view()};
}

// The combined row of a function that ran on several devices stands for its rows, which are `rows`.
Listing ChooseRows(const Report& report, const DeviceNames& names, const OutputOptions& options,
                   std::vector<FunctionRow>* rows) {
  std::map<FunctionKey, std::set<std::string>> devices;
  for (const FunctionRow& row : report.functions) {
    if (row.device) devices[MakeFunctionKey(row)].insert(names.Name(*row.device));
  }
  std::set<FunctionKey> replaced;
  for (const FunctionRow& row : report.combined) {
    if (devices[MakeFunctionKey(row)].size() < 2 || !row.metric(options.metric)) continue;
    replaced.insert(MakeFunctionKey(row));
    rows->push_back(row);
  }
  for (const FunctionRow& row : report.functions) {
    if (!replaced.contains(MakeFunctionKey(row))) rows->push_back(row);
  }
  SortFunctions(options.sort, options.metric, rows);
  const auto device = [&names, devices = std::move(devices)](const FunctionRow& row) {
    if (row.device) return names.Name(*row.device);
    const auto of_row = devices.find(MakeFunctionKey(row));
    const size_t count = of_row == devices.end() ? 0 : of_row->second.size();
    return (count == names.count() ? "all " : std::to_string(count) + " of ") +
           std::to_string(names.count());
  };
  return {*rows, device, SumOfTotals(*rows, options.metric)};
}

// Shares are relative to `all` rows. A note has the number of rows that are not shown.
Section FunctionSection(const std::vector<FunctionRow>& all, std::string_view what,
                        const OutputOptions& options) {
  const auto rows = Top(all, options.top);
  const DeviceNames names(rows);
  const auto device = [&names](const FunctionRow& row) {
    return row.device ? names.Name(*row.device) : "";
  };
  return BuildSection({rows, device, SumOfTotals(all, options.metric)}, what, options,
                      /*all=*/true, all.size(), kByTop);
}

Section SampleSection(const std::vector<SampleRow>& all, const OutputOptions& options) {
  Section section = {.title = "samples"};
  const auto samples = TopRows(all, options.top, "runs", kByTop, &section.notes);
  const DeviceNames names(samples);
  RowGrid grid(samples);
  grid.Name("function", 18, &SampleRow::function);
  grid.Id("program", 7, &SampleRow::program_id).HideIfSame();
  grid.Name("device", 7, [&](const SampleRow& row) { return names.Name(row.device); })
      .HideIf(names.count() < 2);
  grid.Number("run", &SampleRow::run);
  grid.Times("start", options.unit, &SampleRow::start_ps).Drop(2);
  grid.Times("active", options.unit, &SampleRow::active_ps);
  grid.Times("span", options.unit, &SampleRow::span_ps);
  grid.Times("sum", options.unit, &SampleRow::sum_ps).Drop(3);
  grid.Number("kernels", &SampleRow::kernels).Drop(1);
  grid.Text("clock", [](const SampleRow& row) { return ClockName(row.clock); }).HideIfSame();
  grid.Text("note", [](const SampleRow& row) { return row.suspect ? "suspect" : ""; })
      .HideIfSame(/*unless_known=*/true);
  section.grid = std::move(grid).Take();
  if (all.empty()) section.notes.emplace_back(kNoFunctions);
  return section;
}

// The runs that a figure draws: if there are many, an evenly spaced sample.
std::vector<SampleRow> SomeRuns(std::span<const SampleRow> samples) {
  constexpr uint64_t kAbout = 10'000;
  const auto key_of = [](const SampleRow& row) {
    return std::tuple(KeyOf(row.device), row.function, row.program_id);
  };
  std::map<decltype(key_of(samples[0])), uint64_t> counts;
  for (const SampleRow& row : samples) ++counts[key_of(row)];
  const uint64_t most = kAbout / (counts.size() + 1) + 1;  // of a function
  std::vector<SampleRow> some;
  for (const SampleRow& row : samples) {
    if (row.run % ((counts[key_of(row)] + most - 1) / most) == 0) some.push_back(row);
  }
  return some;
}

}  // namespace

void AddRunsDrawn(std::span<const SampleRow> samples, const OutputOptions& options, Output* out) {
  if (options.format != Format::kHtml) return;
  std::vector<SampleRow> some = SomeRuns(samples);
  if (some.size() < samples.size()) out->drawn.push_back(TableOf("samples", std::move(some)));
}

Section OverviewSection(const Report& report, const OutputOptions& options, size_t most) {
  const DeviceNames names(report.functions);
  std::vector<FunctionRow> chosen;
  Listing table = {report.functions, [](const FunctionRow&) { return ""; },
                   SumOfTotals(report.functions, options.metric)};
  if (names.count() > 1) table = ChooseRows(report, names, options, &chosen);
  const size_t all = table.rows.size();
  table.rows = table.rows.first(std::min(all, most));
  Section section =
      BuildSection(table, "functions", options, /*all=*/false, all, "xplane-time functions");
  const bool has_step_time = std::ranges::any_of(report.devices, [](const DeviceRow& row) {
    return row.steps.has_value() && row.steps->step_median_ps.has_value();
  });
  if (has_step_time && options.metric == Metric::kActive && all > 0) {
    section.notes.emplace_back(
        "active time excludes the waits of the device; the step time includes them");
  }
  return section;
}

void AddFunctions(const Report& report, bool with_variants, const OutputOptions& options,
                  result::Result* result) {
  const auto add = [&](std::string name, const std::vector<FunctionRow>& rows, bool by_device) {
    result->Add(TableOf(std::move(name), Top(rows, options.top),
                        [by_device](const FunctionRow& row, result::FieldSink* sink) {
                          VisitRow(row, by_device || row.device.has_value(), sink);
                        }));
  };
  add("functions", report.functions, /*by_device=*/true);
  add("combined", report.combined, /*by_device=*/false);
  if (with_variants) add("variants", report.variants, /*by_device=*/false);
}

Output FunctionsOutput(const Report& report, const OutputOptions& options, bool by_id,
                       bool samples) {
  Output out{.result = result::Result("xplane-time.functions.v1")};
  AddHead(report.inputs, &report.capture, options.given, &out.result);
  AddFunctions(report, /*with_variants=*/by_id, options, &out.result);
  if (samples) {
    out.result.Add(TableOf("samples", Top(report.samples, options.top)));
    AddRunsDrawn(Top(report.samples, options.top), options, &out);
  }
  out.result.Add(TableOf("diagnostics", std::span(report.diagnostics)));
  const auto rows = Top(by_id ? report.variants : report.functions, options.top);
  const bool with_device = rows.empty() || std::ranges::any_of(rows, [](const FunctionRow& row) {
                             return row.device.has_value();
                           });
  out.result.csv = samples ? TableOf("", Top(report.samples, options.top))
                           : FunctionTable("", rows, with_device);
  out.view = [&report, by_id, samples](const OutputOptions& how) {
    Section section = samples ? SampleSection(report.samples, how)
                      : by_id ? FunctionSection(report.variants, "variants", how)
                              : FunctionSection(report.functions, "functions", how);
    if (by_id && !samples && report.variants.empty()) {
      section.notes = {"none: no function name matches --id-pattern"};
    }
    return View{.lines = FilterLines(how, /*with_devices=*/false),
                .sections = {std::move(section)},
                .diagnostics = DiagnosticLines(report.diagnostics, /*with_infos=*/false)};
  };
  return out;
}

}  // namespace xplane_time::output
