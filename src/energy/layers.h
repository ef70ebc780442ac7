// Layers that somebody marked: when each ran itself, and what of the kernels' time lies in it.
//
//   attention |------------------|        attention: [0, 2), [5, 9)
//   softmax       |------|                softmax:   [2, 5)
//             0   2      5       9
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <Eigen/Core>

#include "absl/status/statusor.h"
#include "energy/busy.h"
#include "energy/regression.h"
#include "xplane_time/energy.h"

namespace xplane_time::energy {

struct MarkedLayer {
  std::string name;
  uint64_t count = 0;                    // runs
  std::vector<Interval> own = {};        // since LayerTimes::from_ns
  std::vector<int64_t> lengths_ns = {};  // of its runs
};

struct LayerTimes {
  int64_t from_ns = 0, to_ns = 0;  // the first start and the last end, on the clock of the runs
  std::vector<MarkedLayer> layers = {};  // in order of their first run
};

// A run that lies in another is a part of it: an instant is that of the layer which began last.
// Errors: InvalidArgument (no run; an end before its start; months between them),
// ResourceExhausted (more than 4,096 layers).
absl::StatusOr<LayerTimes> TimesOf(const LayerRuns& runs);

// Of each layer, a row: the seconds by kernel, then by idle term, that the fit's powers count in
// its energy. Where kernels run beside each other, they pay the idle power of the moment once.
// `begin_s`: where LayerTimes::from_ns lies in the capture, of which [from_s, to_s) counts.
Eigen::MatrixXd SecondsIn(const LayerTimes& times, double begin_s, double from_s, double to_s,
                          std::span<const BusyCurve> kernels, const Fit& fit, double capture_s);

}  // namespace xplane_time::energy
