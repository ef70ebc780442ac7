// Figures of a grid: how the latencies of each setting are distributed, and energy against latency
// with the front of those that nobody beats in both.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "output/chart.h"
#include "output/evidence.h"

namespace xplane_time::output {
namespace {

using evidence::GridResult, evidence::GridRow, evidence::GridSample;

constexpr double kPsPerUs = 1e6, kUjPerJ = 1e6, kUjPerMj = 1e3, kMargin = 1.1;
constexpr int kColumns = 110;
constexpr double kLane = 46, kBar = 26, kTop = 60;

double LargestOf(const GridResult& of, std::optional<double> GridRow::*value) {
  double largest = 0;
  for (const GridRow& row : of.rows) largest = std::max(largest, (row.*value).value_or(0));
  return largest;
}

// The share of samples in each column, of the fullest; those beyond the axis are in the last.
std::vector<double> Histogram(const std::vector<GridSample>& samples, double most_us) {
  std::vector<double> columns(kColumns);
  for (const GridSample& each : samples) {
    if (!each.counts()) continue;
    const double at = static_cast<double>(*each.t_ps) / kPsPerUs / most_us * kColumns;
    ++columns[static_cast<size_t>(std::clamp(at, 0.0, kColumns - 1.0))];
  }
  const double fullest = *std::ranges::max_element(columns);
  for (double& each : columns) each /= std::max(fullest, 1.0);
  return columns;
}

std::string LatencyFigure(const GridResult& of, double most_us) {
  Chart chart(most_us);
  chart.Text(Chart::kLeft, 22, "start", "latency of each setting", " font-size=\"15\"");
  chart.Text(
      Chart::kLeft, 40, "start",
      "bars: how many samples; line: median, dashes: p95 and p99; the last bar has all beyond");
  double y = kTop;
  for (size_t i = 0; i < of.rows.size(); ++i) {
    const GridRow& row = of.rows[i];
    const std::string_view color = kChartColors[i % kChartColors.size()];
    chart.Text(Chart::kLeft, y + 11, "start", absl::StrFormat("%s (n %d)", row.setting, row.n),
               " font-size=\"11\"");
    const double bottom = y + kLane - 3;
    const std::vector<double> columns = Histogram(of.samples[i], most_us);
    for (int k = 0; k < kColumns; ++k) {
      const double share = columns[static_cast<size_t>(k)];
      if (share <= 0) continue;
      const double height = std::max(1.0, share * kBar);
      chart.Rect(chart.X(most_us * k / kColumns), bottom - height, Chart::kPlot / kColumns, height,
                 absl::StrFormat("fill=\"%s\" fill-opacity=\"0.6\"", color));
    }
    const auto mark = [&](const std::optional<double>& at_us, const char* how) {
      if (!at_us.has_value()) return;
      chart.Put(R"(<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#222" %s/>)",
                chart.X(*at_us), bottom - kBar, chart.X(*at_us), bottom, how);
    };
    mark(row.median_latency_us, "stroke-width=\"2\"");
    mark(row.p95_latency_us, "stroke-dasharray=\"4 2\"");
    mark(row.p99_latency_us, "stroke-dasharray=\"1 2\"");
    y += kLane;
  }
  chart.TimeAxis(y, "latency, us");
  return std::move(chart).Finish(y + 50);
}

std::string FrontFigure(const GridResult& of, double most_us, double most_uj) {
  Chart chart(most_us);
  chart.Text(Chart::kLeft, 22, "start", "energy against latency", " font-size=\"15\"");
  chart.Text(Chart::kLeft, 40, "start",
             "filled: on the front, nobody is better in one and as good in the other");
  const double scale = most_uj >= kUjPerJ ? kUjPerJ : most_uj >= kUjPerMj ? kUjPerMj : 1;
  const char* const unit = scale == kUjPerJ ? "J" : scale == kUjPerMj ? "mJ" : "uJ";
  const double per_uj =
      chart.ValueAxis(kTop, most_uj / scale, absl::StrCat("energy, ", unit)) / scale;
  const double bottom = kTop + Chart::kPanel;
  std::vector<const GridRow*> rows;
  for (const GridRow& row : of.rows) {
    if (row.on_front.has_value()) rows.push_back(&row);
  }
  std::ranges::sort(rows, {}, [](const GridRow* row) { return *row->median_latency_us; });
  const auto y_of = [&](const GridRow& row) { return bottom - *row.energy_uj * per_uj; };
  std::string path;
  for (const GridRow* row : rows) {
    if (!*row->on_front) continue;
    absl::StrAppendFormat(&path, "%c%.1f %.1f", path.empty() ? 'M' : 'L',
                          chart.X(*row->median_latency_us), y_of(*row));
  }
  chart.Put(R"(<path d="%s" fill="none" stroke="%s"/>)", path, kChartColors[0]);
  for (const GridRow* row : rows) {
    const double x = chart.X(*row->median_latency_us), y = y_of(*row);
    chart.Put(R"(<circle cx="%.1f" cy="%.1f" r="4" stroke="%s" fill="%s"/>)", x, y, kChartColors[0],
              *row->on_front ? kChartColors[0] : "#fff");
    const bool is_right = x > Chart::kLeft + Chart::kPlot * 3 / 4;
    chart.Text(is_right ? x - 8 : x + 8, y - 6, is_right ? "end" : "start", row->setting,
               " font-size=\"11\"");
  }
  chart.TimeAxis(bottom, "median latency, us");
  return std::move(chart).Finish(bottom + 50);
}

}  // namespace

std::vector<evidence::ZipFile> GridFigures(const GridResult& of) {
  std::vector<evidence::ZipFile> figures;
  const double most_us = kMargin * LargestOf(of, &GridRow::p99_latency_us);
  const double most_uj = kMargin * LargestOf(of, &GridRow::energy_uj);
  if (most_us <= 0) return figures;
  figures.push_back({"figs/latency.svg", LatencyFigure(of, most_us)});
  const bool has_front =
      std::ranges::any_of(of.rows, [](const GridRow& row) { return row.on_front.has_value(); });
  if (has_front) {
    const double most_median_us = kMargin * LargestOf(of, &GridRow::median_latency_us);
    figures.push_back({"figs/energy_latency.svg", FrontFigure(of, most_median_us, most_uj)});
  }
  return figures;
}

}  // namespace xplane_time::output
