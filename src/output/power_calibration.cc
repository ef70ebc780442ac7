// power calibrate: what was measured of each sensor, as data and for people.
#include <cmath>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "energy/calibration_log.h"
#include "output/results.h"
#include "output/view.h"

namespace xplane_time::output {
namespace {

using energy::Bounded;
using energy::SensorCalibration;
using energy::SensorCalibrations;
using result::FieldSink;

constexpr double kMsPerS = 1e3;

void TimeFields(const char* name, const std::optional<Bounded>& time_s, FieldSink* sink) {
  using Ns = std::optional<double>;
  const auto ns = [&](double Bounded::*part) {
    return time_s ? Ns(std::round((*time_s).*part * kNsPerS)) : std::nullopt;
  };
  const Ns value_ns = ns(&Bounded::value);
  sink->Field(name, value_ns ? std::optional(static_cast<int64_t>(*value_ns)) : std::nullopt);
  sink->Interval(absl::StrCat(name, "_ci95"), ns(&Bounded::low), ns(&Bounded::high));
}

void VisitSensor(const SensorCalibration& row, FieldSink* sink) {
  const PowerChannel& channel = row.channel;
  const energy::Calibration& found = row.found;
  XPLANE_TIME_FIELDS(sink, channel.source, channel.device, channel.domain, channel.quantity,
                     ReadingKindName(channel.kind), found.updates);
  TimeFields("period_ns", found.period_s, sink);
  TimeFields("window_ns", found.window_s, sink);
  TimeFields("lag_ns", found.lag_s, sink);
  XPLANE_TIME_FIELDS(sink, found.idle_w, found.load_w, found.noise);
  sink->Field("reason", result::KnownText(found.reason));
}

// Milliseconds, and how far they may be off.
std::string TimeText(const std::optional<Bounded>& time_s) {
  if (!time_s.has_value()) return "-";
  const auto half_ms = (time_s->high - time_s->low) / 2 * kMsPerS;
  const int digits = half_ms < 0.001 ? 4 : half_ms < 0.1 ? 3 : half_ms < 1 ? 2 : 1;
  return absl::StrCat(FormatFixed(time_s->value * kMsPerS, digits), " +- ",
                      FormatFixed(half_ms, digits));
}

std::string WattText(const std::optional<double>& power_w) {
  return power_w ? FormatFixed(*power_w, 1) : "-";
}

View CalibrationView(const SensorCalibrations& calibrations) {
  View view;
  view.lines.push_back({absl::StrCat("load: on ", calibrations.loads, " times, ",
                                     FormatFixed(calibrations.load_s, 1), " of ",
                                     FormatFixed(calibrations.total_s, 1), " s")});
  RowGrid grid(calibrations.sensors);
  std::set<std::string_view> devices;
  for (const SensorCalibration& row : calibrations.sensors) devices.insert(row.channel.device);
  grid.Name("sensor", 12, [&](const SensorCalibration& row) {
    const PowerChannel& of = row.channel;
    return absl::StrCat(of.source, " ", devices.size() > 1 ? of.device + " " : "", of.domain);
  });
  grid.Text("reads", [](const SensorCalibration& row) {
    return std::string(ReadingKindName(row.channel.kind));
  });
  grid.Number("period ms", [](const auto& row) { return TimeText(row.found.period_s); });
  grid.Number("window ms", [](const auto& row) { return TimeText(row.found.window_s); })
      .HideIfUnknown();
  grid.Number("lag ms", [](const auto& row) { return TimeText(row.found.lag_s); });
  grid.Number("idle W", [](const auto& row) { return WattText(row.found.idle_w); }).Drop(2);
  grid.Number("load W", [](const auto& row) { return WattText(row.found.load_w); }).Drop(2);
  grid.Number(
          "noise %", [](const auto& row) { return row.found.noise; }, FormatPercent)
      .Drop(1);
  grid.Text("unknown", [](const SensorCalibration& row) { return row.found.reason; })
      .HideIfSame(/*unless_known=*/true);
  Section section = {.title = "sensors, +- 95 %", .grid = std::move(grid).Take()};
  if (calibrations.sensors.empty()) section.notes.push_back("no power or energy sensor");
  view.sections.push_back(std::move(section));
  return view;
}

}  // namespace

Output PowerCalibrationOutput(const SensorCalibrations& calibrations) {
  Output out{.result = result::Result("xplane-time.power-calibration.v1")};
  out.result.Say([&calibrations](FieldSink* sink) {
    XPLANE_TIME_FIELDS(sink, calibrations.loads, calibrations.load_s, calibrations.total_s);
  });
  out.result.Add(TableOf("sensors", std::span(calibrations.sensors), VisitSensor));
  out.result.csv = TableOf("", std::span(calibrations.sensors), VisitSensor);
  out.view = [&calibrations](const OutputOptions&) { return CalibrationView(calibrations); };
  return out;
}

}  // namespace xplane_time::output
