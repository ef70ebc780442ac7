// Power as data: the result, and OpenMetrics 1.0, which is families of gauges, each with its type
// and unit, then "# EOF".
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "output/results.h"
#include "result/rows.h"

namespace xplane_time::output {
namespace {

using result::FieldSink, result::KnownText, result::TableOf;

void VisitWindow(const WindowSummary& window, const CarbonModel& model, FieldSink* sink) {
  sink->Field("name", KnownText(window.name));
  XPLANE_TIME_FIELDS(sink, window.number, window.begin_ns, window.end_ns, window.begin_unix_ns,
                     window.suspended_ns, window.cut);
  sink->BeginGroup("total", true);
  VisitRow(window.total, sink);
  sink->EndGroup();
  const auto carbon = CarbonOf(window.total.energy_j, model);
  const ModelledCarbon known = carbon.value_or(ModelledCarbon());
  sink->BeginGroup("modelled", carbon.has_value());
  sink->Field("kind", "modelled");
  XPLANE_TIME_FIELDS(sink, known.kwh, known.co2e_g, model.g_per_kwh, model.pue);
  sink->EndGroup();
  sink->Rows(TableOf("energies", std::span(window.energies)));
  sink->Rows(
      TableOf("gauges", std::span(window.gauges), [](const GaugeSummary& gauge, FieldSink* of) {
        of->Field("channel", gauge.channel);
        VisitRow(gauge, of);
      }));
}

void VisitSeries(const PowerSeries& series, FieldSink* sink) {
  XPLANE_TIME_FIELDS(sink, series.source, series.device, series.domain, series.begin_ns,
                     series.column_ns);
  for (const auto& [name, power] : {std::pair("min_w", &PowerColumn::min_w),
                                    {"mean_w", &PowerColumn::mean_w},
                                    {"max_w", &PowerColumn::max_w}}) {
    std::vector<std::optional<double>> values;
    for (const PowerColumn& column : series.columns) values.push_back(column.*power);
    sink->Numbers(name, values);
  }
}

result::Result PowerResult(const PowerSummary& summary, const CarbonModel& carbon) {
  result::Result result("xplane-time.power.v1");
  result.Say([&summary](FieldSink* sink) {
    XPLANE_TIME_FIELDS(sink, summary.complete, KnownText(summary.host), KnownText(summary.command),
                       summary.start_unix_ns);
    sink->Raw("machine", summary.machine_json);
  });
  VisitInventory(summary.inventory, &result);
  result.Add(TableOf("windows", std::span(summary.windows),
                     [carbon](const WindowSummary& window, FieldSink* sink) {
                       VisitWindow(window, carbon, sink);
                     }));
  result.Add(TableOf("repeats", std::span(summary.repeats)));
  result.Add(TableOf("readers", std::span(summary.readers)));
  result.Add(TableOf("series", std::span(summary.series), VisitSeries));
  result.Add(TableOf("findings", std::span(summary.findings),
                     [](const PowerFinding& finding, FieldSink* sink) {
                       XPLANE_TIME_FIELDS(sink, finding.code, finding.count, finding.message);
                     }));
  result.csv = TableOf(
      "", result::PowerRows(summary), [carbon](const result::PowerRow& row, FieldSink* sink) {
        VisitRow(row, sink);
        if (!carbon.g_per_kwh.has_value()) return;
        const auto energy_j = row.energy != nullptr ? row.energy->energy_j : std::nullopt;
        const auto modelled = CarbonOf(energy_j, carbon);
        sink->Field("modelled_kwh", modelled ? std::optional(modelled->kwh) : std::nullopt);
        sink->Field("modelled_co2e_g", modelled ? std::optional(modelled->co2e_g) : std::nullopt);
      });
  return result;
}

std::string Label(const char* name, std::string_view value) {
  const std::string escaped =
      absl::StrReplaceAll(ValidUtf8(value), {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}});
  return absl::StrCat(name, "=\"", escaped, "\"");
}

std::string WindowLabels(const WindowSummary& window) {
  return absl::StrCat(Label("window", window.name), ",number=\"", window.number, "\"");
}

using NoLabels = decltype([](const auto&) { return ""; });

class Families {
 public:
  explicit Families(const PowerSummary& summary) : windows_(summary.windows) {}

