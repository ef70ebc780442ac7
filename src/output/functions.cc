// Functions, variants and samples.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "output/results.h"
#include "output/trace_views.h"

namespace xplane_time::output {
namespace {

using result::FieldSink, result::TableOf;

std::string_view MetricText(Metric metric) {
  switch (metric) {
    case Metric::kActive:
      return "active time";
    case Metric::kSpan:
      return "span";
    case Metric::kSum:
      break;
  }
  return "sum of kernels";
}

std::string ClockText(const FunctionRow& row) {
  return row.clock ? std::string(ClockName(*row.clock)) : "-";
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
std::string CommonClock(const Listing& table, Metric metric) {
  std::string common;
  for (const Listed& each : table.rows) {
    if (!each.row.metric(metric)) continue;
    const std::string clock = ClockText(each.row);
    if (clock == "-" || (!common.empty() && clock != common)) return "";
    common = clock;
  }
  return common;
}

using FunctionGrid = RowGrid<std::vector<Listed>>;

void AddIdentity(const Listing& table, FunctionGrid* grid) {
  const auto text_or_dash = [](const std::optional<std::string>& text) {
    return text ? Printable(*text) : std::string("-");
  };
  grid->Name("function", 18, [](const Listed& each) { return each.row.function; });
  grid->Number("variant", [&](const Listed& each) { return text_or_dash(each.row.variant_id); })
      .hidden = std::none_of(table.rows.begin(), table.rows.end(),
                             [](const Listed& each) { return each.row.variant_id.has_value(); });
  Column& program = grid->Number(
      "program", [&](const Listed& each) { return text_or_dash(each.row.program_id); });
  program.flex_width = 7;
  program.hidden = !NeedsProgram(table);
  grid->Name("device", 7, [](const Listed& each) { return each.device; }).hidden =
      !HaveSeveralDevices(table);
}

void AddTimes(const Listing& table, const OutputOptions& options, bool all, FunctionGrid* grid) {
  using Number = std::optional<double>;
  const Metric metric = options.metric;
  const Signs signs = Signs::For(options);
  const auto of = [metric](auto get) {
    return [metric, get](const Listed& each) {
      const std::optional<Summary>& summary = each.row.metric(metric);
      return summary ? Number(get(*summary)) : std::nullopt;
    };
  };
  const auto median = of([](const Summary& s) { return s.median; });
  // One unit for single runs; the total has its own.
  const Unit unit = CommonUnit(grid->Values(median), options.unit);
  grid->Times("median", unit, median);
  grid->Number("95% CI",
               [&](const Listed& each) { return IntervalText(each.row.metric(metric), signs); });
  grid->Times("mean", unit, of([](const Summary& s) { return s.mean; })).drop = 1;
  if (all) {
    grid->Times("std", unit, of([](const Summary& s) { return s.std; })).drop = 3;
    grid->Times("min", unit, of([](const Summary& s) { return static_cast<double>(s.min); })).drop =
        4;
    grid->Times("max", unit, of([](const Summary& s) { return static_cast<double>(s.max); })).drop =
        5;
    grid->Times("total", options.unit,
                [&](const Listed& each) { return TotalPs(each.row, metric); })
        .drop = 2;
  }
  grid->Number("share %", [&](const Listed& each) {
    const Number total = TotalPs(each.row, metric);
    return total && table.total_ps > 0 ? FormatPercent(*total / table.total_ps) : "-";
  });
}

// Columns after the times; clock and notes only where they tell something.
void AddRemarks(const Listing& table, Metric metric, bool all, FunctionGrid* grid) {
  if (all) {
    grid->Number("kernels/run",
                 [](const Listed& each) {
                   return each.row.kernels_per_run ? FormatFixed(*each.row.kernels_per_run, 1)
                                                   : "-";
                 })
        .drop = 6;
  }
  grid->Text("clock", [](const Listed& each) { return ClockText(each.row); }).hidden =
      !CommonClock(table, metric).empty();
  grid->Text("note", [](const Listed& each) { return NoteText(each.row); }).hidden =
      NoteLegend(table).empty();
}

Section BuildSection(const Listing& table, std::string_view title, const OutputOptions& options,
                     bool all) {
  Section section;
  section.title = std::string(title) + ", " + std::string(MetricText(options.metric));
  if (table.rows.empty()) {
    section.notes.emplace_back("none");
    return section;
  }
  const std::string clock = CommonClock(table, options.metric);
  if (!clock.empty()) section.title.append(", " + clock + " clock");
  const Listed& first = table.rows[0];
  if (!HaveSeveralDevices(table) && !first.device.empty()) {
    section.title.append(", " + first.device);
    if (!first.row.device) section.title.append(" devices");
  }
  FunctionGrid grid(table.rows);
  AddIdentity(table, &grid);
  grid.Number("runs", [](const Listed& each) { return std::to_string(each.row.runs); });
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

std::vector<const DeviceRef*> DevicesOf(const std::vector<FunctionRow>& rows) {
  std::vector<const DeviceRef*> devices;
  for (const FunctionRow& row : rows) {
    if (row.device) devices.push_back(&*row.device);
  }
  return devices;
}

using FunctionKey = std::pair<std::string_view, std::string_view>;

FunctionKey KeyOf(const FunctionRow& row) {
  return {row.function, row.variant_id ? std::string_view(*row.variant_id) : std::string_view()};
}

// On how many devices each function ran.
std::map<FunctionKey, size_t> CountDevices(const Report& report, const DeviceNames& names) {
  std::map<FunctionKey, std::set<std::string>> devices;
  for (const FunctionRow& row : report.functions) {
    if (row.device) devices[KeyOf(row)].insert(names.Name(*row.device));
  }
  std::map<FunctionKey, size_t> counts;
  for (const auto& [key, set] : devices) counts[key] = set.size();
  return counts;
}

// The combined row of a function that ran on several devices stands for its rows.
Listing ChooseRows(const Report& report, const DeviceNames& names, const OutputOptions& options) {
  const std::map<FunctionKey, size_t> counts = CountDevices(report, names);
  std::vector<const FunctionRow*> rows;
  std::set<FunctionKey> replaced;
  for (const FunctionRow& row : report.combined) {
    const auto it = counts.find(KeyOf(row));
    if (it == counts.end() || it->second < 2 || !row.metric(options.metric)) continue;
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
    const auto it = counts.find(KeyOf(*row));
    const size_t count = it == counts.end() ? 0 : it->second;
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
  std::vector<const DeviceRef*> devices;
  for (const FunctionRow* row : rows) {
    if (row->device) devices.push_back(&*row->device);
  }
  const DeviceNames names(devices);
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
  Section section = {.title = "samples"};
  if (samples.empty()) {
    section.notes.emplace_back("none");
    return section;
  }
  std::vector<const DeviceRef*> refs;
  for (const SampleRow& row : samples) refs.push_back(&row.device);
  const DeviceNames names(refs);
  RowGrid grid(samples);
  grid.Name("function", 18, [](const SampleRow& row) { return row.function; });
  Column& program = grid.Number(
      "program", [](const SampleRow& row) { return Printable(row.program_id.value_or("-")); });
  program.flex_width = 7;
  program.hidden = !Varies(program.cells);
  grid.Name("device", 7, [&](const SampleRow& row) { return names.Name(row.device); }).hidden =
      names.count() < 2;
  grid.Number("run", [](const SampleRow& row) { return std::to_string(row.run); });
  const Unit unit = options.unit;
  grid.Times("start", unit, [](const SampleRow& row) { return row.start_ps; }).drop = 2;
  grid.Times("active", unit, [](const SampleRow& row) { return row.active_ps; });
  grid.Times("span", unit, [](const SampleRow& row) { return row.span_ps; });
  grid.Times("sum", unit, [](const SampleRow& row) { return row.sum_ps; }).drop = 3;
  grid.Number("kernels", [](const SampleRow& row) { return std::to_string(row.kernels); }).drop = 1;
  Column& clock = grid.Text("clock", [](const SampleRow& row) { return ClockName(row.clock); });
  clock.hidden = !Varies(clock.cells);
  Column& note =
      grid.Text("note", [](const SampleRow& row) { return row.suspect ? "suspect" : ""; });
  note.hidden = !Varies(note.cells) && note.cells[0].empty();
  section.grid = std::move(grid).Take();
  return section;
}

}  // namespace

Section OverviewSection(const Report& report, const OrderedReport& rows,
                        const OutputOptions& options, size_t most) {
  const DeviceNames names(DevicesOf(report.functions));
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

result::Table FunctionTable(std::string name, std::vector<const FunctionRow*> rows) {
  return TableOf(std::move(name), std::move(rows), [](const FunctionRow& row, FieldSink* sink) {
    VisitRow(row, /*with_device=*/row.device.has_value(), sink);
  });
}

result::Table FlatFunctionTable(std::vector<const FunctionRow*> rows) {
  const bool with_device =
      rows.empty() || std::any_of(rows.begin(), rows.end(),
                                  [](const auto* row) { return row->device.has_value(); });
  return TableOf("", std::move(rows), [with_device](const FunctionRow& row, FieldSink* sink) {
    VisitRow(row, with_device, sink);
  });
}

absl::StatusOr<Output> FunctionsOutput(const Report& report, const OutputOptions& options,
                                       bool by_id, bool samples) {
  auto ordered = OrderReport(report, options, SortKeys::kFunctions);
  if (!ordered.ok()) return ordered.status();
  const OrderedReport& rows = *ordered;
  Output out{.result = result::Result("xplane-time.functions.v1")};
  AddHead(report.inputs, &report.capture, options.given, &out.result);
  out.result.Add(FunctionTable("functions", rows.functions));
  out.result.Add(FunctionTable("combined", rows.combined));
  if (by_id) out.result.Add(FunctionTable("variants", rows.variants));
  if (samples) out.result.Add(TableOf("samples", std::span(report.samples)));
  out.result.Add(TableOf("diagnostics", std::span(report.diagnostics)));
  out.result.csv = samples ? TableOf("", std::span(report.samples))
                           : FlatFunctionTable(by_id ? rows.variants : rows.functions);
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
