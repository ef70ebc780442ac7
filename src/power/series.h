// Series: power over the time of a run, in a bounded number of columns. When time runs past
// the last column, neighbours are joined and columns become twice as wide.
#ifndef XPLANE_TIME_SRC_POWER_SERIES_H_
#define XPLANE_TIME_SRC_POWER_SERIES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "power/energy.h"
#include "xplane_time/power.h"

namespace xplane_time::power {

class Series : public PieceSink {
 public:
  // At most `columns` (2 or more) columns from the first piece on, at first of `column_ns` each.
  Series(int64_t column_ns, size_t columns) : column_ns_(column_ns), most_(columns) {}

  void Piece(const EnergyPiece& piece) override;
  // `counter`: without extremes. The channel's names are left to the caller.
  PowerSeries Take(bool counter) const;

 private:
  struct Column {
    double energy_pj = 0, min_mw = 0, max_mw = 0;
    int64_t covered_ns = 0;
    void Merge(const Column& other);
  };
  void Widen();

  int64_t begin_ns_ = 0, column_ns_;
  size_t most_;
  std::vector<Column> columns_;
};

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_SERIES_H_
