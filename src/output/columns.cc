#include "output/columns.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "output/results.h"
#include "status.h"

namespace xplane_time::output {
namespace {

// The headers of `view`, each once, as names.
std::vector<std::string> NamesIn(const View& view) {
  std::vector<std::string> names;
  for (const Section& section : view.sections) {
    for (const Column& column : section.grid.columns) {
      std::string name = ColumnName(column.header);
      const bool is_new = std::find(names.begin(), names.end(), name) == names.end();
      if (is_new && !name.empty()) names.push_back(std::move(name));
    }
  }
  return names;
}

// The columns of a command are those that it shows of nothing.
std::vector<std::string> NamesOf(std::string_view command) {
  const OutputOptions options;
  const Report report;
  const TreeReport tree;
  PlanesReport planes;
  planes.planes.emplace_back().stats.emplace_back();
  const Comparison comparison;
  const PickResult choice;
  const auto functions = [&](bool samples) {
    return *FunctionsOutput(report, options, /*by_id=*/false, samples);
  };
  const std::map<std::string_view, std::function<Output()>> commands = {
      {"report", [&] { return *ReportOutput(report, options); }},
      {"functions", [&] { return functions(/*samples=*/false); }},
      {"samples", [&] { return functions(/*samples=*/true); }},
      {"kernels", [&] { return *KernelsOutput(report, options); }},
      {"tree", [&] { return TreeOutput(tree, options); }},
      {"planes", [&] { return PlanesOutput(planes, options); }},
      {"compare", [&] { return CompareOutput(comparison); }},
      {"pick", [&] { return PickOutput(choice); }}};
  const auto found = commands.find(command);
  return found == commands.end() ? std::vector<std::string>()
                                 : NamesIn(found->second().view(options));
}

}  // namespace

std::string ColumnName(std::string_view header) {
  std::string name = absl::AsciiStrToLower(absl::string_view(header.data(), header.size()));
  absl::RemoveExtraAsciiWhitespace(&name);
  for (const absl::string_view unit : {" ns", " us", " ms", " s", " %"}) {
    const absl::string_view without = absl::StripSuffix(name, unit);
    if (without.size() < name.size()) return std::string(without);
  }
  return name;
}

absl::StatusOr<std::vector<std::string>> ParseColumns(std::string_view command,
                                                      std::string_view text) {
  const std::vector<std::string> valid = NamesOf(command);
  std::vector<std::string> names;
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(text.data(), text.size()), ',')) {
    std::string name = ColumnName({part.data(), part.size()});
    if (std::find(valid.begin(), valid.end(), name) == valid.end()) {
      return InvalidArgument("--columns: unknown column \"", part,
                             "\"; valid columns: ", absl::StrJoin(valid, ", "));
    }
    names.push_back(std::move(name));
  }
  return names;
}

void ChooseColumns(const std::vector<std::string>& names, Grid* grid) {
  if (names.empty() || grid->columns.empty()) return;
  std::vector<Column> chosen;
  bool any = false;
  for (const std::string& name : names) {
    any |= name == ColumnName(grid->columns[0].header);
    for (size_t i = 1; i < grid->columns.size(); ++i) {
      Column& column = grid->columns[i];
      if (ColumnName(column.header) != name || column.cells.size() != grid->rows()) continue;
      chosen.push_back(std::move(column));
      column = Column();  // a name that is given twice is shown once
      chosen.back().hidden = false;
      chosen.back().drop = 0;
    }
  }
  if (!any && chosen.empty()) return;
  grid->columns.resize(1);
  std::move(chosen.begin(), chosen.end(), std::back_inserter(grid->columns));
}

}  // namespace xplane_time::output
