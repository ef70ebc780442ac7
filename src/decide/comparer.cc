// Implementation of the comparison and the boundary (comparer.h has the method and the references).
//
//   Compare(a, b)
//     >= 4 common rounds   Direct: log ratios of the common rounds, FromRatios()
//     else                 Screen: ratios of each sample of a to b, within a common round or else
//                          to the level of b; the fastest one and those within Reach() of it
//
// FromRatios() skips outliers (OutlierReach robust deviations from the median) and combines the
// spread with the prior spread, unless the pair scatters more than the prior (VarianceScore).
// Evidence() implements the boundary, LowerBound() inverts it by bisection.
#include "decide/comparer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "stats/distributions.h"
#include "stats/location.h"
#include "stats/order_statistics.h"

namespace xplane_time::decide {
namespace {

using stats::Median, stats::MeanWithin, stats::NormalTail, stats::OutlierReach, stats::RobustSd,
    stats::SkippedMean;

// Shares of alpha for more than two variants: one for each number of rounds below four, and one
// from four on. Half of alpha is reserved, because the leader itself was selected as the best of
// several.
constexpr double kScreeningShare = 0.05;
constexpr double kPooledShare = 0.55;
constexpr double kWaldShare = 0.8, kWaldShareOfTwo = 0.9;

constexpr double kMixtureRounds = 0.5;  // the mixture is sharpest at about ten times this number
constexpr double kOvershoot = 0.25;     // half of Siegmund's 0.583, because spreads are estimated
constexpr double kMaxDrift = 2;         // upper limit of the drift per step
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

// Maximum degrees of freedom of the pooled spread for a pair, because variants differ in noise.
constexpr double kMaxPriorDf = 12;
// A pair whose spread has a larger normal score is noisier than the others.
constexpr double kNoisier = 2;

// Normal score of the ratio of two variance estimates with the same true variance (Paulson 1942).
double VarianceScore(double ratio, double df, double prior_df) {
  const double root = std::cbrt(ratio);
  const double a = 2 / (9 * df), b = 2 / (9 * prior_df);
  return ((1 - b) * root - (1 - a)) / std::sqrt(b * root * root + a);
}

// The leader may have many more cells than the other variant, so this skips cells in jumps.
using CellIterator = std::vector<Cell>::const_iterator;
CellIterator AtOrAfter(const std::vector<Cell>& cells, CellIterator from, uint32_t round) {
  if (from == cells.end() || from->round >= round) return from;
  if (++from == cells.end() || from->round >= round) return from;
  return std::ranges::lower_bound(from, cells.end(), round, {}, &Cell::round);
}

// Calls `visit(cell, other)` for each of `cells`; `other` is null if the other variant was not in
// the round.
void VisitRounds(const std::vector<Cell>& cells, const std::vector<Cell>& others, auto visit) {
  auto other = others.begin();
  for (const Cell& cell : cells) {
    other = AtOrAfter(others, other, cell.round);
    visit(cell, other != others.end() && other->round == cell.round ? &*other : nullptr);
  }
}

// The pool includes the pair's own rounds. This returns the spread of the rest of the pool, for
// ratios, with its degrees of freedom.
std::pair<double, double> SpreadOfOthers(const TwoWayFit& fit, std::vector<double> ratios) {
  const double median = Median(ratios);
  const double reach = OutlierReach(static_cast<double>(ratios.size())) * RobustSd(ratios, median);
  const SkippedMean own = MeanWithin(ratios, median, reach);
  const double df = fit.df - (static_cast<double>(ratios.size()) - 1);
  if (df < 1) return {};
  const double squares = 2 * fit.sd * fit.sd * fit.df - own.squares;
  return {std::min(df, kMaxPriorDf), std::max(std::sqrt(std::max(squares, 0.0) / df), kLeastSd)};
}

}  // namespace

double Evidence(const Comparison& comparison, const Hypothesis& hypothesis) {
  if (!comparison.usable) return 0;
  const double t = (comparison.log_ratio - hypothesis.null) / comparison.se;
  if (t <= 0) return 0;
  const double z = stats::NormalScore(t, comparison.df);
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
  constexpr double kFarthest = 1e4;  // in standard errors
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

Comparison Mirrored(Comparison comparison) {
  comparison.log_ratio = -comparison.log_ratio;
  comparison.centre = -comparison.centre;
  comparison.spike_chance = 1;
  return comparison;
}

Comparison FromRatios(std::vector<double> ratios, double prior_df, double prior_sd,
                      double lost_df) {
  const double rounds = static_cast<double>(ratios.size());
  const double median = Median(ratios);
  const double own_sd = RobustSd(ratios, median);
  const double prior = prior_df * prior_sd * prior_sd;
  const double scale = std::sqrt((prior + rounds * own_sd * own_sd) / (prior_df + rounds));
  const SkippedMean mean = MeanWithin(ratios, median, OutlierReach(rounds + prior_df) * scale);

  Comparison result;
  result.rounds = static_cast<uint32_t>(ratios.size());
  result.kept = static_cast<uint32_t>(mean.kept);
  result.log_ratio = mean.kept > 0 ? mean.mean : median;
  result.centre = stats::Biweight(ratios, median, scale);
  const double own_df = static_cast<double>(mean.kept) - 1 - lost_df;
  if (own_df < 1) return result;
  if (prior_df > 0 &&
      VarianceScore(mean.squares / own_df / (prior_sd * prior_sd), own_df, prior_df) > kNoisier) {
    return FromRatios(std::move(ratios), 0, 0, lost_df);
  }
  result.df = prior_df + own_df;
  result.sd = std::max(std::sqrt((prior + mean.squares) / result.df), kLeastSd);
  result.se = result.sd / std::sqrt(static_cast<double>(mean.kept));
  result.usable = true;
  return result;
}

void Comparer::Update(const Observations& observations) {
  observations_ = &observations;
  fit_ = FitTwoWay(observations, fit_.metric);
  clusters_.assign(observations.records.size(), {});
  std::vector<double> levels;
  for (uint32_t v = 0; v < clusters_.size(); ++v) {
    if (observations.cells(v).empty()) continue;
    clusters_[v] = FastestCluster(v);
    levels.push_back(clusters_[v].mean);
  }
  if (levels.empty()) return;
  // Tukey's upper fence.
  const auto quartile = [&levels](size_t quarters) {
    return stats::AtRank(levels, levels.size() * quarters / 4);
  };
  const double first = quartile(1), third = quartile(3);
  fence_ = third + 1.5 * (third - first);
}

std::vector<double> Comparer::Ratios(uint32_t a, uint32_t b) const {
  std::vector<double> ratios;
  VisitRounds(observations_->cells(a), observations_->cells(b),
              [&](const Cell& cell, const Cell* other) {
                if (other != nullptr) ratios.push_back(fit_.Value(cell) - fit_.Value(*other));
              });
  return ratios;
}

Comparison Comparer::Compare(uint32_t a, uint32_t b) const {
  std::vector<double> ratios = Ratios(a, b);
  if (ratios.size() >= kScreeningRounds) return Direct(std::move(ratios));
  return Screen(a, b);
}

Comparison Comparer::Estimate(uint32_t a, uint32_t b) const {
  Comparison result = Compare(a, b);
  if (!result.screening || result.rounds == 0) return result;
  result.log_ratio = result.centre = Level(a) - Level(b);
  result.se = fit_.sd * std::sqrt(1.0 / clusters_[a].kept + 1.0 / clusters_[b].kept);
  return result;
}

Comparison Comparer::Direct(std::vector<double> ratios) const {
  // A fitted effect uses one degree of freedom.
  const double lost_df = fit_.first_slot != 0 ? 1 : 0;
  const auto [prior_df, prior_sd] = SpreadOfOthers(fit_, ratios);
  Comparison result = FromRatios(std::move(ratios), prior_df, prior_sd, lost_df);
  result.pooled = observations_->records.size() > 2;
  return result;
}

double Comparer::Reach() const {
  return fit_.df >= 1 ? OutlierReach(fit_.df) * std::sqrt(2.0) * fit_.sd : 0;
}

Comparer::Cluster Comparer::FastestCluster(uint32_t variant) const {
  const std::vector<Cell>& cells = observations_->cells(variant);
  std::vector<double> values;
  for (const Cell& cell : cells) {
    if (fit_.is_tied[cell.round]) values.push_back(fit_.WithoutRound(cell));
  }
  if (values.empty()) {
    for (const Cell& cell : cells) values.push_back(fit_.Value(cell));
  }
  std::sort(values.begin(), values.end());
  // With many samples, the fastest one is not a good centre.
  const double from = values.size() < kScreeningRounds ? values.front() : Median(values);
  const SkippedMean mean = MeanWithin(values, from, Reach());
  return {mean.kept > 0 ? mean.mean : from,
          std::max(static_cast<uint32_t>(mean.kept), uint32_t{1})};
}

// Samples of `a` as log ratios to `b`, ascending: within the round if both are in it, else to the
// level of `b`.
std::vector<Comparer::Screened> Comparer::ScreenedRatios(uint32_t a, uint32_t b) const {
  std::vector<Screened> ratios;
  VisitRounds(observations_->cells(a), observations_->cells(b),
              [&](const Cell& cell, const Cell* other) {
                if (other != nullptr) {
                  ratios.push_back({fit_.Value(cell) - fit_.Value(*other), /*is_common=*/true});
                } else if (fit_.is_tied[cell.round]) {
                  ratios.push_back({fit_.WithoutRound(cell) - Level(b)});
                }
              });
  std::ranges::sort(ratios, {}, &Screened::log_ratio);
  return ratios;
}

// The probability that each sample slower than noise is a spike of at least its size. If a sample
// needs no spike to explain it, the result is 1.
double Comparer::SpikeChance(uint32_t variant, std::span<const Screened> ratios) const {
  constexpr double kNoise = 3;  // in standard deviations
  // A single sample counts only if enough other samples have shown the spikes, and if many variants
  // are as slow. A sample that stands out may be a new kind of spike.
  constexpr double kKnowsSpikes = 70;
  if (ratios.size() == 1 && (fit_.spikes.samples < kKnowsSpikes || Level(variant) > fence_)) {
    return 1;
  }
  // If the two fastest samples are farther from each other than from the other variant, the variant
  // may simply scatter.
  const double least = ratios.front().log_ratio;
  if (ratios.size() > 1 && ratios[1].log_ratio - least > least) return 1;
  double chance = 1;
  for (const Screened& ratio : ratios) {
    const double beyond_noise = ratio.log_ratio - kNoise * fit_.sd;
    if (beyond_noise < 0) return 1;
    chance *= fit_.spikes.Chance(beyond_noise);
  }
  return chance;
}

Comparison Comparer::Screen(uint32_t a, uint32_t b) const {
  Comparison result;
  result.screening = true;
  result.pooled = true;
  if (observations_->cells(a).empty() || observations_->cells(b).empty()) return result;
  std::vector<Screened> ratios = ScreenedRatios(a, b);
  if (ratios.empty()) {
    // No round connects them. This is good enough to guess the leader.
    result.rounds = 1;
    result.centre = result.log_ratio = Level(a) - Level(b);
    return result;
  }
  result.rounds = static_cast<uint32_t>(ratios.size());
  result.spike_chance = SpikeChance(a, ratios);
  while (ratios.back().log_ratio - ratios.front().log_ratio > Reach()) ratios.pop_back();
  double common = 0;
  for (const Screened& ratio : ratios) {
    result.log_ratio += ratio.log_ratio / static_cast<double>(ratios.size());
    common += ratio.is_common;
  }
  result.centre = result.log_ratio;
  result.kept = static_cast<uint32_t>(ratios.size());
  if (fit_.df < 1) return result;

  // In a common round both samples are noisy. Elsewhere the effect of the round adds some noise,
  // and the noise of the level of the other variant is shared by all samples.
  constexpr double kRoundEffect = 0.1;
  const double kept = result.kept, apart = kept - common;
  const double variance =
      2 * common + (1 + kRoundEffect) * apart + apart * apart / clusters_[b].kept;
  result.sd = std::sqrt(2.0) * fit_.sd;
  result.se = fit_.sd * std::sqrt(variance) / kept;
  result.df = fit_.df;
  result.usable = true;
  return result;
}

}  // namespace xplane_time::decide
