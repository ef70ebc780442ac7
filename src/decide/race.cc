#include "decide/race.h"

#include <algorithm>
#include <cmath>

namespace xplane_time::decide {

std::optional<CanaryReport> ReportCanary(const std::vector<double>& log_ratios, double distance) {
  constexpr double kAlpha = 0.001;  // each side, at any time
  if (log_ratios.size() < kScreeningRounds) return std::nullopt;
  const Comparison itself = FromRatios(log_ratios);
  if (!itself.usable) return std::nullopt;
  const auto lo = LowerBound(itself, distance, kAlpha);
  const auto minus_hi = LowerBound(Mirrored(itself), distance, kAlpha);
  if (!lo || !minus_hi) return std::nullopt;
  return CanaryReport{.rounds = log_ratios.size(),
                      .ratio = std::exp(itself.log_ratio),
                      .lo = std::exp(*lo),
                      .hi = std::exp(-*minus_hi),
                      .biased = *lo > 0 || *minus_hi > 0};
}

Race::Race(const Observations& observations, const DecideConfig& config)
    : observations_(&observations),
      config_(&config),
      delta_(std::log1p(config.delta)),
      objective_(observations, kObjective),
      energy_(observations, kEnergyUsed),
      standings_(observations.variants()) {}

Race::Race(const Race& other, const Observations& observations) : Race(other) {
  observations_ = &observations;
  objective_.Rebind(observations);
  energy_.Rebind(observations);
}

Outcome Race::Look() {
  Quarantine();
  objective_.Update();
  if (config_->objective == Objective::kPareto) energy_.Update();
  const double delta = std::log1p(config_->delta);
  if (const auto canary = ReportCanary(observations_->canaries(), 2 * delta)) {
    delta_ = delta + std::max({0.0, std::log(canary->lo), -std::log(canary->hi)});
  }
  if (alive().empty()) return Outcome::kAllFailed;
  FindLeader();
  if (!leader_) return Outcome::kRunning;
  if (config_->objective == Objective::kPareto) {
    DropDominated();
    return ParetoOutcome();
  }
  DropSlower();
  if (DefendsIncumbent()) KeepIncumbent();
  if (IsClaim()) FindTies();
  return Finish();
}

std::vector<uint32_t> Race::alive() const {
  std::vector<uint32_t> result;
  for (uint32_t v = 0; v < standings_.size(); ++v) {
    if (!standings_[v].out) result.push_back(v);
  }
  return result;
}

void Race::Quarantine() {
  for (uint32_t v = 0; v < standings_.size(); ++v) {
    Standing& standing = standings_[v];
    if (!observations_->record(v).quarantine || (standing.out && !standing.by)) continue;
    standing.out = true;
    standing.by.reset();
    standing.round = observations_->rounds().size();
    if (leader_ == v) leader_.reset();
    RecallDroppedBy(v);
  }
}

// What failed in the end is no reason to do without the others.
void Race::RecallDroppedBy(uint32_t failed) {
  for (Standing& standing : standings_) {
    if (standing.out && standing.by == failed) standing.Recall();
  }
}

// Sum of the two logarithms for the front: its middle, the least energy-delay product.
void Race::FindLeader() {
  constexpr int kSteps = 4;
  const bool is_front = config_->objective == Objective::kPareto;
  if (!leader_) {
    double least = 0;
    for (const uint32_t v : alive()) {
      if (observations_->cells(v).empty()) continue;
      const double level = objective_.Level(v) + (is_front ? energy_.Level(v) : 0);
      if (leader_ && level >= least) continue;
      leader_ = v;
      least = level;
    }
  }
  for (int step = 0; leader_ && step < kSteps; ++step) {
    const uint32_t from = *leader_;
    double least = 0;
    for (const uint32_t v : alive()) {
      if (v == from || observations_->cells(v).empty()) continue;
      const double centre =
          objective_.Compare(v, from).centre + (is_front ? energy_.Compare(v, from).centre : 0);
      if (centre >= least) continue;
      leader_ = v;
      least = centre;
    }
    if (leader_ == from) break;
  }
}

bool Race::DefendsIncumbent() const {
  return !IsClaim() && config_->incumbent && !standings_[*config_->incumbent].out;
}

double Race::NullFor(uint32_t variant) const {
  const bool strictly = IsClaim() || config_->incumbent == variant || standings_[variant].strictly;
  return strictly ? 0 : -delta_;
}

void Race::Drop(uint32_t variant, uint32_t by, const Comparison& comparison) {
  Standing& standing = standings_[variant];
  standing.out = true;
  standing.by = by;
  standing.round = observations_->rounds().size();
  standing.comparison = comparison;
}

void Race::DropSlower() {
  std::vector<uint32_t> rivals = alive();
  std::erase(rivals, *leader_);
  std::vector<Comparison> comparisons;
  std::vector<double> evidence;
  for (const uint32_t v : rivals) {
    comparisons.push_back(objective_.Compare(v, *leader_));
    const double doubt = IsClaim() ? kClaimDoubt : config_->incumbent == v ? kSwitchDoubt : 1;
    evidence.push_back(Evidence(comparisons.back(), {NullFor(v), 2 * delta_}) / doubt);
  }
  const std::vector<bool> rejected = HolmRejected(evidence, config_->alpha);
  for (size_t i = 0; i < rivals.size(); ++i) {
    if (rejected[i]) Drop(rivals[i], *leader_, comparisons[i]);
  }
}

void Race::KeepIncumbent() {
  const uint32_t incumbent = *config_->incumbent;
  std::vector<uint32_t> rivals = alive();
  std::erase_if(rivals, [&](uint32_t v) { return v == incumbent || standings_[v].not_faster; });
  std::vector<double> evidence;
  for (const uint32_t v : rivals) {
    evidence.push_back(Evidence(objective_.Compare(v, incumbent), {-delta_, delta_}));
  }
  const std::vector<bool> rejected = HolmRejected(evidence, config_->alpha);
  for (size_t i = 0; i < rivals.size(); ++i) {
    if (rejected[i]) standings_[rivals[i]].not_faster = true;
  }
}

// Not more than delta faster than a leader that is itself up to delta faster than the
// incumbent: that is not enough to keep the incumbent.
bool Race::RecallForIncumbent() {
  const uint32_t incumbent = *config_->incumbent;
  bool recalled = false;
  for (uint32_t v = 0; v < standings_.size(); ++v) {
    Standing& standing = standings_[v];
    if (!standing.out || !standing.by || *standing.by == incumbent || standing.strictly) continue;
    const bool is_slower =
        Evidence(standing.comparison, {0, 2 * delta_}) * config_->alpha >= 1 ||
        Evidence(objective_.Compare(v, incumbent), {-delta_, delta_}) * config_->alpha >= 1;
    if (is_slower) continue;
    standing.Recall();
    standing.strictly = true;
    recalled = true;
  }
  return recalled;
}

void Race::FindTies() {
  const std::vector<uint32_t> rivals = alive();
  const double needed = static_cast<double>(rivals.size() - 1) / config_->tie_alpha;
  for (const uint32_t v : rivals) {
    if (v == *leader_) continue;
    standings_[v].tied = IsWithin(delta_, objective_.Compare(v, *leader_), needed);
  }
}

bool Race::OnlyOne() const {
  return std::count_if(standings_.begin(), standings_.end(),
                       [](const Standing& standing) { return !standing.out || standing.by; }) == 1;
}

Outcome Race::Finish() {
  const std::vector<uint32_t> left = alive();
  const auto settled = [&](auto is_settled) {
    return std::all_of(left.begin(), left.end(), is_settled);
  };
  if (IsClaim()) {
    const bool all_tied =
        settled([this](uint32_t v) { return v == *leader_ || standings_[v].tied; });
    return all_tied ? Outcome::kProved : Outcome::kRunning;
  }
  if (DefendsIncumbent()) {
    const uint32_t incumbent = *config_->incumbent;
    const bool kept =
        settled([&](uint32_t v) { return v == incumbent || standings_[v].not_faster; });
    return kept && !RecallForIncumbent() ? Outcome::kCertified : Outcome::kRunning;
  }
  return left.size() == 1 ? Outcome::kCertified : Outcome::kRunning;
}

std::optional<uint32_t> Race::pick() const {
  if (!DefendsIncumbent()) return leader_;
  const uint32_t incumbent = *config_->incumbent;
  if (!leader_ || *leader_ == incumbent) return leader_;
  // Undecided or kept: a leader that seems more than delta faster is the better guess.
  const bool kept = standings_[*leader_].not_faster;
  const Comparison comparison = objective_.Compare(incumbent, *leader_);
  const bool close = comparison.rounds == 0 || comparison.centre <= delta_;
  return kept || close ? incumbent : *leader_;
}

// The Pareto front of time and energy. A variant is dropped when one of the front is, by the
// evidence, not more than delta worse in either. A variant of the front belongs there when no
// other of it is more than delta better in both.

std::vector<uint32_t> Race::Front() const {
  struct Point {
    uint32_t variant;
    double time, energy;
  };
  std::vector<Point> points;
  if (!leader_) return {};
  for (const uint32_t v : alive()) {
    if (observations_->cells(v).empty()) continue;
    points.push_back({v, v == *leader_ ? 0 : objective_.Compare(v, *leader_).centre,
                      v == *leader_ ? 0 : energy_.Compare(v, *leader_).centre});
  }
  std::stable_sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
    return a.time < b.time || (a.time == b.time && a.energy < b.energy);
  });
  std::vector<uint32_t> front;
  double least_energy = INFINITY;
  for (const Point& point : points) {
    if (point.energy >= least_energy) continue;
    least_energy = point.energy;
    front.push_back(point.variant);
  }
  return front;
}

