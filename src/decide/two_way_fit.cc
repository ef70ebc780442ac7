#include "decide/two_way_fit.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "decide/boundary.h"
#include "stats/location.h"
#include "stats/order_statistics.h"

namespace xplane_time::decide {
namespace {

using stats::MeanWithin, stats::OutlierReach, stats::RobustSd, stats::SkippedMean;

class Fitter {
 public:
  Fitter(const Observations& observations, Metric metric)
      : observations_(observations), metric_(metric) {
    centre_.assign(observations.variants(), 0);
    fit_.round_effect.assign(observations.rounds().size(), 0);
    fit_.is_tied.assign(observations.rounds().size(), false);
    CountFreedom();
  }

  TwoWayFit Fit() {
    if (samples_ == 0 || df_ < 1) return fit_;
    Polish();
    fit_.first_slot = FirstSlotEffect();
    if (fit_.first_slot != 0) Polish();
    MeasureNoise();
    return fit_;
  }

 private:
  bool Informs(uint32_t variant) const { return observations_.cells(variant).size() >= 2; }

  template <typename AnyCell>
  double Value(const AnyCell& cell) const {
    return cell.log_value[metric_] - (cell.slot == 0 ? fit_.first_slot : 0);
  }

  void CountFreedom() {
    constexpr std::ptrdiff_t kTie = 3;
    double variants = 0, rounds = 0;
    for (uint32_t v = 0; v < centre_.size(); ++v) variants += Informs(v);
    for (size_t r = 0; r < fit_.is_tied.size(); ++r) {
      const auto& round = observations_.rounds()[r];
      const auto informing =
          std::count_if(round.begin(), round.end(),
                        [this](const RoundCell& cell) { return Informs(cell.variant); });
      samples_ += static_cast<double>(informing);
      rounds += informing > 0;
      fit_.is_tied[r] = informing >= std::min<std::ptrdiff_t>(std::ssize(round), kTie);
    }
    df_ = samples_ - variants - rounds + 1;
  }

  double Reach(double sd) const { return OutlierReach(df_) * sd; }

  void Polish() {
    constexpr int kMedianSweeps = 6, kMeanSweeps = 2;
    constexpr double kSettled = 1e-5;
    for (int sweep = 0; sweep < kMedianSweeps; ++sweep) {
      Sweep(/*reach=*/0);
      if (moved_ < kSettled) break;
    }
    const double sd = RoughNoise();
    for (int sweep = 0; sweep < kMeanSweeps; ++sweep) Sweep(Reach(sd));
  }

  // With a reach: the mean of what is within it of the centre so far.
  std::optional<double> MeanNear(double so_far, double reach) const {
    if (reach == 0) return std::nullopt;
    const SkippedMean mean = MeanWithin(values_, so_far, reach);
    if (mean.kept == 0) return std::nullopt;
    return mean.mean;
  }

  // Of two values one may be a spike, and spikes slow down: the low median.
  void Sweep(double reach) {
    moved_ = 0;
    for (uint32_t v = 0; v < centre_.size(); ++v) {
      if (!Informs(v)) continue;
      values_.clear();
      for (const Cell& cell : observations_.cells(v)) {
        values_.push_back(Value(cell) - fit_.round_effect[cell.round]);
      }
      const auto near = MeanNear(centre_[v], reach);
      centre_[v] = near ? *near : stats::LowerMedian(values_);
    }
    for (size_t r = 0; r < fit_.round_effect.size(); ++r) {
      values_.clear();
      for (const RoundCell& cell : observations_.rounds()[r]) {
        if (Informs(cell.variant)) values_.push_back(Value(cell) - centre_[cell.variant]);
      }
      if (values_.empty()) continue;
      const auto near = MeanNear(fit_.round_effect[r], reach);
      const double effect = near ? *near : stats::LowerMedian(values_);
      moved_ = std::max(moved_, std::abs(effect - fit_.round_effect[r]));
      fit_.round_effect[r] = effect;
    }
  }

  template <typename Visit>
  void VisitResiduals(Visit visit) const {
    for (uint32_t v = 0; v < centre_.size(); ++v) {
      if (!Informs(v)) continue;
      for (const Cell& cell : observations_.cells(v)) {
        visit(v, Value(cell) - fit_.round_effect[cell.round] - centre_[v]);
      }
    }
  }

