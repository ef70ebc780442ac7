// The rounds and the tests of device_check.h.
//
// 1. Next plans rounds: kFirst on each device at first, then the missing ones, in seeded orders.
// 2. CentresOf reduces each device and variant to a mean without outliers, its variance and its
//    degrees of freedom. The value of a round is relative to the other variants of that round
//    (LogRatio), so the device's own speed cancels.
// 3. BestCut sorts the devices by mean and tests the D - 1 cuts of that order. CutTail is Scheffe's
//    test with a margin of delta.
// 4. Divide applies the strongest cut, if it is significant, and continues with both classes.
// 5. SpeedsOf compares the speeds of the devices themselves.
//
// O(variants x devices^2) for each class.
#include "tune/device_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "decide/race.h"
#include "stats/distributions.h"
#include "stats/order_statistics.h"

namespace xplane_time {
namespace {

constexpr double kPower = 1.645;  // 95 % quantile of a normal distribution
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double Median(std::vector<double> values) { return values.empty() ? kNan : stats::Median(values); }

// The mean without outliers. Its variance is suitable for Student's t, even with few rounds.
stats::Centre CentreOf(const std::vector<double>& values) {
  if (values.empty()) return {};
  const double middle = Median(values);
  const double reach =
      stats::OutlierReach(static_cast<double>(values.size())) * stats::RobustSd(values, middle);
  const stats::SkippedMean mean = stats::MeanWithin(values, middle, reach);
  const auto kept = static_cast<double>(mean.kept);
  if (mean.kept < 2) return {.value = middle, .variance = 0, .df = 0};
  return {.value = mean.mean, .variance = mean.squares / (kept - 1) / kept, .df = kept - 1};
}

// The mean of several centres, with Welch's degrees of freedom.
stats::Centre MeanOf(std::span<const stats::Centre> centres) {
  const auto count = static_cast<double>(centres.size());
  stats::Centre mean;
  double per_df = 0, all_df = 0;
  for (const stats::Centre& each : centres) {
    const double share = each.variance / (count * count);
    mean.value += each.value / count;
    mean.variance += share;
    all_df += each.df;
    per_df += each.df > 0 ? share * share / each.df : 0;
  }
  mean.df = per_df > 0 ? mean.variance * mean.variance / per_df : all_df;  // without noise: exact
  return mean;
}

stats::Centre DifferenceOf(const stats::Centre& a, const stats::Centre& b) {
  const stats::Centre both[] = {a, b};
  const stats::Centre mean = MeanOf(both);
  return {a.value - b.value, 4 * mean.variance, mean.df};
}

// Its variance is approximately that of the median of normal values.
stats::Centre MedianOf(std::span<const stats::Centre> centres) {
  stats::Centre median = MeanOf(centres);
  std::vector<double> values;
  for (const stats::Centre& each : centres) values.push_back(each.value);
  median.value = Median(std::move(values));
  median.variance *= std::numbers::pi / 2;
  return median;
}

// Scheffe's test: the p-value of a difference between the sides of a cut that was chosen among this
// many devices after seeing the data.
double CutTail(const stats::Centre& difference, double delta, size_t devices) {
  const double beyond = std::abs(difference.value) - delta;
  if (beyond <= 0 || difference.df <= 0) return 1;
  if (difference.variance <= 0) return 0;
  const auto df = static_cast<double>(devices - 1);
  return stats::FisherTail(beyond * beyond / (difference.variance * df), df, difference.df);
}

// The critical number of standard errors beyond delta.
double CutCritical(double alpha, size_t devices, double df) {
  const auto cuts = static_cast<double>(devices - 1);
  double low = 0, high = 1e6;
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    (stats::FisherTail(middle * middle / cuts, cuts, df) > alpha ? low : high) = middle;
  }
  return high;
}

}  // namespace

