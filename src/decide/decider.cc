// Decider: takes rounds of samples, and returns batches of rounds and finally the verdict.
//
//   Fold() --> received (by round) --last round of the batch--> Observations --> Race::Look()
//                                                                  |  running: PlanBatch() -> Batch
//                                                                  |  else:    Judge -> Verdict
//
// A batch is folded in the order of its rounds when all of its results have arrived, so the order
// of arrival does not matter. Race (race.h) drops variants and decides when it is over. Judge turns
// its state into a verdict: claim, ties, ratios with intervals, and the bootstrap. JudgeRecorded()
// passes recorded rounds through a new Race.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "decide/race.h"
#include "stats/random.h"
#include "status.h"
#include "xplane_time/decide.h"

namespace xplane_time {
namespace decide {
namespace {

constexpr uint64_t kBootstrapStream = 2;
constexpr size_t kReplicates = 2000;

std::optional<double> Exp(std::optional<double> log) {
  if (!log) return std::nullopt;
  return std::exp(*log);
}

// Makes the verdict on the current state of the race.
//
// Ties are resolved here: the incumbent, then less memory, then less energy, then the order of the
// parameters. The bootstrap draws replicates of every variant's log ratio to the pick: it resamples
// rounds if there are at least eight, and else draws from a normal distribution with the standard
// error. p_best is the fraction of replicates in which no variant is faster. The regret is the mean
// and the 95 % quantile of the lead of the fastest variant.
struct Judge {
  const Space& space;
  const Race& race;
  const double distance = 2 * race.delta;

  Verdict Decide(Outcome outcome, std::string_view stop_reason,
                 Detail detail = Detail::kAll) const {
    const bool is_front = race.config.objective == Objective::kPareto;
    Verdict verdict = {
        .claim = outcome == Outcome::kAllFailed ? Claim::kAllFailed : Claim::kUndecided,
        .eliminated = Eliminated(),
        .delta = std::expm1(race.delta),
        .canary = ReportCanary(race.observations.canaries, 2 * std::log1p(race.config.delta)),
        .runs = race.observations.runs,
        .rounds = race.observations.rounds.size(),
        .stop_reason = std::string(stop_reason),
        .rule = "race.v2",
        .seed = race.config.seed};
    if (outcome == Outcome::kAllFailed) return verdict;
    is_front ? ChooseFromFront(outcome, verdict) : Choose(outcome, verdict);
    if (!verdict.pick) return verdict;
    verdict.ratios = Ratios(*verdict.pick);
    verdict.mde = DetectableEffect(*verdict.pick);
    if (!is_front && detail == Detail::kAll) Bootstrap(verdict);
    return verdict;
  }

  // Variants other than the pick that have a time.
  std::vector<uint32_t> Rivals(uint32_t pick) const {
    std::vector<uint32_t> rivals;
    for (uint32_t v = 0; v < space.variants.size(); ++v) {
      const VariantRecord& record = race.observations.records[v];
      if (v != pick && !record.cells.empty() && !record.quarantine) rivals.push_back(v);
    }
    return rivals;
  }

  // The comparison with the pick. If the pick dropped the variant, the comparison of that time.
  Comparison Against(uint32_t v, uint32_t pick) const {
    const Standing& standing = race.standings[v];
    return standing.by == pick ? standing.comparison : race.comparer.Compare(v, pick);
  }

