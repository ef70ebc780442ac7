// What a fit comes to: the energy of each kernel's executions, and which of them the data cannot
// tell apart.
//
//   const Energies energies = EnergiesOf(fit, kernels, capture_s);
//   energies.energy_j[0] +- energies.HalfWidthJ({0})     // 95 %
//   const std::vector<Known> known = Resolve(energies);
//   known[0].group                                       // with whom only the sum is known
//
// energy_j: what a kernel drew above idle, and the idle power of the time that it ran, shared
// equally where kernels overlap. active_j: the first part alone, which nothing tells where the
// device is never idle.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include <Eigen/Core>

#include "energy/busy.h"
#include "energy/regression.h"

namespace xplane_time::energy {

struct Energies {
  Eigen::VectorXd energy_j, active_j;                    // by kernel
  Eigen::MatrixXd energy_covariance, active_covariance;  // J^2
  double idle_j = 0;                                     // of the whole capture
  std::vector<size_t> brief;  // kernels of which it is known only that they take next to nothing
  double quantile = 0;        // Student's: half of a 95 % interval, in standard deviations

  // Of the sum over `kernels`.
  double HalfWidthJ(std::span<const size_t> kernels) const;
  double ActiveHalfWidthJ(std::span<const size_t> kernels) const;
};

// `kernels` and `capture_s` are those of the fit.
Energies EnergiesOf(const Fit& fit, std::span<const BusyCurve> kernels, double capture_s,
                    int threads = 1);

// Of one kernel at a time, of many fits of the same executions.
class OwnEnergies {
 public:
  OwnEnergies(std::span<const BusyCurve> kernels, double capture_s, size_t idle_terms, int threads);

  struct Own {
    double energy_j = 0, sd_j = 0;  // as in Energies; one standard deviation
  };
  Own Of(const Fit& fit, size_t kernel) const;

 private:
  Eigen::VectorXd busy_s_;
  Eigen::MatrixXd idle_s_;  // kernels x terms
};

// An energy is known where its interval is at most this share of it to each side.
inline constexpr double kKnownShare = 0.25;

struct Known {
  bool alone = false;           // its energy is known
  std::optional<size_t> group;  // only its sum with those of the same number is
};

// Kernels that are not known are put together, those first whose errors go most against each
// other, until the sum is known; where that does not help, they are not known and in no group.
std::vector<Known> Resolve(const Energies& energies);

}  // namespace xplane_time::energy