DevicePlan::DevicePlan(std::vector<std::string> devices, const DecideConfig& config, uint32_t pick,
                       std::span<const RaceRound> race)
    : devices_(std::move(devices)), alpha_(config.alpha), delta_(config.delta) {
  std::map<uint32_t, std::map<std::string, std::vector<double>>> ratios;
  for (const RaceRound& round : race) {
    const auto picks = round.log_times.find(pick);
    if (picks == round.log_times.end()) continue;
    for (const auto& [variant, log_time] : round.log_times) {
      if (variant != pick) ratios[variant][round.device].push_back(log_time - picks->second);
    }
  }
  std::vector<std::pair<double, uint32_t>> rivals;
  for (auto& [variant, by_device] : ratios) {
    double best = INFINITY;
    for (auto& [device, own] : by_device) best = std::min(best, stats::LowerMedian(std::move(own)));
    rivals.emplace_back(best, variant);
  }
  std::ranges::sort(rivals);
  rivals.resize(std::min(rivals.size(), kRivals));
  variants_ = {pick};
  for (const auto& [best, variant] : rivals) {
    if (variants_.size() == 1 || best <= kFar) variants_.push_back(variant);
  }
}

std::vector<DevicePlan::Round> DevicePlan::Next() {
  if (devices_.size() < 2 || variants_.size() < 2) return {};
  const size_t before = planned_;
  if (before == 0) {
    planned_ = kFirst;
  } else if (before == kFirst) {
    const auto shows = [&](size_t of_each) {
      const auto mde = MdeWith(static_cast<double>(of_each) / kFirst);
      return mde.has_value() && *mde <= kShown;
    };
    while (planned_ < kMost && !shows(planned_)) ++planned_;
  }
  std::vector<Round> rounds;
  for (size_t i = before; i < planned_; ++i) {
    for (size_t device = 0; device < devices_.size(); ++device) {
      Round& round = rounds.emplace_back();
      round.round = static_cast<int64_t>(i * devices_.size() + device);
      round.device = devices_[device];
      const auto row = decide::WilliamsRow(static_cast<uint32_t>(variants_.size()), i);
      for (const uint32_t place : row) round.order.push_back(variants_[place]);
    }
  }
  return rounds;
}

std::vector<double> DevicePlan::ValuesOf(size_t device,
                                         absl::FunctionRef<double(const LogTimes&)> of) const {
  std::vector<double> values;
  const auto rounds = rounds_.find(devices_[device]);
  if (rounds == rounds_.end()) return values;
  for (const LogTimes& each : rounds->second) {
    if (const double value = of(each); !std::isnan(value)) values.push_back(value);
  }
  return values;
}

// The log of a variant's time over the median of the others' times.
double DevicePlan::LogRatio(const LogTimes& round, size_t variant) const {
  std::vector<double> others;
  double own = kNan;
  for (size_t i = 0; i < variants_.size(); ++i) {
    const auto at = round.find(variants_[i]);
    if (at == round.end()) continue;
    if (i == variant) {
      own = at->second;
    } else {
      others.push_back(at->second);
    }
  }
  return own - Median(std::move(others));
}

// A device with fewer than two rounds has no degrees of freedom.
std::vector<stats::Centre> DevicePlan::CentresOf(const Places& devices, size_t variant) const {
  std::vector<stats::Centre> centres;
  for (const size_t device : devices) {
    centres.push_back(CentreOf(
        ValuesOf(device, [&](const LogTimes& round) { return LogRatio(round, variant); })));
  }
  return centres;
}

DevicePlan::Cut DevicePlan::BestCut(const Places& devices, size_t variant) const {
  const std::vector<stats::Centre> centres = CentresOf(devices, variant);
  std::vector<size_t> order;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (centres[i].df > 0) order.push_back(i);
  }
  std::ranges::sort(order, {}, [&](size_t i) { return centres[i].value; });
  Cut best;
  best.variant = variant;
  for (size_t low = 1; low < order.size(); ++low) {
    std::vector<stats::Centre> lows, highs;
    for (size_t i = 0; i < order.size(); ++i) {
      (i < low ? lows : highs).push_back(centres[order[i]]);
    }
    const double p = CutTail(DifferenceOf(MeanOf(highs), MeanOf(lows)), delta_, order.size());
    if (p >= best.p) continue;
    best = {.variant = variant, .low = {}, .high = {}, .p = p};
    for (size_t i = 0; i < order.size(); ++i) {
      (i < low ? best.low : best.high).push_back(devices[order[i]]);
    }
  }
  return best;
}

