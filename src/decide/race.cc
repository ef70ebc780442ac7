// The elimination race (race.h has the method). Look() runs once per complete batch:
//
//   Quarantine      drop variants with too many failures; recall those that they had dropped
//   Update          fit the two-way model; widen delta if the canary proves a bias
//   FindLeader      up to four steps: the variant with the best centre relative to the leader
//   DropSlower      Holm's test of each rival against the leader
//   KeepIncumbent   mark rivals that are not more than delta faster than the incumbent
//   FindTies        with stop = claim: mark rivals within delta of the leader
//   Finish          over if one is left, all are tied, or the incumbent is kept
//
// For a Pareto front, DropDominated() and ParetoOutcome() replace the steps after FindLeader.
#include "decide/race.h"

#include <algorithm>
#include <cmath>

namespace xplane_time::decide {

std::optional<CanaryReport> ReportCanary(const std::vector<double>& log_ratios, double distance) {
  constexpr double kAlpha = 0.001;  // per side, at any time
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

Outcome Race::Look() {
  Quarantine();
  comparer.Update(observations);
  if (config.objective == Objective::kPareto) energy.Update(observations);
  const double asked = std::log1p(config.delta);
  if (const auto canary = ReportCanary(observations.canaries, 2 * asked)) {
    delta = asked + std::max({0.0, std::log(canary->lo), -std::log(canary->hi)});
  }
  if (Alive().empty()) return Outcome::kAllFailed;
  FindLeader();
  if (!leader) return Outcome::kRunning;
  if (config.objective == Objective::kPareto) {
    DropDominated();
    return ParetoOutcome();
  }
  DropSlower();
  if (DefendsIncumbent()) KeepIncumbent();
  if (IsClaim()) FindTies();
  return Finish();
}

std::vector<uint32_t> Race::Alive() const {
  std::vector<uint32_t> result;
  for (uint32_t v = 0; v < standings.size(); ++v) {
    if (!standings[v].out) result.push_back(v);
  }
  return result;
}

void Race::Quarantine() {
  for (uint32_t v = 0; v < standings.size(); ++v) {
    const bool is_known = standings[v].out && !standings[v].by;
    if (!observations.records[v].quarantine || is_known) continue;
    Drop(v, std::nullopt, {});
    if (leader == v) leader.reset();
    // A variant that failed must not have eliminated others.
    for (Standing& other : standings) {
      if (other.by == v) other.Recall();
    }
  }
}

// For a front: the sum of the two logarithms, which is the smallest energy-delay product.
void Race::FindLeader() {
  constexpr int kSteps = 4;
  const bool is_front = config.objective == Objective::kPareto;
  if (!leader) {
    double least = 0;
    for (const uint32_t v : Alive()) {
      if (observations.cells(v).empty()) continue;
      const double level = comparer.Level(v) + (is_front ? energy.Level(v) : 0);
      if (leader && level >= least) continue;
      leader = v;
      least = level;
    }
  }
  for (int step = 0; leader && step < kSteps; ++step) {
    const uint32_t from = *leader;
    double least = 0;
    for (const uint32_t v : Alive()) {
      if (v == from || observations.cells(v).empty()) continue;
      const double centre =
          comparer.Compare(v, from).centre + (is_front ? energy.Compare(v, from).centre : 0);
      if (centre >= least) continue;
      leader = v;
      least = centre;
    }
    if (leader == from) break;
  }
}

bool Race::DefendsIncumbent() const {
  return !IsClaim() && config.incumbent && !standings[*config.incumbent].out;
}

void Race::Drop(uint32_t variant, std::optional<uint32_t> by, const Comparison& comparison) {
  Standing& standing = standings[variant];
  standing.out = true;
  standing.by = by;
  standing.round = observations.rounds.size();
  standing.comparison = comparison;
}

void Race::DropSlower() {
  std::vector<uint32_t> rivals = Alive();
  std::erase(rivals, *leader);
  const auto evidence = [this](uint32_t v) {
    const double doubt = IsClaim() ? kClaimDoubt : config.incumbent == v ? kSwitchDoubt : 1;
    const bool strictly = IsClaim() || config.incumbent == v || standings[v].strictly;
    return Evidence(comparer.Compare(v, *leader), {strictly ? 0 : -delta, 2 * delta}) / doubt;
  };
  for (const uint32_t v : Rejected(rivals, config.alpha, evidence)) {
    Drop(v, *leader, comparer.Compare(v, *leader));
  }
}

void Race::KeepIncumbent() {
  const uint32_t incumbent = *config.incumbent;
  std::vector<uint32_t> rivals = Alive();
  std::erase_if(rivals, [&](uint32_t v) { return v == incumbent || standings[v].not_faster; });
  const auto evidence = [&](uint32_t v) {
    return Evidence(comparer.Compare(v, incumbent), {-delta, delta});
  };
  for (const uint32_t v : Rejected(rivals, config.alpha, evidence)) standings[v].not_faster = true;
}

// Recalls variants that were dropped as not more than delta faster than some leader. That leader
// may itself be up to delta faster than the incumbent, so this is not sufficient to keep the
// incumbent.
bool Race::RecallForIncumbent() {
  const uint32_t incumbent = *config.incumbent;
  bool recalled = false;
  for (uint32_t v = 0; v < standings.size(); ++v) {
    Standing& standing = standings[v];
    if (!standing.by || standing.by == incumbent || standing.strictly) continue;
    const bool is_slower =
        Evidence(standing.comparison, {0, 2 * delta}) * config.alpha >= 1 ||
        Evidence(comparer.Compare(v, incumbent), {-delta, delta}) * config.alpha >= 1;
    if (is_slower) continue;
    standing.Recall();
    standing.strictly = true;
    recalled = true;
  }
  return recalled;
}

void Race::FindTies() {
  const std::vector<uint32_t> rivals = Alive();
  const double needed = static_cast<double>(rivals.size() - 1) / config.tie_alpha;
  for (const uint32_t v : rivals) {
    if (v == *leader) continue;
    standings[v].tied = IsWithin(delta, comparer.Compare(v, *leader), needed);
  }
}

bool Race::OnlyOne() const {
  return std::ranges::count_if(
             standings, [](const Standing& standing) { return !standing.out || standing.by; }) == 1;
}

Outcome Race::Finish() {
  const std::vector<uint32_t> left = Alive();
  const auto settled = [&](auto is_settled) { return std::ranges::all_of(left, is_settled); };
  if (IsClaim()) {
    const bool all_tied = settled([this](uint32_t v) { return v == *leader || standings[v].tied; });
    return all_tied ? Outcome::kProved : Outcome::kRunning;
  }
  if (DefendsIncumbent()) {
    const uint32_t incumbent = *config.incumbent;
    const bool kept =
        settled([&](uint32_t v) { return v == incumbent || standings[v].not_faster; });
    return kept && !RecallForIncumbent() ? Outcome::kCertified : Outcome::kRunning;
  }
  return left.size() == 1 ? Outcome::kCertified : Outcome::kRunning;
}

std::optional<uint32_t> Race::Pick() const {
  if (!DefendsIncumbent()) return leader;
  const uint32_t incumbent = *config.incumbent;
  if (!leader || *leader == incumbent) return leader;
  // The incumbent unless the leader seems more than delta faster; that is the better guess.
  const bool kept = standings[*leader].not_faster;
  const Comparison comparison = comparer.Compare(incumbent, *leader);
  const bool close = comparison.rounds == 0 || comparison.centre <= delta;
  return kept || close ? incumbent : *leader;
}

// The Pareto front of time and energy. A variant is dropped if the evidence shows that a member of
// the front is not more than delta worse in both. A member stays if no other member is more than
// delta better in both.

std::vector<uint32_t> Race::Front() const {
  struct Point {
    uint32_t variant;
    double time, energy;
  };
  std::vector<Point> points;
  if (!leader) return {};
  for (const uint32_t v : Alive()) {
    if (observations.cells(v).empty()) continue;
    points.push_back({v, v == *leader ? 0 : comparer.Compare(v, *leader).centre,
                      v == *leader ? 0 : energy.Compare(v, *leader).centre});
  }
  std::ranges::stable_sort(points, {},
                           [](const Point& at) { return std::pair(at.time, at.energy); });
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
  std::vector<uint32_t> rest = Alive();
  std::erase_if(rest, [&](uint32_t v) { return Contains(front, v); });
  const double needed = static_cast<double>(rest.size()) / config.alpha;
  const Hypothesis better{-delta, 2 * delta};
  for (const uint32_t v : rest) {
    const auto by = std::ranges::find_if(front, [&](uint32_t member) {
      return std::min(Evidence(comparer.Compare(v, member), better),
                      Evidence(energy.Compare(v, member), better)) >= needed;
    });
    if (by != front.end()) Drop(v, *by, comparer.Compare(v, *by));
  }
}

bool Race::BelongsToFront(uint32_t variant, const std::vector<uint32_t>& front,
                          double alpha) const {
  const Hypothesis worse{-delta, 2 * delta};
  return std::ranges::all_of(front, [&](uint32_t other) {
    if (other == variant) return true;
    return std::max(Evidence(comparer.Compare(other, variant), worse),
                    Evidence(energy.Compare(other, variant), worse)) *
               alpha >=
           1;
  });
}

Outcome Race::ParetoOutcome() const {
  const std::vector<uint32_t> front = Front();
  if (front.size() < Alive().size()) return Outcome::kRunning;
  const double pairs = static_cast<double>(front.size() * (front.size() - 1));
  const double alpha = config.alpha / std::max(pairs * 2, 1.0);
  const bool all_belong =
      std::ranges::all_of(front, [&](uint32_t v) { return BelongsToFront(v, front, alpha); });
  return all_belong ? Outcome::kCertified : Outcome::kRunning;
}

}  // namespace xplane_time::decide