  // By the median of the largest residuals, as many as there are degrees of freedom: medians of
  // two and three make others 0. Rather too large where samples are few.
  double RoughNoise() {
    values_.clear();
    VisitResiduals([this](uint32_t, double residual) { values_.push_back(std::abs(residual)); });
    const auto largest = values_.end() - static_cast<std::ptrdiff_t>(df_);
    std::nth_element(values_.begin(), largest, values_.end());
    const double sd = stats::kMadToSd * stats::Median({largest, values_.end()});
    if (sd > 0) return sd;
    // Most are equal: a coarse clock.
    double squares = 0;
    for (const double residual : values_) squares += residual * residual;
    return std::max(std::sqrt(squares / df_), kLeastSd);
  }

  // First slot against the others of its round. Counted only where it is beyond doubt: the
  // orders are balanced, so an effect that is overlooked costs runs, not correctness.
  double FirstSlotEffect() {
    constexpr size_t kEnoughRounds = 8;
    constexpr double kProved = 3.3;
    values_.clear();
    for (size_t r = 0; r < fit_.round_effect.size(); ++r) AppendFirstAgainstRest(r);
    if (values_.size() < kEnoughRounds) return 0;
    const double median = stats::Median(values_);
    const double sd = RobustSd(values_, median);
    const SkippedMean mean =
        MeanWithin(values_, median, OutlierReach(static_cast<double>(values_.size())) * sd);
    if (mean.kept < kEnoughRounds || mean.squares == 0) return 0;
    const double n = static_cast<double>(mean.kept);
    const double se = std::sqrt(mean.squares / (n - 1) / n);
    return std::abs(NormalScore(mean.mean / se, n - 1)) > kProved ? mean.mean : 0;
  }

  void AppendFirstAgainstRest(size_t round) {
    constexpr size_t kKnown = 3;
    double rest = 0, others = 0, first = 0;
    bool has_first = false;
    for (const RoundCell& cell : observations_.rounds()[round]) {
      if (observations_.cells(cell.variant).size() < kKnown) continue;
      const double value = cell.log_value[metric_] - centre_[cell.variant];
      if (cell.slot == 0) {
        first = value;
        has_first = true;
      } else {
        rest += value;
        ++others;
      }
    }
    if (has_first && others > 0) values_.push_back(first - rest / others);
  }

  void MeasureNoise() {
    const double rough = RoughNoise();
    const double reach = Reach(rough);
    double squares = 0, skipped = 0;
    fit_.spikes.Count(samples_);
    uint32_t pair_counted = static_cast<uint32_t>(centre_.size());
    VisitResiduals([&](uint32_t v, double residual) {
      if (std::abs(residual) <= reach) {
        squares += residual * residual;
        return;
      }
      ++skipped;
      // Of two samples each is as far from their mean: one spike of twice the size.
      const bool is_pair = observations_.cells(v).size() == 2;
      if (is_pair && pair_counted == v) return;
      pair_counted = v;
      fit_.spikes.Add(is_pair ? 2 * std::abs(residual) : std::abs(residual));
    });
    fit_.df = df_ - skipped;
    if (fit_.df >= 1) fit_.sd = std::max(std::sqrt(squares / fit_.df), kLeastSd);
  }

  const Observations& observations_;
  Metric metric_;
  TwoWayFit fit_;
  std::vector<double> centre_;  // by variant
  std::vector<double> values_;
  double samples_ = 0, df_ = 0, moved_ = 0;
};

}  // namespace

double SpikeModel::Chance(double log_size) const {
  constexpr double kPriorSpikes = 0.6, kPriorSamples = 30, kPriorLogSize = 0.5;
  // One standard error above what was seen.
  const double rate = (spikes_ + std::sqrt(spikes_) + kPriorSpikes) / (samples_ + kPriorSamples);
  const double mean = (log_sizes_ + kPriorLogSize) / (spikes_ + 1);
  return rate * std::exp(-std::max(log_size, 0.0) / mean);
}

TwoWayFit FitTwoWay(const Observations& observations, Metric metric) {
  return Fitter(observations, metric).Fit();
}

}  // namespace xplane_time::decide
