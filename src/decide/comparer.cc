#include "decide/comparer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "decide/robust.h"

namespace xplane_time::decide {
namespace {

// The pooled spread counts for at most so many rounds of a pair: variants differ in noise.
constexpr double kMaxPriorDf = 12;
}  // namespace

Comparison FromRatios(std::vector<double> ratios, double prior_df, double prior_sd,
                      double lost_df) {
  const double rounds = static_cast<double>(ratios.size());
  const double median = Median(ratios);
  const double own_sd = kMadToSd * MedianAbsoluteDeviation(ratios, median);
  const double prior = prior_df * prior_sd * prior_sd;
  const double scale = std::sqrt((prior + rounds * own_sd * own_sd) / (prior_df + rounds));
  const SkippedMean mean = MeanWithin(ratios, median, OutlierReach(rounds + prior_df) * scale);

  Comparison result;
  result.rounds = static_cast<uint32_t>(ratios.size());
  result.kept = static_cast<uint32_t>(mean.kept);
  result.log_ratio = mean.kept > 0 ? mean.mean : median;
  result.centre = Biweight(ratios, median, scale);
  const double own_df = static_cast<double>(mean.kept) - 1 - lost_df;
  if (own_df < 1) return result;
  result.df = prior_df + own_df;
  result.sd = std::sqrt((prior + mean.squares) / result.df);
  result.se = result.sd / std::sqrt(static_cast<double>(mean.kept));
  result.usable = result.se > 0;
  return result;
}

struct Comparer::Cluster {
  double mean = 0;
  uint32_t kept = 0;
};

std::vector<double> Comparer::Ratios(uint32_t a, uint32_t b) const {
  const std::vector<Cell>& of_a = observations_->cells(a);
  const std::vector<Cell>& of_b = observations_->cells(b);
  std::vector<double> ratios;
  auto other = of_b.begin();
  for (const Cell& cell : of_a) {
    while (other != of_b.end() && other->round < cell.round) ++other;
    if (other == of_b.end()) break;
    if (other->round == cell.round) ratios.push_back(Value(cell) - Value(*other));
  }
  return ratios;
}

Comparison Comparer::Compare(uint32_t a, uint32_t b) const {
  std::vector<double> ratios = Ratios(a, b);
  if (ratios.size() >= kScreeningRounds) return Direct(std::move(ratios));
  return Screen(a, b, ratios.size());
}

Comparison Comparer::Direct(std::vector<double> ratios) const {
  // The pair's own rounds are part of the pool: only what is beyond them is a prior.
  const double own_df = static_cast<double>(ratios.size()) - 1;
  const double prior_df = std::clamp(fit_.df - own_df, 0.0, kMaxPriorDf);
  // An effect that was fitted has used up one.
  const double lost_df = fit_.first_slot != 0 ? 1 : 0;
  Comparison result =
      FromRatios(std::move(ratios), prior_df, std::sqrt(2.0) * fit_.sd, lost_df);
  result.pooled = observations_->variants() > 2;
  return result;
}

std::vector<double> Comparer::Adjusted(uint32_t variant) const {
  std::vector<double> values;
  for (const Cell& cell : observations_->cells(variant)) {
    values.push_back(Value(cell) - fit_.round_effect[cell.round]);
  }
  return values;
}

Comparer::Cluster Comparer::FastestCluster(uint32_t variant) const {
  std::vector<double> values = Adjusted(variant);
  std::sort(values.begin(), values.end());
  // With many samples the fastest is no centre.
  const double from = values.size() < kScreeningRounds ? values.front() : Median(values);
  const double reach = fit_.df >= 1 ? OutlierReach(fit_.df) * std::sqrt(2.0) * fit_.sd : 0;
  const SkippedMean mean = MeanWithin(values, from, reach);
  return {mean.kept > 0 ? mean.mean : from,
          std::max(static_cast<uint32_t>(mean.kept), uint32_t{1})};
}

double Comparer::Level(uint32_t variant) const { return FastestCluster(variant).mean; }

// That every sample slower than noise would explain is a spike, at least as large as that. One
// that needs no spike speaks for the variant.
double Comparer::SpikeChance(uint32_t variant, double level) const {
  constexpr double kNoise = 3;  // standard deviations
  double chance = 1;
  for (const double value : Adjusted(variant)) {
    const double beyond_noise = value - level - kNoise * fit_.sd;
    if (beyond_noise < 0) return 1;
    chance *= fit_.spikes.Chance(beyond_noise);
  }
  return chance;
}

Comparison Comparer::Screen(uint32_t a, uint32_t b, size_t common) const {
  Comparison result;
  result.screening = true;
  result.pooled = true;
  const std::vector<Cell>& cells = observations_->cells(a);
  if (cells.empty() || observations_->cells(b).empty()) return result;
  const Cluster of_a = FastestCluster(a), of_b = FastestCluster(b);
  result.rounds = static_cast<uint32_t>(cells.size());
  result.kept = of_a.kept;
  result.centre = result.log_ratio = of_a.mean - of_b.mean;
  if (fit_.df < 1) return result;

  // The effect of a round in which the other was not is known to some third of a sample's noise.
  constexpr double kRoundEffect = 0.1;
  const double apart = static_cast<double>(cells.size() - common);
  const double untied = kRoundEffect * apart / static_cast<double>(cells.size());
  result.sd = std::sqrt(2.0) * fit_.sd;
  result.se = fit_.sd * std::sqrt(1.0 / of_a.kept + 1.0 / of_b.kept + untied);
  result.df = fit_.df;
  result.spike_chance = SpikeChance(a, of_b.mean);
  result.usable = true;
  return result;
}

}  // namespace xplane_time::decide
