// Functions, variants and samples.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "output/results.h"
#include "output/trace_views.h"
#include "status.h"

namespace xplane_time::output {
namespace {

using result::FieldSink, result::TableOf;

std::string_view MetricText(Metric metric) {
  if (metric == Metric::kActive) return "active time";
  return metric == Metric::kSpan ? "span" : "sum of kernels";
}

std::optional<std::string_view> ClockText(const FunctionRow& row) {
  return row.clock ? std::optional(ClockName(*row.clock)) : std::nullopt;
}

// What a reader of a row's numbers has to know: a sign in the row, explained below.
struct Remark {
  std::string_view sign, meaning;
  uint64_t (*count)(const FunctionRow& row);  // 0: does not apply
};

constexpr Remark kRemarks[] = {
    {"?", "how it splits into runs is uncertain",
     [](const FunctionRow& row) -> uint64_t { return row.status == RowStatus::kRunsUncertain; }},
    {"u", "runs do not match across devices",
     [](const FunctionRow& row) -> uint64_t { return row.status == RowStatus::kDevicesUnmatched; }},
    {"o", "no ops, only spans are known",
     [](const FunctionRow& row) -> uint64_t { return row.status == RowStatus::kNoOps; }},
    {"s", "suspect runs, left out", [](const FunctionRow& row) { return row.suspect_runs; }},
    {"d", "samples dropped", [](const FunctionRow& row) { return row.dropped_samples; }},
};

// "? 2s"
std::string NoteText(const FunctionRow& row) {
  std::string note;
  for (const Remark& remark : kRemarks) {
    const uint64_t count = remark.count(row);
    if (count == 0) continue;
    if (!note.empty()) note.push_back(' ');
    if (remark.sign == "s" || remark.sign == "d") note.append(std::to_string(count));
    note.append(remark.sign);
  }
  return note;
}

// A row of a table and what is shown of its device.
struct Listed {
  const FunctionRow& row;
  std::string device = {};
};

struct Listing {
  std::vector<Listed> rows;
  double total_ps = 0;  // of all rows, shown or not
};

// Explains the signs that occur; empty where none does.
std::string NoteLegend(const Listing& table) {
  std::string legend;
  for (const Remark& remark : kRemarks) {
    if (std::none_of(table.rows.begin(), table.rows.end(),
                     [&](const Listed& each) { return remark.count(each.row) > 0; })) {
      continue;
    }
    legend.append(legend.empty() ? "note: " : "; ").append(remark.sign);
    legend.append(" ").append(remark.meaning);
  }
  return legend;
}

// Half of the median's interval (its longer side) as a share of the median.
std::string IntervalText(const std::optional<Summary>& summary, const Signs& signs) {
  // The whole range of five samples covers the median 94 times in 100: no 95 % interval.
  constexpr uint64_t kLeastSamples = 6;
  if (!summary || summary->n < kLeastSamples) return "-";
  if (!summary->median_ci95_lo || !summary->median_ci95_hi) return "-";
  const double side = std::max(*summary->median_ci95_hi - summary->median,
                               summary->median - *summary->median_ci95_lo);
  if (summary->median <= 0 || !std::isfinite(side)) return "-";
  return std::string(signs.plus_minus) + FormatFixed(side / summary->median * 100, 1) + "%";
}

// Whether some function is there more than once on a device: then the program tells
// the rows apart.
bool NeedsProgram(const Listing& table) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  return std::any_of(table.rows.begin(), table.rows.end(), [&](const Listed& each) {
    return each.row.program_id && !seen.emplace(each.device, each.row.function).second;
  });
}

bool HaveSeveralDevices(const Listing& table) {
  return std::any_of(table.rows.begin(), table.rows.end(),
                     [&](const Listed& each) { return each.device != table.rows[0].device; });
}

// The clock of every row that has the metric; empty where they differ.
std::string_view CommonClock(const Listing& table, Metric metric) {
  std::string_view common;
  for (const Listed& each : table.rows) {
    if (!each.row.metric(metric)) continue;
    const std::string_view clock = ClockText(each.row).value_or("");
    if (clock.empty() || (!common.empty() && clock != common)) return "";
    common = clock;
  }
  return common;
}

using FunctionGrid = RowGrid<std::vector<Listed>>;

// A member of the row, or what is made of it, for a column.
template <typename Get>
auto OfRow(Get get) {
  return [get](const Listed& each) { return std::invoke(get, each.row); };
}

void AddIdentity(const Listing& table, FunctionGrid* grid) {
  grid->Name("function", 18, OfRow(&FunctionRow::function));
  grid->Id("variant", 0, OfRow(&FunctionRow::variant_id)).HideIfUnknown();
  grid->Id("program", 7, OfRow(&FunctionRow::program_id)).HideIf(!NeedsProgram(table));
  grid->Name("device", 7, &Listed::device).HideIf(!HaveSeveralDevices(table));
}

void AddTimes(const Listing& table, const OutputOptions& options, bool all, FunctionGrid* grid) {
  using Number = std::optional<double>;
  const Metric metric = options.metric;
  const Signs signs = Signs::For(options);
  const auto of = [metric](auto member) {
    return [metric, member](const Listed& each) {
      const std::optional<Summary>& summary = each.row.metric(metric);
      return summary ? Number(static_cast<double>((*summary).*member)) : std::nullopt;
    };
  };
  const auto total = [metric](const Listed& each) { return TotalPs(each.row, metric); };
  // One unit for single runs; the total has its own.
  const Unit unit = CommonUnit(grid->Values(of(&Summary::median)), options.unit);
  grid->Times("median", unit, of(&Summary::median));
  grid->Number("95% CI",
               [&](const Listed& each) { return IntervalText(each.row.metric(metric), signs); });
  grid->Times("mean", unit, of(&Summary::mean)).Drop(1);
  if (all) {
    grid->Times("std", unit, of(&Summary::std)).Drop(3);
    grid->Times("min", unit, of(&Summary::min)).Drop(4);
    grid->Times("max", unit, of(&Summary::max)).Drop(5);
    grid->Times("total", options.unit, total).Drop(2);
  }
  grid->Number("share %", [&](const Listed& each) {
    const Number of_row = total(each);
    return of_row && table.total_ps > 0 ? FormatPercent(*of_row / table.total_ps) : "-";
  });
}

// Columns after the times; clock and notes only where they tell something.
void AddRemarks(const Listing& table, Metric metric, bool all, FunctionGrid* grid) {
  if (all) {
    const auto kernels = [](const FunctionRow& row) {
      return row.kernels_per_run ? FormatFixed(*row.kernels_per_run, 1) : "-";
    };
    grid->Number("kernels/run", OfRow(kernels)).Drop(6);
  }
  grid->Text("clock", OfRow(ClockText)).HideIf(!CommonClock(table, metric).empty());
  grid->Text("note", OfRow(NoteText)).HideIf(NoteLegend(table).empty());
}

Section BuildSection(const Listing& table, std::string_view title, const OutputOptions& options,
                     bool all) {
  Section section;
  section.title = std::string(title) + ", " + std::string(MetricText(options.metric));
  const std::string_view clock = CommonClock(table, options.metric);
  if (!clock.empty()) section.title.append(", ").append(clock).append(" clock");
  if (table.rows.empty()) {
    section.notes.emplace_back("none");
  } else if (const Listed& first = table.rows[0];
             !HaveSeveralDevices(table) && !first.device.empty()) {
    section.title.append(", " + first.device);
    if (!first.row.device) section.title.append(" devices");
  }
  FunctionGrid grid(table.rows);
  AddIdentity(table, &grid);
  grid.Number("runs", OfRow(&FunctionRow::runs));
  AddTimes(table, options, all, &grid);
  AddRemarks(table, options.metric, all, &grid);
  section.grid = std::move(grid).Take();
  std::string legend = NoteLegend(table);
  if (!legend.empty()) section.notes.push_back(std::move(legend));
  return section;
}

template <typename Rows>
double SumOfTotals(const Rows& rows, Metric metric) {
  double sum = 0;
  for (const FunctionRow& row : rows) sum += TotalPs(row, metric).value_or(0);
  return sum;
}

using FunctionKey = std::pair<std::string_view, std::string_view>;

FunctionKey KeyOf(const FunctionRow& row) {
  return {row.function, row.variant_id ? std::string_view(*row.variant_id) : std::string_view()};
}

// The combined row of a function that ran on several devices stands for its rows.
Listing ChooseRows(const Report& report, const DeviceNames& names, const OutputOptions& options) {
  std::map<FunctionKey, std::set<std::string>> devices;
  for (const FunctionRow& row : report.functions) {
    if (row.device) devices[KeyOf(row)].insert(names.Name(*row.device));
  }
  std::vector<const FunctionRow*> rows;
  std::set<FunctionKey> replaced;
  for (const FunctionRow& row : report.combined) {
    if (devices[KeyOf(row)].size() < 2 || !row.metric(options.metric)) continue;
    replaced.insert(KeyOf(row));
    rows.push_back(&row);
  }
  for (const FunctionRow& row : report.functions) {
    if (!replaced.contains(KeyOf(row))) rows.push_back(&row);
  }
  SortFunctions(options.sort, options.metric, &rows);
  Listing table;
  for (const FunctionRow* row : rows) {
    table.total_ps += TotalPs(*row, options.metric).value_or(0);
    const size_t count = devices[KeyOf(*row)].size();
    const std::string all = count == names.count() ? "all " : std::to_string(count) + " of ";
    table.rows.push_back(
        {*row, row->device ? names.Name(*row->device) : all + std::to_string(names.count())});
  }
  return table;
}

// Shares are of `all`, shown or not; how many are not is a note.
Section FunctionSection(const std::vector<const FunctionRow*>& rows,
                        const std::vector<FunctionRow>& all, std::string_view what,
                        const OutputOptions& options) {
  const auto names = DeviceNames::Of(rows);
  Listing table = {.rows = {}, .total_ps = SumOfTotals(all, options.metric)};
  for (const FunctionRow* row : rows) {
    table.rows.push_back({*row, row->device ? names.Name(*row->device) : ""});
  }
  Section section = BuildSection(table, what, options, /*all=*/true);
  if (all.size() > rows.size()) {
    if (rows.empty()) section.notes.clear();  // not "none"
    section.notes.push_back(MoreNote(all.size() - rows.size(), what, "without --top"));
  }
  return section;
}

Section SampleSection(const std::vector<SampleRow>& samples, const OutputOptions& options) {
  const auto names = DeviceNames::Of(samples);
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
  Section section = {.title = "samples", .grid = std::move(grid).Take()};
  if (samples.empty()) section.notes.emplace_back("none");
  return section;
}

}  // namespace

