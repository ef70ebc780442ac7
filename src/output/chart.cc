#include "output/chart.h"

#include <algorithm>
#include <cmath>

#include "output/text.h"

namespace xplane_time::output {
namespace {

// About `ticks` steps of 1, 2 or 5 up to `most`.
double StepOf(double most, int ticks) {
  const double rough = most / ticks, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (rough <= step * power) return step * power;
  }
  return 10 * power;
}

std::string TickText(double value, double step) {
  return FormatFixed(value, step >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(step))));
}

}  // namespace

double Chart::X(double at_s) const {
  return kLeft + kPlot * std::clamp((at_s - from_) / (seconds_ - from_), 0.0, 1.0);
}

void Chart::Text(double x, double y, std::string_view anchor, const std::string& text,
                 std::string_view more) {
  Put(R"(<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>)", x, y, anchor, more, XmlText(text));
}

void Chart::Rect(double x, double y, double width, double height, std::string_view more) {
  Put(R"(<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" %s/>)", x, y, width, height, more);
}

void Chart::Line(double x0, double y0, double x1, double y1, std::string_view color) {
  Put(R"(<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>)", x0, y0, x1, y1, color);
}

void Chart::Key(double x, double y, std::string_view fill, const std::string& text) {
  Put(R"(<rect x="%.1f" y="%.1f" width="18" height="10" %s/>)", x, y - 9, fill);
  Text(x + 24, y, "start", text);
}

double Chart::ValueAxis(double top, double most, const std::string& title, double* least) {
  const double bottom = top + kPanel, begin = least == nullptr ? 0 : *least;
  const double step = StepOf(most - begin, 4), first = std::floor(begin / step);
  const int steps = static_cast<int>(std::ceil(most / step - first));
  if (least != nullptr) *least = first * step;
  const double per_unit = kPanel / (steps * step);
  for (int i = 0; i <= steps; ++i) {
    const double y = bottom - i * step * per_unit;
    Line(kLeft, y, kLeft + kPlot, y, i == 0 ? "#444" : "#ddd");
    Text(kLeft - 6, y + 4, "end", TickText((first + i) * step, step));
  }
  Line(kLeft, top, kLeft, bottom, "#444");
  Text(18, top + kPanel / 2, "middle", title,
       absl::StrFormat(" transform=\"rotate(-90 18 %.1f)\"", top + kPanel / 2));
  return per_unit;
}

void Chart::TimeAxis(double bottom, const std::string& title) {
  const double step_s = StepOf(seconds_ - from_, 10);
  for (double i = std::ceil(from_ / step_s); i * step_s <= seconds_ * (1 + 1e-9); ++i) {
    const double x = X(i * step_s);
    Line(x, bottom, x, bottom + 5, "#444");
    Text(x, bottom + 18, "middle", TickText(i * step_s, step_s));
  }
  Text(kLeft + kPlot / 2, bottom + 36, "middle", title);
}

std::string Chart::Finish(double height) && {
  return absl::StrFormat(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %1$.1f %2$.1f" width="%1$.1f" )"
      R"(height="%2$.1f" font-family="sans-serif" font-size="12" fill="#222">
<defs><pattern id="gap" width="6" height="6" patternUnits="userSpaceOnUse">)"
      R"(<path d="M0 6L6 0" stroke="#999"/></pattern></defs>
<rect width="100%%" height="100%%" fill="#fff"/>
%3$s</svg>
)",
      kWidth, height, body_);
}

}  // namespace xplane_time::output
