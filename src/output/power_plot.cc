// A plot of the run: power over time, one panel per sensor, with gaps left open. As lines of block
// characters, and as SVG, which shows windows as bands.
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "output/chart.h"
#include "output/results.h"
#include "output/view.h"

namespace xplane_time::output {
namespace {

// --- The columns of a plot: a summary's series on one axis of time.

struct PlotSpan {
  int64_t begin_ns = 0, end_ns = 0;
};

// The span of all series; empty if there are no points.
PlotSpan SpanOf(const PowerSummary& summary) {
  PlotSpan span = {INT64_MAX, INT64_MIN};
  for (const PowerSeries& series : summary.series) {
    if (series.columns.empty()) continue;
    const auto columns = static_cast<int64_t>(series.columns.size());
    span.begin_ns = std::min(span.begin_ns, series.begin_ns);
    span.end_ns = std::max(span.end_ns, series.begin_ns + columns * series.column_ns);
  }
  return span.begin_ns < span.end_ns ? span : PlotSpan();
}

// `count` columns of equal width over the span: what overlaps a column is in it.
std::vector<PowerColumn> ColumnsOf(const PowerSeries& series, const PlotSpan& span, size_t count) {
  std::vector<PowerColumn> columns(count);
  std::vector<double> weights(count, 0);
  const double width_ns =
      static_cast<double>(span.end_ns - span.begin_ns) / static_cast<double>(count);
  for (size_t i = 0; i < series.columns.size(); ++i) {
    const PowerColumn& from = series.columns[i];
    if (!from.mean_w.has_value()) continue;
    const auto begin = static_cast<double>(series.begin_ns - span.begin_ns +
                                           static_cast<int64_t>(i) * series.column_ns);
    const double end = begin + static_cast<double>(series.column_ns);
    for (auto at = static_cast<size_t>(begin / width_ns); at < count; ++at) {
      const double left = static_cast<double>(at) * width_ns;
      const double inside = std::min(end, left + width_ns) - std::max(begin, left);
      if (inside <= 0) break;
      PowerColumn& to = columns[at];
      const double weight = inside * from.covered;
      to.mean_w =
          (to.mean_w.value_or(0) * weights[at] + *from.mean_w * weight) / (weights[at] + weight);
      to.min_w = std::min(to.min_w.value_or(*from.min_w), *from.min_w);
      to.max_w = std::max(to.max_w.value_or(*from.max_w), *from.max_w);
      weights[at] += weight;
    }
  }
  for (size_t at = 0; at < count; ++at) columns[at].covered = weights[at] / width_ns;
  return columns;
}

double MostOf(const std::vector<PowerColumn>& columns) {
  double most_w = 0;
  for (const PowerColumn& column : columns) most_w = std::max(most_w, column.max_w.value_or(0));
  return most_w;
}

// --- Lines of block characters.

constexpr int kPlotRows = 6;
constexpr size_t kLabelWidth = 7;

// The part of a bar that is in a row; 1: all of it.
std::string_view DrawPlotBar(double share, bool unicode) {
  constexpr std::array<std::string_view, 9> kEighths = {" ", "▁", "▂", "▃", "▄",
                                                        "▅", "▆", "▇", "█"};
  if (!unicode) return share >= 0.5 ? "#" : " ";
  return kEighths[static_cast<size_t>(std::lround(std::clamp(share, 0.0, 1.0) * 8))];
}

// --- SVG.

constexpr double kBetween = 44, kBandRow = 16, kTitle = 30;
constexpr double kLetter = 6.5;  // as wide as most
constexpr size_t kMostBands = 40, kMostLanes = 4;

struct Band {
  double x0 = 0, x1 = 0;
  size_t lane = 0;
  const WindowSummary* window = nullptr;
};

class Picture {
 public:
  explicit Picture(const PowerSummary& summary)
      : summary_(summary),
        names_(summary.inventory),
        span_(SpanOf(summary)),
        chart_(static_cast<double>(span_.end_ns - span_.begin_ns) / 1e9) {
    PlaceBands();
    for (const PowerSeries& series : summary.series) {
      curves_.push_back(ColumnsOf(series, span_, static_cast<size_t>(kPlot) / 2));
      double& most_w = most_w_.try_emplace(series.domain, 1e-3).first->second;
      most_w = std::max(most_w, MostOf(curves_.back()));
    }
  }
  std::string Draw() && {
    double y = kTitle + 14;
    chart_.Text(
        kLeft, 22, "start",
        summary_.command.empty() ? "power" : "power: " + ShortenMiddle(summary_.command, 90, "..."),
        " font-size=\"15\"");
    if (span_.end_ns <= span_.begin_ns) {
      chart_.Text(kLeft, y + 20, "start", "no data to plot: no power was read");
      y += 60;
    } else {
      DrawBandNames(y);
      y += static_cast<double>(lanes_) * kBandRow + 18;
      for (size_t i = 0; i < curves_.size(); ++i) {
        DrawPanel(i, y, kChartColors[i % kChartColors.size()]);
        y += kPanel + kBetween;
      }
      chart_.TimeAxis(y - kBetween, "time since the start, s");
      DrawLegend(y + 14);
      y += 30;
    }
    return std::move(chart_).Finish(y);
  }

