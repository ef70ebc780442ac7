#include "energy/calibration_log.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "energy/sensors.h"
#include "io/whole_file.h"
#include "json/field.h"
#include "power/inventory.h"
#include "status.h"

namespace xplane_time::energy {
namespace {

constexpr char kSchema[] = "xplane-time.power-calibration.v1";
constexpr int64_t kPsPerNs = 1000;

// The times at which the load was on, relative to kIdleEndS before the first one.
struct Load {
  int64_t origin_ns = 0;
  std::vector<Interval> on;
  double total_s = 0;
};

Load LoadOf(const SensorLog& log) {
  Load load;
  int64_t begin_ns = 0;
  for (const LogMark& mark : log.marks) {
    if (mark.window != kLoadWindow) continue;
    if (!mark.is_end) {
      begin_ns = mark.t_ns;
      continue;
    }
    if (load.on.empty()) load.origin_ns = begin_ns - static_cast<int64_t>(kIdleEndS * kNsPerS);
    load.on.push_back(
        {(begin_ns - load.origin_ns) * kPsPerNs, (mark.t_ns - load.origin_ns) * kPsPerNs});
    load.total_s = static_cast<double>(mark.t_ns - load.origin_ns) / kNsPerS + kIdleEndS;
  }
  return load;
}

void ReadBounded(const json::Field& sensor, const char* name, const char* interval,
                 std::optional<Bounded>* into) {
  std::optional<double> value_ns;
  std::optional<std::array<double, 2>> ends_ns;
  sensor.Read(name, &value_ns);
  sensor.Read(interval, &ends_ns);
  if (!value_ns.has_value() || !ends_ns.has_value()) return;
  *into = {*value_ns / kNsPerS, (*ends_ns)[0] / kNsPerS, (*ends_ns)[1] / kNsPerS};
}

void ReadSensor(const json::Field& sensor, SensorCalibration* into) {
  PowerChannel& channel = into->channel;
  sensor.Read("source", &channel.source, json::kNeeded);
  sensor.Read("device", &channel.device, json::kNeeded);
  sensor.Read("domain", &channel.domain, json::kNeeded);
  sensor.Read("quantity", &channel.quantity, json::kNeeded);
  sensor.Read("kind", &channel.kind, json::kNeeded);
  Calibration& found = into->found;
  sensor.Read("updates", &found.updates);
  ReadBounded(sensor, "period_ns", "period_ns_ci95", &found.period_s);
  ReadBounded(sensor, "window_ns", "window_ns_ci95", &found.window_s);
  ReadBounded(sensor, "lag_ns", "lag_ns_ci95", &found.lag_s);
  sensor.Read("idle_w", &found.idle_w);
  sensor.Read("load_w", &found.load_w);
  sensor.Read("noise", &found.noise);
  sensor.Read("reason", &found.reason);
}

}  // namespace

absl::StatusOr<SensorCalibrations> CalibrateLog(const std::string& path) {
  ASSIGN_OR_RETURN(const SensorLog log, ReadSensorLog(path));
  const Load load = LoadOf(log);
  if (load.on.empty()) {
    return FailedPrecondition(path, ": the log has no window \"", kLoadWindow,
                              "\" that marks the times of a load; record such a log with "
                              "xplane-time power calibrate --log FILE");
  }
  const BusyCurve curve(load.on);
  SensorCalibrations calibrations = {load.on.size(), curve.total_s(), load.total_s, {}};
  for (const SensorReadings& sensor : log.sensors) {
    calibrations.sensors.push_back(
        {sensor.channel, Calibrate(PollsSince(load.origin_ns, {&sensor}), sensor.channel.kind,
                                   curve, load.total_s)});
  }
  return calibrations;
}

bool HoldsCalibrations(const std::string& path) {
  constexpr size_t kBeginning = 128;
  return io::ReadFile(path, kBeginning).value_or("").find(kSchema) != std::string::npos;
}

absl::StatusOr<SensorCalibrations> ReadCalibrations(const std::string& path) {
  constexpr size_t kMaxBytes = size_t{64} << 20;
  ASSIGN_OR_RETURN(const std::string text, io::ReadWholeFile(path, kMaxBytes));
  const json::Json document = json::Parse(text);
  if (!document.is_object() || json::TextOf(document, "schema") != kSchema) {
    return DataLoss(path,
                    ": contains no calibration of sensors; create one with xplane-time power "
                    "calibrate -o FILE.json");
  }
  std::string wrong;
  const json::Field all(document, &wrong);
  SensorCalibrations calibrations;
  all.At("sensors").Each(
      [&](const json::Field& sensor) { ReadSensor(sensor, &calibrations.sensors.emplace_back()); });
  if (!wrong.empty()) return DataLoss(path, ": ", wrong);
  return calibrations;
}

std::vector<PowerChannel> PriorsOf(const SensorCalibrations& calibrations) {
  const auto ns = [](const Bounded& time_s) {
    return static_cast<int64_t>(std::llround(time_s.value * kNsPerS));
  };
  std::vector<PowerChannel> priors;
  for (const auto& [channel, found] : calibrations.sensors) {
    PowerChannel prior = channel;
    if (found.period_s.has_value()) prior.prior_period_ns = ns(*found.period_s);
    if (found.window_s.has_value()) prior.prior_window_ns = ns(*found.window_s);
    priors.push_back(std::move(prior));
  }
  return priors;
}

}  // namespace xplane_time::energy
