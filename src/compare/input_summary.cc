// A fleet's summary: hosts are the sampled units, and the medians of their captures are the
// samples. If there is a single host, its captures are the units.
#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compare/inputs.h"
#include "status.h"
#include "timing/filters.h"
#include "xplane_time/fleet.h"

namespace xplane_time::compare {
namespace {

constexpr char kSteps[] = "(steps)";

// Rows that have centres, with their names.
struct Row {
  NameId host, device, model;
  std::string function, metric;
  const CaptureCentres* centres_ps;
};

std::vector<Row> RowsOf(const FleetSummary& summary, const Filters& filters) {
  std::vector<Row> rows;
  const auto add = [&](const auto& row, std::string function, const char* metric) {
    if (row.centres_ps.empty() || !filters.WantsFunction(function)) return;
    rows.push_back({row.host, row.device, row.model, std::move(function), metric, &row.centres_ps});
  };
  for (const FleetFunction& row : summary.functions) {
    add(row, summary.names[row.function], "active");
  }
  for (const FleetSteps& row : summary.steps) add(row, kSteps, "span");
  return rows;
}

}  // namespace

absl::StatusOr<std::vector<Measurements>> FromSummary(const std::string& path,
                                                      std::string_view bytes,
                                                      const MeasureOptions& options) {
  ASSIGN_OR_RETURN(const FleetSummary summary, DecodeFleetSummary(bytes, path));
  RETURN_IF_ERROR(CheckObjective(path, /*holds_energies=*/false, options.objective));
  ASSIGN_OR_RETURN(const Filters filters, Filters::Compile(options.report));
  if (options.by_variant || options.slowest_device) {
    return FailedPrecondition(path,
                              ": a summary contains neither variants nor single runs; give traces");
  }
  ASSIGN_OR_RETURN(std::vector<Fact> facts, OptionFacts(path, "a summary", options.report,
                                                        {"function", "exclude", "prefix"}));
  for (const auto& [name, value] : summary.options) {
    if (name != "device") facts.push_back({name, value});
  }
  const std::vector<Row> rows = RowsOf(summary, filters);
  std::set<NameId> hosts;
  for (const Row& row : rows) hosts.insert(row.host);
  const bool hosts_are_units = hosts.size() > 1;
  // by host; or by capture, if there is one host
  std::map<std::pair<NameId, size_t>, Measurements> units;
  std::map<std::pair<NameId, size_t>, std::set<std::string>> models;
  for (const Row& row : rows) {
    const size_t captures = hosts_are_units ? 1 : row.centres_ps->size();
    for (size_t unit = 0; unit < captures; ++unit) {
      const std::string& host = summary.names[row.host];
      Measurements& out = units[{row.host, unit}];
      out.source = path;
      out.unit = hosts_are_units ? host : absl::StrCat("capture ", unit + 1, " of ", host);
      if (row.model != 0) models[{row.host, unit}].insert(summary.names[row.model]);
      Series& series = out.series.emplace_back();
      series.function = row.function;
      series.device = summary.names[row.device];
      series.metric = row.metric;
      for (size_t i = 0; i < row.centres_ps->size(); ++i) {
        if (!hosts_are_units && i != unit) continue;
        series.samples.push_back({static_cast<double>((*row.centres_ps)[i]), 0});
      }
    }
  }
  std::vector<Measurements> all;
  for (auto& [unit, out] : units) {
    out.options = facts;
    out.facts = {{"device model", absl::StrJoin(models[unit], " and ")}};
    all.push_back(std::move(out));
  }
  if (!all.empty() && !summary.failures.empty()) {
    all[0].notes.push_back(absl::StrCat(path, ": the summary lacks ", summary.failures.size(),
                                        " files, which could not be read"));
  }
  if (all.empty()) {
    return FailedPrecondition(path, ": no function has runs and passes the filters; ",
                              "xplane-time fleet lists its functions");
  }
  return all;
}

}  // namespace xplane_time::compare
