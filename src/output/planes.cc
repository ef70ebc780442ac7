// Planes, their lines and what stats they have.
#include <algorithm>

#include "output/results.h"
#include "output/trace_views.h"

namespace xplane_time::output {
namespace {

using result::FieldSink, result::TableOf;

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
  grid.Times("first", options.unit, &ShownRow::first_ps).Drop(1);
  grid.Times("last", options.unit, &ShownRow::last_ps).Drop(2);
  grid.Times("sum", options.unit, &ShownRow::sum_ps).Drop(3);
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

View PlanesView(const PlanesReport& report, const OutputOptions& options) {
  View view = {.lines = CaptureLines(report.inputs, report.capture, options),
               .sections = {LinesSection(report, options)},
               .diagnostics = DiagnosticLines(report.diagnostics, /*or_infos=*/false)};
  for (const PlaneRow& plane : report.planes) {
    if (!plane.stats.empty()) view.sections.push_back(StatsSection(plane));
  }
  return view;
}

}  // namespace

Output PlanesOutput(const PlanesReport& report, const OutputOptions& options) {
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
  out.result.csv = with_stats ? TableOf("", result::PlaneStats(report))
                              : TableOf("", result::PlaneLines(report));
  out.view = [&report](const OutputOptions& how) { return PlanesView(report, how); };
  return out;
}

}  // namespace xplane_time::output
