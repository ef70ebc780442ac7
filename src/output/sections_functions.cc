#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "output/sections.h"
#include "output/text.h"
#include "output/units.h"

namespace xplane_time::output {
namespace {

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

// Explains the signs that occur; empty where none does.
std::string NoteLegend(const std::vector<const FunctionRow*>& rows) {
  std::string legend;
  for (const Remark& remark : kRemarks) {
    if (std::none_of(rows.begin(), rows.end(),
                     [&](const FunctionRow* row) { return remark.count(*row) > 0; })) {
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

// The rows of a table and what its columns need beside them.
struct FunctionTable {
  std::vector<const FunctionRow*> rows;
  std::vector<std::string> devices;  // a cell a row
  double total_ps = 0;               // of all rows, shown or not
};

double SumOfTotals(const std::vector<const FunctionRow*>& rows, Metric metric) {
  double sum = 0;
  for (const FunctionRow* row : rows) sum += TotalPs(*row, metric).value_or(0);
  return sum;
}

template <typename Get>
std::vector<std::string> Cells(const FunctionTable& table, Get get) {
  std::vector<std::string> cells;
  for (const FunctionRow* row : table.rows) cells.push_back(get(*row));
  return cells;
}

template <typename Get>
std::vector<std::optional<double>> Values(const FunctionTable& table, Metric metric, Get get) {
  std::vector<std::optional<double>> values;
  for (const FunctionRow* row : table.rows) {
    const std::optional<Summary>& summary = row->metric(metric);
    values.push_back(summary ? std::optional<double>(get(*summary)) : std::nullopt);
  }
  return values;
}

// Whether some function is there more than once on a device: then the program tells
// the rows apart.
bool NeedsProgram(const FunctionTable& table) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  for (size_t i = 0; i < table.rows.size(); ++i) {
    if (!table.rows[i]->program_id) continue;
    if (!seen.emplace(table.devices[i], table.rows[i]->function).second) return true;
  }
  return false;
}

// The clock of every row that has the metric; empty where they differ.
std::string CommonClock(const FunctionTable& table, Metric metric) {
  std::string common;
  for (const FunctionRow* row : table.rows) {
    if (!row->metric(metric)) continue;
    const std::string clock = ClockText(*row);
    if (clock == "-" || (!common.empty() && clock != common)) return "";
    common = clock;
  }
  return common;
}

void AddIdentity(const FunctionTable& table, Grid* grid) {
  const auto text_or_dash = [](const std::optional<std::string>& text) {
    return text ? Printable(*text) : std::string("-");
  };
  grid->columns.push_back(
      NameColumn("function",
                 Cells(table, [](const FunctionRow& row) { return Printable(row.function); }), 18));
  grid->columns.push_back(NumberColumn(
      "variant", Cells(table, [&](const auto& row) { return text_or_dash(row.variant_id); })));
  grid->columns.back().hidden =
      std::none_of(table.rows.begin(), table.rows.end(),
                   [](const FunctionRow* row) { return row->variant_id.has_value(); });
  grid->columns.push_back(NumberColumn(
      "program", Cells(table, [&](const auto& row) { return text_or_dash(row.program_id); })));
  grid->columns.back().flex_width = 7;
  grid->columns.back().hidden = !NeedsProgram(table);
  grid->columns.push_back(NameColumn("device", table.devices, 7));
  grid->columns.back().hidden = !Varies(table.devices);
}

void AddTimes(const FunctionTable& table, const OutputOptions& options, bool all, Grid* grid) {
  const Metric metric = options.metric;
  const Signs signs = Signs::For(options);
  // One unit for single runs; the total has its own.
  const Unit of_runs =
      CommonUnit(Values(table, metric, [](const Summary& s) { return s.median; }), options.unit);
  const auto times = [&](const char* header, int drop, auto get) {
    const Unit unit = header == std::string_view("total") ? options.unit : of_runs;
    grid->columns.push_back(TimesColumn(header, Values(table, metric, get), unit, drop));
  };
  times("median", 0, [](const Summary& s) { return s.median; });
  grid->columns.push_back(NumberColumn("95% CI", Cells(table, [&](const FunctionRow& row) {
                                         return IntervalText(row.metric(metric), signs);
                                       })));
  times("mean", 1, [](const Summary& s) { return s.mean; });
  if (all) {
    times("std", 3, [](const Summary& s) { return s.std; });
    times("min", 4, [](const Summary& s) { return static_cast<double>(s.min); });
    times("max", 5, [](const Summary& s) { return static_cast<double>(s.max); });
    times("total", 2, [](const Summary& s) { return s.mean * static_cast<double>(s.n); });
  }
  grid->columns.push_back(NumberColumn("share %", Cells(table, [&](const FunctionRow& row) {
                                         const std::optional<double> total = TotalPs(row, metric);
                                         if (!total || table.total_ps <= 0) return std::string("-");
                                         return FormatPercent(*total / table.total_ps);
                                       })));
}

// Columns after the times; clock and notes only where they tell something.
void AddRemarks(const FunctionTable& table, Metric metric, bool all, Grid* grid) {
  if (all) {
    auto cells = Cells(table, [](const FunctionRow& row) {
      return row.kernels_per_run ? FormatFixed(*row.kernels_per_run, 1) : std::string("-");
    });
    grid->columns.push_back(NumberColumn("kernels/run", std::move(cells), 6));
  }
  grid->columns.push_back(TextColumn("clock", Cells(table, ClockText)));
  grid->columns.back().hidden = !CommonClock(table, metric).empty();
  grid->columns.push_back(TextColumn("note", Cells(table, NoteText)));
  grid->columns.back().hidden = NoteLegend(table.rows).empty();
}

Section BuildSection(const FunctionTable& table, std::string title, const OutputOptions& options,
                     bool all) {
  Section section;
  section.title = std::move(title) + ", " + std::string(MetricText(options.metric));
  if (table.rows.empty()) {
    section.notes.emplace_back("none");
    return section;
  }
  const std::string clock = CommonClock(table, options.metric);
  if (!clock.empty()) section.title.append(", " + clock + " clock");
  if (!Varies(table.devices) && !table.devices[0].empty()) {
    section.title.append(", " + table.devices[0]);
    if (!table.rows[0]->device) section.title.append(" devices");
  }
  AddIdentity(table, &section.grid);
  section.grid.columns.push_back(NumberColumn(
      "runs", Cells(table, [](const FunctionRow& row) { return std::to_string(row.runs); })));
  AddTimes(table, options, all, &section.grid);
  AddRemarks(table, options.metric, all, &section.grid);
  std::string legend = NoteLegend(table.rows);
  if (!legend.empty()) section.notes.push_back(std::move(legend));
  return section;
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
FunctionTable ChooseRows(const Report& report, const DeviceNames& names,
                         const OutputOptions& options) {
  const std::map<FunctionKey, size_t> counts = CountDevices(report, names);
  FunctionTable table;
  std::set<FunctionKey> replaced;
  for (const FunctionRow& row : report.combined) {
    const auto it = counts.find(KeyOf(row));
    if (it == counts.end() || it->second < 2 || !row.metric(options.metric)) continue;
    replaced.insert(KeyOf(row));
    table.rows.push_back(&row);
  }
  for (const FunctionRow& row : report.functions) {
    if (!replaced.contains(KeyOf(row))) table.rows.push_back(&row);
  }
  SortFunctions(options.sort, options.metric, &table.rows);
  table.total_ps = SumOfTotals(table.rows, options.metric);
  for (const FunctionRow* row : table.rows) {
    const auto it = counts.find(KeyOf(*row));
    const size_t count = it == counts.end() ? 0 : it->second;
    const std::string all = count == names.count() ? "all " : std::to_string(count) + " of ";
    table.devices.push_back(row->device ? names.Name(*row->device)
                                        : all + std::to_string(names.count()));
  }
  return table;
}

}  // namespace

Section OverviewSection(const Report& report, const OrderedReport& rows,
                        const OutputOptions& options, size_t most) {
  FunctionTable table;
  const DeviceNames names(DevicesOf(report.functions));
  if (names.count() > 1) {
    table = ChooseRows(report, names, options);
  } else {
    table.rows = rows.functions;
    table.total_ps = 0;
    for (const FunctionRow& row : report.functions) {
      table.total_ps += TotalPs(row, options.metric).value_or(0);
    }
    table.devices.assign(table.rows.size(), "");
  }
  const size_t all = names.count() > 1 ? table.rows.size() : report.functions.size();
  const size_t shown = std::min(table.rows.size(), most);
  table.rows.resize(shown);
  table.devices.resize(shown);
  Section section = BuildSection(table, "functions", options, /*all=*/false);
  if (all == 0) section.notes = {"none: no execution that counts belongs to a compiled function"};
  if (all > shown && shown == 0) section.notes.clear();  // --top 0 is not "none"
  if (all > shown)
    section.notes.push_back(MoreNote(all - shown, "functions", "xplane-time functions"));
  return section;
}

Section FunctionSection(const std::vector<const FunctionRow*>& rows,
                        const std::vector<FunctionRow>& all, std::string_view what,
                        const OutputOptions& options) {
  FunctionTable table;
  table.rows = rows;
  for (const FunctionRow& row : all) {
    table.total_ps += TotalPs(row, options.metric).value_or(0);
  }
  std::vector<const DeviceRef*> devices;
  for (const FunctionRow* row : rows) {
    if (row->device) devices.push_back(&*row->device);
  }
  const DeviceNames names(devices);
  for (const FunctionRow* row : rows) {
    table.devices.push_back(row->device ? names.Name(*row->device) : "");
  }
  Section section = BuildSection(table, std::string(what), options, /*all=*/true);
  if (all.size() > rows.size()) {
    if (rows.empty()) section.notes.clear();  // not "none"
    section.notes.push_back(MoreNote(all.size() - rows.size(), what, "without --top"));
  }
  return section;
}

Section VariantSection(const Report& report, const OrderedReport& rows,
                       const OutputOptions& options) {
  Section section = FunctionSection(rows.variants, report.variants, "variants", options);
  if (report.variants.empty()) section.notes = {"none: no function name matches --id-pattern"};
  return section;
}

Section SampleSection(const std::vector<SampleRow>& samples, const OutputOptions& options) {
  Section section = {.title = "samples", .grid = {}, .notes = {}};
  if (samples.empty()) {
    section.notes.emplace_back("none");
    return section;
  }
  std::vector<const DeviceRef*> refs;
  for (const SampleRow& row : samples) refs.push_back(&row.device);
  const DeviceNames names(refs);
  auto& columns = section.grid.columns;
  const auto cells = [&](auto get) {
    std::vector<std::string> out;
    for (const SampleRow& row : samples) out.emplace_back(get(row));
    return out;
  };
  const auto times = [&](const char* header, int drop, auto get) {
    std::vector<std::optional<double>> values;
    for (const SampleRow& row : samples) {
      const std::optional<int64_t> ps = get(row);
      values.push_back(ps ? std::optional(static_cast<double>(*ps)) : std::nullopt);
    }
    columns.push_back(TimesColumn(header, values, options.unit, drop));
  };
  auto program = cells([](const auto& row) { return Printable(row.program_id.value_or("-")); });
  auto clock = cells([](const auto& row) { return ClockName(row.clock); });
  auto note = cells([](const auto& row) { return row.suspect ? "suspect" : ""; });
  const bool any_note = Varies(note) || !note[0].empty();
  columns.push_back(
      NameColumn("function", cells([](const auto& row) { return Printable(row.function); }), 18));
  const bool several_programs = Varies(program), several_clocks = Varies(clock);
  columns.push_back(NumberColumn("program", std::move(program)));
  columns.back().flex_width = 7;
  columns.back().hidden = !several_programs;
  auto device = cells([&](const auto& row) { return names.Name(row.device); });
  columns.push_back(NameColumn("device", std::move(device), 7));
  columns.back().hidden = names.count() < 2;
  columns.push_back(
      NumberColumn("run", cells([](const auto& row) { return std::to_string(row.run); })));
  times("start", 2, [](const auto& row) { return row.start_ps; });
  times("active", 0, [](const auto& row) { return row.active_ps; });
  times("span", 0, [](const auto& row) { return row.span_ps; });
  times("sum", 3, [](const auto& row) { return row.sum_ps; });
  auto kernels = cells([](const auto& row) { return std::to_string(row.kernels); });
  columns.push_back(NumberColumn("kernels", std::move(kernels), 1));
  columns.push_back(TextColumn("clock", std::move(clock)));
  columns.back().hidden = !several_clocks;
  columns.push_back(TextColumn("note", std::move(note)));
  columns.back().hidden = !any_note;
  return section;
}

}  // namespace xplane_time::output
