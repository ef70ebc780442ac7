// Trees of executions.

#include "output/results.h"
#include "output/trace_views.h"

namespace xplane_time::output {
namespace {

using result::TableOf;

// The total of the root above each row; 0 where the root is not known.
std::vector<double> RootTotals(const std::vector<TreeRow>& rows) {
  std::vector<double> totals(rows.size(), 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool has_parent = rows[i].parent && *rows[i].parent < i;
    totals[i] = has_parent ? totals[*rows[i].parent] : static_cast<double>(rows[i].total_ps);
  }
  return totals;
}

// `root_ps(row)`: of the root above it.
template <typename RootPs>
Grid TreeGrid(std::span<const TreeRow> rows, RootPs root_ps, const OutputOptions& options) {
  // Of a function's run self time is the time in which no kernel ran.
  const auto self_if = [](bool of_run) {
    return [of_run](const TreeRow& row) {
      const bool is_run = row.depth == 0 && row.line.empty();
      return is_run == of_run ? row.self_ps : std::nullopt;
    };
  };
  RowGrid grid(rows);
  const Unit unit = CommonUnit(grid.Values(&TreeRow::total_ps), options.unit);
  grid.Name("name", 20, [](const TreeRow& row) {
    const size_t depth = std::min<size_t>(row.depth, 12);  // deep paths keep room for their names
    return std::string(2 * depth, ' ') + row.name;
  });
  grid.Number("count", &TreeRow::count);
  grid.Times("total", unit, &TreeRow::total_ps);
  grid.Times("self", unit, self_if(false));
  grid.Times("idle", unit, self_if(true)).HideIf(!rows.empty() && !rows[0].line.empty());
  grid.Times("child", unit, &TreeRow::child_ps).Drop(2);
  grid.Number("of root %",
              [&](const TreeRow& row) {
                return root_ps(row) > 0
                           ? FormatPercent(static_cast<double>(row.total_ps) / root_ps(row))
                           : "-";
              })
      .Drop(1);
  grid.Name("status", 0, [](const TreeRow& row) { return row.status == "ok" ? "" : row.status; })
      .HideIfSame(/*unless_known=*/true);
  return std::move(grid).Take();
}

// One section a device and line.
std::vector<Section> TreeSections(const TreeReport& report, const OutputOptions& options) {
  const std::vector<TreeRow>& rows = report.rows;
  const size_t shown = std::min(rows.size(), options.top.value_or(rows.size()));
  const std::vector<double> root_totals = RootTotals(rows);
  const auto root_ps = [&](const TreeRow& row) {
    return root_totals[static_cast<size_t>(&row - rows.data())];
  };
  const DeviceNames names(rows);
  std::vector<Section> sections;
  for (size_t begin = 0, end = 0; begin < shown; begin = end) {
    const auto is_of_line = [&first = rows[begin]](const TreeRow& row) {
      return KeyOf(row.device) == KeyOf(first.device) && row.line == first.line;
    };
    while (end < shown && is_of_line(rows[end])) ++end;
    Section section = {
        .title = names.Name(rows[begin].device),
        .grid = TreeGrid(std::span(rows).subspan(begin, end - begin), root_ps, options)};
    if (!rows[begin].line.empty()) {
      section.title.append(", line \"" + Printable(rows[begin].line) + "\"");
    }
    sections.push_back(std::move(section));
  }
  if (sections.empty()) {
    sections.push_back({.title = "tree", .grid = TreeGrid({}, root_ps, options)});
  }
  if (rows.empty()) sections.back().notes = {"none"};
  NoteMore(rows.size(), shown, "rows", "without --top", &sections.back().notes);
  return sections;
}

}  // namespace

Output TreeOutput(const TreeReport& report, const OutputOptions& options) {
  const std::span<const TreeRow> shown = Top(report.rows, options.top);
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
