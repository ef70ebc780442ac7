#include "decide/boundary.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "stats/distributions.h"

namespace xplane_time::decide {
namespace {

using stats::NormalTail;

// Shares of alpha among more than two variants: one for each number of rounds below four, and
// one from four on. Half is left for the leader being itself the luckiest of several.
constexpr double kScreeningShare = 0.05;
constexpr double kPooledShare = 0.55;
constexpr double kWaldShare = 0.8, kWaldShareOfTwo = 0.9;

constexpr double kMixtureRounds = 0.5;  // the mixture is sharpest at some ten times as many
constexpr double kOvershoot = 0.25;     // half of Siegmund's 0.583: spreads are estimates
constexpr double kMaxDrift = 2;         // a step is never worth more
constexpr double kMaxExponent = 600;

double WaldRatio(double walk, double rounds, double drift) {
  const double exponent = drift * (walk + kOvershoot) - drift * drift * rounds / 2;
  return std::exp(std::min(exponent, kMaxExponent));
}

double MixtureRatio(double walk, double rounds) {
  const double total = rounds + kMixtureRounds;
  const double exponent = walk * walk / (2 * total);
  return 2 * std::sqrt(kMixtureRounds / total) * std::exp(std::min(exponent, kMaxExponent)) *
         NormalTail(-walk / std::sqrt(total));
}

}  // namespace

double NormalScore(double t, double df) {
  const double score = (8 * df + 1) / (8 * df + 3) * std::sqrt(df * std::log1p(t * t / df));
  return t < 0 ? -score : score;
}

double Evidence(const Comparison& comparison, const Hypothesis& hypothesis) {
  if (!comparison.usable) return 0;
  const double t = (comparison.log_ratio - hypothesis.null) / comparison.se;
  if (t <= 0) return 0;
  const double z = NormalScore(t, comparison.df);
  if (comparison.screening) {
    if (comparison.spike_chance > kMaxSpikeChance) return 0;
    return kScreeningShare / std::max(NormalTail(z), 1e-300);
  }
  const double rounds = comparison.kept;
  const double walk = z * std::sqrt(rounds);
  const double drift = std::min(hypothesis.distance / comparison.sd, kMaxDrift);
  const double share = comparison.pooled ? kPooledShare : 1;
  const double wald = comparison.pooled ? kWaldShare : kWaldShareOfTwo;
  return share * (wald * WaldRatio(walk, rounds, drift) + (1 - wald) * MixtureRatio(walk, rounds));
}

bool IsWithin(double delta, const Comparison& comparison, double needed) {
  const Hypothesis apart = {-delta, delta};
  return Evidence(comparison, apart) >= needed && Evidence(Mirrored(comparison), apart) >= needed;
}

std::optional<double> LowerBound(const Comparison& comparison, double distance, double alpha) {
  constexpr double kFarthest = 1e4;  // standard errors
  constexpr int kHalvings = 44;
  const auto excludes = [&](double null) {
    return Evidence(comparison, {null, distance}) * alpha >= 1;
  };
  double above = comparison.log_ratio;
  double below = above - kFarthest * comparison.se;
  if (!excludes(below)) return std::nullopt;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (below + above) / 2;
    (excludes(middle) ? below : above) = middle;
  }
  return below;
}

std::vector<bool> HolmRejected(std::span<const double> evidence, double alpha) {
  std::vector<size_t> strongest_first(evidence.size());
  std::iota(strongest_first.begin(), strongest_first.end(), size_t{0});
  std::stable_sort(strongest_first.begin(), strongest_first.end(),
                   [evidence](size_t a, size_t b) { return evidence[a] > evidence[b]; });
  std::vector<bool> rejected(evidence.size());
  double left = static_cast<double>(evidence.size());
  for (const size_t i : strongest_first) {
    if (evidence[i] * alpha < left) break;
    rejected[i] = true;
    --left;
  }
  return rejected;
}

Comparison Mirrored(Comparison comparison) {
  comparison.log_ratio = -comparison.log_ratio;
  comparison.centre = -comparison.centre;
  comparison.spike_chance = 1;
  return comparison;
}

}  // namespace xplane_time::decide
