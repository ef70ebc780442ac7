#include "output/columns.h"

#include <algorithm>
#include <iterator>
#include <span>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace xplane_time::output {
namespace {

constexpr std::string_view kFunctions[] = {
    "function", "variant", "program", "device", "runs",  "median",      "95% ci", "mean",
    "std",      "min",     "max",     "total",  "share", "kernels/run", "clock",  "note"};
constexpr std::string_view kSamples[] = {"function", "program", "device", "run",
                                         "start",    "active",  "span",   "sum",
                                         "kernels",  "clock",   "note"};
constexpr std::string_view kKernels[] = {
    "kernel", "count", "self",   "total", "mean",     "median", "std",      "min",
    "max",    "share", "flop/s", "b/s",   "category", "device", "function", "clock"};
constexpr std::string_view kReport[] = {"device",  "kind",    "executions", "busy",    "function",
                                        "variant", "program", "runs",       "median",  "95% ci",
                                        "mean",    "share",   "clock",      "note",    "kernel",
                                        "count",   "self",    "total",      "category"};
constexpr std::string_view kTree[] = {"name", "count", "total",   "self",
                                      "idle", "child", "of root", "status"};
constexpr std::string_view kPlanes[] = {"plane / line", "kind / role", "events", "first", "last",
                                        "sum",          "stat",        "type",   "of",    "count"};
constexpr std::string_view kCompare[] = {"function", "device", "verdict",  "base",
                                         "head",     "change", "interval", "detects"};
constexpr std::string_view kPick[] = {"variant", "parameters", "status",   "runs",   "typical",
                                      "p95",     "slower",     "interval", "p(best)"};

std::span<const std::string_view> NamesOf(std::string_view command) {
  if (command == "report") return kReport;
  if (command == "functions") return kFunctions;
  if (command == "samples") return kSamples;
  if (command == "kernels") return kKernels;
  if (command == "tree") return kTree;
  if (command == "planes") return kPlanes;
  if (command == "compare") return kCompare;
  if (command == "pick") return kPick;
  return {};
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
  const auto valid = NamesOf(command);
  std::vector<std::string> names;
  for (const absl::string_view part :
       absl::StrSplit(absl::string_view(text.data(), text.size()), ',')) {
    std::string name = ColumnName({part.data(), part.size()});
    if (std::find(valid.begin(), valid.end(), name) == valid.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--columns: unknown column \"", part, "\"; valid columns: ",
                       absl::StrJoin(std::vector<std::string>(valid.begin(), valid.end()), ", ")));
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
