// grid: a row a setting, as data (results.json, csv/results.csv) and for people.
#include <algorithm>
#include <functional>
#include <set>

#include "absl/strings/str_cat.h"
#include "json/json.h"
#include "output/evidence.h"
#include "output/view.h"
#include "tune/outcome_json.h"

namespace xplane_time::output {
namespace {

using evidence::GridResult, evidence::GridRow, evidence::GridSetting;
using result::FieldSink, result::KnownText;

// The earlier tool's columns, then ours.
void VisitNumbers(const GridRow& row, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, row.setting, row.coherence_delta, row.kv_cache_reduction,
                     row.peak_mem_reduction, row.energy_reduction, row.p95_latency_us, row.accuracy,
                     row.n, row.failed, row.median_latency_us);
  sink->Interval("median_latency_us_ci95", row.median_lo_us, row.median_hi_us);
  XPLANE_TIME_FIELDS(sink, row.p99_latency_us, row.energy_uj);
}

struct Entry {
  GridRow row;
  GridSetting setting;
};

std::vector<Entry> EntriesOf(const GridResult& of) {
  std::vector<Entry> entries;
  for (size_t i = 0; i < of.rows.size(); ++i) {
    entries.push_back({of.rows[i], of.run.settings[i]});
  }
  return entries;
}

// In a CSV file each metric is a separate column.
result::Table CsvTable(const GridResult& of) {
  return result::TableOf("", EntriesOf(of), [&of](const Entry& each, FieldSink* sink) {
    VisitNumbers(each.row, sink);
    sink->Field("status", each.setting.status);
    sink->Field("message", KnownText(BriefLine(each.setting.message)));
    for (size_t i = 0; i < of.metric_names.size(); ++i) {
      const auto& means = each.row.metrics;
      sink->Field(of.metric_names[i], i < means.size() ? means[i] : std::nullopt);
    }
  });
}

result::Table JsonTable(const GridResult& of) {
  return result::TableOf("settings", EntriesOf(of), [&of](const Entry& each, FieldSink* sink) {
    VisitNumbers(each.row, sink);
    json::Json metrics = json::Json::object();
    for (size_t i = 0; i < each.row.metrics.size(); ++i) {
      metrics[of.metric_names[i]] = json::OrNull(each.row.metrics[i]);
    }
    sink->Raw("metrics", json::Dump(metrics));
    sink->Field("on_front", each.row.on_front);
    sink->Field("id", each.setting.id);
    sink->Raw("params", json::Dump(each.setting.params));
    sink->Field("status", each.setting.status);
    sink->Field("message", KnownText(each.setting.message));
    sink->Field("latency_file",
                each.row.n == 0 ? std::nullopt : std::optional(LatencyFile(of.run, each.setting)));
    sink->Field("witness_file", WitnessFile(each.setting));
  });
}

void SayRun(const evidence::GridRun& run, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, run.workload, run.baseline, run.samples, run.calls, run.complete,
                     run.energy_kind, run.no_energy);
  sink->Raw("harness", json::Dump(json::ToJson(run.harness)));
}

std::vector<std::string> Outcomes(const GridResult& of) {
  std::vector<std::string> outcomes;
  for (size_t i = 0; i < of.rows.size(); ++i) {
    const GridSetting& setting = of.run.settings[i];
    const bool is_baseline = setting.name == of.run.baseline;
    outcomes.push_back(setting.status != "ok"        ? Printable(setting.status)
                       : is_baseline                 ? "baseline"
                       : of.rows[i].on_front == true ? "on the front"
                                                     : "");
  }
  return outcomes;
}

