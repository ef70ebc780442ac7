// The use of each device's time: a bar per device and step, functions, transfers, the largest gaps.
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "insight/reports.h"
#include "output/results.h"
#include "output/trace_views.h"
#include "result/where_rows.h"

namespace xplane_time::output {
namespace {

using result::TableOf;

constexpr size_t kPartsBarWidth = 12;

// The parts of a bar, in order.
struct BarPart {
  std::string_view name, unicode, ascii;
  std::optional<int64_t> TimeParts::*time_ps;
};
constexpr std::array<BarPart, 5> kBarParts = {
    {{"compute", "█", "#", &TimeParts::compute_ps},
     {"collective", "▓", "=", &TimeParts::collective_exposed_ps},
     {"copy", "▒", "-", &TimeParts::copy_exposed_ps},
     {"other", "░", "o", &TimeParts::other_ps},
     {"idle", "·", ".", &TimeParts::idle_ps}}};

std::optional<double> Share(const std::optional<int64_t>& part_ps,
                            const std::optional<int64_t>& span_ps) {
  if (!part_ps || !span_ps || *span_ps <= 0) return std::nullopt;
  return static_cast<double>(*part_ps) / static_cast<double>(*span_ps);
}

// Ends of parts are rounded, so that the bar is as wide as the others.
std::string Bar(const TimeParts& time, bool unicode) {
  std::string bar;
  double share = 0;
  size_t at = 0;
  for (const BarPart& part : kBarParts) {
    share += Share(time.*part.time_ps, time.span_ps).value_or(0);
    const auto end = static_cast<size_t>(std::lround(share * static_cast<double>(kPartsBarWidth)));
    for (; at < std::min(end, kPartsBarWidth); ++at)
      bar.append(unicode ? part.unicode : part.ascii);
  }
  return bar;
}

std::string BarLegend(bool unicode) {
  std::string legend;
  for (const BarPart& part : kBarParts) {
    legend.append(legend.empty() ? "" : "  ").append(unicode ? part.unicode : part.ascii);
    legend.append(" ").append(part.name);
  }
  return legend;
}

// Which of the parts that may give way took longest in these rows: it gives way last.
std::optional<int64_t> TimeParts::*LongestOf(const auto& rows) {
  std::optional<int64_t> TimeParts::*longest = nullptr;
  double most_ps = -1;
  for (const auto part :
       {&TimeParts::collective_exposed_ps, &TimeParts::copy_exposed_ps, &TimeParts::other_ps}) {
    double sum_ps = 0;
    for (const auto& row : rows) sum_ps += static_cast<double>((row.time.*part).value_or(0));
    if (sum_ps > most_ps) longest = part;
    most_ps = std::max(most_ps, sum_ps);
  }
  return longest;
}

// Span and shares. `rows`: that have a TimeParts `time`.
void AddParts(const auto& rows, const OutputOptions& options, auto* grid,
              const char* span = "span") {
  grid->Times(span, options.unit, [](const auto& row) { return row.time.span_ps; });
  const auto add = [&](std::string header, auto part, int drop) {
    const auto none = [&](const auto& row) { return (row.time.*part).value_or(0) == 0; };
    const auto share = [part](const auto& row) { return Share(row.time.*part, row.time.span_ps); };
    grid->Number(std::move(header), share, FormatPercent)
        .Drop(drop)
        .HideIf(drop > 0 && std::ranges::all_of(rows, none));
  };
  const auto longest = LongestOf(rows);
  const auto order = [&](auto part) { return part == longest ? 1 : 2; };
  add("compute %", &TimeParts::compute_ps, 0);
  add("collective %", &TimeParts::collective_exposed_ps, order(&TimeParts::collective_exposed_ps));
  add("copy %", &TimeParts::copy_exposed_ps, order(&TimeParts::copy_exposed_ps));
  add("other %", &TimeParts::other_ps, order(&TimeParts::other_ps));
  add("idle %", &TimeParts::idle_ps, 0);
  add("host late %", &TimeParts::idle_host_ps, 3);
  add("launch %", &TimeParts::idle_launch_ps, 3);
  const bool any_launch =
      std::ranges::any_of(rows, [](const auto& row) { return row.time.idle_host_ps.has_value(); });
  if (any_launch) add("unknown %", &TimeParts::idle_unknown_ps, 3);
  add("hidden collective %", &TimeParts::collective_hidden_ps, 6);
  add("hidden copy %", &TimeParts::copy_hidden_ps, 6);
}

void AddBar(const OutputOptions& options, auto* grid) {
  if (options.format != Format::kTable) return;
  const auto bar = [&](const auto& row) { return Bar(row.time, options.unicode); };
  grid->Text("", bar).Drop(4);
}

// A description of a device's steps: "runs of jit_step"; empty: it has no steps.
std::string StepsAre(const WhereDevice& row) {
  if (!row.step_source) return "";
  switch (*row.step_source) {
    case StepSource::kStepLine:
      return "marked by the line Steps";
    case StepSource::kHostLaunch:
      return "launched within host events that mark them";
    case StepSource::kHostTime:
      return "started within host events that mark them";
    case StepSource::kFunction:
      return "runs of " + Printable(row.step_function.value_or("")) +
             ", because the trace does not mark steps";
  }
  return "";
}

// "GPU:4: 3 steps, marked by the line Steps; median 19.9 ms; idle 4.99 ms in steps, 99.3 ms between
// them".
// Steps that are runs of a function are described only if they are shown.
void NoteSteps(std::span<const WhereDevice> rows, const DeviceNames& names, Unit unit, bool shown,
               std::vector<std::string>* notes) {
  constexpr size_t kMost = 4;
  size_t noted = 0;
  for (const WhereDevice& row : rows) {
    const bool marked = row.step_source && *row.step_source != StepSource::kFunction;
    if (!(marked || (shown && row.step_source)) || noted++ >= kMost) continue;
    const auto time = [unit](const std::optional<int64_t>& ps) {
      return ps ? FormatTime(static_cast<double>(*ps), unit) : std::string("-");
    };
    const bool one = row.steps == 1;
    std::string note =
        absl::StrCat(names.Name(row.device), ": ", Counted(row.steps, "step"), ", ", StepsAre(row));
    if (row.step_median_ps.has_value()) {
      absl::StrAppend(&note, "; median ", FormatTime(*row.step_median_ps, unit));
    }
    if (const uint64_t empty = row.steps_empty.value_or(0); empty > 0) {
      absl::StrAppend(&note, "; ", empty, " of ", Counted(row.steps + empty, "mark"),
                      empty == 1 ? " has" : " have", " no execution");
    }
    if (row.steps > 0) {
      absl::StrAppend(&note, "; idle ", time(row.idle_in_steps_ps),
                      one ? " in it, " : " in steps, ", time(row.idle_between_steps_ps),
                      one ? " outside" : " between them");
    }
    notes->push_back(std::move(note));
    for (const std::string& doubt : insight::DescribeStepDoubts(row)) {
      notes->push_back(absl::StrCat(names.Name(row.device), ": ", Printable(doubt)));
    }
  }
}

void NoteNoLaunches(std::span<const WhereDevice> rows, const DeviceNames& names,
                    std::vector<std::string>* notes) {
  constexpr size_t kMost = 4;
  std::vector<std::string> without;
  for (const WhereDevice& row : rows) {
    if (row.time.idle_ps && !row.time.idle_host_ps) without.push_back(names.Name(row.device));
  }
  if (without.empty()) return;
  const std::string text =
      "the trace has no launch events, so idle time cannot be attributed to the host";
  if (without.size() == rows.size()) return notes->push_back(text);
  notes->push_back(absl::StrCat(
      without.size() > kMost ? Counted(without.size(), "device") : absl::StrJoin(without, ", "),
      ": ", text));
}

Section DeviceSection(const WhereReport& report, bool with_steps, const OutputOptions& options) {
  Section section = {.title = "devices, % of the time from first start to last end"};
  const auto rows = TopRows(report.devices, options.top, "devices", kByTop, &section.notes);
  const DeviceNames names(report.devices);
  RowGrid grid(rows);
  grid.Name("device", 12, [&](const WhereDevice& row) { return names.Name(row.device); });
  AddParts(rows, options, &grid);
  const auto no_input = [](const WhereDevice& row) {
    return row.waits_for_input_ps.value_or(0) == 0;
  };
  const auto input = [](const WhereDevice& row) {
    return Share(row.waits_for_input_ps, row.time.span_ps);
  };
  grid.Number("input %", input, FormatPercent).Drop(3).HideIf(std::ranges::all_of(rows, no_input));
  AddBar(options, &grid);
  grid.Text("clock",
            [](const WhereDevice& row) {
              return row.clock ? ClockName(*row.clock) : std::string_view("-");
            })
      .HideIfSame()
      .Drop(5);
  section.grid = std::move(grid).Take();
  if (options.format == Format::kTable) section.notes.push_back(BarLegend(options.unicode));
  if (!std::ranges::all_of(rows, no_input)) {
    section.notes.emplace_back("input %: the part of idle % in which the host waits for input");
  }
  NoteSteps(rows, names, options.unit, with_steps, &section.notes);
  NoteNoLaunches(report.devices, names, &section.notes);
  return section;
}

// Runs that are listed although their function is no step of the whole program (StepSummary).
void NoteSmallFunctions(const WhereReport& report, const DeviceNames& names,
                        std::vector<std::string>* notes) {
  const auto busy_ps = [](const TimeParts& time) {
    return static_cast<double>(time.span_ps.value_or(0)) -
           static_cast<double>(time.idle_ps.value_or(0));
  };
  for (const WhereDevice& device : report.devices) {
    if (device.step_source != StepSource::kFunction) continue;
    for (const WhereFunction& row : report.functions) {
      if (KeyOf(row.device) != KeyOf(device.device) || row.function != device.step_function ||
          row.program_id != device.step_program_id) {
        continue;
      }
      const double own_ps = busy_ps(row.time) - static_cast<double>(row.foreign_ps.value_or(0));
      if (own_ps * 2 >= busy_ps(device.time)) continue;
      notes->push_back(absl::StrCat(
          names.Name(device.device), ": ", Printable(row.function),
          " takes less than half of the time in which the device is busy, so `report` gives no "
          "step time; --step-re chooses other steps"));
    }
  }
}

Section StepSection(const WhereReport& report, const OutputOptions& options) {
  Section section = {.title = "steps"};
  std::set<std::string> kinds;
  for (const WhereDevice& row : report.devices) kinds.insert(StepsAre(row));
  kinds.erase("");
  if (!kinds.empty()) section.title += ": " + absl::StrJoin(kinds, "; ");
  const auto rows = TopRows(report.steps, options.top, "steps", kByTop, &section.notes);
  const DeviceNames names(report.devices);
  RowGrid grid(rows);
  grid.Number("step", &WhereStep::step);
  grid.Name("name", 8, &WhereStep::name).HideIf(std::ranges::all_of(rows, [](const WhereStep& row) {
    return row.name == std::to_string(row.step);
  }));
  grid.Name("device", 7, [&](const WhereStep& row) { return names.Name(row.device); })
      .HideIf(names.count() < 2);
  NoteSmallFunctions(report, names, &section.notes);
  AddParts(rows, options, &grid);
  AddBar(options, &grid);
  grid.Times("marked", options.unit, &WhereStep::marked_ps).HideIfUnknown().Drop(5);
  section.grid = std::move(grid).Take();
  if (report.steps.empty()) {
    const bool marked = std::ranges::any_of(
        report.devices, [](const WhereDevice& row) { return row.steps_empty.value_or(0) > 0; });
    section.notes.emplace_back(
        marked ? "none: no execution belongs to a marked step"
               : "none: the trace has no line Steps, no host event that marks a step (--step-re), "
                 "and no function that took the most time and ran at least twice");
  }
  return section;
}

Section FunctionSection(const WhereReport& report, const OutputOptions& options) {
  Section section = {.title = "functions, % of the spans of their runs"};
  const auto rows = TopRows(report.functions, options.top.value_or(kDefaultRows), "functions",
                            kByTop, &section.notes);
  const DeviceNames names(report.devices);
  RowGrid grid(rows);
  grid.Name("function", 18, &WhereFunction::function);
  grid.Id("program", 7, &WhereFunction::program_id).HideIf(!ProgramTellsApart(rows));
  grid.Name("device", 7, [&](const WhereFunction& row) { return names.Name(row.device); })
      .HideIf(names.count() < 2);
  grid.Number("runs", [](const WhereFunction& row) { return row.runs - row.suspect_runs; });
  grid.Number("suspect", &WhereFunction::suspect_runs)
      .HideIf(std::ranges::all_of(rows, [](const auto& row) { return row.suspect_runs == 0; }));
  AddParts(rows, options, &grid, "spans");
  const auto none = [](const WhereFunction& row) { return row.foreign_ps.value_or(0) == 0; };
  const auto foreign = [](const WhereFunction& row) {
    return Share(row.foreign_ps, row.time.span_ps);
  };
  grid.Number("foreign %", foreign, FormatPercent).Drop(3).HideIf(std::ranges::all_of(rows, none));
  section.grid = std::move(grid).Take();
  return section;
}

Section TransferSection(const WhereReport& report, const OutputOptions& options) {
  Section section = {.title = "collectives and copies", .table = "transfers"};
  const auto rows = TopRows(report.transfers, options.top.value_or(kDefaultRows), "kinds", kByTop,
                            &section.notes);
  const DeviceNames names(report.devices);
  RowGrid grid(rows);
  grid.Name("kernel", 20, &WhereTransfer::kernel);
  grid.Name("device", 7, [&](const WhereTransfer& row) { return names.Name(row.device); })
      .HideIf(names.count() < 2);
  grid.Number("count", &WhereTransfer::count);
  const Unit unit = CommonUnit(grid.Values(&WhereTransfer::in_flight_ps), options.unit);
  grid.Times("exposed", unit, &WhereTransfer::exposed_ps);
  grid.Times("hidden", unit, &WhereTransfer::hidden_ps);
  grid.Times("in flight", unit, &WhereTransfer::in_flight_ps).Drop(1);
  const auto with_unit = [](const auto& bytes) {
    return bytes ? FormatBytes(static_cast<uint64_t>(*bytes)) : "-";
  };
  grid.Number("bytes", &WhereTransfer::bytes, with_unit).HideIfUnknown().Drop(2);
  grid.Text("category", [](const WhereTransfer& row) { return CategoryName(row.category); })
      .HideIfSame()
      .Drop(3);
  grid.Name("function", 18, &WhereTransfer::function).HideIfUnknown().Drop(4);
  section.grid = std::move(grid).Take();
  return section;
}

Section GapSection(const WhereReport& report, const OutputOptions& options) {
  const std::span<const WhereGap> rows = report.gaps;
  const bool is_known =
      std::ranges::any_of(rows, [](const WhereGap& row) { return row.host_event.has_value(); });
  Section section = {.title = is_known ? "largest idle gaps, with the activity of the host"
                                       : "largest idle gaps, without host events",
                     .table = "gaps"};
  const DeviceNames names(report.devices);
  RowGrid grid(rows);
  grid.Name("device", 7, [&](const WhereGap& row) { return names.Name(row.device); });
  grid.Times("start", options.unit, &WhereGap::start_ps).Drop(2);
  const Unit unit = CommonUnit(grid.Values(&WhereGap::duration_ps), options.unit);
  grid.Times("length", unit, &WhereGap::duration_ps);
  grid.Times("host late", unit, &WhereGap::idle_host_ps).HideIfUnknown().Drop(1);
  grid.Times("launch", unit, &WhereGap::idle_launch_ps).HideIfUnknown().Drop(3);
  grid.Name("host event", 24, &WhereGap::host_event).HideIfUnknown();
  grid.Name("thread", 10, &WhereGap::host_thread).HideIfUnknown().Drop(1);
  section.grid = std::move(grid).Take();
  return section;
}

// "decode 481 us, copy 20 us": what the host did besides the first.
std::string NextHostEvents(const WhereGap& row, Unit unit) {
  std::string text;
  for (size_t i = 1; i < row.host_events.size(); ++i) {
    const WhereHostTime& each = row.host_events[i];
    absl::StrAppend(&text, text.empty() ? "" : ", ", each.event, " ",
                    FormatTime(static_cast<double>(each.self_ps), unit));
  }
  return text;
}

// The longest first.
std::vector<WhereGap> GapsByLength(const WhereReport& report) {
  std::vector<WhereGap> gaps = report.gaps;
  std::ranges::stable_sort(gaps, std::ranges::greater(), &WhereGap::duration_ps);
  return gaps;
}

Section GapListSection(const WhereReport& report, const OutputOptions& options) {
  Section section = {.title = "idle gaps, the longest first", .table = "gaps"};
  const std::vector<WhereGap> gaps = GapsByLength(report);
  const std::span<const WhereGap> rows = Top(gaps, options.top.value_or(kDefaultRows));
  uint64_t all = 0;
  for (const WhereDevice& device : report.devices) all += device.gaps;
  NoteMore(all, rows.size(), "gaps", kByTop, &section.notes);
  if (all == 0) section.notes.emplace_back("none: no device is idle between executions");
  const DeviceNames names(report.devices);
  RowGrid grid(rows);
  grid.Name("device", 7, [&](const WhereGap& row) { return names.Name(row.device); })
      .HideIf(names.count() < 2);
  grid.Times("start", options.unit, &WhereGap::start_ps).Drop(2);
  const Unit unit = CommonUnit(grid.Values(&WhereGap::duration_ps), options.unit);
  grid.Times("length", unit, &WhereGap::duration_ps);
  grid.Text("cause", [](const WhereGap& row) { return row.cause; });
  grid.Times("host late", unit, &WhereGap::idle_host_ps).HideIfUnknown().Drop(5);
  grid.Times("launch", unit, &WhereGap::idle_launch_ps).HideIfUnknown().Drop(6);
  grid.Name("kernel before", 16, &WhereGap::kernel_before).Drop(3);
  grid.Name("kernel after", 16, &WhereGap::kernel_after).Drop(1);
  grid.Name("host event", 20,
            [](const WhereGap& row) {
              return row.host_events.empty() ? std::nullopt
                                             : std::optional(row.host_events[0].event);
            })
      .HideIfUnknown();
  grid.Times("self", unit,
             [](const WhereGap& row) {
               return row.host_events.empty() ? std::nullopt
                                              : std::optional(row.host_events[0].self_ps);
             })
      .HideIfUnknown();
  grid.Name("thread", 10, &WhereGap::host_thread).HideIfUnknown().Drop(4);
  grid.Name("next host events", 20,
            [&](const WhereGap& row) { return NextHostEvents(row, options.unit); })
      .HideIf(
          std::ranges::all_of(rows, [](const WhereGap& row) { return row.host_events.size() < 2; }))
      .Drop(7);
  section.grid = std::move(grid).Take();
  return section;
}

// The steps that a figure draws. If a device has too many, the longest of each group of consecutive
// steps.
std::vector<WhereStep> StepColumns(std::span<const WhereStep> steps) {
  constexpr size_t kMostColumns = 300;  // of a device
  std::map<DeviceKey, size_t> counts, before;
  for (const WhereStep& row : steps) ++counts[KeyOf(row.device)];
  size_t most = 0;
  for (const auto& [device, count] : counts) most = std::max(most, count);
  const size_t group = (most + kMostColumns - 1) / kMostColumns;
  std::vector<WhereStep> columns;
  for (const WhereStep& row : steps) {
    if (before[KeyOf(row.device)]++ % group == 0) {
      columns.push_back(row);
    } else if (row.time.span_ps > columns.back().time.span_ps) {
      columns.back() = row;
    }
  }
  return columns;
}

View WhereView(const WhereReport& report, WhereRows shown, const OutputOptions& how) {
  View view;
  view.sections.push_back(DeviceSection(report, shown == WhereRows::kSteps, how));
  if (shown == WhereRows::kSteps) {
    view.sections.push_back(StepSection(report, how));
  } else if (shown == WhereRows::kGaps) {
    view.sections.push_back(GapListSection(report, how));
  } else {
    if (!report.functions.empty()) view.sections.push_back(FunctionSection(report, how));
    if (!report.transfers.empty()) view.sections.push_back(TransferSection(report, how));
    if (!report.gaps.empty()) view.sections.push_back(GapSection(report, how));
  }
  view.diagnostics = DiagnosticLines(report.diagnostics, /*with_infos=*/false);
  return view;
}

}  // namespace

Output WhereOutput(const WhereReport& report, const OutputOptions& options, WhereRows shown) {
  const auto gaps = [&] {
    if (shown != WhereRows::kGaps) return TableOf("gaps", std::span(report.gaps));
    std::vector<WhereGap> rows = GapsByLength(report);
    rows.resize(Top(rows, options.top).size());
    return TableOf("gaps", std::move(rows));
  };
  Output out{.result = result::Result("xplane-time.where.v1")};
  AddHead(report.inputs, &report.capture, options.given, &out.result);
  out.result.Add(TableOf("devices", Top(report.devices, options.top)));
  out.result.Add(TableOf("functions", Top(report.functions, options.top)));
  out.result.Add(TableOf("steps", Top(report.steps, options.top)));
  out.result.Add(TableOf("transfers", Top(report.transfers, options.top)));
  out.result.Add(gaps());
  out.result.Add(TableOf("diagnostics", std::span(report.diagnostics)));
  switch (shown) {
    case WhereRows::kDevices:
      out.result.csv = TableOf("", Top(report.devices, options.top));
      break;
    case WhereRows::kSteps:
      out.result.csv = TableOf("", Top(report.steps, options.top));
      break;
    case WhereRows::kGaps:
      out.result.csv = gaps();
      out.result.csv.name.clear();
      break;
  }
  if (options.format == Format::kHtml) {
    const auto all = Top(report.steps, options.top);
    std::vector<WhereStep> columns = StepColumns(all);
    if (columns.size() < all.size()) out.drawn.push_back(TableOf("steps", std::move(columns)));
  }
  out.view = [&report, shown](const OutputOptions& how) { return WhereView(report, shown, how); };
  return out;
}

}  // namespace xplane_time::output