  void Choose(Outcome outcome, Verdict& verdict) const {
    verdict.pick = race.Pick();
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

  // With Stop::kClaim, each dropped variant was proved slower than another one. With probability 1
  // - alpha none of these steps is wrong, so all are slower than the remaining one.
  bool AllSlower(uint32_t pick, const std::vector<uint32_t>& rivals) const {
    if (race.config.stop == Stop::kClaim && std::ranges::all_of(rivals, [this](uint32_t v) {
          return race.standings[v].by.has_value();
        })) {
      return true;
    }
    const auto evidence = [&](uint32_t v) { return Evidence(Against(v, pick), {0, distance}); };
    return Rejected(rivals, race.config.alpha / kClaimDoubt, evidence).size() == rivals.size();
  }

  // The tied variants including the pick, in order of preference; empty without a tie.
  std::vector<uint32_t> Tied(uint32_t pick, const std::vector<uint32_t>& rivals) const {
    std::vector<uint32_t> tied;
    // With Stop::kPick, a tie must not make the pick less certain.
    const double alpha = race.config.stop == Stop::kClaim
                             ? race.config.tie_alpha
                             : std::min(race.config.alpha, race.config.tie_alpha);
    const double needed = static_cast<double>(rivals.size()) / alpha;
    for (const uint32_t v : rivals) {
      const Comparison comparison = race.comparer.Compare(v, pick);
      const bool is_tied = IsWithin(race.delta, comparison, needed);
      if (is_tied || race.standings[v].tied) tied.push_back(v);
    }
    if (tied.empty()) return {};
    tied.push_back(pick);
    SortByPreference(tied);
    return tied;
  }

  void SortByPreference(std::vector<uint32_t>& tied) const {
    std::vector<double> energy(space.variants.size(), 0);
    bool has_energy = true;
    for (const uint32_t v : tied) {
      double sum = 0;
      for (const Cell& cell : race.observations.cells(v)) sum += cell.log_value[kEnergyUsed];
      energy[v] = sum / static_cast<double>(race.observations.cells(v).size());
      has_energy &= std::isfinite(energy[v]);
    }
    constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
    std::ranges::sort(tied, {}, [&](uint32_t v) {
      const Variant& variant = space.variants[v];
      return std::tuple(v != race.config.incumbent, variant.mem_bytes.value_or(kUnknown),
                        has_energy ? energy[v] : 0, std::string_view(variant.params_json), v);
    });
  }

  void ChooseFromFront(Outcome outcome, Verdict& verdict) const {
    verdict.tied = race.Front();
    verdict.pick = race.leader;
    const auto incumbent = race.config.incumbent;
    if (incumbent && Contains(verdict.tied, *incumbent)) verdict.pick = incumbent;
    if (outcome != Outcome::kRunning) verdict.claim = Claim::kPick;
  }

  std::vector<Elimination> Eliminated() const {
    std::vector<Elimination> result;
    for (uint32_t v = 0; v < space.variants.size(); ++v) {
      const Standing& standing = race.standings[v];
      if (!standing.out) continue;
      Elimination out{.variant = v, .by = standing.by, .round = standing.round};
      if (standing.by) {
        out.ratio = std::exp(standing.comparison.log_ratio);
        out.lo = Exp(LowerBound(standing.comparison, distance, race.config.alpha));
        const bool is_front = race.config.objective == Objective::kPareto;
        out.reason = is_front ? "dominated" : out.lo.value_or(0) > 1 ? "slower" : "not_faster";
      } else {
        out.reason = race.observations.records[v].quarantine.value_or("");
      }
      result.push_back(std::move(out));
    }
    std::ranges::stable_sort(result, {}, &Elimination::round);
    return result;
  }

  std::vector<Ratio> Ratios(uint32_t pick) const {
    std::vector<Ratio> result;
    for (uint32_t v = 0; v < space.variants.size(); ++v) {
      if (v == pick) {
        result.push_back({.variant = v, .est = 1, .lo = 1, .hi = 1});
        continue;
      }
      const Comparison comparison = race.comparer.Compare(v, pick);
      if (comparison.rounds == 0) continue;
      const auto below = LowerBound(comparison, distance, race.config.alpha);
      const auto above = LowerBound(Mirrored(comparison), distance, race.config.alpha);
      result.push_back({.variant = v,
                        .est = std::exp(race.comparer.Estimate(v, pick).log_ratio),
                        .lo = Exp(below),
                        .hi = above ? Exp(-*above) : std::nullopt});
    }
    return result;
  }

  // The gap to the nearest directly compared rival that would be found with 80 % probability.
  std::optional<double> DetectableEffect(uint32_t pick) const {
    constexpr double kPower80 = 0.8416;
    std::optional<Comparison> nearest;
    for (const uint32_t v : Rivals(pick)) {
      const Comparison comparison = race.comparer.Compare(v, pick);
      if (!comparison.usable || comparison.screening) continue;
      if (!nearest || comparison.log_ratio < nearest->log_ratio) nearest = comparison;
    }
    if (!nearest) return std::nullopt;
    const auto lo = LowerBound(*nearest, distance, race.config.alpha);
    if (!lo) return std::nullopt;
    return std::expm1(nearest->log_ratio - *lo + kPower80 * nearest->se);
  }

  // Whether all variants that may still be the fastest have a known spread. Otherwise the bootstrap
  // is impossible.
  bool IsKnown(uint32_t pick) const {
    for (uint32_t v = 0; v < space.variants.size(); ++v) {
      const bool may_be_fastest = v != pick && !race.standings[v].out;
      if (may_be_fastest && !race.comparer.Estimate(v, pick).usable) return false;
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
      const Comparison estimate = race.comparer.Estimate(v, pick);
      // So far behind that no replicate could be in front.
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
    // The race has certified a bound at a higher level, which also applies.
    if (verdict.claim == Claim::kPick || verdict.claim == Claim::kWinner) {
      verdict.regret_hi = std::min(*verdict.regret_hi, verdict.delta);
    }
    verdict.regret_est = std::min(sum / kReplicates, *verdict.regret_hi);
  }

  std::vector<double> Replicates(uint32_t v, uint32_t pick, const Comparison& comparison) const {
    // with more rounds, a normal distribution is equivalent
    constexpr size_t kFewest = 8, kMost = 200;
    constexpr double kOutlier = 6;
    stats::Random random = stats::RandomFor(race.config.seed, kBootstrapStream, v);
    std::vector<double> kept = race.comparer.Ratios(v, pick);
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
};

}  // namespace
}  // namespace decide

namespace {

using decide::Outcome;
using decide::Race;

absl::Status CheckRules(const Space& space, const DecideConfig& config) {
  if (space.variants.empty()) {
    return InvalidArgument("the space has no variants");
  }
  if (space.variants.size() > kMaxVariants) {
    return InvalidArgument("the space has ", space.variants.size(), " variants, more than ",
                           kMaxVariants, "; use a random sample");
  }
  std::unordered_set<std::string_view> ids;
  for (const Variant& variant : space.variants) {
    if (!ids.insert(variant.id).second) {
      return InvalidArgument("two variants have the id '", variant.id, "'");
    }
  }
  const auto probability = [](double value) { return value > 0 && value <= 0.5; };
  for (const auto& [name, value] :
       {std::pair("alpha", config.alpha), std::pair("tie_alpha", config.tie_alpha)}) {
    if (!probability(value)) {
      return InvalidArgument(name, " ", value, " must be above 0 and at most 0.5");
    }
  }
  if (!(config.delta > 0 && config.delta <= 1)) {
    return InvalidArgument("delta ", config.delta,
                           " must be above 0 and at most 1 (0.005 is 0.5 %)");
  }
  if (config.budget_runs.value_or(1) < 1 || config.budget_time_ps.value_or(1) < 1) {
    return InvalidArgument("a budget must be at least 1, or absent");
  }
  if (config.canary == 1) {
    return InvalidArgument("canary must be 0 (never) or N >= 2 (each N-th round)");
  }
  if (config.rounds_at_once < 1 || config.rounds_at_once > kMaxRoundsAtOnce) {
    return InvalidArgument("rounds_at_once ", config.rounds_at_once, " must be 1 to ",
                           kMaxRoundsAtOnce);
  }
  if (config.incumbent && *config.incumbent >= space.variants.size()) {
    return InvalidArgument("incumbent ", *config.incumbent, " is not one of the ",
                           space.variants.size(), " variants");
  }
  return absl::OkStatus();
}

absl::Status CheckSample(const Sample& sample, size_t variants, Objective objective) {
  if (sample.variant >= variants) {
    return InvalidArgument("variant ", sample.variant, " is not one of the ", variants);
  }
  const auto wrong = [&sample](const auto&... what) {
    return InvalidArgument("variant ", sample.variant, ", slot ", sample.slot, ": ", what...);
  };
  if (sample.t_ps < 0 || (sample.status == SampleStatus::kOk && sample.t_ps == 0)) {
    return wrong("t_ps is ", sample.t_ps, ", but a time must be positive");
  }
  if (sample.energy_uj && !(*sample.energy_uj > 0 && std::isfinite(*sample.energy_uj))) {
    return wrong("energy_uj is ", *sample.energy_uj, ", but must be positive");
  }
  if (objective != Objective::kTime && sample.status == SampleStatus::kOk && !sample.energy_uj) {
    return wrong("no energy_uj, which the objective ", ObjectiveName(objective),
                 " requires; measure power, or decide by time");
  }
  return absl::OkStatus();
}

absl::Status CheckSamples(const RoundResult& result, size_t variants, size_t most,
                          Objective objective) {
  if (result.samples.size() > most) {
    return InvalidArgument("round ", result.round, " of batch ", result.batch, " has ",
                           result.samples.size(), " samples; no requested round has more than ",
                           most);
  }
  std::unordered_map<uint32_t, int> times;
  std::unordered_set<uint32_t> slots;
  for (const Sample& sample : result.samples) {
    RETURN_IF_ERROR(CheckSample(sample, variants, objective));
    if (++times[sample.variant] > 2) {
      return InvalidArgument("variant ", sample.variant, " occurs more than twice in round ",
                             result.round, " of batch ", result.batch);
    }
    if (!slots.insert(sample.slot).second) {
      return InvalidArgument("slot ", sample.slot, " occurs twice in round ", result.round,
                             " of batch ", result.batch);
    }
  }
  return absl::OkStatus();
}

std::string_view StopReason(Outcome outcome, const Race& race) {
  return outcome == Outcome::kAllFailed ? "all_failed"
         : outcome == Outcome::kProved  ? "proved"
         : race.OnlyOne()               ? "one_left"
                                        : "certified";
}

}  // namespace

struct Decider::Impl {
  const Space space;
  Race race;
  decide::BalancedOrder order = {};
  std::optional<Batch> batch = {};
  std::map<uint64_t, RoundResult> received = {};  // results of the batch, by round
  std::vector<std::set<uint64_t>> folded = {};    // rounds of earlier batches
  std::optional<Verdict> verdict = {};

