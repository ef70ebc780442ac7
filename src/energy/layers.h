// Layers that a program marked: when each layer itself ran, and how much of the kernels' time lies
// in it.
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
  uint64_t count = 0;              // runs
  std::vector<Interval> own = {};  // without the layers inside it; relative to LayerTimes::from_ns
  std::vector<int64_t> lengths_ns = {};  // of its runs, with the layers inside them
};

struct LayerTimes {
  int64_t from_ns = 0, to_ns = 0;  // the first start and the last end, on the clock of the runs
  std::vector<MarkedLayer> layers = {};  // in the order of their first runs
};

// If a run lies in another run, it is a part of that run: an instant belongs to the layer that
// began last. Errors: InvalidArgument (no run; an end before its start; months between runs),
// ResourceExhausted (more than 4,096 layers).
absl::StatusOr<LayerTimes> TimesOf(const LayerRuns& runs);

// Returns a row for each layer: the seconds of each kernel, then of each idle term. The scalar
// product with the fit's powers is the layer's energy. If kernels run at the same time, their idle
// power counts once. `begin_s` is the position of LayerTimes::from_ns in the capture; only [from_s,
// to_s) of the capture counts.
Eigen::MatrixXd SecondsIn(const LayerTimes& times, double begin_s, double from_s, double to_s,
                          std::span<const BusyCurve> kernels, const Fit& fit, double capture_s);

}  // namespace xplane_time::energy
