// OpenMetrics 1.0: families of gauges, each with its type and unit, then "# EOF".
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "output/csv.h"
#include "output/power.h"
#include "output/text.h"
#include "result/rows_power.h"

namespace xplane_time::output {
namespace {

std::string Label(std::string_view name, std::string_view value) {
  std::string out = absl::StrCat(std::string(name), "=\"");
  for (const char each : ValidUtf8(value)) {
    if (each == '\\' || each == '"') out.push_back('\\');
    if (each == '\n') {
      out.append("\\n");
    } else {
      out.push_back(each);
    }
  }
  return out + "\"";
}

std::string WindowLabels(const WindowSummary& window) {
  return absl::StrCat(Label("window", window.name), ",number=\"", window.number, "\"");
}

class Families {
 public:
  void Begin(std::string_view name, std::string_view unit, std::string_view help) {
    name_ = name;
    absl::StrAppend(&text_, "# TYPE ", name_, " gauge\n");
    if (!unit.empty()) absl::StrAppend(&text_, "# UNIT ", name_, " ", std::string(unit), "\n");
    absl::StrAppend(&text_, "# HELP ", name_, " ", std::string(help), "\n");
  }
  // What is not known has no sample.
  void Add(const std::string& labels, std::optional<double> value) {
    if (!value.has_value()) return;
    absl::StrAppend(&text_, name_, "{", labels, "} ");
    AppendCsvNumber(*value, &text_);
    text_.push_back('\n');
  }
  std::string Finish() && { return std::move(text_) + "# EOF\n"; }

 private:
  std::string name_, text_;
};

// `more`: labels, each with a comma before it.
template <typename Value, typename More>
void AddEnergies(const PowerSummary& summary, Families* families, Value value, More more) {
  for (const WindowSummary& window : summary.windows) {
    for (const EnergyEstimate& energy : window.energies) {
      families->Add(
          absl::StrCat(WindowLabels(window), ",", Label("source", energy.source), ",",
                       Label("device", energy.device), ",", Label("domain", energy.domain), ",",
                       Label("estimator", EnergyEstimatorName(energy.estimator)), more(energy)),
          value(energy));
    }
  }
}

template <typename Value>
void AddEnergies(const PowerSummary& summary, Families* families, Value value) {
  AddEnergies(summary, families, value, [](const EnergyEstimate&) { return ""; });
}

// An energy has both or none: `limits` says whether they are bounds or an interval.
void AddLimits(const PowerSummary& summary, Families* families) {
  const auto label = [](EnergyLimits limits) {
    return absl::StrCat(",", Label("limits", result::LimitsName(limits)));
  };
  for (const bool upper : {false, true}) {
    const std::string which = upper ? "upper" : "lower";
    families->Begin(
        absl::StrCat("xplane_time_energy_", which, "_joules"), "joules",
        absl::StrCat("Bound, or end of an interval, of an energy: the ", which, " one"));
    AddEnergies(
        summary, families,
        [&](const EnergyEstimate& each) { return upper ? each.hi_j : each.lo_j; },
        [&](const EnergyEstimate& each) { return label(each.limits); });
    families->Begin(absl::StrCat("xplane_time_total_energy_", which, "_joules"), "joules",
                    "Of the total");
    for (const WindowSummary& window : summary.windows) {
      families->Add(WindowLabels(window) + label(window.total.limits),
                    upper ? window.total.hi_j : window.total.lo_j);
    }
  }
}

}  // namespace

std::string PowerOpenMetrics(const PowerSummary& summary, const CarbonModel& carbon) {
  Families families;
  families.Begin("xplane_time_energy_joules", "joules", "Of the covered part of a window");
  AddEnergies(
      summary, &families, [](const EnergyEstimate& each) { return each.energy_j; },
      [](const EnergyEstimate& each) {
        return absl::StrCat(",", Label("kind", each.modelled ? "modelled" : "measured"));
      });
  AddLimits(summary, &families);
  families.Begin("xplane_time_mean_power_watts", "watts", "Over the covered part of a window");
  AddEnergies(summary, &families, [](const EnergyEstimate& each) { return each.mean_w; });
  families.Begin("xplane_time_peak_power_watts", "watts", "Over the covered part of a window");
  AddEnergies(summary, &families, [](const EnergyEstimate& each) { return each.peak_w; });
  families.Begin("xplane_time_energy_coverage_ratio", "ratio", "Share of a window with readings");
  AddEnergies(summary, &families,
              [](const EnergyEstimate& each) { return std::optional(each.coverage); });
  families.Begin("xplane_time_window_seconds", "seconds", "Length of a window");
  for (const WindowSummary& window : summary.windows) {
    families.Add(WindowLabels(window), static_cast<double>(window.end_ns - window.begin_ns) / 1e9);
  }
  families.Begin("xplane_time_total_energy_joules", "joules", "Of all in the total");
  for (const WindowSummary& window : summary.windows) {
    families.Add(WindowLabels(window), window.total.energy_j);
  }
  if (carbon.g_per_kwh.has_value()) {
    families.Begin("xplane_time_modelled_co2e_grams", "grams", "Modelled from an intensity");
    for (const WindowSummary& window : summary.windows) {
      const auto modelled = CarbonOf(window.total.energy_j, carbon);
      if (modelled.has_value()) families.Add(WindowLabels(window), modelled->co2e_g);
    }
  }
  return std::move(families).Finish();
}

}  // namespace xplane_time::output
