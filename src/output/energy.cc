// Energy of kernels, functions and layers.
#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_join.h"
#include "output/joules.h"
#include "output/results.h"
#include "output/trace_views.h"

namespace xplane_time::output {
namespace {

using result::EnergyTable, result::TableOf;

using EnergyRows = std::span<const EnergyRow>;

std::optional<double> ValueOf(const std::optional<Joules>& joules) {
  return joules ? std::optional(joules->value) : std::nullopt;
}

template <typename Row>
auto Of(std::optional<Joules> Row::*joules) {
  return [joules](const Row& row) { return ValueOf(row.*joules); };
}

// Half of the interval as a share.
std::string JoulesErrorText(const std::optional<Joules>& joules, bool unicode) {
  if (!joules || !joules->ci95 || joules->value <= 0) return "-";
  const auto [lo_j, hi_j] = *joules->ci95;
  const double share = (hi_j - lo_j) / 2 / joules->value;
  return (unicode ? "±" : "+-") + FormatFixed(share * 100, 1) + "%";
}

std::string EnergyNoteText(const EnergyRow& row) {
  if (row.group) return "group " + std::to_string(*row.group);
  if (row.reason == "too_uncertain") return "too uncertain";
  if (row.reason == "not_covered") return "not covered";
  if (!row.reason.empty()) return std::string(row.reason);
  return row.kind == EnergyKind::kMeasured ? "measured" : "";
}

Section EnergySection(const char* title, const char* name, const std::vector<EnergyRow>& all,
                      bool is_part, const OutputOptions& options) {
  Section section = {.title = title};
  // If the log covers only a part, J/exec times count is not the energy.
  if (is_part)
    section.title += "; energy and busy cover only the logged part, count covers the whole capture";
  const EnergyRows rows = TopRows(all, options.top, title, kByTop, &section.notes);
  const DeviceNames names(rows);
  RowGrid grid(rows);
  grid.Name(name, 22, &EnergyRow::name);
  grid.Name("device", 7, [&](const EnergyRow& row) { return names.Name(row.device); })
      .HideIf(names.count() < 2);
  grid.Id("variant", 0, &EnergyRow::variant_id).Drop(3).HideIfUnknown();
  const bool by_run = std::ranges::any_of(rows, [](const EnergyRow& row) { return row.runs > 0; });
  by_run ? grid.Number("runs", &EnergyRow::runs) : grid.Number("count", &EnergyRow::count).Drop(1);
  grid.Times("busy", options.unit, &EnergyRow::busy_ps).Drop(2);
  grid.Number("energy J", Of(&EnergyRow::energy_j), Figure);
  grid.Number("95% CI",
              [&](const EnergyRow& row) { return JoulesErrorText(row.energy_j, options.unicode); });
  grid.Number("share %", &EnergyRow::share, FormatPercent);
  grid.Number("mean W", &EnergyRow::mean_w, Figure);
  const auto each_j = [by_run](const EnergyRow& row) {
    return by_run ? ValueOf(row.per_run_j) : row.per_execution_j;
  };
  const JouleUnit unit = JouleUnitOf(grid.Values(each_j));
  grid.Number(std::string(unit.name) + (by_run ? "/run" : "/exec"), each_j,
              [unit](const std::optional<double>& joules) { return unit.Cell(joules); });
  grid.Number("active J", Of(&EnergyRow::active_j), Figure).Drop(4).HideIfUnknown();
  // The function column stays if it distinguishes kernels of the same name.
  std::set<std::string_view> kernels;
  for (const EnergyRow& row : rows) kernels.insert(row.name);
  grid.Name("function", 14, &EnergyRow::function)
      .Drop(kernels.size() < rows.size() ? 0 : 5)
      .HideIfUnknown();
  grid.Text("note", EnergyNoteText).HideIfSame(/*unless_known=*/true);
  section.grid = std::move(grid).Take();
  return section;
}

Section DeviceSection(const EnergyReport& report, const OutputOptions& options) {
  Section section = {.title = "devices; measured = active + idle + residual"};
  const auto& rows = report.devices;
  const DeviceNames names(rows);
  // If the data cannot separate idle from active power, both intervals are too wide to show.
  const auto joules = [](std::optional<Joules> EnergyDevice::*of) {
    return [of](const EnergyDevice& row) {
      const std::optional<Joules>& known = row.*of;
      const bool is_wide = known && (*known->ci95)[1] - (*known->ci95)[0] > *row.measured_j / 2;
      return is_wide ? std::nullopt : ValueOf(known);
    };
  };
  const auto ps = [](std::optional<int64_t> EnergyDevice::*of) {
    return [of](const EnergyDevice& row) {
      return row.*of ? std::optional(static_cast<double>(*(row.*of)) * 1e3) : std::nullopt;
    };
  };
  RowGrid grid(rows);
  grid.Name("device", 7, [&](const EnergyDevice& row) { return names.Name(row.device); });
  grid.Number("measured J", &EnergyDevice::measured_j, Figure);
  grid.Number("active J", joules(&EnergyDevice::active_j), Figure);
  grid.Number(
          "95% CI",
          [&](const EnergyDevice& row) { return JoulesErrorText(row.active_j, options.unicode); })
      .Drop(2)
      .HideIfUnknown();
  grid.Number("idle J", joules(&EnergyDevice::idle_j), Figure);
  grid.Number("residual J", [](const EnergyDevice& row) {
    const bool is_none = row.residual_j && std::abs(*row.residual_j) < 1e-6 * *row.measured_j;
    return is_none ? "0" : Figure(row.residual_j);
  });
  grid.Number("windows", &EnergyDevice::windows).Drop(2);
  grid.Number("covered %", &EnergyDevice::coverage, FormatPercent).Drop(3);
  grid.Times("period", options.unit, ps(&EnergyDevice::period_ns)).Drop(5);
  grid.Times("lag", options.unit, ps(&EnergyDevice::lag_ns)).Drop(4);
  grid.Times("window", options.unit, ps(&EnergyDevice::window_ns)).Drop(6).HideIfUnknown();
  grid.Name("sensor", 12, &EnergyDevice::sensor).Drop(7);
  section.grid = std::move(grid).Take();
  return section;
}

Section GroupSection(const std::vector<EnergyGroup>& groups, const OutputOptions& options) {
  Section section = {.title = "groups: only the sum of their kernels is known"};
  RowGrid grid(groups);
  grid.Number("group", &EnergyGroup::group);
  grid.Number("energy J", Of(&EnergyGroup::energy_j), Figure);
  grid.Number("95% CI", [&](const EnergyGroup& row) {
    return JoulesErrorText(row.energy_j, options.unicode);
  });
  grid.Name("kernels", 40, [](const EnergyGroup& row) { return absl::StrJoin(row.kernels, ", "); })
      .words = true;
  section.grid = std::move(grid).Take();
  return section;
}

// Windows of a sensor, of many so many after each other as one; never over a gap.
std::vector<EnergyTimeline::Window> Joined(std::vector<EnergyTimeline::Window> windows) {
  constexpr size_t kMost = 2000;
  std::ranges::sort(windows, {}, &EnergyTimeline::Window::from_s);
  const size_t group = (windows.size() + kMost - 1) / kMost;
  std::vector<EnergyTimeline::Window> joined;
  size_t in_last = 0;
  for (const EnergyTimeline::Window& each : windows) {
    const bool follows = in_last > 0 && in_last < group &&
                         each.from_s - joined.back().to_s <= each.to_s - each.from_s;
    if (!follows) {
      joined.push_back(each);
      in_last = 1;
      continue;
    }
    EnergyTimeline::Window& last = joined.back();
    const double share = 1 / static_cast<double>(++in_last);
    last.measured_w += (each.measured_w - last.measured_w) * share;
    last.explained_w += (each.explained_w - last.explained_w) * share;
    last.to_s = std::max(last.to_s, each.to_s);
  }
  return joined;
}

void VisitTimeline(const EnergyTimeline& timeline, result::FieldSink* sink) {
  result::VisitDevice(&timeline.device, sink);
  sink->Field("capture_s", timeline.capture_s);
  const std::vector<EnergyTimeline::Window> windows = Joined(timeline.windows);
  using Window = EnergyTimeline::Window;
  for (const auto& [name, of] : {std::pair("from_s", &Window::from_s),
                                 {"to_s", &Window::to_s},
                                 {"measured_w", &Window::measured_w},
                                 {"explained_w", &Window::explained_w}}) {
    std::vector<std::optional<double>> values;
    for (const Window& each : windows) values.emplace_back(each.*of);
    sink->Numbers(name, values);
  }
  sink->Rows(TableOf("lanes", std::span(timeline.lanes),
                     [](const EnergyTimeline::Lane& lane, result::FieldSink* of) {
                       of->Field("name", lane.name);
                       of->Numbers("busy", std::vector<std::optional<double>>(lane.busy.begin(),
                                                                              lane.busy.end()));
                     }));
}

View EnergyView(const EnergyReport& report, const OutputOptions& options) {
  View view;
  const bool is_part = std::ranges::any_of(
      report.findings, [](const EnergyFinding& each) { return each.code == "coverage"; });
  const DeviceNames device_names(report.devices);
  for (const EnergyDevice& each : report.devices) {
    if (!each.poor_fit) continue;
    view.lines.push_back({"Do not trust the numbers for " + device_names.Name(each.device) +
                              ": the executions do not explain the measured power (poor_fit; see "
                              "the reason below). Record again.",
                          Tone::kBad});
  }
  view.sections.push_back(DeviceSection(report, options));
  if (!report.kernels.empty()) {
    view.sections.push_back(EnergySection("kernels", "kernel", report.kernels, is_part, options));
  }
  if (!report.groups.empty()) view.sections.push_back(GroupSection(report.groups, options));
  if (!report.functions.empty()) {
    view.sections.push_back(
        EnergySection("functions", "function", report.functions, is_part, options));
  }
  if (!report.layers.empty()) {
    view.sections.push_back(EnergySection("layers", "layer", report.layers, is_part, options));
  }
  for (const EnergyFinding& each : report.findings) {
    const std::string of = each.device.plane.empty() ? "" : device_names.Name(each.device) + ": ";
    view.diagnostics.push_back({std::string(each.severity), of + Printable(each.message)});
  }
  for (DiagnosticLine& line : DiagnosticLines(report.diagnostics, /*with_infos=*/false)) {
    view.diagnostics.push_back(std::move(line));
  }
  std::ranges::stable_sort(view.diagnostics, std::greater(), DiagnosticsTitle);  // "suspicious"
  return view;
}

}  // namespace

Output EnergyOutput(const EnergyReport& report, const OutputOptions& options,
                    std::string_view csv) {
  Output out{.result = result::Result("xplane-time.energy.v1")};
  AddHead(report.inputs, report.capture ? &*report.capture : nullptr, options.given, &out.result);
  const auto add = [&](const char* table, const char* name, const std::vector<EnergyRow>& rows) {
    out.result.Add(EnergyTable(table, name, Top(rows, options.top)));
  };
  out.result.Add(TableOf("devices", std::span(report.devices)));
  add("kernels", "kernel", report.kernels);
  add("functions", "function", report.functions);
  add("layers", "layer", report.layers);
  add("sources", "source", report.sources);
  out.result.Add(TableOf("groups", std::span(report.groups)));
  if (csv.empty()) csv = report.capture ? "kernels" : "layers";
  for (const auto& part : out.result.parts) {
    const auto* table = std::get_if<result::Table>(&part);
    if (table != nullptr && table->name == csv) out.result.csv = *table;
  }
  out.result.Add(TableOf("findings", std::span(report.findings)));
  out.result.Add(TableOf("diagnostics", std::span(report.diagnostics)));
  out.view = [&report](const OutputOptions& how) { return EnergyView(report, how); };
  out.drawn.push_back(TableOf("timelines", std::span(report.timelines), VisitTimeline));
  return out;
}

}  // namespace xplane_time::output
