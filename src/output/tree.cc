// Trees of executions.
#include <algorithm>

#include "output/results.h"
#include "output/trace_views.h"

namespace xplane_time::output {
namespace {

using result::TableOf;

std::string Indent(uint32_t depth, std::string_view name) {
  // Deep paths keep room for their names.
  return std::string(2 * size_t{std::min<uint32_t>(depth, 12)}, ' ') + Printable(name);
}

// The total of the root above each row; 0 where the root is not known.
std::vector<double> RootTotals(const std::vector<TreeRow>& rows) {
  std::vector<double> totals(rows.size(), 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool has_parent = rows[i].parent && *rows[i].parent < i;
    totals[i] = has_parent ? totals[*rows[i].parent] : static_cast<double>(rows[i].total_ps);
  }
  return totals;
}

bool SameTimeline(const TreeRow& a, const TreeRow& b) {
  return a.device.input == b.device.input && a.device.host == b.device.host &&
         a.device.plane == b.device.plane && a.device.ordinal == b.device.ordinal &&
         a.line == b.line;
}

struct ShownRow {
  const TreeRow& row;
  double root_ps = 0;  // the total of the root above it
};

Grid TreeGrid(std::span<const ShownRow> rows, const OutputOptions& options) {
  const auto total = [](const ShownRow& each) { return each.row.total_ps; };
  // Of a function's run self time is the time in which no kernel ran.
  const auto self_if = [](bool of_run) {
    return [of_run](const ShownRow& each) {
      const bool is_run = each.row.depth == 0 && each.row.line.empty();
      return is_run == of_run ? each.row.self_ps : std::nullopt;
    };
  };
  RowGrid grid(rows);
  const Unit unit = CommonUnit(grid.Values(total), options.unit);
  grid.Name("name", 20, [](const ShownRow& each) { return Indent(each.row.depth, each.row.name); });
  grid.Number("count", [](const ShownRow& each) { return std::to_string(each.row.count); });
  grid.Times("total", unit, total);
  grid.Times("self", unit, self_if(false));
  grid.Times("idle", unit, self_if(true)).hidden = !rows[0].row.line.empty();
  grid.Times("child", unit, [](const ShownRow& each) { return each.row.child_ps; }).drop = 2;
  grid.Number("of root %",
              [&](const ShownRow& each) {
                return each.root_ps > 0
                           ? FormatPercent(static_cast<double>(each.row.total_ps) / each.root_ps)
                           : "-";
              })
      .drop = 1;
  Column& status = grid.Text("status", [](const ShownRow& each) {
    return each.row.status == "ok" ? "" : Printable(each.row.status);
  });
  status.hidden = !Varies(status.cells) && status.cells[0].empty();
  return std::move(grid).Take();
}

// One section a device and line.
std::vector<Section> TreeSections(const TreeReport& report, const OutputOptions& options) {
  const std::vector<TreeRow>& rows = report.rows;
  const size_t shown = std::min(rows.size(), options.top.value_or(rows.size()));
  const std::vector<double> root_totals = RootTotals(rows);
  std::vector<const DeviceRef*> devices;
  for (const TreeRow& row : rows) devices.push_back(&row.device);
  const DeviceNames names(devices);
  std::vector<Section> sections;
  for (size_t begin = 0; begin < shown;) {
    std::vector<ShownRow> of_line;
    size_t end = begin;
    for (; end < shown && SameTimeline(rows[begin], rows[end]); ++end) {
      of_line.push_back({rows[end], root_totals[end]});
    }
    Section section = {.title = names.Name(rows[begin].device), .grid = TreeGrid(of_line, options)};
    if (!rows[begin].line.empty()) {
      section.title.append(", line \"" + Printable(rows[begin].line) + "\"");
    }
    sections.push_back(std::move(section));
    begin = end;
  }
  if (sections.empty()) sections.push_back({.title = "tree"});
  if (rows.empty()) sections.back().notes = {"none"};
  if (shown < rows.size()) {
    sections.back().notes.push_back(MoreNote(rows.size() - shown, "rows", "without --top"));
  }
  return sections;
}

}  // namespace

Output TreeOutput(const TreeReport& report, const OutputOptions& options) {
  const std::span<const TreeRow> shown =
      std::span(report.rows).first(std::min(report.rows.size(), options.top.value_or(SIZE_MAX)));
  Output out{.result = result::Result("xplane-time.tree.v1")};
  AddHead(report.inputs, nullptr, options.given, &out.result);
  out.result.Add(TableOf("tree", shown));
  out.result.Add(TableOf("diagnostics", std::span(report.diagnostics)));
  out.result.csv = TableOf("", shown);
  out.view = [&report](const OutputOptions& how) {
    return View{.sections = TreeSections(report, how),
                .diagnostics = DiagnosticLines(report.diagnostics, /*or_infos=*/false)};
  };
  return out;
}

}  // namespace xplane_time::output
