// From the powers of a fit to energies, and groups of kernels whose energies are known.
//
// Energies are linear in the powers: E = B w with the busy seconds and the idle seconds of each
// kernel, and their covariance is B C B'. Two kernels that always run together have strongly
// negative correlations: their sum is known, their difference is not.
//
// - BoundBrief treats kernels whose energy is bounded physically more tightly than statistically:
//   busy seconds times twice the highest power of any window.
// - Resolve joins sets greedily: the most uncertain set joins the set with the most negative
//   correlation, until each set is known to kKnownShare. A set may join any set at a correlation
//   below -0.5. At weaker correlations, which many kernels in lockstep have, only unknown sets join
//   each other.
//
// O(kernels^2) for each step of joining, at most as many steps as kernels.
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

constexpr size_t kBins = 1024;  // bins of the idle power, which changes slowly

double SumOf(const MatrixXd& covariance, std::span<const size_t> kernels) {
  double sum = 0;
  for (const size_t a : kernels) {
    for (const size_t b : kernels) sum += covariance(static_cast<Index>(a), static_cast<Index>(b));
  }
  return sum;
}

double IdleTerm(Index term, size_t bin) {
  return std::cos(std::numbers::pi * static_cast<double>(term) * (static_cast<double>(bin) + 0.5) /
                  kBins);
}

// Seconds by kernel and idle term. A kernel's energy is its own power times its own seconds, plus
// each idle power times these seconds.
MatrixXd IdleSeconds(std::span<const BusyCurve> kernels, double capture_s, size_t terms,
                     int threads) {
  const auto count = static_cast<Index>(kernels.size());
  MatrixXd idle_s = MatrixXd::Zero(count, static_cast<Index>(terms));
  const std::vector<std::vector<double>> shares = IdleShares(kernels, capture_s, kBins, threads);
  for (Index j = 0; j < idle_s.cols(); ++j) {
    for (size_t bin = 0; bin < kBins; ++bin) {
      const double cosine = IdleTerm(j, bin);
      for (Index k = 0; k < count; ++k) {
        idle_s(k, j) += cosine * shares[static_cast<size_t>(k)][bin];
      }
    }
  }
  return idle_s;
}

VectorXd TotalSeconds(std::span<const BusyCurve> kernels) {
  VectorXd busy_s(static_cast<Index>(kernels.size()));
  for (size_t k = 0; k < kernels.size(); ++k) busy_s[static_cast<Index>(k)] = kernels[k].total_s();
  return busy_s;
}

// Moves energy between two kernels without changing their sum or its variance. Afterwards `brief`
// has an energy between 0 and `most_j`.
void TakeApart(Index brief, Index from, double most_j, double quantile, VectorXd* values_j,
               MatrixXd* covariance) {
  const double half_j = most_j / 2, variance = half_j * half_j / (quantile * quantile);
  (*values_j)[from] += (*values_j)[brief] - half_j;
  (*values_j)[brief] = half_j;
  covariance->col(from) += covariance->col(brief);
  covariance->row(from) += covariance->row(brief);
  covariance->col(brief).setZero();
  covariance->row(brief).setZero();
  (*covariance)(from, from) += variance;
  (*covariance)(brief, brief) = variance;
  (*covariance)(brief, from) = (*covariance)(from, brief) = -variance;
}

// Bounds the energy of brief kernels that always run beside another kernel, such as one that clears
// a workspace before each product. If the most that a brief kernel can draw is next to nothing of
// the other's energy, the sum of both is attributed to the other.
void BoundBrief(const VectorXd& busy_s, double most_w, Energies* energies) {
  constexpr double kNextToNothing = 0.01, kAgainst = -0.5;
  for (Index brief = 0; brief < busy_s.size(); ++brief) {
    const MatrixXd& covariance = energies->energy_covariance;
    const double most_j = most_w * busy_s[brief];
    const double half_j = energies->quantile * std::sqrt(std::max(0.0, covariance(brief, brief)));
    if (half_j <= most_j) continue;
    Index from = brief;
    double least = kAgainst;
    for (Index other = 0; other < busy_s.size(); ++other) {
      if (most_j > kNextToNothing * energies->energy_j[other]) continue;
      const double correlation =
          covariance(brief, other) / std::sqrt(covariance(brief, brief) * covariance(other, other));
      if (correlation < least) least = correlation, from = other;
    }
    if (from == brief) continue;
    TakeApart(brief, from, most_j, energies->quantile, &energies->energy_j,
              &energies->energy_covariance);
    TakeApart(brief, from, most_j, energies->quantile, &energies->active_j,
              &energies->active_covariance);
    energies->brief.push_back(static_cast<size_t>(brief));
  }
}

}  // namespace

double Energies::HalfWidthJ(std::span<const size_t> kernels) const {
  return quantile * std::sqrt(std::max(0.0, SumOf(energy_covariance, kernels)));
}

