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

constexpr double kPower = 1.645;  // of a normal: 95 %
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double LogRatio(const DevicePlan::LogTimes& round, uint32_t variant, uint32_t pick) {
  const auto own = round.find(variant), picks = round.find(pick);
  return own == round.end() || picks == round.end() ? kUnknown : own->second - picks->second;
}

// A mean of centres, with Welch's degrees of freedom.
stats::Centre MeanOf(std::span<const stats::Centre> centres) {
  const auto count = static_cast<double>(centres.size());
  stats::Centre mean;
  double per_df = 0;
  for (const stats::Centre& each : centres) {
    const double share = each.variance / (count * count);
    mean.value += each.value / count;
    mean.variance += share;
    per_df += each.df > 0 ? share * share / each.df : 0;
  }
  mean.df = per_df > 0 ? mean.variance * mean.variance / per_df : 0;
  return mean;
}

stats::Centre DifferenceOf(const stats::Centre& a, const stats::Centre& b) {
  const stats::Centre both[] = {a, b};
  const stats::Centre mean = MeanOf(both);
  return {a.value - b.value, 4 * mean.variance, mean.df};
}

// Its variance is that of a median of normals, or nearly.
stats::Centre MedianOf(std::vector<stats::Centre> centres) {
  stats::Centre median = MeanOf(centres);
  std::ranges::sort(centres, {}, &stats::Centre::value);
  const size_t half = centres.size() / 2;
  median.value = centres.size() % 2 == 1 ? centres[half].value
                                         : (centres[half - 1].value + centres[half].value) / 2;
  median.variance *= std::numbers::pi / 2;
  return median;
}

// Scheffe's: of a difference, of a cut among so many devices that was chosen after looking.
double CutTail(const stats::Centre& difference, double delta, size_t devices) {
  const double beyond = std::abs(difference.value) - delta;
  if (beyond <= 0 || difference.df <= 0) return 1;
  const auto df = static_cast<double>(devices - 1);
  if (difference.variance <= 0) return 0;
  return stats::FisherTail(beyond * beyond / (difference.variance * df), df, difference.df);
}

// How many standard errors beyond delta it takes.
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
    for (const auto& [variant, unused] : round.log_times) {
      const double ratio = LogRatio(round.log_times, variant, pick);
      if (variant != pick && !std::isnan(ratio)) ratios[variant][round.device].push_back(ratio);
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
  for (const auto& [best, variant] : rivals) variants_.push_back(variant);
}

