#include "energy/energies.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "stats/distributions.h"

namespace xplane_time::energy {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr size_t kBins = 1024;  // of the idle power, which changes slowly

double SumOf(const MatrixXd& covariance, std::span<const size_t> kernels) {
  double sum = 0;
  for (const size_t a : kernels) {
    for (const size_t b : kernels) sum += covariance(static_cast<Index>(a), static_cast<Index>(b));
  }
  return sum;
}

}  // namespace

double Energies::HalfWidthJ(std::span<const size_t> kernels) const {
  return quantile * std::sqrt(std::max(0.0, SumOf(energy_covariance, kernels)));
}

Energies EnergiesOf(const Fit& fit, std::span<const BusyCurve> kernels, double capture_s) {
  const auto count = static_cast<Index>(kernels.size());
  const auto terms = static_cast<Index>(fit.idle_terms);
  // Energies are sums of powers: by each row's seconds.
  MatrixXd seconds = MatrixXd::Zero(count, count + terms);
  VectorXd idle = VectorXd::Zero(count + terms);
  const std::vector<std::vector<double>> shares = IdleShares(kernels, capture_s, kBins);
  for (Index j = 0; j < terms; ++j) {
    for (size_t bin = 0; bin < kBins; ++bin) {
      const double cosine = std::cos(std::numbers::pi * static_cast<double>(j) *
                                     (static_cast<double>(bin) + 0.5) / kBins);
      idle[count + j] += cosine * capture_s / kBins;
      for (Index k = 0; k < count; ++k) {
        seconds(k, count + j) += cosine * shares[static_cast<size_t>(k)][bin];
      }
    }
  }
  Energies energies;
  VectorXd busy_s(count);
  for (Index k = 0; k < count; ++k) busy_s[k] = kernels[static_cast<size_t>(k)].total_s();
  seconds.leftCols(count).diagonal() = busy_s;
  energies.energy_j = seconds * fit.power_w;
  energies.energy_covariance = seconds * fit.covariance * seconds.transpose();
  energies.active_j = busy_s.cwiseProduct(fit.power_w.head(count));
  energies.active_covariance =
      busy_s.asDiagonal() * fit.covariance.topLeftCorner(count, count) * busy_s.asDiagonal();
  energies.idle_j = idle.dot(fit.power_w);
  energies.quantile = stats::StudentQuantile(0.025, fit.degrees);
  return energies;
}

std::vector<Known> Resolve(const Energies& energies) {
  const auto count = static_cast<size_t>(energies.energy_j.size());
  std::vector<std::vector<size_t>> sets(count);  // of kernels; empty: joined to another
  for (size_t k = 0; k < count; ++k) sets[k] = {k};
  const auto is_known = [&](const std::vector<size_t>& set) {
    double energy_j = 0;
    for (const size_t k : set) energy_j += energies.energy_j[static_cast<Index>(k)];
    return energies.HalfWidthJ(set) <= kKnownShare * energy_j;
  };
  const auto variance = [&](const std::vector<size_t>& set) {
    return SumOf(energies.energy_covariance, set);
  };
  std::vector<bool> given_up(count, false);
  for (;;) {
    size_t worst = count;
    for (size_t k = 0; k < count; ++k) {
      if (sets[k].empty() || given_up[k] || is_known(sets[k])) continue;
      if (worst == count || variance(sets[k]) > variance(sets[worst])) worst = k;
    }
    if (worst == count) break;
    size_t partner = count;
    double least = 0;
    for (size_t k = 0; k < count; ++k) {
      if (k == worst || sets[k].empty()) continue;
      std::vector<size_t> both = sets[worst];
      both.insert(both.end(), sets[k].begin(), sets[k].end());
      const double correlation = (variance(both) - variance(sets[worst]) - variance(sets[k])) /
                                 (2 * std::sqrt(variance(sets[worst]) * variance(sets[k])));
      if (correlation < least) least = correlation, partner = k;
    }
    // Errors that hardly cancel: their sum is not known better.
    constexpr double kCancels = -0.5;
    if (partner == count || least > kCancels) {
      given_up[worst] = true;
      continue;
    }
    sets[partner].insert(sets[partner].end(), sets[worst].begin(), sets[worst].end());
    sets[worst].clear();
    given_up[partner] = false;
  }
  std::vector<Known> known(count);
  size_t groups = 0;
  for (const std::vector<size_t>& set : sets) {
    if (set.empty()) continue;
    if (set.size() == 1) {
      known[set[0]].alone = is_known(set);
      continue;
    }
    for (const size_t k : set) known[k].group = groups;
    ++groups;
  }
  return known;
}

}  // namespace xplane_time::energy
