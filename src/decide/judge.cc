#include "decide/judge.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "stats/random.h"

namespace xplane_time::decide {
namespace {

constexpr std::string_view kRule = "race.v2";
constexpr uint64_t kBootstrapStream = 2;
constexpr size_t kReplicates = 2000;

std::optional<double> Exp(std::optional<double> log) {
  if (!log) return std::nullopt;
  return std::exp(*log);
}

class Judge {
 public:
  Judge(const Space& space, const DecideConfig& config, const Observations& observations,
        const Race& race)
      : space_(space),
        config_(config),
        observations_(observations),
        race_(race),
        distance_(2 * race.delta()) {}

  Verdict Decide(Outcome outcome, std::string_view stop_reason, Detail detail) {
    Verdict verdict;
    verdict.delta = std::expm1(race_.delta());
    verdict.canary = ReportCanary(observations_.canaries(), 2 * std::log1p(config_.delta));
    verdict.runs = observations_.runs();
    verdict.rounds = observations_.rounds().size();
    verdict.rule = kRule;
    verdict.seed = config_.seed;
    verdict.stop_reason = stop_reason;
    verdict.eliminated = Eliminated();
    if (outcome == Outcome::kAllFailed) {
      verdict.claim = Claim::kAllFailed;
      return verdict;
    }
    if (config_.objective == Objective::kPareto) {
      ChooseFromFront(outcome, verdict);
    } else {
      Choose(outcome, verdict);
    }
    if (!verdict.pick) return verdict;
    verdict.ratios = Ratios(*verdict.pick);
    verdict.mde = DetectableEffect(*verdict.pick);
    if (config_.objective != Objective::kPareto && detail == Detail::kAll) Bootstrap(verdict);
    return verdict;
  }

 private:
  bool HasTime(uint32_t v) const {
    return !observations_.cells(v).empty() && !observations_.record(v).quarantine;
  }

  std::vector<uint32_t> Rivals(uint32_t pick) const {
    std::vector<uint32_t> rivals;
    for (uint32_t v = 0; v < space_.variants.size(); ++v) {
      if (v != pick && HasTime(v)) rivals.push_back(v);
    }
    return rivals;
  }

  // What dropped a variant stands, where it was the pick that did it.
  Comparison Against(uint32_t v, uint32_t pick) const {
    const Standing& standing = race_.standing(v);
    return standing.by == pick ? standing.comparison : race_.comparer().Compare(v, pick);
  }

  void Choose(Outcome outcome, Verdict& verdict) const {
    verdict.pick = race_.pick();
    if (!verdict.pick) return;
    if (verdict.stop_reason == kNotWorthIt) verdict.claim = Claim::kPick;
    if (outcome == Outcome::kRunning) return;
    verdict.claim = Claim::kPick;
    const std::vector<uint32_t> rivals = Rivals(*verdict.pick);
    if (rivals.empty()) return;
    if (AllSlower(*verdict.pick, rivals)) {
      verdict.claim = Claim::kWinner;
      return;
    }
    verdict.tied = Tied(*verdict.pick, rivals);
    if (verdict.tied.empty()) return;
    verdict.claim = Claim::kTie;
    verdict.pick = verdict.tied.front();
  }

  // Where a claim is asked for, each was dropped as slower than another one, and none of these
  // steps is wrong with probability 1 - alpha: so all are slower than the one that is left.
  bool AllSlower(uint32_t pick, const std::vector<uint32_t>& rivals) const {
    if (config_.stop == Stop::kClaim &&
        std::all_of(rivals.begin(), rivals.end(),
                    [this](uint32_t v) { return race_.standing(v).out && race_.standing(v).by; })) {
      return true;
    }
    std::vector<double> evidence;
    for (const uint32_t v : rivals) evidence.push_back(Evidence(Against(v, pick), {0, distance_}));
    const std::vector<bool> slower = HolmRejected(evidence, config_.alpha / kClaimDoubt);
    return std::find(slower.begin(), slower.end(), false) == slower.end();
  }

