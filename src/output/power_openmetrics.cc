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
  explicit Families(const PowerSummary& summary) : windows_(summary.windows) {}

  void Begin(std::string_view name, std::string_view unit, std::string_view help) {
    name_ = name;
    absl::StrAppend(&text_, "# TYPE ", name_, " gauge\n# UNIT ", name_, " ", std::string(unit),
                    "\n# HELP ", name_, " ", std::string(help), "\n");
  }
  // `value(window)` of each window, and `more(window)`: labels, each with a comma before it.
  void OfWindows(auto value, auto more) {
    for (const WindowSummary& window : windows_) {
      Add(WindowLabels(window) + more(window), value(window));
    }
  }
  void OfWindows(auto value) {
    OfWindows(value, [](const WindowSummary&) { return ""; });
  }
  // The same of each energy.
  void OfEnergies(auto value, auto more) {
    for (const WindowSummary& window : windows_) {
      for (const EnergyEstimate& energy : window.energies) {
        Add(absl::StrCat(WindowLabels(window), ",", Label("source", energy.source), ",",
                         Label("device", energy.device), ",", Label("domain", energy.domain), ",",
                         Label("estimator", EnergyEstimatorName(energy.estimator)), more(energy)),
            value(energy));
      }
    }
  }
  void OfEnergies(auto value) {
    OfEnergies(value, [](const EnergyEstimate&) { return ""; });
  }
  std::string Finish() && { return std::move(text_) + "# EOF\n"; }

 private:
  // What is not known has no sample.
  void Add(const std::string& labels, std::optional<double> value) {
    if (!value.has_value()) return;
    absl::StrAppend(&text_, name_, "{", labels, "} ");
    AppendCsvNumber(*value, &text_);
    text_.push_back('\n');
  }

  const std::vector<WindowSummary>& windows_;
  std::string name_, text_;
};

// An energy has both or none: `limits` says whether they are bounds or an interval.
void AddLimits(Families* families) {
  const auto limits = [](const auto& of) {
    return absl::StrCat(",", Label("limits", result::LimitsName(of.limits)));
  };
  for (const bool upper : {false, true}) {
    const std::string which = upper ? "upper" : "lower";
    const auto end = [upper](const auto& of) { return upper ? of.hi_j : of.lo_j; };
    families->Begin(
        absl::StrCat("xplane_time_energy_", which, "_joules"), "joules",
        absl::StrCat("Bound, or end of an interval, of an energy: the ", which, " one"));
    families->OfEnergies(end, limits);
    families->Begin(absl::StrCat("xplane_time_total_energy_", which, "_joules"), "joules",
                    "Of the total");
    families->OfWindows([&](const WindowSummary& each) { return end(each.total); },
                        [&](const WindowSummary& each) { return limits(each.total); });
  }
}

}  // namespace

std::string PowerOpenMetrics(const PowerSummary& summary, const CarbonModel& carbon) {
  Families families(summary);
  families.Begin("xplane_time_energy_joules", "joules", "Of the covered part of a window");
  families.OfEnergies([](const EnergyEstimate& each) { return each.energy_j; },
                      [](const EnergyEstimate& each) {
                        return absl::StrCat(",",
                                            Label("kind", each.modelled ? "modelled" : "measured"));
                      });
  AddLimits(&families);
  families.Begin("xplane_time_mean_power_watts", "watts", "Over the covered part of a window");
  families.OfEnergies([](const EnergyEstimate& each) { return each.mean_w; });
  families.Begin("xplane_time_peak_power_watts", "watts", "Over the covered part of a window");
  families.OfEnergies([](const EnergyEstimate& each) { return each.peak_w; });
  families.Begin("xplane_time_energy_coverage_ratio", "ratio", "Share of a window with readings");
  families.OfEnergies([](const EnergyEstimate& each) { return each.coverage; });
  families.Begin("xplane_time_window_seconds", "seconds", "Length of a window");
  families.OfWindows([](const WindowSummary& each) {
    return static_cast<double>(each.end_ns - each.begin_ns) / 1e9;
  });
  families.Begin("xplane_time_total_energy_joules", "joules", "Of all in the total");
  families.OfWindows([](const WindowSummary& each) { return each.total.energy_j; });
  if (carbon.g_per_kwh.has_value()) {
    families.Begin("xplane_time_modelled_co2e_grams", "grams", "Modelled from an intensity");
    families.OfWindows([&](const WindowSummary& each) {
      const auto modelled = CarbonOf(each.total.energy_j, carbon);
      return modelled ? std::optional(modelled->co2e_g) : std::nullopt;
    });
  }
  return std::move(families).Finish();
}

}  // namespace xplane_time::output
