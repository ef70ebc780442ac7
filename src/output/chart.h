// A chart as SVG: panels one below the other, on one axis: of power over time, say.
//
//   Chart chart(/*seconds=*/12.5);
//   const double per_watt = chart.PowerAxis(top, /*most_w=*/400);
//   chart.Line(chart.X(1.0), y, chart.X(2.0), y, kChartColors[0]);
//   chart.TimeAxis(bottom, "time since the start, s");
//   std::move(chart).Finish(bottom + 60);      // the SVG
//
// Coordinates are pixels, y downwards.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "absl/strings/str_format.h"

namespace xplane_time::output {

// Also distinguishable with colour blindness (Okabe and Ito).
inline constexpr std::array<std::string_view, 6> kChartColors = {"#0072B2", "#D55E00", "#009E73",
                                                                 "#CC79A7", "#E69F00", "#56B4E9"};

class Chart {
 public:
  static constexpr double kLeft = 70, kRight = 20, kWidth = 960, kPlot = kWidth - kLeft - kRight;
  static constexpr double kPanel = 130;  // the height of a panel

  // The axis is from `from` on.
  explicit Chart(double seconds, double from = 0) : from_(from), seconds_(seconds) {}

  double X(double at_s) const;

  // An element on a separate line.
  template <typename... Arguments>
  void Put(const absl::FormatSpec<Arguments...>& element, const Arguments&... arguments) {
    absl::StrAppendFormat(&body_, element, arguments...);
    body_.push_back('\n');
  }
  void Text(double x, double y, std::string_view anchor, const std::string& text,
            std::string_view more = "");
  void Rect(double x, double y, double width, double height, std::string_view more);
  void Line(double x0, double y0, double x1, double y1, std::string_view color);
  // A sample of the mark that `text` explains.
  void Key(double x, double y, std::string_view fill, const std::string& text);

  // The frame of a panel; pixels per unit. `least`: the start of the axis; becomes the tick below.
  double ValueAxis(double top, double most, const std::string& title, double* least = nullptr);
  double PowerAxis(double top, double most_w) { return ValueAxis(top, most_w, "power, W"); }
  void TimeAxis(double bottom, const std::string& title);

  // "url(#gap)" fills what is not known.
  std::string Finish(double height) &&;

 private:
  const double from_, seconds_;
  std::string body_;
};

}  // namespace xplane_time::output
