// The report: devices, functions and kernels at a glance. And planes: what a trace holds.
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "output/results.h"
#include "output/trace_views.h"

namespace xplane_time::output {
namespace {

using result::FieldSink, result::FunctionTable, result::TableOf;

constexpr size_t kShareBarWidth = 16;
constexpr size_t kReportRows = 10;
constexpr ptrdiff_t kReportLines = 46;  // two screens of 24 lines, with their prompts

uint32_t CaptureOf(const Report& report, const DeviceRow& row) {
  const uint32_t input = row.device.input;
  return input < report.inputs.size() ? report.inputs[input].capture : input;
}

// From the first start to the last end of the devices of a capture: hosts of one run share an axis,
// repeated captures do not.
std::map<uint32_t, double> LengthsPs(const Report& report) {
  std::map<uint32_t, std::pair<int64_t, int64_t>> windows;
  for (const DeviceRow& row : report.devices) {
    if (!row.first_ps || !row.last_ps) continue;
    const auto at = windows.try_emplace(CaptureOf(report, row), *row.first_ps, *row.last_ps).first;
    at->second = {std::min(at->second.first, *row.first_ps),
                  std::max(at->second.second, *row.last_ps)};
  }
  std::map<uint32_t, double> lengths_ps;
  for (const auto& [capture, window] : windows) {
    lengths_ps[capture] =
        std::max(0.0, static_cast<double>(window.second) - static_cast<double>(window.first));
  }
  return lengths_ps;
}

// With the characters of a bar of `where`: busy as compute, the rest as idle.
std::string DrawShareBar(std::optional<double> share, bool unicode) {
  const double known = std::clamp(share.value_or(0), 0.0, 1.0);
  const auto full = static_cast<size_t>(std::lround(known * static_cast<double>(kShareBarWidth)));
  std::string bar;
  for (size_t i = 0; i < kShareBarWidth; ++i) {
    bar.append(i < full ? (unicode ? "█" : "#") : (unicode ? "·" : "."));
  }
  return bar;
}

// "GPU:1-3,7" from devices that differ in their ordinals only; else the names.
std::string IdleNames(const std::vector<DeviceRow>& idle, const DeviceNames& names) {
  std::map<std::string, std::set<int64_t>> ordinals;  // by name without the number
  std::vector<std::string> parts;
  for (const DeviceRow& row : idle) {
    const std::string name = names.Name(row.device);
    const std::string number = std::to_string(row.device.ordinal.value_or(-1));
    const size_t prefix = name.size() - std::min(name.size(), number.size());
    if (row.device.ordinal && name.substr(prefix) == number) {
      ordinals[name.substr(0, prefix)].insert(*row.device.ordinal);
    } else {
      parts.push_back(name);
    }
  }
  for (const auto& [prefix, numbers] : ordinals) {
    std::vector<std::string> ranges;
    for (auto it = numbers.begin(); it != numbers.end();) {
      const int64_t first = *it;
      int64_t last = first;
      while (++it != numbers.end() && *it == last + 1) ++last;
      ranges.push_back(first == last ? absl::StrCat(first) : absl::StrCat(first, "-", last));
    }
    parts.push_back(prefix + absl::StrJoin(ranges, ","));
  }
  return absl::StrJoin(parts, ", ");
}

// Shares of the device's own span.
void AddParts(std::span<const DeviceRow> rows, RowGrid<std::span<const DeviceRow>>* grid) {
  struct Part {
    const char* header;
    int64_t DeviceParts::*time_ps;
    bool always;
  };
  constexpr Part kParts[] = {{"compute %", &DeviceParts::compute_ps, true},
                             {"collective %", &DeviceParts::collective_exposed_ps, false},
                             {"copy %", &DeviceParts::copy_exposed_ps, false},
                             {"other %", &DeviceParts::other_ps, false},
                             {"idle %", &DeviceParts::idle_ps, true}};
  for (const Part& part : kParts) {
    const auto share = [&](const DeviceRow& row) -> std::optional<double> {
      if (!row.parts || row.parts->span_ps <= 0) return std::nullopt;
      return static_cast<double>(*row.parts.*part.time_ps) /
             static_cast<double>(row.parts->span_ps);
    };
    std::optional<double> most;
    for (const DeviceRow& row : rows) most = std::max(most, share(row));
    constexpr double kMuch = 0.05;
    grid->Number(part.header, share, FormatPercent)
        .Drop(part.always || most >= kMuch ? 1 : 2)
        .HideIf(!most.has_value() || (*most == 0 && !part.always));
  }
}

bool AnyParts(std::span<const DeviceRow> rows) {
  return std::ranges::any_of(rows, [](const DeviceRow& row) { return row.parts.has_value(); });
}

// All shares of a row have one denominator: the device's own span, if the parts of time are known.
// `utilization(row)`: busy time relative to the window of all devices; empty without a window.
Grid DeviceGrid(std::span<const DeviceRow> active, const DeviceNames& names, auto utilization,
                const OutputOptions& options) {
  const bool any_parts = AnyParts(active);
  const auto busy_share = [&](const DeviceRow& row) -> std::optional<double> {
    if (!any_parts) return utilization(row);
    if (!row.parts.has_value() || row.parts->span_ps <= 0) return std::nullopt;
    return static_cast<double>(row.busy_ps) / static_cast<double>(row.parts->span_ps);
  };
  RowGrid grid(active);
  grid.Name("device", 12, [&](const DeviceRow& row) { return names.Name(row.device); });
  grid.Text("kind", [](const DeviceRow& row) { return DeviceKindName(row.kind); });
  grid.Number("executions", &DeviceRow::executions);
  const auto span_ps = [](const DeviceRow& row) -> std::optional<int64_t> {
    return row.parts.has_value() ? std::optional(row.parts->span_ps) : std::nullopt;
  };
  const Unit unit = CommonUnit(grid.Values(&DeviceRow::busy_ps, span_ps), options.unit);
  grid.Times("busy", unit, &DeviceRow::busy_ps);
  grid.Times("span", unit, span_ps).HideIf(!any_parts);
  grid.Number("busy %", utilization, FormatPercent).HideIf(any_parts);
  AddParts(active, &grid);
  if (options.format == Format::kTable) {
    const auto bar = [&](const DeviceRow& row) {
      return DrawShareBar(busy_share(row), options.unicode);
    };
    grid.Text("", bar).Drop(3);
  }
  return std::move(grid).Take();
}

// Active devices, busiest first; a note lists the idle ones.
Section DeviceSection(const Report& report, const OutputOptions& options, size_t most) {
  std::vector<DeviceRow> active, idle;
  for (const DeviceRow& row : report.devices) (row.executions > 0 ? active : idle).push_back(row);
  const DeviceNames names(report.devices);
  const std::map<uint32_t, double> lengths_ps = LengthsPs(report);
  const auto utilization = [&](const DeviceRow& row) -> std::optional<double> {
    const auto length_ps = lengths_ps.find(CaptureOf(report, row));
    if (length_ps == lengths_ps.end() || length_ps->second <= 0) return std::nullopt;
    return static_cast<double>(row.busy_ps) / length_ps->second;
  };
  if (active.size() > most) {
    std::ranges::stable_sort(active, std::greater<>(), &DeviceRow::busy_ps);
  }
  Section section = {.title = "devices"};
  const auto shown = TopRows(active, most, "devices", "--format json", &section.notes);
  section.grid = DeviceGrid(shown, names, utilization, options);
  const bool any_parts = AnyParts(shown);
  if (any_parts) {
    section.title = "devices, shares of the span (first start to last end)";
  } else if (lengths_ps.size() == 1) {
    section.title.append(" over " + FormatTime(lengths_ps.begin()->second, options.unit));
  }
  if (!idle.empty()) section.notes.push_back("without executions: " + IdleNames(idle, names));
  if (report.devices.empty()) section.notes.emplace_back("none");
  if (any_parts) section.notes.emplace_back("more: xplane-time where");
  return section;
}

// How many rows of each kind the report shows.
struct Budget {
  size_t devices = 8, functions = kReportRows, kernels = kReportRows, diagnostics = 8;