Section OverviewSection(const Report& report, const OrderedReport& rows,
                        const OutputOptions& options, size_t most) {
  const auto names = DeviceNames::Of(report.functions);
  const bool several = names.count() > 1;
  Listing table;
  if (several) {
    table = ChooseRows(report, names, options);
  } else {
    table.total_ps = SumOfTotals(report.functions, options.metric);
    for (const FunctionRow* row : rows.functions) table.rows.push_back({*row});
  }
  const size_t all = several ? table.rows.size() : report.functions.size();
  const size_t shown = std::min(table.rows.size(), most);
  while (table.rows.size() > shown) table.rows.pop_back();
  Section section = BuildSection(table, "functions", options, /*all=*/false);
  if (all == 0) section.notes = {"none: no execution that counts belongs to a compiled function"};
  if (all > shown && shown == 0) section.notes.clear();  // --top 0 is not "none"
  if (all > shown) {
    section.notes.push_back(MoreNote(all - shown, "functions", "xplane-time functions"));
  }
  return section;
}

result::Table FunctionRows(std::string name, std::vector<const FunctionRow*> rows) {
  return TableOf(std::move(name), std::move(rows), [](const FunctionRow& row, FieldSink* sink) {
    VisitRow(row, /*with_device=*/row.device.has_value(), sink);
  });
}

