#include "power/repeats.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace xplane_time::power {
namespace {

using Windows = std::vector<const WindowSummary*>;

double MeanOf(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

// With n - 1; needs two.
double StdOf(const std::vector<double>& values) {
  const double mean = MeanOf(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

double CoverageOf(const EnergyEstimate& energy) { return energy.coverage; }
double CoverageOf(const PowerTotal& total) { return total.least_coverage; }

// `energy_of`: a window's EnergyEstimate or PowerTotal.
template <typename EnergyOf>
RepeatedEnergy RowOf(const Windows& windows, EnergyOf energy_of) {
  constexpr double kNsPerS = 1e9;
  RepeatedEnergy row;
  row.window = windows[0]->name;
  row.windows = windows.size();
  std::vector<double> energies, active, seconds;
  for (const WindowSummary* window : windows) {
    seconds.push_back(static_cast<double>(window->end_ns - window->begin_ns) / kNsPerS);
    const auto& energy = energy_of(*window);
    if (CoverageOf(energy) < kNearlyWholeCoverage) continue;  // of another time than the window's
    if (energy.energy_j.has_value()) energies.push_back(*energy.energy_j);
    if (energy.active_j.has_value()) active.push_back(*energy.active_j);
  }
  row.mean_s = MeanOf(seconds);
  row.std_s = StdOf(seconds);
  row.known = energies.size();
  if (energies.empty()) return row;
  row.mean_j = MeanOf(energies);
  if (energies.size() > 1) row.std_j = StdOf(energies);
  const auto [least, most] = std::minmax_element(energies.begin(), energies.end());
  row.min_j = *least;
  row.max_j = *most;
  if (active.size() < energies.size()) return row;
  row.mean_active_j = MeanOf(active);
  if (active.size() > 1) row.std_active_j = StdOf(active);
  return row;
}

void AddRows(const Windows& windows, std::vector<RepeatedEnergy>* rows) {
  const std::vector<EnergyEstimate>& sensors = windows[0]->energies;
  for (size_t i = 0; i < sensors.size(); ++i) {
    RepeatedEnergy& row = rows->emplace_back(RowOf(
        windows, [i](const WindowSummary& window) -> const auto& { return window.energies[i]; }));
    row.source = sensors[i].source;
    row.device = sensors[i].device;
    row.domain = sensors[i].domain;
  }
  const auto in_total = [](const EnergyEstimate& each) { return each.in_total; };
  if (std::count_if(sensors.begin(), sensors.end(), in_total) < 2) return;
  rows->push_back(RowOf(
      windows, [](const WindowSummary& window) -> const auto& { return window.total; }));
  rows->back().source = "total";
}

}  // namespace

std::vector<RepeatedEnergy> RepeatsOf(const std::vector<WindowSummary>& windows) {
  std::map<std::string, size_t> places;
  std::vector<Windows> by_name;
  for (const WindowSummary& window : windows) {
    if (window.name.empty()) continue;
    const auto [place, is_new] = places.emplace(window.name, by_name.size());
    if (is_new) by_name.emplace_back();
    by_name[place->second].push_back(&window);
  }
  std::vector<RepeatedEnergy> rows;
  for (const Windows& same : by_name) {
    if (same.size() > 1) AddRows(same, &rows);
  }
  return rows;
}

}  // namespace xplane_time::power
