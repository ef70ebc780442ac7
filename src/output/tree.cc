// Trees of executions.
#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "output/results.h"
#include "output/trace_views.h"

namespace xplane_time::output {
namespace {

using result::TableOf;

// The total to which each row is relative: of the root above it, or, by scope or source, of all
// roots of its device; 0 if unknown.
std::vector<double> WholeTotals(const TreeReport& report) {
  const std::vector<TreeRow>& rows = report.rows;
  std::vector<double> totals(rows.size(), 0);
  if (report.by != TreeBy::kNesting) {
    std::map<DeviceKey, double> of_device;
    for (const TreeRow& row : rows) {
      if (row.depth == 0) of_device[KeyOf(row.device)] += static_cast<double>(row.total_ps);
    }
    for (size_t i = 0; i < rows.size(); ++i) totals[i] = of_device[KeyOf(rows[i].device)];
    return totals;
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool has_parent = rows[i].parent && *rows[i].parent < i;
    totals[i] = has_parent ? totals[*rows[i].parent] : static_cast<double>(rows[i].total_ps);
  }
  return totals;
}

// "/home/me/model.py:12 attention": "model.py:12 attention".
std::string ShortLine(const std::string& line) {
  const size_t end = std::min(line.find(' '), line.size());
  return WithoutFolder(line.substr(0, end)) + line.substr(end);
}

// The lines of a row, unless its name contains them.
std::string LinesText(const TreeRow& row, bool with_folders) {
  const bool in_name = row.lines.size() == 1 && row.name.starts_with(row.lines[0]);
  if (row.lines.empty() || in_name) return "";
  std::string text;
  for (const std::string& line : row.lines) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", with_folders ? line : ShortLine(line));
  }
  return row.lines_cut ? text + ", ..." : text;
}

// `whole_ps(row)`: what it is a part of. Times are in `unit`.
template <typename WholePs>
Grid TreeGrid(std::span<const TreeRow> rows, TreeBy by, WholePs whole_ps, Unit unit,
              const OutputOptions& options) {
  // The self time of a function's run is the time in which no kernel ran.
  const bool by_nesting = by == TreeBy::kNesting;
  const auto self_if = [by_nesting](bool of_run) {
    return [of_run, by_nesting](const TreeRow& row) {
      const bool is_run = by_nesting && row.depth == 0 && row.line.empty();
      return is_run == of_run ? row.self_ps : std::nullopt;
    };
  };
  RowGrid grid(rows);
  grid.Name("name", by_nesting ? 20 : 40, [&](const TreeRow& row) {
    const size_t depth = std::min<size_t>(row.depth, 12);  // deep paths keep room for their names
    const bool is_short = by == TreeBy::kSource && !options.wide;
    const std::string short_name =
        absl::StrReplaceAll(WithoutFolder(row.name), {{".<locals>", ""}});
    return std::string(2 * depth, ' ') + (is_short ? short_name : row.name);
  });
  grid.Number("count", &TreeRow::count);
  grid.Times("total", unit, &TreeRow::total_ps);
  grid.Times("self", unit, self_if(false));
  grid.Times("idle", unit, self_if(true))
      .HideIf(!by_nesting || (!rows.empty() && !rows[0].line.empty()));
  grid.Times("child", unit, &TreeRow::child_ps).Drop(2);
  const auto share = [&](const TreeRow& row) {
    const double whole = whole_ps(row);
    return whole > 0 ? std::optional(static_cast<double>(row.total_ps) / whole) : std::nullopt;
  };
  grid.Number(by_nesting ? "of root %" : "share %", share, FormatPercent).Drop(1);
  grid.Name("status", 0, [](const TreeRow& row) { return row.status == "ok" ? "" : row.status; })
      .HideIfSame(/*unless_known=*/true);
  grid.Name("lines", 16, [&](const TreeRow& row) { return LinesText(row, options.wide); })
      .Drop(3)
      .HideIfSame();
  return std::move(grid).Take();
}

// One section a device and line.
std::vector<Section> TreeSections(const TreeReport& report, const OutputOptions& options) {
  const std::vector<TreeRow>& rows = report.rows;
  const size_t shown = std::min(rows.size(), options.top.value_or(rows.size()));
  const std::vector<double> totals = WholeTotals(report);
  const auto whole_ps = [&](const TreeRow& row) {
    return totals[static_cast<size_t>(&row - rows.data())];
  };
  const DeviceNames names(rows);
  // One for all devices.
  const std::span<const TreeRow> all_shown = std::span(rows).first(shown);
  const Unit unit = CommonUnit(RowGrid(all_shown).Values(&TreeRow::total_ps), options.unit);
  std::vector<Section> sections;
  for (size_t begin = 0, end = 0; begin < shown; begin = end) {
    const auto is_of_line = [&first = rows[begin]](const TreeRow& row) {
      return KeyOf(row.device) == KeyOf(first.device) && row.line == first.line;
    };
    while (end < shown && is_of_line(rows[end])) ++end;
    Section section = {.title = names.Name(rows[begin].device),
                       .grid = TreeGrid(std::span(rows).subspan(begin, end - begin), report.by,
                                        whole_ps, unit, options),
                       .table = "tree"};
    if (!rows[begin].line.empty()) {
      section.title.append(", line \"" + Printable(rows[begin].line) + "\"");
    }
    sections.push_back(std::move(section));
  }
  if (sections.empty()) {
    sections.push_back({.title = "tree", .grid = TreeGrid({}, report.by, whole_ps, unit, options)});
  }
  if (rows.empty()) sections.back().notes = {"none"};
  const bool has_no_scope =
      report.by == TreeBy::kScope && !rows.empty() &&
      std::ranges::all_of(rows, [](const TreeRow& row) { return row.name == "(no scope)"; });
  if (has_no_scope) {
    sections.back().notes.emplace_back(
        "note: no op of this trace has a name scope. JAX records scopes in Hlo Protos; PyTorch "
        "records modules: --by module");
  }
  NoteMore(rows.size(), shown, "rows", kByTop, &sections.back().notes);
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
    return View{.lines = FilterLines(how, /*with_devices=*/false),
                .sections = TreeSections(report, how),
                .diagnostics = DiagnosticLines(report.diagnostics, /*with_infos=*/false)};
  };
  return out;
}

}  // namespace xplane_time::output