 private:
  static constexpr double kLeft = Chart::kLeft, kPlot = Chart::kPlot, kPanel = Chart::kPanel;

  double X(int64_t t_ns) const {
    return chart_.X(static_cast<double>(t_ns - span_.begin_ns) / 1e9);
  }
  // Names in the first lane that is free there.
  void PlaceBands() {
    std::vector<double> free_from(kMostLanes, 0);
    for (const WindowSummary& window : summary_.windows) {
      if (window.name.empty() || bands_.size() == kMostBands || span_.end_ns == span_.begin_ns) {
        continue;
      }
      Band band = {X(window.begin_ns), X(window.end_ns), 0, &window};
      const double name_end =
          std::max(band.x1, band.x0 + kLetter * static_cast<double>(WindowName(window).size())) + 6;
      while (band.lane + 1 < kMostLanes && free_from[band.lane] > band.x0) ++band.lane;
      free_from[band.lane] = name_end;
      lanes_ = std::max(lanes_, band.lane + 1);
      bands_.push_back(band);
    }
  }

  void DrawBandNames(double top) {
    for (const Band& band : bands_) {
      const double y = top + static_cast<double>(band.lane) * kBandRow;
      chart_.Rect(band.x0, y, std::max(1.0, band.x1 - band.x0), kBandRow - 3,
                  "fill=\"#888\" fill-opacity=\"0.25\"");
      const std::string name = WindowName(*band.window);
      const bool fits = band.x0 + 3 + kLetter * static_cast<double>(name.size()) < Chart::kWidth;
      chart_.Text(fits ? band.x0 + 3 : Chart::kWidth - 3, y + 10, fits ? "start" : "end", name);
    }
  }

  void DrawPanel(size_t panel, double top, std::string_view color) {
    const PowerSeries& series = summary_.series[panel];
    const auto& columns = curves_[panel];
    chart_.Text(kLeft, top - 6, "start", names_.Of(series.source, series.device, series.domain),
                " font-weight=\"bold\"");
    for (const Band& band : bands_) {
      chart_.Rect(band.x0, top, std::max(1.0, band.x1 - band.x0), kPanel,
                  "fill=\"#888\" fill-opacity=\"0.12\"");
    }
    // Unknown parts.
    const double width = kPlot / static_cast<double>(columns.size());
    for (size_t i = 0, end = 0; i < columns.size(); i = end + 1) {
      end = i;
      if (columns[i].mean_w.has_value()) continue;
      while (end < columns.size() && !columns[end].mean_w.has_value()) ++end;
      chart_.Rect(kLeft + static_cast<double>(i) * width, top, static_cast<double>(end - i) * width,
                  kPanel, "fill=\"url(#gap)\"");
    }
    const double per_watt = chart_.PowerAxis(top, most_w_.at(series.domain));
    DrawCurve(columns, top + kPanel, per_watt, color);
  }