result::Table FlatFunctionRows(std::vector<const FunctionRow*> rows) {
  const bool with_device =
      rows.empty() || std::any_of(rows.begin(), rows.end(),
                                  [](const auto* row) { return row->device.has_value(); });
  return result::FunctionTable("", std::move(rows), with_device);
}

absl::StatusOr<Output> FunctionsOutput(const Report& report, const OutputOptions& options,
                                       bool by_id, bool samples) {
  ASSIGN_OR_RETURN(const OrderedReport rows, OrderReport(report, options, SortKeys::kFunctions));
  Output out{.result = result::Result("xplane-time.functions.v1")};
  AddHead(report.inputs, &report.capture, options.given, &out.result);
  out.result.Add(FunctionRows("functions", rows.functions));
  out.result.Add(FunctionRows("combined", rows.combined));
  if (by_id) out.result.Add(FunctionRows("variants", rows.variants));
  if (samples) out.result.Add(TableOf("samples", std::span(report.samples)));
  out.result.Add(TableOf("diagnostics", std::span(report.diagnostics)));
  out.result.csv = samples ? TableOf("", std::span(report.samples))
                           : FlatFunctionRows(by_id ? rows.variants : rows.functions);
  out.view = [&report, rows, by_id, samples](const OutputOptions& how) {
    Section section = samples ? SampleSection(report.samples, how)
                      : by_id ? FunctionSection(rows.variants, report.variants, "variants", how)
                              : FunctionSection(rows.functions, report.functions, "functions", how);
    if (by_id && !samples && report.variants.empty()) {
      section.notes = {"none: no function name matches --id-pattern"};
    }
    return View{.sections = {std::move(section)},
                .diagnostics = DiagnosticLines(report.diagnostics, /*or_infos=*/false)};
  };
  return out;
}

}  // namespace xplane_time::output