  void Begin(std::string_view name, std::string_view unit, std::string_view help) {
    name_ = name;
    absl::StrAppend(&text_, "# TYPE ", name_, " gauge\n# UNIT ", name_, " ", std::string(unit),
                    "\n# HELP ", name_, " ", std::string(help), "\n");
  }
  // `value(window)` of each window, and `more(window)`: labels, each with a comma before it.
  template <typename Value, typename More = NoLabels>
  void OfWindows(Value value, More more = {}) {
    for (const WindowSummary& window : windows_) {
      Add(WindowLabels(window) + more(window), value(window));
    }
  }
  // The same of each energy.
  template <typename Value, typename More = NoLabels>
  void OfEnergies(Value value, More more = {}) {
    for (const WindowSummary& window : windows_) {
      for (const EnergyEstimate& energy : window.energies) {
        Add(absl::StrCat(WindowLabels(window), ",", Label("source", energy.source), ",",
                         Label("device", energy.device), ",", Label("domain", energy.domain), ",",
                         Label("estimator", EnergyEstimatorName(energy.estimator)), more(energy)),
            value(energy));
      }
    }
  }
  std::string Finish() && { return std::move(text_) + "# EOF\n"; }

 private:
  // Unknown values have no sample.
  void Add(const std::string& labels, std::optional<double> value) {
    if (!value.has_value()) return;
    absl::StrAppend(&text_, name_, "{", labels, "} ");
    AppendCsvNumber(*value, &text_);
    text_.push_back('\n');
  }

  const std::vector<WindowSummary>& windows_;
  std::string name_, text_;
};

// An energy has both or neither: `limits` states whether they are bounds or an interval.
void AddLimits(Families* families) {
  const auto limits = [](const auto& of) {
    return absl::StrCat(",", Label("limits", result::LimitsName(of.limits)));
  };
  for (const bool upper : {false, true}) {
    const std::string which = upper ? "upper" : "lower";
    const auto end = [upper](const auto& of) { return upper ? of.hi_j : of.lo_j; };
    families->Begin(absl::StrCat("xplane_time_energy_", which, "_joules"), "joules",
                    absl::StrCat(upper ? "Upper" : "Lower",
                                 " limit of the energy of the covered part of a window"));
    families->OfEnergies(end, limits);
    families->Begin(
        absl::StrCat("xplane_time_total_energy_", which, "_joules"), "joules",
        absl::StrCat(upper ? "Upper" : "Lower", " limit of the total energy of a window"));
    families->OfWindows([&](const WindowSummary& each) { return end(each.total); },
                        [&](const WindowSummary& each) { return limits(each.total); });
  }
}

std::string PowerOpenMetrics(const PowerSummary& summary, const CarbonModel& carbon) {
  Families families(summary);
  families.Begin("xplane_time_energy_joules", "joules", "Energy of the covered part of a window");
  families.OfEnergies([](const EnergyEstimate& each) { return each.energy_j; },
                      [](const EnergyEstimate& each) {
                        return absl::StrCat(",",
                                            Label("kind", each.modelled ? "modelled" : "measured"));
                      });
  AddLimits(&families);
  families.Begin("xplane_time_mean_power_watts", "watts",
                 "Mean power over the covered part of a window");
  families.OfEnergies([](const EnergyEstimate& each) { return each.mean_w; });
  families.Begin("xplane_time_peak_power_watts", "watts",
                 "Peak power over the covered part of a window");
  families.OfEnergies([](const EnergyEstimate& each) { return each.peak_w; });
  families.Begin("xplane_time_energy_coverage_ratio", "ratio", "Share of the window with readings");
  families.OfEnergies([](const EnergyEstimate& each) { return each.coverage; });
  families.Begin("xplane_time_window_seconds", "seconds", "Duration of a window");
  families.OfWindows([](const WindowSummary& each) {
    return static_cast<double>(each.end_ns - each.begin_ns) / 1e9;
  });
  families.Begin("xplane_time_total_energy_joules", "joules", "Total energy of a window");
  families.OfWindows([](const WindowSummary& each) { return each.total.energy_j; });
  if (carbon.g_per_kwh.has_value()) {
    families.Begin("xplane_time_modelled_co2e_grams", "grams",
                   "CO2e of a window, modelled from the carbon intensity");
    families.OfWindows([&](const WindowSummary& each) {
      const auto modelled = CarbonOf(each.total.energy_j, carbon);
      return modelled ? std::optional(modelled->co2e_g) : std::nullopt;
    });
  }
  return std::move(families).Finish();
}

}  // namespace

std::optional<ModelledCarbon> CarbonOf(const std::optional<double>& energy_j,
                                       const CarbonModel& model) {
  if (!energy_j.has_value() || !model.g_per_kwh.has_value()) return std::nullopt;
  constexpr double kJPerKwh = 3.6e6;
  const double kwh = *energy_j / kJPerKwh * model.pue;
  return ModelledCarbon{kwh, kwh * *model.g_per_kwh};
}

Output PowerOutput(const PowerSummary& summary, const CarbonModel& carbon) {
  Output out{.result = PowerResult(summary, carbon)};
  out.view = [&summary, carbon](const OutputOptions& how) {
    return PowerView(summary, how, carbon);
  };
  out.others[Format::kOpenMetrics] = [&summary, carbon] {
    return PowerOpenMetrics(summary, carbon);
  };
  return out;
}

}  // namespace xplane_time::output