DevicePlan::Cut DevicePlan::StrongestCut(const Places& devices) const {
  std::vector<Cut> cuts;
  std::vector<double> p_values;
  for (size_t variant = first_tested(); variant < variants_.size(); ++variant) {
    p_values.push_back(cuts.emplace_back(BestCut(devices, variant)).p);
  }
  const std::vector<double> adjusted = stats::HolmAdjusted(p_values);
  for (size_t i = 0; i < cuts.size(); ++i) cuts[i].p = adjusted[i];
  return cuts.empty() ? Cut{} : *std::ranges::min_element(cuts, {}, &Cut::p);
}

void DevicePlan::Divide(const Places& devices, double alpha, std::vector<Places>* classes,
                        std::vector<Cut>* cuts) const {
  const Cut cut = StrongestCut(devices);
  if (cut.low.empty() || cut.p >= alpha) {
    classes->push_back(devices);
    return;
  }
  cuts->push_back(cut);
  for (const size_t device : devices) {  // devices on which the differing variant does not run
    const bool is_in = std::ranges::find(cut.low, device) != cut.low.end() ||
                       std::ranges::find(cut.high, device) != cut.high.end();
    if (!is_in) classes->push_back({device});
  }
  for (Places half : {cut.low, cut.high}) {
    std::ranges::sort(half);
    Divide(half, alpha / 2, classes, cuts);
  }
}

// The minimum detectable effect with `more` times the present rounds: for the noisiest variant,
// between two halves of the devices.
std::optional<double> DevicePlan::MdeWith(double more) const {
  const size_t tested = variants_.size() - first_tested();
  std::optional<double> mde;
  for (size_t variant = first_tested(); variant < variants_.size(); ++variant) {
    std::vector<stats::Centre> centres = CentresOf(Measured(), variant);
    if (centres.size() < 2) continue;
    const std::span<const stats::Centre> known = centres;
    const size_t half = known.size() / 2;
    const stats::Centre difference =
        DifferenceOf(MeanOf(known.first(half)), MeanOf(known.subspan(half)));
    const double critical = CutCritical(alpha_ / static_cast<double>(tested), known.size(),
                                        std::max(1.0, difference.df * more));
    const double own = delta_ + (critical + kPower) * std::sqrt(difference.variance / more);
    mde = std::max(mde.value_or(0), own);
  }
  return mde;
}

DeviceCheck::Split DevicePlan::SplitOf(const Cut& cut) const {
  const auto ratio = [&](const Places& devices) {
    const std::vector<stats::Centre> centres = CentresOf(devices, cut.variant);
    return std::exp(MeanOf(centres).value);
  };
  return {.variant = "",
          .devices = NamesOf(cut.high),
          .others = NamesOf(cut.low),
          .ratio = ratio(cut.high),
          .others_ratio = ratio(cut.low),
          .p = cut.p};
}

std::vector<std::string> DevicePlan::NamesOf(const Places& devices) const {
  std::vector<std::string> names;
  for (const size_t device : devices) names.push_back(devices_[device]);
  return names;
}

// Devices with enough rounds.
DevicePlan::Places DevicePlan::Measured() const {
  Places measured;
  for (size_t device = 0; device < devices_.size(); ++device) {
    const size_t rounds =
        ValuesOf(device, [&](const LogTimes& round) { return LogRatio(round, 0); }).size();
    if (rounds > 1) measured.push_back(device);
  }
  return measured;
}

