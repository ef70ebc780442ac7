// Figures of a grid: the distribution of the latencies of each setting, and energy against latency
// with the Pareto front.
#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "output/chart.h"
#include "output/evidence.h"
#include "output/view.h"

namespace xplane_time::output {
namespace {

using evidence::GridResult, evidence::GridRow, evidence::GridSample;

constexpr double kUjPerJ = 1e6, kUjPerMj = 1e3;
constexpr int kColumns = 110;
constexpr double kSettingLane = 46, kBar = 26, kFigureTop = 60;

// The range of an axis.
struct Range {
  double from = 0, to = 0;
};

// All of them, with a margin of the range.
Range RangeOf(double least, double most) {
  constexpr double kMargin = 0.2;
  const double margin = kMargin * (most > least ? most - least : most);
  return {std::max(0.0, least - margin), most + margin};
}

std::vector<double> LatenciesOf(const std::vector<GridSample>& samples) {
  std::vector<double> latencies_us;
  for (const GridSample& each : samples) {
    if (each.counts()) latencies_us.push_back(static_cast<double>(*each.t_ps) / kPsPerUs);
  }
  return latencies_us;
}

// The axis ends at the largest p95, because a few long runs would leave no room for the others.
// Empty: no sample.
std::optional<Range> LatencyRange(const GridResult& of) {
  std::vector<double> least, p95;
  for (size_t i = 0; i < of.rows.size(); ++i) {
    if (!of.rows[i].p95_latency_us.has_value()) continue;
    least.push_back(std::ranges::min(LatenciesOf(of.samples[i])));
    p95.push_back(*of.rows[i].p95_latency_us);
  }
  if (p95.empty()) return std::nullopt;
  return RangeOf(std::ranges::min(least), std::ranges::max(p95));
}

// How many samples are in each column, and beyond the last.
struct LatencyHistogram {
  std::vector<double> columns = std::vector<double>(kColumns);
  uint64_t beyond = 0;
};

LatencyHistogram HistogramOf(const std::vector<GridSample>& samples, const Range& range) {
  LatencyHistogram histogram;
  for (const double us : LatenciesOf(samples)) {
    const double at = (us - range.from) / (range.to - range.from) * kColumns;
    if (us > range.to) {
      ++histogram.beyond;
    } else {
      ++histogram.columns[static_cast<size_t>(std::min(at, kColumns - 1.0))];
    }
  }
  return histogram;
}

// "a (n 1000, 3 beyond the axis)", "b (n 0: compile_error)"
std::string LaneTitle(const std::string& name, const evidence::GridSetting& setting, uint64_t n,
                      uint64_t beyond) {
  return absl::StrCat(name, " (n ", n, setting.status == "ok" ? "" : ": ",
                      setting.status == "ok" ? "" : setting.status,
                      beyond == 0 ? "" : absl::StrCat(", ", beyond, " beyond the axis"), ")");
}

std::string LatencyFigure(const GridResult& of, const Range& range) {
  Chart chart(range.to, range.from);
  chart.Text(Chart::kLeft, 22, "start", absl::StrCat(of.run.workload, ": latency of each setting"),
             " font-size=\"15\"");
  chart.Text(Chart::kLeft, 40, "start",
             "bars: number of samples; line: median, dashes: p95, dots: p99 if it is within the "
             "axis, which ends 20 % above the largest p95");
  const std::vector<std::string> names = ShortNames(of.run);
  double y = kFigureTop;
  for (size_t i = 0; i < of.rows.size(); ++i) {
    const GridRow& row = of.rows[i];
    const std::string_view color = kChartColors[i % kChartColors.size()];
    const LatencyHistogram histogram = HistogramOf(of.samples[i], range);
    chart.Text(Chart::kLeft, y + 11, "start",
               LaneTitle(names[i], of.run.settings[i], row.n, histogram.beyond),
               " font-size=\"11\"");
    const double bottom = y + kSettingLane - 3;
    const double fullest = std::max(1.0, *std::ranges::max_element(histogram.columns));
    for (int k = 0; k < kColumns; ++k) {
      const double share = histogram.columns[static_cast<size_t>(k)] / fullest;
      if (share <= 0) continue;
      const double height = std::max(1.0, share * kBar);
      chart.Rect(Chart::kLeft + Chart::kPlot * k / kColumns, bottom - height,
                 Chart::kPlot / kColumns, height,
                 absl::StrFormat("fill=\"%s\" fill-opacity=\"0.6\"", color));
    }
    const auto mark = [&](const std::optional<double>& at_us, const char* how) {
      if (!at_us.has_value() || *at_us > range.to) return;
      chart.Put(R"(<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#222" %s/>)",
                chart.X(*at_us), bottom - kBar, chart.X(*at_us), bottom, how);
    };
    mark(row.median_latency_us, "stroke-width=\"2\"");
    mark(row.p95_latency_us, "stroke-dasharray=\"6 3\"");
    mark(row.p99_latency_us, "stroke-dasharray=\"1 3\"");
    y += kSettingLane;
  }
  chart.TimeAxis(y, "latency, us");
  return std::move(chart).Finish(y + 50);
}

// A point of the figure, and later what its label covers.
struct Point {
  double x = 0, y = 0;
  bool on_front = false;
  std::string name;
};

struct Box {
  double left = 0, right = 0, top = 0, bottom = 0;
  bool Meets(const Box& other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

// Places each label beside its point, without covering a point or another label. Labels of the
// front are placed first. Returns how many find no room.
size_t PutLabels(const std::vector<Point>& points, Chart* chart) {
  constexpr double kGap = 7, kLetter = 6.2, kHeight = 11;
  std::vector<Box> taken;
  for (const Point& each : points) {
    taken.push_back({each.x - 5, each.x + 5, each.y - 5, each.y + 5});
  }
  size_t without = 0;
  for (const bool of_front : {true, false}) {
    for (const Point& each : points) {
      if (each.on_front != of_front) continue;
      const double width = kLetter * static_cast<double>(each.name.size());
      bool is_put = false;
      for (const double down : {-6.0, 4.0, 14.0}) {
        for (const bool is_right : {true, false}) {
          const double left = is_right ? each.x + kGap : each.x - kGap - width;
          const Box box = {left, left + width, each.y + down - kHeight, each.y + down};
          const bool is_inside = box.left > Chart::kLeft && box.right < Chart::kWidth &&
                                 box.top > kFigureTop && box.bottom < kFigureTop + Chart::kPanel;
          const auto meets = [&](const Box& other) { return box.Meets(other); };
          if (is_put || !is_inside || std::ranges::any_of(taken, meets)) continue;
          chart->Text(is_right ? left : left + width, box.bottom - 2, is_right ? "start" : "end",
                      each.name, " font-size=\"11\"");
          taken.push_back(box);
          is_put = true;
        }
      }
      without += is_put ? 0 : 1;
    }
  }
  return without;
}

std::string FrontFigure(const GridResult& of, const Range& us, const Range& uj) {
  Chart chart(us.to, us.from);
  chart.Text(Chart::kLeft, 22, "start", absl::StrCat(of.run.workload, ": energy against latency"),
             " font-size=\"15\"");
  const double scale = uj.to >= kUjPerJ ? kUjPerJ : uj.to >= kUjPerMj ? kUjPerMj : 1;
  const char* const unit = scale == kUjPerJ ? "J" : scale == kUjPerMj ? "mJ" : "uJ";
  double least = uj.from / scale;
  const double per_unit =
      chart.ValueAxis(kFigureTop, uj.to / scale, absl::StrCat("energy, ", unit), &least);
  const double bottom = kFigureTop + Chart::kPanel;
  const std::vector<std::string> names = ShortNames(of.run);
  std::vector<Point> points;
  for (size_t i = 0; i < of.rows.size(); ++i) {
    const GridRow& row = of.rows[i];
    if (!row.on_front.has_value()) continue;
    points.push_back({chart.X(*row.median_latency_us),
                      bottom - (*row.energy_uj / scale - least) * per_unit, *row.on_front,
                      names[i]});
  }
  std::ranges::sort(points, {}, &Point::x);
  std::string path;
  for (const Point& each : points) {
    if (!each.on_front) continue;
    absl::StrAppendFormat(&path, "%c%.1f %.1f", path.empty() ? 'M' : 'L', each.x, each.y);
  }
  chart.Put(R"(<path d="%s" fill="none" stroke="%s"/>)", path, kChartColors[0]);
  for (const Point& each : points) {
    chart.Put(R"(<circle cx="%.1f" cy="%.1f" r="4" stroke="%s" fill="%s"/>)", each.x, each.y,
              kChartColors[0], each.on_front ? kChartColors[0] : "#fff");
  }
  const size_t without = PutLabels(points, &chart);
  chart.Text(Chart::kLeft, 40, "start",
             absl::StrCat(
                 "filled: Pareto front (no setting improves one axis without worsening the other)",
                 without == 0
                     ? ""
                     : absl::StrCat("; ", without, " without space for a name, see results.csv")));
  chart.TimeAxis(bottom, "median latency, us");
  return std::move(chart).Finish(bottom + 50);
}

// The rows that are in the figure.
Range RangeOf(const GridResult& of, std::optional<double> GridRow::*value) {
  std::vector<double> values;
  for (const GridRow& row : of.rows) {
    if (row.on_front.has_value()) values.push_back(*(row.*value));
  }
  const auto [least, most] = std::ranges::minmax(values);
  return RangeOf(least, most);
}

}  // namespace

std::vector<evidence::ZipFile> GridFigures(const GridResult& of) {
  std::vector<evidence::ZipFile> figures;
  const auto range = LatencyRange(of);
  if (!range.has_value()) return figures;
  figures.push_back({"figs/latency.svg", LatencyFigure(of, *range)});
  const bool has_front =
      std::ranges::any_of(of.rows, [](const GridRow& row) { return row.on_front.has_value(); });
  if (has_front) {
    figures.push_back(
        {"figs/energy_latency.svg", FrontFigure(of, RangeOf(of, &GridRow::median_latency_us),
                                                RangeOf(of, &GridRow::energy_uj))});
  }
  return figures;
}

}  // namespace xplane_time::output