  // Looks at new results, and either requests more or makes the verdict.
  void Advance() {
    if (batch || verdict) return;
    const Outcome outcome = race.Look();
    std::string stop_reason;
    if (outcome == Outcome::kRunning) {
      decide::RacePlan plan = decide::PlanBatch(race, folded.size() + 1, &order);
      if (!plan.rounds.empty()) {
        batch = Batch{.batch = folded.size() + 1, .rounds = std::move(plan.rounds)};
        return;
      }
      stop_reason = std::move(plan.stop_reason);
    } else {
      stop_reason = StopReason(outcome, race);
    }
    verdict = decide::Judge{space, race}.Decide(outcome, stop_reason);
  }

  // Folds the batch in the order of rounds, independent of the order of arrival.
  void FoldBatch() {
    std::map<uint32_t, int64_t> missing;
    bool is_discarded = false;
    for (const auto& round : batch->rounds) {
      for (const uint32_t v : round) ++missing[v];
    }
    std::set<uint64_t>& rounds = folded.emplace_back();
    for (const auto& [round, result] : received) {
      race.observations.Fold(result);
      rounds.insert(round);
      is_discarded |= result.discarded;
      for (const Sample& sample : result.samples) --missing[sample.variant];
    }
    // A run that is never reported counts as a failure, so that it is not requested forever.
    for (const auto& [v, times] : missing) {
      if (times > 0 && !is_discarded) race.observations.Fail(v, SampleStatus::kNoEvents);
    }
    received.clear();
    batch.reset();
  }
};

Decider::Decider(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Decider::Decider(Decider&&) noexcept = default;
Decider& Decider::operator=(Decider&&) noexcept = default;
Decider::~Decider() = default;

absl::StatusOr<Decider> Decider::Open(Space space, const DecideConfig& config) {
  RETURN_IF_ERROR(CheckRules(space, config));
  Race race(config, space.variants.size());
  return Decider(std::make_unique<Impl>(Impl{.space = std::move(space), .race = std::move(race)}));
}

absl::StatusOr<Folded> Decider::Fold(const RoundResult& result) {
  Impl& own = *impl_;
  own.Advance();
  const bool is_past = result.batch >= 1 && result.batch <= own.folded.size();
  if (is_past && own.folded[result.batch - 1].contains(result.round)) return Folded::kRepeated;
  if (!own.batch || result.batch != own.batch->batch) {
    return InvalidArgument("round ", result.round, " of batch ", result.batch,
                           " was not requested: ",
                           own.batch ? absl::StrCat("batch ", own.batch->batch, " is expected")
                                     : std::string("the decision is already made"));
  }
  if (own.received.contains(result.round)) return Folded::kRepeated;
  const auto longest =
      std::ranges::max_element(own.batch->rounds, {}, &std::vector<uint32_t>::size);
  RETURN_IF_ERROR(
      CheckSamples(result, own.space.variants.size(), longest->size(), own.race.config.objective));
  own.received.emplace(result.round, result);
  if (own.received.size() < own.batch->rounds.size()) return Folded::kStored;
  own.FoldBatch();
  return Folded::kBatchComplete;
}

absl::Status Decider::Resume(std::span<const RoundResult> results) {
  if (!impl_->folded.empty() || !impl_->received.empty()) {
    return FailedPrecondition("history must come before the first result");
  }
  std::map<std::pair<uint64_t, uint64_t>, const RoundResult*> in_order;
  for (const RoundResult& result : results) {
    in_order.try_emplace({result.batch, result.round}, &result);
  }
  // Uses a new object, so that an error leaves this one unchanged.
  ASSIGN_OR_RETURN(Decider resumed, Open(impl_->space, impl_->race.config));
  for (const auto& [key, result] : in_order) {
    RETURN_IF_ERROR(resumed.Fold(*result).status());
  }
  *this = std::move(resumed);
  return absl::OkStatus();
}

const Batch* Decider::Next() {
  impl_->Advance();
  return impl_->batch ? &*impl_->batch : nullptr;
}

const Verdict& Decider::verdict() const { return *impl_->verdict; }

Verdict Decider::Judge(std::string_view stop_reason, Detail detail) const {
  Race so_far = impl_->race;
  for (const auto& [round, result] : impl_->received) so_far.observations.Fold(result);
  const Outcome outcome = so_far.Look();
  return decide::Judge{impl_->space, so_far}.Decide(outcome, stop_reason, detail);
}

const Space& Decider::space() const { return impl_->space; }

absl::StatusOr<Verdict> JudgeRecorded(const Space& space, const DecideConfig& config,
                                      std::span<const RoundResult> results) {
  RETURN_IF_ERROR(CheckRules(space, config));
  std::map<uint64_t, std::map<uint64_t, const RoundResult*>> batches;
  for (const RoundResult& result : results) {
    RETURN_IF_ERROR(CheckSamples(result, space.variants.size(), SIZE_MAX, config.objective));
    batches[result.batch].try_emplace(result.round, &result);
  }
  Race race(config, space.variants.size());
  Outcome outcome = Outcome::kRunning;
  for (const auto& [batch, rounds] : batches) {
    for (const auto& [round, result] : rounds) race.observations.Fold(*result);
    outcome = race.Look();
  }
  const std::string_view reason =
      outcome == Outcome::kRunning ? "interrupted" : StopReason(outcome, race);
  return decide::Judge{space, race}.Decide(outcome, reason);
}

}  // namespace xplane_time