DevicePlan::Places DevicePlan::WithoutPick() const {
  Places without;
  for (size_t device = 0; device < devices_.size(); ++device) {
    const auto rounds = rounds_.find(devices_[device]);
    if (rounds == rounds_.end() || rounds->second.size() < 2) continue;
    const bool has_pick = std::ranges::any_of(
        rounds->second, [&](const LogTimes& round) { return round.contains(variants_[0]); });
    if (!has_pick) without.push_back(device);
  }
  return without;
}

// The log times of each device relative to each variant's time on a typical device.
std::vector<stats::Centre> DevicePlan::SpeedsOf(const Places& devices) const {
  LogTimes typical;
  for (const uint32_t variant : variants_) {
    std::vector<double> centres;
    for (const size_t device : devices) {
      const stats::Centre centre = CentreOf(ValuesOf(device, [&](const LogTimes& round) {
        const auto own = round.find(variant);
        return own == round.end() ? kNan : own->second;
      }));
      if (centre.df > 0) centres.push_back(centre.value);
    }
    typical[variant] = Median(std::move(centres));
  }
  std::vector<stats::Centre> speeds;
  for (const size_t device : devices) {
    speeds.push_back(CentreOf(ValuesOf(device, [&](const LogTimes& round) {
      std::vector<double> beyond;
      for (const auto& [variant, log_time] : round) {
        const double own = log_time - typical[variant];
        if (!std::isnan(own)) beyond.push_back(own);
      }
      return Median(std::move(beyond));
    })));
  }
  return speeds;
}

void DevicePlan::JudgeSpeeds(const Places& devices, DeviceCheck* check) const {
  const bool is_pair = devices.size() == 2;
  const std::vector<stats::Centre> speeds = SpeedsOf(devices);
  for (size_t i = 0; i < devices.size(); ++i) {
    DeviceCheck::Device& row = check->devices[devices[i]];
    if (devices.size() < 2 || speeds[i].df <= 0) continue;
    const stats::Centre difference =
        DifferenceOf(speeds[i], is_pair ? speeds[1 - i] : MedianOf(speeds));
    const double tail = alpha_ / (2 * static_cast<double>(devices.size()));
    const double half_width =
        stats::StudentQuantile(tail, difference.df) * std::sqrt(difference.variance);
    const double lo = difference.value - half_width, hi = difference.value + half_width;
    row.ratio = std::exp(difference.value);
    row.lo = std::exp(lo);
    row.hi = std::exp(hi);
    // With two variants, it is undetermined which one is slow, and whether the device is slow.
    if (check->classes.size() > 1 && variants_.size() == 2) continue;
    row.verdict = lo > delta_                   ? "slow"
                  : hi < -delta_                ? "fast"
                  : lo > -delta_ && hi < delta_ ? "typical"
                                                : "cannot_tell";
  }
}

DeviceCheck DevicePlan::Found(absl::FunctionRef<std::string(uint32_t place)> id_of) const {
  DeviceCheck check;
  for (const uint32_t variant : variants_) check.variants.push_back(id_of(variant));
  for (const std::string& name : devices_) {
    const auto rounds = rounds_.find(name);
    check.devices.push_back(
        {.name = name, .rounds = rounds == rounds_.end() ? 0 : rounds->second.size()});
  }
  std::vector<Places> classes;
  std::vector<Cut> cuts;
  if (planned_ == 0) {
    check.classes.push_back(devices_);
    return check;
  }
  const Places measured = Measured();
  if (!measured.empty()) Divide(measured, alpha_, &classes, &cuts);
  for (const size_t device : WithoutPick()) classes.push_back({device});
  std::ranges::sort(classes);
  for (const Places& each : classes) check.classes.push_back(NamesOf(each));
  for (const Cut& each : cuts) {
    check.splits.push_back(SplitOf(each));
    check.splits.back().variant = id_of(variants_[each.variant]);
  }
  JudgeSpeeds(measured, &check);
  check.mde = MdeWith(1);
  return check;
}

}  // namespace xplane_time
