// What each kernel draws: the regression of a sensor's windows on what ran in them.
//
//   energy of window n = sum over kernels of w_k x (time that k ran in it)
//                      + idle power of its time (a constant and slow cosines)  + noise
//
// A window of a counter lies between two publications; of a power reading it is the W before it.
// Both are the sensor's lag L before it was published:
//
//   trace    [k0][k1]  [k0][k2]   [k1]...
//   windows  |<-- n -->|<- n + 1 ->|                counter
//                 |<W>|       |<W>|                 power
//   published          L ->x           x
//
// L, W and the period are found with the powers: first over all lags, then by Gauss-Newton with
// their derivatives as columns, so that what is not known of them is in every interval. Weights are
// of noise that grows with the reading; windows that overlap are taken for what they are
// (generalized least squares).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <Eigen/Core>

#include "energy/busy.h"
#include "energy/publications.h"

namespace xplane_time::energy {

// A channel as it was published.
struct Sensor {
  ReadingKind kind = ReadingKind::kCumulative;
  Publications publications = {};
  std::optional<double> prior_window_s = {};  // of power: what its model of chip is known for
};

// Where the lag is looked for. Beside a known start of the capture it is the sensor's own; without
// one it holds the distance of the clocks, too.
struct LagRange {
  double from_s = -0.5, to_s = 0.8;
};

struct Fit {
  Grid grid;
  double lag_s = 0, window_s = 0;  // 0: a counter's
  // By kernel, then the idle terms: W; of constant and cosines over [0, capture_s].
  Eigen::VectorXd power_w;
  Eigen::MatrixXd covariance;
  size_t idle_terms = 1;
  double degrees = 0;  // of freedom
  // Standard deviations, as the windows tell it; where the grid lies is not in them.
  double lag_sd_s = 0, window_sd_s = 0;
  // By window that lies in the capture.
  Eigen::VectorXd from_s, to_s, energy_j, residual_j;
  Eigen::MatrixXd busy_s;  // windows x kernels
  Eigen::VectorXd
      whitened;  // residuals, each with the same variance, uncorrelated where all is well
  double relative_noise = 0;  // rms of residuals over the mean window
  // The best fit whose lag differs: its sum of squares, as a multiple of this one's.
  double rival = 0, rival_lag_s = 0;

  // What each of power_w counts in the idle power at an instant: 0 for kernels.
  Eigen::VectorXd IdleTerms(double at_s, double capture_s) const;
};

// Empty: too few windows lie in the capture, or too few updates. Does not depend on `threads`.
std::optional<Fit> FitPowers(Sensor sensor, std::span<const BusyCurve> kernels, double capture_s,
                             const LagRange& lags, int threads = 1);

// Before there is a log: a sensor, what is assumed that it reads, and how well.
struct Expectation {
  ReadingKind kind = ReadingKind::kCumulative;
  double phase_s = 0, period_s = 0, lag_s = 0, window_s = 0;
  double noise = 0;   // standard deviation of a window's energy, as a share of it
  double shared = 0;  // how much of it overlapping windows share
  size_t idle_terms = 1;
  Eigen::VectorXd power_w = {};  // by kernel, above idle
  double idle_w = 0;
};

// What a fit of such a log would come to: its powers and their covariance. Empty: too few windows
// lie in the capture.
std::optional<Fit> ExpectFit(const Expectation& expectation, std::span<const BusyCurve> kernels,
                             double capture_s);

}  // namespace xplane_time::energy
