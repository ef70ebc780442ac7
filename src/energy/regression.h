// Estimates the power of each kernel: the regression of a sensor's windows on the kernels that ran
// in them.
//
//   energy of window n = sum over kernels of w_k x (time that k ran in it)
//                      + idle power during it (a constant and slow cosines)  + noise
//
// The window of a counter lies between two publications. The window of a power reading is the time
// W before the reading. Both end one sensor lag L before the publication:
//
//   trace    [k0][k1]  [k0][k2]   [k1]...
//   windows  |<-- n -->|<- n + 1 ->|                counter
//                 |<W>|       |<W>|                 power
//   published          L ->x           x
//
// L, W and the period are estimated together with the powers: first by a search over all lags, then
// by Gauss-Newton with their derivatives as columns. So the uncertainty of the timing is part of
// every interval. Weights follow noise that grows with the reading. Overlapping windows share
// noise, and generalized least squares accounts for it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <Eigen/Core>

#include "energy/busy.h"
#include "energy/publications.h"

namespace xplane_time::energy {

// The publications of a channel.
struct Sensor {
  ReadingKind kind = ReadingKind::kCumulative;
  Publications publications = {};
  std::optional<double> prior_window_s = {};  // of power readings: the known window of the chip's
                                              // model
};

// The range in which the lag is searched. If the capture's start is known, the lag is only the
// sensor's own. Otherwise it includes the offset between the clocks.
struct LagRange {
  double from_s = -0.5, to_s = 0.8;
};

struct Fit {
  Grid grid;
  double lag_s = 0, window_s = 0;  // window_s is 0 for a counter
  // Powers by kernel, then by idle term, in W. The idle terms are a constant and cosines over [0,
  // capture_s].
  Eigen::VectorXd power_w;
  Eigen::MatrixXd covariance;
  size_t idle_terms = 1;
  double degrees = 0;  // degrees of freedom
  // Standard deviations, estimated from the windows. They exclude the uncertainty of the grid.
  double lag_sd_s = 0, window_sd_s = 0;
  // One element for each window that lies in the capture.
  Eigen::VectorXd from_s, to_s, energy_j, residual_j;
  Eigen::MatrixXd busy_s;     // windows x kernels
  Eigen::VectorXd whitened;   // residuals scaled to equal variance; uncorrelated if the model holds
  double relative_noise = 0;  // rms of the residuals over the energy of the mean window
  // The best fit at another lag: its sum of squares as a multiple of this fit's sum of squares.
  double rival = 0, rival_lag_s = 0;

  // The factor of each element of power_w in the idle power at an instant; 0 for kernels.
  Eigen::VectorXd IdleTerms(double at_s, double capture_s) const;
};

// Empty if too few windows lie in the capture, or if there are too few updates. The result does not
// depend on `threads`.
std::optional<Fit> FitPowers(Sensor sensor, std::span<const BusyCurve> kernels, double capture_s,
                             const LagRange& lags, int threads = 1);

// A sensor that has not been recorded yet: its expected readings and their noise.
struct Expectation {
  ReadingKind kind = ReadingKind::kCumulative;
  double phase_s = 0, period_s = 0, lag_s = 0, window_s = 0;
  double noise = 0;   // standard deviation of a window's energy, as a share of it
  double shared = 0;  // share of the noise that overlapping windows have in common
  size_t idle_terms = 1;
  Eigen::VectorXd power_w = {};  // by kernel, above idle
  double idle_w = 0;
};

// The expected result of a fit of such a log: powers and covariance. Empty if too few windows lie
// in the capture.
std::optional<Fit> ExpectFit(const Expectation& expectation, std::span<const BusyCurve> kernels,
                             double capture_s);

}  // namespace xplane_time::energy
