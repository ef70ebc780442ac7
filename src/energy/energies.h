// Turns a fit into the energy of each kernel's executions, and finds the kernels that the data
// cannot tell apart.
//
//   const Energies energies = EnergiesOf(fit, kernels, capture_s);
//   energies.energy_j[0] +- energies.HalfWidthJ({0})     // 95 %
//   const std::vector<Known> known = Resolve(energies);
//   known[0].group                                       // only the sum over this group is known
//
// energy_j is the energy above idle plus the idle power during the kernel's running time, shared
// equally among overlapping kernels. active_j is the energy above idle alone; it cannot be
// determined if the device is never idle.
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
  std::vector<size_t> brief;  // kernels with a bounded energy: at most next to nothing
  double quantile = 0;        // of Student's distribution: half of a 95 % interval, in standard
                              // deviations

  // Of the sum over `kernels`.
  double HalfWidthJ(std::span<const size_t> kernels) const;
};

// `kernels` and `capture_s` are those of the fit.
Energies EnergiesOf(const Fit& fit, std::span<const BusyCurve> kernels, double capture_s,
                    int threads = 1);

// The energy of single kernels, for many fits of the same executions.
class OwnEnergies {
 public:
  OwnEnergies(std::span<const BusyCurve> kernels, double capture_s, size_t idle_terms, int threads);

  struct Own {
    double energy_j = 0, sd_j = 0;  // as in Energies; sd_j is one standard deviation
  };
  Own Of(const Fit& fit, size_t kernel) const;

 private:
  Eigen::VectorXd busy_s_;
  Eigen::MatrixXd idle_s_;  // kernels x terms
};

// An energy is known if half of its interval is at most this share of it.
inline constexpr double kKnownShare = 0.25;

struct Known {
  bool alone = false;           // its own energy is known
  std::optional<size_t> group;  // only the sum over this group is known
};

// Joins unknown kernels into groups until the sum of each group is known. Pairs with the most
// negative correlation of errors are joined first. Kernels that no group helps are unknown and in
// no group.
std::vector<Known> Resolve(const Energies& energies);

}  // namespace xplane_time::energy