Energies EnergiesOf(const Fit& fit, std::span<const BusyCurve> kernels, double capture_s,
                    int threads) {
  const auto count = static_cast<Index>(kernels.size());
  const auto terms = static_cast<Index>(fit.idle_terms);
  const MatrixXd idle_s = IdleSeconds(kernels, capture_s, fit.idle_terms, threads);
  VectorXd idle = VectorXd::Zero(count + terms);
  for (Index j = 0; j < terms; ++j) {
    for (size_t bin = 0; bin < kBins; ++bin)
      idle[count + j] += IdleTerm(j, bin) * capture_s / kBins;
  }
  Energies energies;
  const VectorXd busy_s = TotalSeconds(kernels);
  const MatrixXd of_all = busy_s.asDiagonal() * fit.covariance.topRows(count) +
                          idle_s * fit.covariance.bottomRows(terms);
  energies.active_j = busy_s.cwiseProduct(fit.power_w.head(count));
  energies.energy_j = energies.active_j + idle_s * fit.power_w.tail(terms);
  energies.energy_covariance =
      of_all.leftCols(count) * busy_s.asDiagonal() + of_all.rightCols(terms) * idle_s.transpose();
  energies.active_covariance =
      busy_s.asDiagonal() * fit.covariance.topLeftCorner(count, count) * busy_s.asDiagonal();
  energies.idle_j = idle.dot(fit.power_w);
  energies.quantile = stats::StudentQuantile(0.025, fit.degrees);
  // A brief kernel may draw more than the mean power of any window.
  const double most_w = 2 * (fit.energy_j.array() / (fit.to_s - fit.from_s).array()).maxCoeff();
  BoundBrief(busy_s, most_w, &energies);
  return energies;
}

OwnEnergies::OwnEnergies(std::span<const BusyCurve> kernels, double capture_s, size_t idle_terms,
                         int threads)
    : busy_s_(TotalSeconds(kernels)),
      idle_s_(IdleSeconds(kernels, capture_s, idle_terms, threads)) {}

OwnEnergies::Own OwnEnergies::Of(const Fit& fit, size_t kernel) const {
  const auto k = static_cast<Index>(kernel);
  const Index terms = idle_s_.cols();
  const VectorXd idle_s = idle_s_.row(k);
  const double variance = busy_s_[k] * busy_s_[k] * fit.covariance(k, k) +
                          2 * busy_s_[k] * fit.covariance.row(k).tail(terms).dot(idle_s) +
                          idle_s.dot(fit.covariance.bottomRightCorner(terms, terms) * idle_s);
  return {busy_s_[k] * fit.power_w[k] + idle_s.dot(fit.power_w.tail(terms)),
          std::sqrt(std::max(0.0, variance))};
}

namespace {

// Sets of kernels that grow until the sums over them are known.
class Sets {
 public:
  explicit Sets(const Energies& energies)
      : quantile_(energies.quantile),
        energy_j_(energies.energy_j),
        covariance_(energies.energy_covariance),
        members_(static_cast<size_t>(energies.energy_j.size())) {
    for (size_t k = 0; k < members_.size(); ++k) members_[k] = {k};
  }

  // Joins unknown sets, the most uncertain first, with the set whose correlation with them is the
  // most negative and below `most`. Known sets are candidates only if `with_known`. O(sets) for a
  // step.
  void Join(double most, bool with_known) {
    std::vector<bool> given_up(members_.size(), false);
    for (;;) {
      size_t worst = members_.size();
      for (size_t k = 0; k < members_.size(); ++k) {
        if (members_[k].empty() || given_up[k] || IsKnown(k)) continue;
        if (worst == members_.size() || Variance(k) > Variance(worst)) worst = k;
      }
      if (worst == members_.size()) return;
      const size_t partner = PartnerOf(worst, most, with_known);
      if (partner == members_.size()) {
        given_up[worst] = true;
        continue;
      }
      JoinInto(partner, worst);
      given_up[partner] = false;
    }
  }

  void LeaveOut(size_t kernel) { members_[kernel].clear(); }

  // The sets that are known.
  std::vector<Known> Result() const {
    std::vector<Known> known(members_.size());
    size_t groups = 0;
    for (size_t k = 0; k < members_.size(); ++k) {
      if (members_[k].empty() || !IsKnown(k)) continue;
      if (members_[k].size() == 1) {
        known[members_[k][0]].alone = true;
        continue;
      }
      for (const size_t member : members_[k]) known[member].group = groups;
      ++groups;
    }
    return known;
  }

 private:
  double Variance(size_t k) const {
    return covariance_(static_cast<Index>(k), static_cast<Index>(k));
  }

  bool IsKnown(size_t k) const {
    return quantile_ * std::sqrt(std::max(0.0, Variance(k))) <=
           kKnownShare * energy_j_[static_cast<Index>(k)];
  }

  size_t PartnerOf(size_t k, double most, bool with_known) const {
    size_t partner = members_.size();
    for (size_t other = 0; other < members_.size(); ++other) {
      if (other == k || members_[other].empty() || (!with_known && IsKnown(other))) continue;
      const double correlation = covariance_(static_cast<Index>(other), static_cast<Index>(k)) /
                                 std::sqrt(Variance(k) * Variance(other));
      if (correlation < most) most = correlation, partner = other;
    }
    return partner;
  }

  void JoinInto(size_t to, size_t from) {
    const auto t = static_cast<Index>(to), f = static_cast<Index>(from);
    energy_j_[t] += energy_j_[f];
    covariance_.col(t) += covariance_.col(f);
    covariance_.row(t) += covariance_.row(f);
    std::vector<size_t>& joined = members_[to];
    joined.insert(joined.end(), members_[from].begin(), members_[from].end());
    members_[from].clear();
  }

  const double quantile_;
  // Sums over the members of each set.
  VectorXd energy_j_;
  MatrixXd covariance_;
  std::vector<std::vector<size_t>> members_;  // empty if joined to another set
};

}  // namespace

std::vector<Known> Resolve(const Energies& energies) {
  Sets sets(energies);
  for (const size_t kernel : energies.brief) sets.LeaveOut(kernel);
  sets.Join(-0.5, /*with_known=*/true);
  // If n kernels always run together, the correlation of two of them is only -1 / (n - 1).
  for (const double most : {-0.2, -0.05, -0.005}) {
    sets.Join(most, /*with_known=*/false);
    sets.Join(-0.5, /*with_known=*/true);
  }
  return sets.Result();
}

}  // namespace xplane_time::energy