  // Removes the least important row; false: no row can be removed.
  bool Tighten() {
    const Budget steps[] = {{8, 7, 7, 8}, {8, 7, 7, 4}, {5, 5, 5, 3}, {3, 3, 3, 2}};
    for (const Budget& least : steps) {
      size_t* given = kernels > least.kernels && kernels >= functions ? &kernels
                      : functions > least.functions                   ? &functions
                      : diagnostics > least.diagnostics               ? &diagnostics
                      : devices > least.devices                       ? &devices
                                                                      : nullptr;
      if (given == nullptr) continue;
      --*given;
      return true;
    }
    return false;
  }
};

// Lines on the inputs (in a table three) and the capture.
std::vector<ViewLine> CaptureLines(const std::vector<InputRow>& inputs, const CaptureInfo& capture,
                                   const OutputOptions& options) {
  const size_t most = options.format == Format::kTable ? 3 : inputs.size();
  std::vector<ViewLine> lines;
  const auto add = [&](std::string text) {
    lines.push_back({std::move(text), Tone::kPlain, ViewLine::kItem});
  };
  uint64_t bytes = 0;
  for (const InputRow& input : inputs) {
    bytes += input.bytes;
    if (lines.size() + 1 >= most && inputs.size() > most) continue;
    add(Printable(input.path) + "  " + FormatBytes(input.bytes));
  }
  if (lines.size() < inputs.size()) {
    add("... " + std::to_string(inputs.size() - lines.size()) + " more files; all together " +
        FormatBytes(bytes));
  }
  std::string counts = Counted(capture.planes, "plane") + ", " + Counted(capture.lines, "line") +
                       ", " + Counted(capture.events, "event");
  if (capture.hostnames.size() == 1) counts.append(", host " + Printable(capture.hostnames[0]));
  if (capture.hostnames.size() > 1) counts.append(", " + Counted(capture.hostnames.size(), "host"));
  add(std::move(counts));
  if (capture.start_unix_ns) {
    std::string when = "captured " + FormatUtc(*capture.start_unix_ns);
    const bool one_capture =  // otherwise the length is not shown
        std::all_of(inputs.begin(), inputs.end(),
                    [&](const InputRow& input) { return input.capture == inputs[0].capture; });
    if (one_capture && capture.stop_unix_ns && *capture.stop_unix_ns > *capture.start_unix_ns) {
      const uint64_t length_ns = *capture.stop_unix_ns - *capture.start_unix_ns;
      when.append(", for " + FormatTime(static_cast<double>(length_ns) * 1e3, Unit::kAuto));
    }
    add(std::move(when));
  }
  return lines;
}

// The capture, its completeness and the step time; they come before all other numbers.
std::vector<ViewLine> HeadLines(const Report& report, const OutputOptions& options) {
  std::vector<ViewLine> lines = CaptureLines(report.inputs, report.capture, options);
  std::ranges::move(CompletenessLines(report, options), std::back_inserter(lines));
  std::ranges::move(FilterLines(options, /*with_devices=*/true), std::back_inserter(lines));
  bool is_first = true;
  for (std::string& text : StepLines(report)) {
    const Tone tone = std::exchange(is_first, false) ? Tone::kBold : Tone::kPlain;
    lines.push_back({std::move(text), tone, ViewLine::kItem});
  }
  return lines;
}

View ReportView(const Report& report, const OutputOptions& options) {
  std::vector<KernelRow> kernels = MergeKernels(report.kernels);
  SortKernels(options.sort, &kernels);
  const bool table = options.format == Format::kTable;
  Budget budget;
  if (!table) budget.devices = ~size_t{0};
  if (options.top) budget.functions = budget.kernels = *options.top;
  const std::vector<ViewLine> head = HeadLines(report, options);
  const std::vector<DiagnosticRow> others = OtherDiagnostics(report.diagnostics);
  while (true) {
    View view = {.lines = head,
                 .sections = {DeviceSection(report, options, budget.devices),
                              OverviewSection(report, options, budget.functions),
                              TopKernelSection(kernels, options, budget.kernels)},
                 .diagnostics = DiagnosticLines(others, /*with_infos=*/true),
                 .most_diagnostics = budget.diagnostics};
    if (!table || options.top) return view;
    const std::string text = TableText(view, options);
    if (std::count(text.begin(), text.end(), '\n') <= kReportLines || !budget.Tighten())
      return view;
  }
}

// --- Planes, their lines and their stats.

// A plane, or one of its lines.
struct ShownRow {
  std::string name;
  std::string_view role;
  uint64_t events = 0;
  std::optional<int64_t> first_ps, last_ps, sum_ps;
};

Section LinesSection(const PlanesReport& report, const OutputOptions& options) {
  std::vector<ShownRow> rows;
  for (const PlaneRow& plane : report.planes) {
    std::string name = plane.name;
    if (report.inputs.size() > 1) name.append(" #").append(std::to_string(plane.input + 1));
    rows.push_back({std::move(name), plane.kind ? DeviceKindName(*plane.kind) : "", plane.events,
                    plane.first_ps, plane.last_ps, std::nullopt});
    for (const LineRow& line : plane.lines) {
      rows.push_back(
          {"  " + line.name, line.role, line.events, line.first_ps, line.last_ps, line.sum_ps});
    }
  }
  RowGrid grid(rows);
  grid.Name("plane / line", 20, &ShownRow::name);
  grid.Name("kind / role", 0, &ShownRow::role);
  grid.Number("events", &ShownRow::events);
  const Unit unit = CommonUnit(
      grid.Values(&ShownRow::first_ps, &ShownRow::last_ps, &ShownRow::sum_ps), options.unit);
  grid.Times("first", unit, &ShownRow::first_ps).Drop(1);
  grid.Times("last", unit, &ShownRow::last_ps).Drop(2);
  grid.Times("sum", unit, &ShownRow::sum_ps).Drop(3);
  Section section = {.title = "planes and their lines", .grid = std::move(grid).Take()};
  if (rows.empty()) section.notes.emplace_back("none");
  return section;
}

Section StatsSection(const PlaneRow& plane) {
  RowGrid grid(plane.stats);
  grid.Name("stat", 20, &StatRow::name);
  grid.Name("type", 0, &StatRow::type);
  grid.Name("of", 0, &StatRow::owner);
  grid.Number("count", &StatRow::count);
  return {.title = "stats of " + Printable(plane.name), .grid = std::move(grid).Take()};
}

View PlanesView(const PlanesReport& report, const OutputOptions& options, size_t all) {
  View view = {.lines = CaptureLines(report.inputs, report.capture, options),
               .sections = {LinesSection(report, options)},
               .diagnostics = DiagnosticLines(report.diagnostics, /*with_infos=*/false)};
  NoteMore(all, report.planes.size(), "planes", kByTop, &view.sections[0].notes);
  for (const PlaneRow& plane : report.planes) {
    if (!plane.stats.empty()) view.sections.push_back(StatsSection(plane));
  }
  return view;
}

}  // namespace

void AddHead(const std::vector<InputRow>& inputs, const CaptureInfo* capture,
             const std::vector<GivenOption>& given, result::Result* result) {
  result->Add(TableOf("inputs", std::span(inputs)));
  if (capture != nullptr) {
    result->Say([capture](FieldSink* sink) {
      sink->BeginGroup("capture", true);
      const CaptureInfo& of = *capture;
      XPLANE_TIME_FIELDS(sink, of.planes, of.lines, of.events, of.base_ns, of.start_unix_ns,
                         of.stop_unix_ns);
      sink->Texts("hostnames", of.hostnames);
      sink->Texts("warnings", of.warnings);
      sink->Texts("errors", of.errors);
      sink->EndGroup();
    });
  }
  AddOptions(given, result);
}

void AddOptions(const std::vector<GivenOption>& given, result::Result* result) {
  if (given.empty()) return;
  result->Say([given](FieldSink* sink) {
    sink->BeginGroup("options", true);
    for (const GivenOption& option : given) {
      std::visit([&](const auto& value) { sink->Field(option.name, value); }, option.value);
    }
    sink->EndGroup();
  });
}

Output ReportOutput(const Report& report, const OutputOptions& options) {
  Output out{.result = result::Result("xplane-time.report.v1")};
  AddHead(report.inputs, &report.capture, options.given, &out.result);
  out.result.Add(TableOf("devices", std::span(report.devices)));
  AddFunctions(report, /*with_variants=*/!Top(report.variants, options.top).empty(), options,
               &out.result);
  out.result.Add(TableOf("kernels", Top(report.kernels, options.top)));
  if (!report.samples.empty()) out.result.Add(TableOf("samples", std::span(report.samples)));
  AddRunsDrawn(report.samples, options, &out);
  out.result.Add(TableOf("diagnostics", std::span(report.diagnostics)));
  out.result.csv = FunctionTable("", Top(report.functions, options.top), /*with_device=*/true);
  out.view = [&report](const OutputOptions& how) { return ReportView(report, how); };
  return out;
}

Output PlanesOutput(const PlanesReport& report, const OutputOptions& options, size_t all) {
  const bool with_stats = std::any_of(report.planes.begin(), report.planes.end(),
                                      [](const PlaneRow& plane) { return !plane.stats.empty(); });
  Output out{.result = result::Result("xplane-time.planes.v1")};
  AddHead(report.inputs, &report.capture, options.given, &out.result);
  out.result.Add(TableOf("planes", std::span(report.planes),
                         [with_stats](const PlaneRow& row, FieldSink* sink) {
                           VisitRow(row, sink);
                           sink->Rows(TableOf("lines", std::span(row.lines)));
                           if (with_stats) sink->Rows(TableOf("stats", std::span(row.stats)));
                         }));
  out.result.Add(TableOf("diagnostics", std::span(report.diagnostics)));
  out.result.csv = with_stats ? result::PlaneStats(report) : result::PlaneLines(report);
  out.view = [&report, all](const OutputOptions& how) { return PlanesView(report, how, all); };
  return out;
}

}  // namespace xplane_time::output