void Race::DropDominated() {
  const std::vector<uint32_t> front = Front();
  std::vector<uint32_t> rest;
  for (const uint32_t v : alive()) {
    if (std::find(front.begin(), front.end(), v) == front.end()) rest.push_back(v);
  }
  const double needed = static_cast<double>(rest.size()) / config_->alpha;
  const Hypothesis better{-delta_, 2 * delta_};
  for (const uint32_t v : rest) {
    for (const uint32_t member : front) {
      const Comparison in_time = objective_.Compare(v, member);
      if (std::min(Evidence(in_time, better), Evidence(energy_.Compare(v, member), better)) <
          needed) {
        continue;
      }
      Drop(v, member, in_time);
      break;
    }
  }
}

bool Race::BelongsToFront(uint32_t variant, const std::vector<uint32_t>& front,
                          double alpha) const {
  const Hypothesis worse{-delta_, 2 * delta_};
  return std::all_of(front.begin(), front.end(), [&](uint32_t other) {
    if (other == variant) return true;
    return std::max(Evidence(objective_.Compare(other, variant), worse),
                    Evidence(energy_.Compare(other, variant), worse)) *
               alpha >=
           1;
  });
}

Outcome Race::ParetoOutcome() const {
  const std::vector<uint32_t> front = Front();
  if (front.size() < alive().size()) return Outcome::kRunning;
  const double pairs = static_cast<double>(front.size() * (front.size() - 1));
  const double alpha = config_->alpha / std::max(pairs * 2, 1.0);
  const bool all_belong = std::all_of(front.begin(), front.end(),
                                      [&](uint32_t v) { return BelongsToFront(v, front, alpha); });
  return all_belong ? Outcome::kCertified : Outcome::kRunning;
}

}  // namespace xplane_time::decide
