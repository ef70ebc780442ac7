// The columns of a plot: a summary's series on one axis of time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "xplane_time/power.h"

namespace xplane_time::output {

struct RunSpan {
  int64_t begin_ns = 0, end_ns = 0;
};

// Of all series.
inline RunSpan SpanOf(const PowerSummary& summary) {
  RunSpan span;
  bool first = true;
  for (const PowerSeries& series : summary.series) {
    if (series.columns.empty()) continue;
    const int64_t end_ns =
        series.begin_ns + static_cast<int64_t>(series.columns.size()) * series.column_ns;
    span.begin_ns = first ? series.begin_ns : std::min(span.begin_ns, series.begin_ns);
    span.end_ns = first ? end_ns : std::max(span.end_ns, end_ns);
    first = false;
  }
  return span;
}

// `count` columns of equal width over the span: what overlaps a column is in it.
inline std::vector<PowerColumn> ColumnsOf(const PowerSeries& series, const RunSpan& span,
                                          size_t count) {
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

inline double MostOf(const std::vector<PowerColumn>& columns) {
  double most_w = 0;
  for (const PowerColumn& column : columns) most_w = std::max(most_w, column.max_w.value_or(0));
  return most_w;
}

}  // namespace xplane_time::output