Section SettingSection(const GridResult& of, const OutputOptions& options) {
  const auto ps = [](auto member) {
    return [member](const GridRow& row) {
      const auto& us = row.*member;
      return us.has_value() ? std::optional(*us * kPsPerUs) : std::nullopt;
    };
  };
  const auto with_decimals = [](int decimals) {
    return [decimals](const std::optional<double>& value) {
      return value.has_value() ? FormatFixed(*value, decimals) : "-";
    };
  };
  const auto median = ps(&GridRow::median_latency_us), p95 = ps(&GridRow::p95_latency_us),
             p99 = ps(&GridRow::p99_latency_us);
  const auto has_all = [&](const GridRow& row) { return row.n == of.run.samples; };
  RowGrid grid(of.rows);
  const Unit unit = CommonUnit(grid.Values(median, p95, p99), options.unit);
  constexpr size_t kWholeName = 40;  // distinguishes settings: numbers are dropped before it is cut
  grid.Name("setting", kWholeName, &GridRow::setting).cells = ShortNames(of.run);
  grid.Number("n", &GridRow::n).HideIf(std::ranges::all_of(of.rows, has_all));
  grid.Times("median", unit, median).HideIfUnknown();
  grid.Times("p95", unit, p95).Drop(1).HideIfUnknown();
  grid.Times("p99", unit, p99).Drop(8).HideIfUnknown();
  grid.Number("energy uJ", &GridRow::energy_uj, with_decimals(1)).Drop(7).HideIfUnknown();
  const bool has_reduction[] = {
      !grid.Number("less energy %", &GridRow::energy_reduction, FormatPercent)
           .Drop(2)
           .HideIfUnknown()
           .hidden,
      !grid.Number("less memory %", &GridRow::peak_mem_reduction, FormatPercent)
           .Drop(6)
           .HideIfUnknown()
           .hidden,
      !grid.Number("less KV %", &GridRow::kv_cache_reduction, FormatPercent)
           .Drop(4)
           .HideIfUnknown()
           .hidden};
  const bool has_less = std::ranges::any_of(has_reduction, std::identity());
  const bool has_coherence = !grid.Number("coherence", &GridRow::coherence_delta, with_decimals(4))
                                  .Drop(5)
                                  .HideIfUnknown()
                                  .hidden;
  grid.Number("accuracy", &GridRow::accuracy, with_decimals(4)).Drop(3).HideIfUnknown();
  Section section = {.grid = std::move(grid).Take(), .table = "settings"};
  section.grid.columns.push_back({.header = "outcome", .cells = Outcomes(of)});
  const std::string less = "less ... %: reduction relative to the baseline, negative means more";
  const std::string coherence = "coherence: difference from the baseline";
  if (has_less && has_coherence) {
    section.notes.push_back(absl::StrCat(less, "; ", coherence));
  } else if (has_less || has_coherence) {
    section.notes.push_back(has_less ? less : coherence);
  }
  for (const GridSetting& each : of.run.settings) {
    const std::string line = BriefLine(each.message);
    if (!line.empty()) section.notes.push_back(absl::StrCat(each.name, ": ", Printable(line)));
  }
  return section;
}

View GridView(const GridResult& of, const OutputOptions& options) {
  const evidence::GridRun& run = of.run;
  View view;
  view.lines.push_back(
      {absl::StrCat(Printable(run.workload), ": ", Counted(run.settings.size(), "setting"), ", ",
                    Counted(run.samples, "sample"), " per setting, baseline ",
                    Printable(run.baseline)),
       Tone::kBold});
  if (!run.complete) {
    view.lines.push_back(
        {"The grid was stopped before all samples were measured; continue with --resume.",
         Tone::kWarning});
  }
  view.sections.push_back(SettingSection(of, options));
  if (run.no_energy.has_value()) {
    view.remarks.push_back({absl::StrCat("no energy: ", Printable(*run.no_energy)), Tone::kDim});
  }
  return view;
}

}  // namespace

std::vector<std::string> ShortNames(const evidence::GridRun& run) {
  const std::string prefix = run.workload + "_";
  std::set<std::string_view> taken;
  for (const GridSetting& each : run.settings) taken.insert(each.name);
  std::vector<std::string> names;
  for (const GridSetting& each : run.settings) {
    const std::string_view name = each.name;
    const std::string_view rest = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
    names.push_back(Printable(rest.empty() || taken.contains(rest) ? name : rest));
  }
  return names;
}

Output GridOutput(const GridResult& of) {
  Output out{.result = result::Result("xplane-time.grid.v1")};
  out.result.Say([&of](FieldSink* sink) { SayRun(of.run, sink); });
  out.result.Add(JsonTable(of));
  out.result.csv = CsvTable(of);
  out.view = [&of](const OutputOptions& how) { return GridView(of, how); };
  return out;
}

}  // namespace xplane_time::output
