#include <algorithm>

#include "output/sections.h"
#include "output/text.h"
#include "output/units.h"

namespace xplane_time::output {
namespace {

template <typename T>
std::optional<double> AsDouble(const std::optional<T>& value) {
  return value ? std::optional<double>(static_cast<double>(*value)) : std::nullopt;
}

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

Grid TreeGrid(const std::vector<TreeRow>& rows, size_t begin, size_t end,
              const std::vector<double>& root_totals, const OutputOptions& options) {
  std::vector<std::string> name, count, share, status;
  std::vector<std::optional<double>> total, self, idle, child;
  for (size_t i = begin; i < end; ++i) {
    const TreeRow& row = rows[i];
    const auto total_ps = static_cast<double>(row.total_ps);
    name.push_back(Indent(row.depth, row.name));
    count.push_back(std::to_string(row.count));
    total.push_back(total_ps);
    // Of a function's run it is the time in which no kernel ran.
    const bool is_run = row.depth == 0 && row.line.empty();
    self.push_back(is_run ? std::nullopt : AsDouble(row.self_ps));
    idle.push_back(is_run ? AsDouble(row.self_ps) : std::nullopt);
    child.push_back(AsDouble(row.child_ps));
    share.push_back(FormatPercent(
        root_totals[i] > 0 ? std::optional<double>(total_ps / root_totals[i]) : std::nullopt));
    status.push_back(row.status == "ok" ? "" : Printable(row.status));
  }
  const Unit unit = CommonUnit(total, options.unit);
  Grid grid;
  grid.columns.push_back(NameColumn("name", std::move(name), 20));
  grid.columns.push_back(NumberColumn("count", std::move(count)));
  grid.columns.push_back(TimesColumn("total", total, unit));
  grid.columns.push_back(TimesColumn("self", self, unit));
  grid.columns.push_back(TimesColumn("idle", idle, unit));
  grid.columns.back().hidden = !rows[begin].line.empty();
  grid.columns.push_back(TimesColumn("child", child, unit, 2));
  grid.columns.push_back(NumberColumn("of root %", std::move(share), 1));
  const bool all_ok =
      std::all_of(status.begin(), status.end(), [](const auto& text) { return text.empty(); });
  grid.columns.push_back(TextColumn("status", std::move(status)));
  grid.columns.back().hidden = all_ok;
  return grid;
}

// Collects the rows of planes and lines into one grid.
struct PlaneCells {
  std::vector<std::string> name, role, events;
  std::vector<std::optional<double>> first, last, sum;

  void Add(std::string row_name, std::string_view row_role, uint64_t row_events,
           const std::optional<int64_t>& first_ps, const std::optional<int64_t>& last_ps,
           std::optional<double> sum_ps) {
    name.push_back(std::move(row_name));
    role.push_back(Printable(row_role));
    events.push_back(std::to_string(row_events));
    first.push_back(AsDouble(first_ps));
    last.push_back(AsDouble(last_ps));
    sum.push_back(sum_ps);
  }
  Grid Take(Unit unit) && {
    Grid grid;
    grid.columns.push_back(NameColumn("plane / line", std::move(name), 20));
    grid.columns.push_back(TextColumn("kind / role", std::move(role)));
    grid.columns.push_back(NumberColumn("events", std::move(events)));
    grid.columns.push_back(TimesColumn("first", first, unit, 1));
    grid.columns.push_back(TimesColumn("last", last, unit, 2));
    grid.columns.push_back(TimesColumn("sum", sum, unit, 3));
    return grid;
  }
};

Section LinesSection(const PlanesReport& report, const OutputOptions& options) {
  Section section = {.title = "planes and their lines", .grid = {}, .notes = {}};
  PlaneCells cells;
  const bool several_inputs = report.inputs.size() > 1;
  for (const PlaneRow& plane : report.planes) {
    std::string name = Printable(plane.name);
    if (several_inputs) name.append(" #").append(std::to_string(plane.input + 1));
    cells.Add(std::move(name), plane.kind ? DeviceKindName(*plane.kind) : "", plane.events,
              plane.first_ps, plane.last_ps, std::nullopt);
    for (const LineRow& line : plane.lines) {
      cells.Add(Indent(1, line.name), line.role, line.events, line.first_ps, line.last_ps,
                static_cast<double>(line.sum_ps));
    }
  }
  if (cells.name.empty()) {
    section.notes.emplace_back("none");
  } else {
    section.grid = std::move(cells).Take(options.unit);
  }
  return section;
}

Section StatsSection(const PlaneRow& plane) {
  Section section = {.title = "stats of " + Printable(plane.name), .grid = {}, .notes = {}};
  std::vector<std::string> name, type, owner, count;
  for (const StatRow& stat : plane.stats) {
    name.push_back(Printable(stat.name));
    type.push_back(Printable(stat.type));
    owner.push_back(Printable(stat.owner));
    count.push_back(std::to_string(stat.count));
  }
  section.grid.columns.push_back(NameColumn("stat", std::move(name), 20));
  section.grid.columns.push_back(TextColumn("type", std::move(type)));
  section.grid.columns.push_back(TextColumn("of", std::move(owner)));
  section.grid.columns.push_back(NumberColumn("count", std::move(count)));
  return section;
}

}  // namespace

std::vector<Section> TreeSections(const TreeReport& report, const OutputOptions& options) {
  const std::vector<TreeRow>& rows = report.rows;
  const size_t shown = std::min(rows.size(), options.top.value_or(rows.size()));
  const std::vector<double> root_totals = RootTotals(rows);
  std::vector<const DeviceRef*> devices;
  for (const TreeRow& row : rows) devices.push_back(&row.device);
  const DeviceNames names(devices);
  std::vector<Section> sections;
  for (size_t begin = 0; begin < shown;) {
    size_t end = begin + 1;
    while (end < shown && SameTimeline(rows[begin], rows[end])) ++end;
    Section section = {.title = names.Name(rows[begin].device), .grid = {}, .notes = {}};
    if (!rows[begin].line.empty()) {
      section.title.append(", line \"" + Printable(rows[begin].line) + "\"");
    }
    section.grid = TreeGrid(rows, begin, end, root_totals, options);
    sections.push_back(std::move(section));
    begin = end;
  }
  if (sections.empty()) sections.push_back({.title = "tree", .grid = {}, .notes = {}});
  if (rows.empty()) sections.back().notes = {"none"};
  if (shown < rows.size()) {
    sections.back().notes.push_back(MoreNote(rows.size() - shown, "rows", "without --top"));
  }
  return sections;
}

std::vector<Section> PlaneSections(const PlanesReport& report, const OutputOptions& options) {
  std::vector<Section> sections = {LinesSection(report, options)};
  for (const PlaneRow& plane : report.planes) {
    if (!plane.stats.empty()) sections.push_back(StatsSection(plane));
  }
  return sections;
}

}  // namespace xplane_time::output
