#include "power/series.h"

#include <algorithm>

namespace xplane_time::power {

void Series::Column::Merge(const Column& other) {
  if (other.covered_ns == 0) return;
  min_mw = covered_ns == 0 ? other.min_mw : std::min(min_mw, other.min_mw);
  max_mw = covered_ns == 0 ? other.max_mw : std::max(max_mw, other.max_mw);
  energy_pj += other.energy_pj;
  covered_ns += other.covered_ns;
}

void Series::Widen() {
  for (size_t i = 0; 2 * i < columns_.size(); ++i) {
    Column both = columns_[2 * i];
    if (2 * i + 1 < columns_.size()) both.Merge(columns_[2 * i + 1]);
    columns_[i] = both;
  }
  columns_.resize((columns_.size() + 1) / 2);
  column_ns_ *= 2;
}

void Series::Piece(const EnergyPiece& piece) {
  // Where in a long gap a counter's energy was used is not known.
  if (piece.whole) return;
  if (columns_.empty()) begin_ns_ = piece.begin_ns;
  const int64_t duration_ns = piece.end_ns - piece.begin_ns;
  const double power_mw = static_cast<double>(piece.energy_pj) / static_cast<double>(duration_ns);
  const auto last_of = [&] {
    return static_cast<size_t>((piece.end_ns - 1 - begin_ns_) / column_ns_);
  };
  while (last_of() >= most_) Widen();
  if (last_of() >= columns_.size()) columns_.resize(last_of() + 1);
  int64_t at_ns = piece.begin_ns;
  while (at_ns < piece.end_ns) {
    const int64_t column = (at_ns - begin_ns_) / column_ns_;
    const int64_t to_ns = std::min(piece.end_ns, begin_ns_ + (column + 1) * column_ns_);
    columns_[static_cast<size_t>(column)].Merge(
        {power_mw * static_cast<double>(to_ns - at_ns), power_mw, power_mw, to_ns - at_ns});
    at_ns = to_ns;
  }
}

PowerSeries Series::Take(bool counter) const {
  PowerSeries series;
  series.begin_ns = begin_ns_;
  series.column_ns = column_ns_;
  for (const Column& column : columns_) {
    PowerColumn& out = series.columns.emplace_back();
    if (column.covered_ns == 0) continue;
    constexpr double kWPerMw = 1e-3;
    out.covered = static_cast<double>(column.covered_ns) / static_cast<double>(column_ns_);
    out.mean_w = column.energy_pj / static_cast<double>(column.covered_ns) * kWPerMw;
    // Between two updates a counter says nothing of peaks.
    out.min_w = counter ? *out.mean_w : column.min_mw * kWPerMw;
    out.max_w = counter ? *out.mean_w : column.max_mw * kWPerMw;
  }
  return series;
}

}  // namespace xplane_time::power