  // With the pick, in the order of preference; empty where nothing is tied.
  std::vector<uint32_t> Tied(uint32_t pick, const std::vector<uint32_t>& rivals) const {
    std::vector<uint32_t> tied;
    // Where only a pick was asked for, a tie must not make it any less certain.
    const double alpha = config_.stop == Stop::kClaim ? config_.tie_alpha
                                                      : std::min(config_.alpha, config_.tie_alpha);
    const double needed = static_cast<double>(rivals.size()) / alpha;
    for (const uint32_t v : rivals) {
      const Comparison comparison = race_.comparer().Compare(v, pick);
      const bool is_tied = IsWithin(race_.delta(), comparison, needed);
      if (is_tied || race_.standing(v).tied) tied.push_back(v);
    }
    if (tied.empty()) return {};
    tied.push_back(pick);
    SortByPreference(tied);
    return tied;
  }

  void SortByPreference(std::vector<uint32_t>& tied) const {
    std::vector<double> energy(space_.variants.size(), 0);
    bool has_energy = true;
    for (const uint32_t v : tied) {
      double sum = 0;
      for (const Cell& cell : observations_.cells(v)) sum += cell.log_value[kEnergyUsed];
      energy[v] = sum / static_cast<double>(observations_.cells(v).size());
      has_energy &= std::isfinite(energy[v]);
    }
    constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
    std::sort(tied.begin(), tied.end(), [&](uint32_t a, uint32_t b) {
      if (a == b) return false;
      if (a == config_.incumbent || b == config_.incumbent) return a == config_.incumbent;
      const Variant &first = space_.variants[a], &second = space_.variants[b];
      const int64_t first_bytes = first.mem_bytes.value_or(kUnknown);
      const int64_t second_bytes = second.mem_bytes.value_or(kUnknown);
      if (first_bytes != second_bytes) return first_bytes < second_bytes;
      if (has_energy && energy[a] != energy[b]) return energy[a] < energy[b];
      if (first.params_json != second.params_json) return first.params_json < second.params_json;
      return a < b;
    });
  }

  void ChooseFromFront(Outcome outcome, Verdict& verdict) const {
    verdict.tied = race_.Front();
    verdict.pick = race_.leader();
    const auto incumbent = config_.incumbent;
    if (incumbent &&
        std::find(verdict.tied.begin(), verdict.tied.end(), *incumbent) != verdict.tied.end()) {
      verdict.pick = incumbent;
    }
    if (outcome != Outcome::kRunning) verdict.claim = Claim::kPick;
  }

  std::vector<Elimination> Eliminated() const {
    std::vector<Elimination> result;
    for (uint32_t v = 0; v < space_.variants.size(); ++v) {
      const Standing& standing = race_.standing(v);
      if (!standing.out) continue;
      Elimination out{.variant = v, .by = standing.by, .round = standing.round};
      if (standing.by) {
        out.ratio = std::exp(standing.comparison.log_ratio);
        out.lo = Exp(LowerBound(standing.comparison, distance_, config_.alpha));
        const bool is_front = config_.objective == Objective::kPareto;
        out.reason = is_front ? "dominated" : out.lo.value_or(0) > 1 ? "slower" : "not_faster";
      } else {
        out.reason = observations_.record(v).quarantine.value_or("");
      }
      result.push_back(std::move(out));
    }
    std::stable_sort(result.begin(), result.end(),
                     [](const auto& a, const auto& b) { return a.round < b.round; });
    return result;
  }

  std::vector<Ratio> Ratios(uint32_t pick) const {
    std::vector<Ratio> result;
    for (uint32_t v = 0; v < space_.variants.size(); ++v) {
      if (v == pick) {
        result.push_back({.variant = v, .est = 1, .lo = 1, .hi = 1});
        continue;
      }
      const Comparison comparison = race_.comparer().Compare(v, pick);
      if (comparison.rounds == 0) continue;
      const auto below = LowerBound(comparison, distance_, config_.alpha);
      const auto above = LowerBound(Mirrored(comparison), distance_, config_.alpha);
      result.push_back({.variant = v,
                        .est = std::exp(race_.comparer().Estimate(v, pick).log_ratio),
                        .lo = Exp(below),
                        .hi = above ? Exp(-*above) : std::nullopt});
    }
    return result;
  }

