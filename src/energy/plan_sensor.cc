#include "energy/plan_sensor.h"

#include <algorithm>
#include <vector>

#include "energy/calibration_log.h"
#include "energy/sensors.h"
#include "status.h"

namespace xplane_time::energy {
namespace {

// Properties of a sensor that has not been calibrated. Without priors it publishes ten times a
// second, and a reading is the mean over 0.1 s.
PlanSensor ByPriors(const PowerChannel& channel) {
  PlanSensor sensor = {.kind = channel.kind};
  sensor.period_s = static_cast<double>(channel.prior_period_ns.value_or(100'000'000)) / kNsPerS;
  if (channel.kind != ReadingKind::kCumulative) {
    sensor.window_s = static_cast<double>(channel.prior_window_ns.value_or(100'000'000)) / kNsPerS;
  }
  return sensor;
}

absl::StatusOr<PlannedFor> Best(std::vector<PlannedFor> all, std::string_view where) {
  const auto best = std::ranges::min_element(
      all, {}, [](const PlannedFor& each) { return RankOf(each.channel); });
  if (best == all.end() || RankOf(best->channel) == kNoRank) {
    return FailedPrecondition(where, ": no sensor of a whole GPU or processor with a known period");
  }
  return *best;
}

absl::StatusOr<PlannedFor> OfCalibrations(const std::string& path) {
  ASSIGN_OR_RETURN(const SensorCalibrations calibrations, ReadCalibrations(path));
  std::vector<PlannedFor> all;
  for (const auto& [channel, found] : calibrations.sensors) {
    if (!found.period_s.has_value() || !found.lag_s.has_value() ||
        found.load_w.value_or(0) <= found.idle_w.value_or(0)) {
      continue;
    }
    PlanSensor sensor = {.kind = channel.kind,
                         .period_s = found.period_s->value,
                         .lag_s = std::max(0.0, found.lag_s->value),
                         .noise = found.noise.value_or(PlanSensor().noise),
                         .idle_w = std::max(0.0, found.idle_w.value_or(0)),
                         .most_w = *found.load_w};
    if (found.window_s.has_value()) sensor.window_s = found.window_s->value;
    all.push_back({channel, sensor, "calibration"});
  }
  return Best(std::move(all), path);
}

absl::StatusOr<PlannedFor> OfLog(const std::string& path) {
  ASSIGN_OR_RETURN(const SensorLog log, ReadSensorLog(path));
  std::vector<PlannedFor> all;
  for (const SensorReadings& each : log.sensors) {
    const int64_t first_ns = each.readings.empty() ? 0 : each.readings[0].before_ns;
    const std::vector<Poll> polls = PollsSince(first_ns, {&each});
    const std::vector<Grid> grids = FindGrids(FindPublications(polls, each.channel.kind));
    if (grids.empty() && !each.channel.prior_period_ns.has_value()) continue;
    PlanSensor sensor = ByPriors(each.channel);
    if (!grids.empty()) sensor.period_s = grids[0].period_s;
    all.push_back({each.channel, sensor, "log"});
  }
  return Best(std::move(all), path);
}

}  // namespace

absl::StatusOr<PlannedFor> SensorOfFile(const std::string& path) {
  return HoldsCalibrations(path) ? OfCalibrations(path) : OfLog(path);
}

absl::StatusOr<PlannedFor> SensorOfChip(std::span<const PowerChannel> channels) {
  std::vector<PlannedFor> all;
  for (const PowerChannel& each : channels) {
    if (IsPowerOrEnergy(each)) all.push_back({each, ByPriors(each), "chip"});
  }
  return Best(std::move(all), "this machine");
}

}  // namespace xplane_time::energy
