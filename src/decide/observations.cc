// Folds rounds into Observations, and fits the two-way model (comparer.h):
//
//   log sample = centre of the variant + effect of the round (+ effect of the first slot) + noise
//
// 1. CountFreedom: variants with at least two samples inform the fit. A round is tied if at least
//    three of them (or all of its variants) inform it. df = samples - variants - rounds + 1.
// 2. Polish: up to six sweeps with low medians, alternating over variants and rounds, then two
//    sweeps with means of the values within an outlier bound.
// 3. FirstSlotEffect: the mean of (first slot - rest of its round), kept only at 3.3 standard
//    errors in at least eight rounds. If it is kept, Polish runs again.
// 4. MeasureNoise: the pooled standard deviation of residuals within the bound; residuals beyond it
//    are counted as spikes.
#include "decide/comparer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "stats/distributions.h"
#include "stats/location.h"
#include "stats/order_statistics.h"

namespace xplane_time::decide {
namespace {

using stats::MeanWithin, stats::OutlierReach, stats::RobustSd, stats::SkippedMean;

constexpr uint32_t kCrashes = 2;
constexpr uint32_t kTransients = 5;

// The logarithm of the objective: time, energy, or energy times a power of time.
double LogValue(Objective objective, double log_time, double log_energy) {
  if (objective == Objective::kTime || objective == Objective::kPareto) return log_time;
  const double power = objective == Objective::kEdp ? 1 : objective == Objective::kEd2p ? 2 : 0;
  return log_energy + power * log_time;
}

void Add(const Sample& sample, uint32_t slot, Observations* into) {
  const double log_time = std::log(static_cast<double>(sample.t_ps));
  const double log_energy = std::log(sample.energy_uj.value_or(NAN));
  const Cell cell = {sample.variant,
                     static_cast<uint32_t>(into->rounds.size() - 1),
                     slot,
                     {LogValue(into->objective, log_time, log_energy), log_energy}};
  std::vector<Cell>& of_round = into->rounds.back();
  VariantRecord& record = into->records[sample.variant];
  if (record.cells.empty() || record.cells.back().round != cell.round) {
    record.log_time_sum += log_time;
    record.cells.push_back(cell);
    of_round.push_back(cell);
    return;
  }
  // The second sample of a variant in a round is a canary. Which of the two represents the variant
  // alternates, so that neither position in the round is favoured.
  Cell& first = record.cells.back();
  const bool swap = into->canaries.size() % 2 == 1;
  const double later_over_earlier = cell.log_value[kObjective] - first.log_value[kObjective];
  into->canaries.push_back(swap ? -later_over_earlier : later_over_earlier);
  if (!swap) return;
  first = cell;
  *std::ranges::find(of_round, cell.variant, &Cell::variant) = cell;
}

class Fitter {
 public:
  Fitter(const Observations& observations, Metric metric)
      : observations_(observations),
        fit_{.metric = metric,
             .round_effect = std::vector<double>(observations.rounds.size(), 0),
             .is_tied = std::vector<bool>(observations.rounds.size(), false)},
        centre_(observations.records.size(), 0) {
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

  void CountFreedom() {
    constexpr std::ptrdiff_t kTie = 3;
    double variants = 0, rounds = 0;
    for (uint32_t v = 0; v < centre_.size(); ++v) variants += Informs(v);
    for (size_t r = 0; r < fit_.is_tied.size(); ++r) {
      const auto& round = observations_.rounds[r];
      const auto informing = std::count_if(
          round.begin(), round.end(), [this](const Cell& cell) { return Informs(cell.variant); });
      samples_ += static_cast<double>(informing);
      rounds += informing > 0;
      fit_.is_tied[r] = informing >= std::min<std::ptrdiff_t>(std::ssize(round), kTie);
    }
    df_ = samples_ - variants - rounds + 1;
  }

  void Polish() {
    constexpr int kMedianSweeps = 6, kMeanSweeps = 2;
    constexpr double kSettled = 1e-5;
    for (int sweep = 0; sweep < kMedianSweeps; ++sweep) {
      Sweep(/*reach=*/0);
      if (moved_ < kSettled) break;
    }
    const double reach = OutlierReach(df_) * RoughNoise();
    for (int sweep = 0; sweep < kMeanSweeps; ++sweep) Sweep(reach);
  }

  // With a reach: the mean of the values within it from the current centre. Otherwise the lower
  // median: of two values one may be a spike, and spikes slow down.
  double CentreOfValues(double so_far, double reach) {
    const SkippedMean near = reach > 0 ? MeanWithin(values_, so_far, reach) : SkippedMean();
    return near.kept > 0 ? near.mean : stats::LowerMedian(values_);
  }

  void Sweep(double reach) {
    moved_ = 0;
    for (uint32_t v = 0; v < centre_.size(); ++v) {
      if (!Informs(v)) continue;
      values_.clear();
      for (const Cell& cell : observations_.cells(v)) values_.push_back(fit_.WithoutRound(cell));
      centre_[v] = CentreOfValues(centre_[v], reach);
    }
    for (size_t r = 0; r < fit_.round_effect.size(); ++r) {
      values_.clear();
      for (const Cell& cell : observations_.rounds[r]) {
        if (Informs(cell.variant)) values_.push_back(fit_.Value(cell) - centre_[cell.variant]);
      }
      if (values_.empty()) continue;
      const double effect = CentreOfValues(fit_.round_effect[r], reach);
      moved_ = std::max(moved_, std::abs(effect - fit_.round_effect[r]));
      fit_.round_effect[r] = effect;
    }
  }

  template <typename Visit>
  void VisitResiduals(Visit visit) const {
    for (uint32_t v = 0; v < centre_.size(); ++v) {
      if (!Informs(v)) continue;
      for (const Cell& cell : observations_.cells(v)) {
        visit(v, fit_.WithoutRound(cell) - centre_[v]);
      }
    }
  }

  // The standard deviation from the median of the largest residuals, as many as there are degrees
  // of freedom, because medians of two and three values make the other residuals 0. It is rather
  // too large for few samples.
  double RoughNoise() {
    values_.clear();
    VisitResiduals([this](uint32_t, double residual) { values_.push_back(std::abs(residual)); });
    const auto largest = values_.end() - static_cast<std::ptrdiff_t>(df_);
    std::nth_element(values_.begin(), largest, values_.end());
    const double sd = stats::kMadToSd * stats::Median({largest, values_.end()});
    if (sd > 0) return sd;
    // Most residuals are equal: a coarse clock.
    double squares = 0;
    for (const double residual : values_) squares += residual * residual;
    return std::max(std::sqrt(squares / df_), kLeastSd);
  }

  // The difference between the first slot and the rest of its round. It is used only if it is
  // beyond doubt. The orders are balanced, so a missed effect costs runs but not correctness.
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
    return std::abs(stats::NormalScore(mean.mean / se, n - 1)) > kProved ? mean.mean : 0;
  }