std::vector<DevicePlan::Round> DevicePlan::Next() {
  if (devices_.size() < 2 || variants_.size() < 2) return {};
  const size_t before = planned_;
  if (before == 0) {
    planned_ = kFirst;
  } else if (before == kFirst) {
    const auto shows = [&](size_t of_each) {
      const auto mde = MdeWith(static_cast<double>(of_each));
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
  for (const auto& [round, log_times] : rounds_) {
    if (static_cast<size_t>(round) % devices_.size() != device) continue;
    if (const double value = of(log_times); !std::isnan(value)) values.push_back(value);
  }
  return values;
}

// Of those with two rounds and more; the others have no degrees of freedom.
std::vector<stats::Centre> DevicePlan::CentresOf(const Places& devices, size_t rival) const {
  std::vector<stats::Centre> centres;
  for (const size_t device : devices) {
    auto ratios = ValuesOf(device, [&](const LogTimes& round) {
      return LogRatio(round, variants_[rival], variants_[0]);
    });
    centres.push_back(ratios.empty() ? stats::Centre{} : stats::HuberCentre(std::move(ratios)));
  }
  return centres;
}

DevicePlan::Cut DevicePlan::BestCut(const Places& devices, size_t rival) const {
  const std::vector<stats::Centre> centres = CentresOf(devices, rival);
  std::vector<size_t> order;
  for (size_t i = 0; i < devices.size(); ++i) {
    if (centres[i].df > 0) order.push_back(i);
  }
  std::ranges::sort(order, {}, [&](size_t i) { return centres[i].value; });
  Cut best;
  best.rival = rival;
  for (size_t low = 1; low < order.size(); ++low) {
    std::vector<stats::Centre> lows, highs;
    for (size_t i = 0; i < order.size(); ++i) {
      (i < low ? lows : highs).push_back(centres[order[i]]);
    }
    const double p = CutTail(DifferenceOf(MeanOf(highs), MeanOf(lows)), delta_, order.size());
    if (p >= best.p) continue;
    best = {.rival = rival, .low = {}, .high = {}, .p = p};
    for (size_t i = 0; i < order.size(); ++i) {
      (i < low ? best.low : best.high).push_back(devices[order[i]]);
    }
  }
  return best;
}

DevicePlan::Cut DevicePlan::StrongestCut(const Places& devices) const {
  std::vector<Cut> cuts;
  std::vector<double> p_values;
  for (size_t rival = 1; rival < variants_.size(); ++rival) {
    p_values.push_back(cuts.emplace_back(BestCut(devices, rival)).p);
  }
  const std::vector<double> adjusted = stats::HolmAdjusted(p_values);
  for (size_t i = 0; i < cuts.size(); ++i) cuts[i].p = adjusted[i];
  return cuts.empty() ? Cut{} : *std::ranges::min_element(cuts, {}, &Cut::p);
}

// Devices of which there are no rounds stay with those that are not set apart.
void DevicePlan::Divide(const Places& devices, double alpha, std::vector<Places>* classes,
                        std::vector<Cut>* cuts) const {
  const Cut cut = StrongestCut(devices);
  if (devices.size() < 2 || cut.low.empty() || cut.p >= alpha) {
    classes->push_back(devices);
    return;
  }
  cuts->push_back(cut);
  Places larger = cut.low, smaller = cut.high;
  if (larger.size() < smaller.size()) std::swap(larger, smaller);
  for (const size_t device : devices) {
    const bool is_placed = std::ranges::find(larger, device) != larger.end() ||
                           std::ranges::find(smaller, device) != smaller.end();
    if (!is_placed) larger.push_back(device);
  }
  for (Places* half : {&larger, &smaller}) {
    std::ranges::sort(*half);
    Divide(*half, alpha / 2, classes, cuts);
  }
}

// Of the noisiest rival, between two halves of the devices.
std::optional<double> DevicePlan::MdeWith(double of_each) const {
  Places all(devices_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  std::optional<double> mde;
  for (size_t rival = 1; rival < variants_.size(); ++rival) {
    std::vector<stats::Centre> centres = CentresOf(all, rival);
    std::erase_if(centres, [](const stats::Centre& each) { return each.df <= 0; });
    if (centres.size() < 2) continue;
    const std::span<const stats::Centre> known = centres;
    const size_t half = known.size() / 2;
    const stats::Centre difference =
        DifferenceOf(MeanOf(known.first(half)), MeanOf(known.subspan(half)));
    const double more = of_each / static_cast<double>(planned_);
    const double critical = CutCritical(alpha_ / static_cast<double>(variants_.size() - 1),
                                        known.size(), std::max(1.0, difference.df * more));
    const double own = delta_ + (critical + kPower) * std::sqrt(difference.variance / more);
    mde = std::max(mde.value_or(0), own);
  }
  return mde;
}

DeviceCheck::Split DevicePlan::SplitOf(const Cut& cut) const {
  const auto ratio = [&](const Places& devices) {
    const std::vector<stats::Centre> centres = CentresOf(devices, cut.rival);
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

// Of complete rounds only: means of the same variants.
void DevicePlan::JudgeSpeeds(DeviceCheck* check) const {
  std::vector<stats::Centre> centres;
  for (size_t device = 0; device < devices_.size(); ++device) {
    auto means = ValuesOf(device, [&](const LogTimes& round) {
      double sum = 0;
      for (const uint32_t variant : variants_) {
        const auto own = round.find(variant);
        sum += own == round.end() ? kUnknown : own->second;
      }
      return sum / static_cast<double>(variants_.size());
    });
    check->devices[device].rounds = means.size();
    centres.push_back(means.empty() ? stats::Centre{} : stats::HuberCentre(std::move(means)));
  }
  for (size_t device = 0; device < devices_.size(); ++device) {
    const bool is_pair = devices_.size() == 2;
    std::vector<stats::Centre> typical_of;
    for (size_t i = 0; i < devices_.size(); ++i) {
      if (centres[i].df > 0 && !(is_pair && i == device)) typical_of.push_back(centres[i]);
    }
    if (typical_of.size() < (is_pair ? 1 : 3) || centres[device].df <= 0) continue;
    const stats::Centre difference =
        DifferenceOf(centres[device], is_pair ? typical_of[0] : MedianOf(typical_of));
    const double tail = alpha_ / (2 * static_cast<double>(devices_.size()));
    const double half_width =
        stats::StudentQuantile(tail, difference.df) * std::sqrt(difference.variance);
    const double lo = difference.value - half_width, hi = difference.value + half_width;
    DeviceCheck::Device& row = check->devices[device];
    row.ratio = std::exp(difference.value);
    row.lo = std::exp(lo);
    row.hi = std::exp(hi);
    row.verdict = lo > delta_                   ? "slow"
                  : hi < -delta_                ? "fast"
                  : lo > -delta_ && hi < delta_ ? "typical"
                                                : "cannot_tell";
  }
}

DeviceCheck DevicePlan::Found(absl::FunctionRef<std::string(uint32_t place)> id_of) const {
  DeviceCheck check;
  for (const uint32_t variant : variants_) check.variants.push_back(id_of(variant));
  for (const std::string& name : devices_) check.devices.push_back({.name = name});
  JudgeSpeeds(&check);
  Places all(devices_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  std::vector<Places> classes;
  std::vector<Cut> cuts;
  Divide(all, alpha_, &classes, &cuts);
  std::ranges::sort(classes);
  for (const Places& each : classes) check.classes.push_back(NamesOf(each));
  for (const Cut& each : cuts) {
    check.splits.push_back(SplitOf(each));
    check.splits.back().variant = id_of(variants_[each.rival]);
  }
  if (planned_ > 0) check.mde = MdeWith(static_cast<double>(planned_));
  return check;
}

}  // namespace xplane_time
