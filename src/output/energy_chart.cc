// Power over time and executions, one panel per device: the measured power of the sensor's windows,
// the power that the model explains, and a lane for each layer.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "output/chart.h"
#include "output/results.h"
#include "output/trace_views.h"

namespace xplane_time::output {
namespace {

constexpr double kEnergyLane = 16, kEnergyTop = 70;
constexpr std::string_view kMeasured = kChartColors[0], kExplained = kChartColors[1];

class EnergyChart {
 public:
  explicit EnergyChart(const EnergyReport& report)
      : report_(report), names_(report.timelines), chart_(LongestS(report)) {}

  std::string Draw() && {
    chart_.Text(Chart::kLeft, 22, "start", "power and executions", " font-size=\"15\"");
    DrawLegend(44);
    double y = kEnergyTop;
    for (const EnergyTimeline& timeline : report_.timelines) {
      chart_.Text(Chart::kLeft, y - 6, "start", names_.Name(timeline.device),
                  " font-weight=\"bold\"");
      DrawPower(timeline, y);
      y += Chart::kPanel + 6;
      for (size_t i = 0; i < timeline.lanes.size(); ++i) {
        DrawLane(timeline, timeline.lanes[i], y, kChartColors[i % kChartColors.size()]);
        y += 2 * kEnergyLane;
      }
      chart_.TimeAxis(y, "time since the capture's start, s");
      y += 70;
    }
    y = DrawMissing(y);
    return std::move(chart_).Finish(y - 20);
  }

 private:
  static double LongestS(const EnergyReport& report) {
    double longest_s = 1e-9;
    for (const EnergyTimeline& each : report.timelines) {
      longest_s = std::max(longest_s, each.capture_s);
    }
    return longest_s;
  }

  // Devices, of each capture, without numbers.
  double DrawMissing(double y) {
    const DeviceNames names(report_.devices);
    for (const EnergyDevice& each : report_.devices) {
      const auto drawn = std::ranges::count(report_.timelines, KeyOf(each.device),
                                            [](const auto& of) { return KeyOf(of.device); });
      if (drawn > 0) continue;
      const std::string why = each.reason.empty() ? "" : ": " + std::string(each.reason);
      chart_.Text(Chart::kLeft, y, "start", names.Name(each.device) + ": not drawn" + why);
      y += 20;
    }
    return y;
  }

  // Whether no window of the sensor is there: so much that it is seen.
  bool IsGap(double from_s, double to_s) const {
    constexpr double kLeastPixels = 1;
    return chart_.X(to_s) - chart_.X(from_s) > kLeastPixels;
  }

  // Hatches what lies between `windows`, which are in order.
  void DrawGaps(const std::vector<EnergyTimeline::Window>& windows, double capture_s, double top) {
    double known_s = 0;
    const auto look_until = [&](double s) {
      if (!IsGap(known_s, s)) return;
      const double x = chart_.X(known_s);
      chart_.Rect(x, top, chart_.X(s) - x, Chart::kPanel, "fill=\"url(#gap)\"");
    };
    for (const auto& each : windows) {
      look_until(each.from_s);
      known_s = std::max(known_s, each.to_s);
    }
    look_until(capture_s);
  }

  void DrawPower(const EnergyTimeline& timeline, double top) {
    std::vector<EnergyTimeline::Window> windows = timeline.windows;
    std::ranges::sort(windows, {}, &EnergyTimeline::Window::from_s);
    DrawGaps(windows, timeline.capture_s, top);
    double most_w = 1e-3;
    for (const auto& each : windows) {
      most_w = std::max({most_w, each.measured_w, each.explained_w});
    }
    const double per_watt = chart_.PowerAxis(top, most_w), bottom = top + Chart::kPanel;
    const auto draw = [&](double EnergyTimeline::Window::*watts, std::string_view color,
                          const char* more) {
      std::string path;
      double known_s = 0;
      for (const auto& each : windows) {
        // Windows that overlap or leave time out are drawn at their middle.
        const double at_s = (each.from_s + each.to_s) / 2;
        const bool follows = !path.empty() && !IsGap(known_s, each.from_s);
        const double y = bottom - std::max(0.0, each.*watts) * per_watt;
        absl::StrAppendFormat(&path, "%c%.1f %.1f", follows ? 'L' : 'M', chart_.X(at_s), y);
        known_s = std::max(known_s, each.to_s);
      }
      chart_.Put(R"(<path d="%s" fill="none" stroke="%s" %s/>)", path, color, more);
    };
    draw(&EnergyTimeline::Window::measured_w, kMeasured,
         "stroke-width=\"3\" stroke-opacity=\"0.6\"");
    draw(&EnergyTimeline::Window::explained_w, kExplained,
         "stroke-width=\"1.5\" stroke-dasharray=\"6 4\"");
  }

  // Its name, and how much of each column it ran.
  void DrawLane(const EnergyTimeline& timeline, const EnergyTimeline::Lane& lane, double y,
                std::string_view color) {
    chart_.Text(Chart::kLeft, y + 11, "start", ShortenMiddle(lane.name, 130, "..."),
                " font-size=\"11\"");
    const double column_s = timeline.capture_s / static_cast<double>(lane.busy.size());
    // Rounding residues count as zero; any real execution is visible.
    const auto level = [&](size_t i) {
      return lane.busy[i] < 1e-6 ? 0 : std::max(1L, std::lround(lane.busy[i] * 10));
    };
    for (size_t i = 0, end = 0; i < lane.busy.size(); i = end) {
      for (end = i + 1; end < lane.busy.size() && level(end) == level(i);) ++end;
      if (level(i) == 0) continue;
      const double x = chart_.X(static_cast<double>(i) * column_s);
      chart_.Rect(x, y + kEnergyLane - 1, chart_.X(static_cast<double>(end) * column_s) - x,
                  kEnergyLane - 4,
                  absl::StrFormat("fill=\"%s\" fill-opacity=\"%.2f\"", color,
                                  0.25 + 0.075 * static_cast<double>(level(i))));
    }
  }

  void DrawLegend(double y) {
    const auto line = [&](double x, std::string_view color, const char* text) {
      chart_.Line(x, y - 4, x + 18, y - 4, color);
      chart_.Text(x + 24, y, "start", text);
    };
    line(Chart::kLeft, kMeasured, "measured");
    line(Chart::kLeft + 110, kExplained, "explained by executions");
    chart_.Key(Chart::kLeft + 280, y, "fill=\"url(#gap)\"", "not covered, gap");
    chart_.Text(Chart::kLeft + 400, y, "start", "lanes: darker means a larger share of the time");
  }

  const EnergyReport& report_;
  const DeviceNames names_;
  Chart chart_;
};

}  // namespace

std::string EnergySvg(const EnergyReport& report) { return EnergyChart(report).Draw(); }

}  // namespace xplane_time::output