  void DrawCurve(const std::vector<PowerColumn>& columns, double bottom, double per_watt,
                 std::string_view color) {
    const double width = kPlot / static_cast<double>(columns.size());
    std::string area, line;
    for (size_t i = 0; i < columns.size(); ++i) {
      const PowerColumn& column = columns[i];
      if (!column.mean_w.has_value()) continue;
      const bool first = i == 0 || !columns[i - 1].mean_w.has_value();
      const double x = kLeft + static_cast<double>(i) * width;
      const double low = bottom - *column.min_w * per_watt,
                   high = bottom - *column.max_w * per_watt;
      absl::StrAppendFormat(&area, "M%.1f %.1fH%.1fV%.1fH%.1fZ", x, low, x + width, high, x);
      const double y = bottom - *column.mean_w * per_watt;
      absl::StrAppendFormat(&line, "%c%.1f %.1fH%.1f", first ? 'M' : 'L', x, y, x + width);
    }
    chart_.Put(R"(<path d="%s" fill="%s" fill-opacity="0.3"/>)", area, color);
    chart_.Put(R"(<path d="%s" fill="none" stroke="%s" stroke-width="1.4"/>)", line, color);
  }

  void DrawLegend(double y) {
    const std::string color(kChartColors[0]);
    chart_.Line(kLeft, y - 4, kLeft + 18, y - 4, color);
    chart_.Text(kLeft + 24, y, "start", "mean");
    chart_.Key(kLeft + 90, y, absl::StrCat("fill=\"", color, "\" fill-opacity=\"0.3\""),
               "minimum to maximum");
    chart_.Key(kLeft + 220, y, "fill=\"url(#gap)\" stroke=\"#bbb\"", "gap: unknown");
    if (!bands_.empty()) {
      chart_.Key(kLeft + 370, y, "fill=\"#888\" fill-opacity=\"0.25\"", "window");
    }
    if (bands_.size() == kMostBands) {
      chart_.Text(kLeft + 460, y, "start",
                  absl::StrCat("only the first ", kMostBands, " windows are shown"));
    }
  }

  const PowerSummary& summary_;
  const DomainNames names_;
  const PlotSpan span_;
  Chart chart_;
  std::vector<std::vector<PowerColumn>> curves_;  // of each series
  // By domain: its panels have one scale, so that the eye may compare them.
  std::map<std::string_view, double> most_w_;
  std::vector<Band> bands_;
  size_t lanes_ = 0;
  std::string body_;
};

}  // namespace

std::string PowerPlot(const PowerSummary& summary, const OutputOptions& options) {
  View view;
  const auto add = [&](std::string line, Tone tone = Tone::kPlain) {
    view.lines.push_back({std::move(line), tone, ViewLine::kItem});
  };
  const PlotSpan span = SpanOf(summary);
  if (span.end_ns <= span.begin_ns) {
    add("no data to plot: no power was read");
    return TableText(view, options);
  }
  const size_t width = static_cast<size_t>(std::max(options.width, 20)) - kLabelWidth - 1;
  const DomainNames names(summary.inventory);
  for (const PowerSeries& series : summary.series) {
    const std::vector<PowerColumn> columns = ColumnsOf(series, span, width);
    const double most_w = std::max(1e-3, MostOf(columns));
    if (!view.lines.empty()) add("");
    add(Printable(names.Of(series.source, series.device, series.domain)) + ", W", Tone::kBold);
    for (int row = kPlotRows - 1; row >= 0; --row) {
      const std::string label = row == kPlotRows - 1 ? FormatFixed(most_w, most_w >= 100 ? 0 : 2)
                                : row == 0           ? "0"
                                                     : "";
      std::string line = Padded(label, kLabelWidth, /*right=*/true) + (options.unicode ? "│" : "|");
      for (const PowerColumn& column : columns) {
        const double height = column.mean_w.value_or(0) / most_w * kPlotRows;
        line.append(DrawPlotBar(height - row, options.unicode));
      }
      add(std::move(line));
    }
    // The axis is broken at unknown parts.
    std::string axis = std::string(kLabelWidth, ' ') + (options.unicode ? "└" : "+");
    for (const PowerColumn& column : columns) {
      axis.append(!column.mean_w.has_value() ? " " : options.unicode ? "─" : "-");
    }
    add(std::move(axis));
  }
  const double seconds = static_cast<double>(span.end_ns - span.begin_ns) / 1e9;
  const std::string end = absl::StrCat(FormatFixed(seconds, seconds < 10 ? 2 : 0), " s");
  add(Padded("0", kLabelWidth + 2, /*right=*/true) + Padded(end, width - 1, /*right=*/true),
      Tone::kDim);
  return TableText(view, options);
}

std::string PowerSvg(const PowerSummary& summary) { return Picture(summary).Draw(); }

}  // namespace xplane_time::output