  void AppendFirstAgainstRest(size_t round) {
    constexpr size_t kKnown = 3;
    double rest = 0, others = 0, first = 0;
    bool has_first = false;
    for (const Cell& cell : observations_.rounds[round]) {
      if (observations_.cells(cell.variant).size() < kKnown) continue;
      const double value = fit_.Value(cell) - centre_[cell.variant];
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
    const double reach = OutlierReach(df_) * RoughNoise();
    double squares = 0, skipped = 0;
    fit_.spikes.samples = samples_;
    uint32_t pair_counted = static_cast<uint32_t>(centre_.size());
    VisitResiduals([&](uint32_t v, double residual) {
      if (std::abs(residual) <= reach) {
        squares += residual * residual;
        return;
      }
      ++skipped;
      // Two samples have the same distance from their mean, so both residuals are one spike of
      // twice the size.
      const bool is_pair = observations_.cells(v).size() == 2;
      if (is_pair && pair_counted == v) return;
      pair_counted = v;
      ++fit_.spikes.spikes;
      fit_.spikes.log_sizes += is_pair ? 2 * std::abs(residual) : std::abs(residual);
    });
    fit_.df = df_ - skipped;
    if (fit_.df >= 1) fit_.sd = std::max(std::sqrt(squares / fit_.df), kLeastSd);
  }

  const Observations& observations_;
  TwoWayFit fit_;
  std::vector<double> centre_;  // by variant
  std::vector<double> values_;
  double samples_ = 0, df_ = 0, moved_ = 0;
};

}  // namespace

void Observations::Fold(const RoundResult& result) {
  rounds.emplace_back();
  std::vector<const Sample*> by_slot;  // the order of samples in a result has no meaning
  for (const Sample& sample : result.samples) {
    ++runs;
    time_ps += static_cast<double>(std::max<int64_t>(sample.t_ps, 0));
    by_slot.push_back(&sample);
  }
  if (result.discarded) {
    ++discarded;
    return;
  }
  std::ranges::stable_sort(by_slot, {}, &Sample::slot);
  for (uint32_t slot = 0; slot < by_slot.size(); ++slot) {
    const Sample& sample = *by_slot[slot];
    if (sample.status != SampleStatus::kOk) {
      Fail(sample.variant, sample.status);
      continue;
    }
    ++records[sample.variant].attempts;
    Add(sample, slot, this);
  }
}

void Observations::Fail(uint32_t variant, SampleStatus status) {
  VariantRecord& record = records[variant];
  ++record.attempts;
  using enum SampleStatus;
  const bool is_final = status == kCompileError || status == kWrongResult;
  const bool is_crash =
      status == kRuntimeError || status == kCrash || status == kTimeout || status == kOom;
  ++(is_final || is_crash ? record.failures : record.transient);
  if (record.quarantine) return;
  const bool is_out = is_final || (is_crash && record.failures >= kCrashes) ||
                      (record.transient >= kTransients && 2 * record.transient >= record.attempts);
  if (is_out) record.quarantine = SampleStatusName(status);
}

double SpikeModel::Chance(double log_size) const {
  constexpr double kPriorSpikes = 0.6, kPriorSamples = 30, kPriorLogSize = 0.5;
  // One standard error above the observed rate.
  const double rate = (spikes + std::sqrt(spikes) + kPriorSpikes) / (samples + kPriorSamples);
  const double mean = (log_sizes + kPriorLogSize) / (spikes + 1);
  return rate * std::exp(-std::max(log_size, 0.0) / mean);
}

TwoWayFit FitTwoWay(const Observations& observations, Metric metric) {
  return Fitter(observations, metric).Fit();
}

}  // namespace xplane_time::decide
