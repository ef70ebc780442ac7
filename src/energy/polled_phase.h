// The phase and the period of a power sensor that is polled about as often as it publishes.
//
// Such polls see a new value nearly every time, so the brackets of publications.h are one period
// long and decide nothing. The load decides. A poll reads the last publication, so the window of
// its reading ended (age + lag) before the poll, with
//
//   age = (poll - phase) mod period
//
//   polls       |    |    |    |    |    |        period of the polls 5, of the sensor 4.6
//   published   ^   ^   ^   ^   ^   ^   ^ ^
//   age         0  .4  .8  1.2 ... 4.4  .2        a sawtooth: it jumps where a publication is
//   skipped
//
// A first fit with roughly right times gives the expected energy up to each instant. Each candidate
// (phase, period, lag) then predicts all readings, and the best candidates predict them best.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "energy/publications.h"

namespace xplane_time::energy {

// The energy that the device is expected to have used up to each of the instants `from_s + i x
// step_s`. Linear between them, constant beyond.
struct ExpectedEnergy {
  double from_s = 0, step_s = 1;
  std::vector<double> energy_j = {};

  double AtJ(double instant_s) const;
};

// Where to search.
struct PhaseRange {
  PeriodRange periods;
  double least_lag_s = 0, most_lag_s = 0;
};

struct PolledPhase {
  double phase_s = 0, period_s = 0, lag_s = 0;
  double unexplained = 1;  // share of the variance of the readings that is not explained
};

// Returns at most `most` candidates that differ from each other, the best first. Updates ascend and
// lie in the time of `expected`. `window_s` is the window of the readings, which are powers. Empty
// if there are fewer than `kLeastUpdates` updates. O(periods x updates) for up to 512 updates, and
// for more than that independent of their number. The result does not depend on `threads`.
std::vector<PolledPhase> FindPolledPhases(std::span<const Update> updates,
                                          const ExpectedEnergy& expected, double window_s,
                                          const PhaseRange& range, size_t most, int threads = 1);

}  // namespace xplane_time::energy
