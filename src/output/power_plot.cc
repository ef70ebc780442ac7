// The run as lines of block characters: a panel for each sensor.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "output/power.h"
#include "output/power_columns.h"
#include "output/view.h"

namespace xplane_time::output {
namespace {

constexpr int kRows = 6;
constexpr size_t kLabelWidth = 7;

// The part of a bar that is in a row; 1: all of it.
std::string_view Bar(double share, bool unicode) {
  constexpr std::array<std::string_view, 9> kEighths = {" ", "▁", "▂", "▃", "▄",
                                                        "▅", "▆", "▇", "█"};
  if (!unicode) return share >= 0.5 ? "#" : " ";
  return kEighths[static_cast<size_t>(std::lround(std::clamp(share, 0.0, 1.0) * 8))];
}

std::string Padded(const std::string& text, size_t width) {
  return std::string(width - std::min(width, DisplayWidth(text)), ' ') + text;
}

}  // namespace

std::string PowerPlot(const PowerSummary& summary, const OutputOptions& options) {
  View view;
  const auto add = [&](std::string line, Tone tone = Tone::kPlain) {
    view.lines.push_back({std::move(line), tone, ViewLine::kItem});
  };
  const RunSpan span = SpanOf(summary);
  if (span.end_ns <= span.begin_ns) {
    add("nothing to plot: no power was read");
    return TableText(view, options);
  }
  const size_t width = static_cast<size_t>(std::max(options.width, 20)) - kLabelWidth - 1;
  for (const PowerSeries& series : summary.series) {
    const std::vector<PowerColumn> columns = ColumnsOf(series, span, width);
    const double most_w = std::max(1e-3, MostOf(columns));
    if (!view.lines.empty()) add("");
    add(Printable(DomainName(summary, series.source, series.device, series.domain)) + ", W",
        Tone::kBold);
    for (int row = kRows - 1; row >= 0; --row) {
      const std::string label = row == kRows - 1 ? FormatFixed(most_w, most_w >= 100 ? 0 : 2)
                                : row == 0       ? "0"
                                                 : "";
      std::string line = Padded(label, kLabelWidth) + (options.unicode ? "│" : "|");
      for (const PowerColumn& column : columns) {
        const double height = column.mean_w.value_or(0) / most_w * kRows;
        line.append(Bar(height - row, options.unicode));
      }
      add(std::move(line));
    }
    // The axis is broken where nothing is known.
    std::string axis = Padded("", kLabelWidth) + (options.unicode ? "└" : "+");
    for (const PowerColumn& column : columns) {
      axis.append(!column.mean_w.has_value() ? " " : options.unicode ? "─" : "-");
    }
    add(std::move(axis));
  }
  const double seconds = static_cast<double>(span.end_ns - span.begin_ns) / 1e9;
  const std::string end = absl::StrCat(FormatFixed(seconds, seconds < 10 ? 2 : 0), " s");
  add(Padded("0", kLabelWidth + 2) + Padded(end, width - 1), Tone::kDim);
  return TableText(view, options);
}

}  // namespace xplane_time::output