  // Of the nearest rival with rounds of its own: found with 80 % probability.
  std::optional<double> DetectableEffect(uint32_t pick) const {
    constexpr double kPower80 = 0.8416;
    std::optional<Comparison> nearest;
    for (const uint32_t v : Rivals(pick)) {
      const Comparison comparison = race_.comparer().Compare(v, pick);
      if (!comparison.usable || comparison.screening) continue;
      if (!nearest || comparison.log_ratio < nearest->log_ratio) nearest = comparison;
    }
    if (!nearest) return std::nullopt;
    const auto lo = LowerBound(*nearest, distance_, config_.alpha);
    if (!lo) return std::nullopt;
    return std::expm1(nearest->log_ratio - *lo + kPower80 * nearest->se);
  }

  // Where a variant that may still be the fastest has no spread yet, nothing can be said.
  bool IsKnown(uint32_t pick) const {
    for (uint32_t v = 0; v < space_.variants.size(); ++v) {
      const bool may_be_fastest = v != pick && !race_.standing(v).out;
      if (may_be_fastest && !race_.comparer().Estimate(v, pick).usable) return false;
    }
    return true;
  }

  void Bootstrap(Verdict& verdict) const {
    constexpr double kFar = 8;
    const uint32_t pick = *verdict.pick;
    if (!IsKnown(pick)) return;
    std::vector<double> fastest(kReplicates, 0);
    std::vector<bool> is_best(kReplicates, true);
    for (const uint32_t v : Rivals(pick)) {
      const Comparison estimate = race_.comparer().Estimate(v, pick);
      // So far behind that no replicate of it would ever be in front.
      const bool is_far = estimate.usable && estimate.log_ratio > kFar * estimate.se;
      if (estimate.rounds == 0 || is_far) continue;
      const std::vector<double> draws = Replicates(v, pick, estimate);
      for (size_t i = 0; i < kReplicates; ++i) {
        fastest[i] = std::min(fastest[i], draws[i]);
        is_best[i] = is_best[i] && draws[i] >= 0;
      }
    }
    double best = 0, sum = 0;
    for (size_t i = 0; i < kReplicates; ++i) {
      best += is_best[i];
      fastest[i] = std::expm1(-fastest[i]);
      sum += fastest[i];
    }
    std::sort(fastest.begin(), fastest.end());
    verdict.p_best = best / kReplicates;
    verdict.regret_hi = fastest[kReplicates * 95 / 100];
    // What the race has certified, at a higher level than this, bounds it too.
    if (verdict.claim == Claim::kPick || verdict.claim == Claim::kWinner) {
      verdict.regret_hi = std::min(*verdict.regret_hi, verdict.delta);
    }
    verdict.regret_est = std::min(sum / kReplicates, *verdict.regret_hi);
  }

  std::vector<double> Replicates(uint32_t v, uint32_t pick, const Comparison& comparison) const {
    constexpr size_t kFewest = 8, kMost = 200;  // beyond, the normal is the same
    constexpr double kOutlier = 6;
    stats::Random random = stats::RandomFor(config_.seed, kBootstrapStream, v);
    std::vector<double> kept = race_.comparer().Ratios(v, pick);
    std::erase_if(kept, [&](double ratio) {
      return std::abs(ratio - comparison.log_ratio) > kOutlier * comparison.sd;
    });
    const size_t n = kept.size();
    const bool resample = !comparison.screening && n >= kFewest && n <= kMost;
    std::vector<double> draws(kReplicates);
    for (double& draw : draws) {
      if (!resample) {
        draw = comparison.log_ratio + comparison.se * random.Normal();
        continue;
      }
      for (size_t i = 0; i < n; ++i) draw += kept[random.Below(n)];
      draw /= static_cast<double>(n);
    }
    return draws;
  }

  const Space& space_;
  const DecideConfig& config_;
  const Observations& observations_;
  const Race& race_;
  const double distance_;
};

}  // namespace

Verdict MakeVerdict(const Space& space, const DecideConfig& config,
                    const Observations& observations, const Race& race, Outcome outcome,
                    std::string_view stop_reason, Detail detail) {
  return Judge(space, config, observations, race).Decide(outcome, stop_reason, detail);
}

}  // namespace xplane_time::decide
