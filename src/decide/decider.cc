#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "decide/judge.h"
#include "decide/planner.h"
#include "status.h"
#include "xplane_time/decide.h"

namespace xplane_time {
namespace {

using decide::Observations;
using decide::Outcome;
using decide::Race;

bool NeedsEnergy(Objective objective) { return objective != Objective::kTime; }

absl::Status CheckConfig(const DecideConfig& config, size_t variants) {
  const auto probability = [](double value) { return value > 0 && value <= 0.5; };
  if (!probability(config.alpha) || !probability(config.tie_alpha)) {
    return InvalidArgument("alpha ", config.alpha, " and tie_alpha ", config.tie_alpha,
                           " must be above 0 and at most 0.5");
  }
  if (!(config.delta > 0 && config.delta <= 1)) {
    return InvalidArgument("delta ", config.delta,
                           " must be above 0 and at most 1: 0.005 is 0.5 %");
  }
  if (config.budget_runs.value_or(1) < 1 || config.budget_time_ps.value_or(1) < 1) {
    return InvalidArgument("a budget must be at least 1, or absent");
  }
  if (config.canary == 1) {
    return InvalidArgument("canary must be 0 (never) or at least 2 (each so-manieth round)");
  }
  if (config.incumbent && *config.incumbent >= variants) {
    return InvalidArgument("incumbent ", *config.incumbent, " is not one of the ", variants,
                           " variants");
  }
  return absl::OkStatus();
}

absl::Status CheckSpace(const Space& space) {
  if (space.variants.empty()) {
    return InvalidArgument("the space has no variants: nothing to decide");
  }
  if (space.variants.size() > kMaxVariants) {
    return InvalidArgument("the space has ", space.variants.size(), " variants, more than ",
                           kMaxVariants, ": draw a sample of it first");
  }
  std::unordered_set<std::string_view> ids;
  for (const Variant& variant : space.variants) {
    if (!ids.insert(variant.id).second) {
      return InvalidArgument("two variants have the id '", variant.id, "'");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSample(const Sample& sample, size_t variants, Objective objective) {
  if (sample.variant >= variants) {
    return InvalidArgument("variant ", sample.variant, " is not one of the ", variants);
  }
  if (sample.t_ps < 0 || (sample.status == SampleStatus::kOk && sample.t_ps == 0)) {
    return InvalidArgument("variant ", sample.variant, ", slot ", sample.slot, ": t_ps is ",
                           sample.t_ps, ", a time must be positive");
  }
  if (sample.energy_uj && !(*sample.energy_uj > 0 && std::isfinite(*sample.energy_uj))) {
    return InvalidArgument("variant ", sample.variant, ", slot ", sample.slot, ": energy_uj is ",
                           *sample.energy_uj, ", it must be positive");
  }
  if (NeedsEnergy(objective) && sample.status == SampleStatus::kOk && !sample.energy_uj) {
    return InvalidArgument("variant ", sample.variant, ", slot ", sample.slot,
                           ": no energy_uj, which the objective ", ObjectiveName(objective),
                           " needs; measure power, or decide by time");
  }
  return absl::OkStatus();
}

absl::Status CheckSamples(const RoundResult& result, size_t variants, size_t most,
                          Objective objective) {
  if (result.samples.size() > most) {
    return InvalidArgument("round ", result.round, " of batch ", result.batch, " has ",
                           result.samples.size(), " samples, no round asked for more than ", most);
  }
  std::unordered_map<uint32_t, int> times;
  std::unordered_set<uint32_t> slots;
  for (const Sample& sample : result.samples) {
    RETURN_IF_ERROR(CheckSample(sample, variants, objective));
    if (++times[sample.variant] > 2) {
      return InvalidArgument("variant ", sample.variant, " is more than twice in round ",
                             result.round, " of batch ", result.batch);
    }
    if (!slots.insert(sample.slot).second) {
      return InvalidArgument("slot ", sample.slot, " is twice in round ", result.round,
                             " of batch ", result.batch);
    }
  }
  return absl::OkStatus();
}

std::string_view StopReason(Outcome outcome, const Race& race) {
  switch (outcome) {
    case Outcome::kAllFailed:
      return "all_failed";
    case Outcome::kProved:
      return "proved";
    case Outcome::kCertified:
    case Outcome::kRunning:
      break;
  }
  return race.OnlyOne() ? "one_left" : "certified";
}

}  // namespace

struct Decider::Impl {
  Impl(Space the_space, const DecideConfig& the_config)
      : space(std::move(the_space)),
        config(the_config),
        observations(space.variants.size(), config.objective),
        race(observations, config),
        planner(config, observations, race) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // Looks at what is new and either asks for more or gives the verdict.
  void Advance() {
    if (batch || verdict) return;
    const Outcome outcome = race.Look();
    if (outcome != Outcome::kRunning) {
      Conclude(outcome, StopReason(outcome, race));
      return;
    }
    decide::Planner::Plan plan = planner.Next(folded.size() + 1);
    if (plan.rounds.empty()) {
      Conclude(Outcome::kRunning, plan.stop_reason);
      return;
    }
    batch = Batch{.batch = folded.size() + 1, .rounds = std::move(plan.rounds)};
  }

  void Conclude(Outcome outcome, std::string_view stop_reason) {
    verdict = decide::MakeVerdict(space, config, observations, race, outcome, stop_reason);
  }

  size_t LongestRound() const {
    size_t longest = 0;
    for (const auto& round : batch->rounds) longest = std::max(longest, round.size());
    return longest;
  }

  absl::StatusOr<Folded> Fold(const RoundResult& result) {
    Advance();
    const bool is_past = result.batch >= 1 && result.batch <= folded.size();
    if (is_past && folded[result.batch - 1].contains(result.round)) return Folded::kRepeated;
    if (!batch || result.batch != batch->batch) {
      return InvalidArgument("round ", result.round, " of batch ", result.batch,
                             " was not asked for: ",
                             batch ? absl::StrCat("batch ", batch->batch, " is awaited")
                                   : std::string("the decision is made"));
    }
    if (received.contains(result.round)) return Folded::kRepeated;
    RETURN_IF_ERROR(CheckSamples(result, space.variants.size(), LongestRound(), config.objective));
    received.emplace(result.round, result);
    if (received.size() < batch->rounds.size()) return Folded::kStored;
    FoldBatch();
    return Folded::kBatchComplete;
  }

  // In the order of rounds, whatever the order of arrival was.
  void FoldBatch() {
    std::map<uint32_t, int64_t> missing;
    bool is_discarded = false;
    for (const auto& round : batch->rounds) {
      for (const uint32_t v : round) ++missing[v];
    }
    std::set<uint64_t> rounds;
    for (const auto& [round, result] : received) {
      observations.Fold(result);
      rounds.insert(round);
      is_discarded |= result.discarded;
      for (const Sample& sample : result.samples) --missing[sample.variant];
    }
    // A run that nobody reports must not be asked for forever.
    for (const auto& [v, times] : missing) {
      if (times > 0 && !is_discarded) observations.Miss(v);
    }
    folded.push_back(std::move(rounds));
    received.clear();
    batch.reset();
  }

  Verdict Judge(std::string_view stop_reason, Detail detail) const {
    Observations so_far = observations;
    for (const auto& [round, result] : received) so_far.Fold(result);
    Race as_it_stands(race, so_far);
    const Outcome outcome = as_it_stands.Look();
    return decide::MakeVerdict(space, config, so_far, as_it_stands, outcome, stop_reason, detail);
  }

  const Space space;
  const DecideConfig config;
  Observations observations;
  Race race;
  decide::Planner planner;
  std::optional<Batch> batch;
  std::map<uint64_t, RoundResult> received;  // of the batch, by round
  std::vector<std::set<uint64_t>> folded;    // rounds of the batches before it
  std::optional<Verdict> verdict;
};

Decider::Decider(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Decider::Decider(Decider&&) noexcept = default;
Decider& Decider::operator=(Decider&&) noexcept = default;
Decider::~Decider() = default;

absl::StatusOr<Decider> Decider::Open(Space space, const DecideConfig& config) {
  RETURN_IF_ERROR(CheckSpace(space));
  RETURN_IF_ERROR(CheckConfig(config, space.variants.size()));
  return Decider(std::make_unique<Impl>(std::move(space), config));
}

absl::StatusOr<Folded> Decider::Fold(const RoundResult& result) { return impl_->Fold(result); }

absl::Status Decider::Resume(std::span<const RoundResult> results) {
  if (!impl_->folded.empty() || !impl_->received.empty()) {
    return FailedPrecondition("history comes before the first result");
  }
  std::map<std::pair<uint64_t, uint64_t>, const RoundResult*> in_order;
  for (const RoundResult& result : results)
    in_order.try_emplace({result.batch, result.round}, &result);
  // On the side, so that an error leaves this one as it is.
  auto resumed = std::make_unique<Impl>(impl_->space, impl_->config);
  for (const auto& [key, result] : in_order) {
    if (const auto folded = resumed->Fold(*result); !folded.ok()) return folded.status();
  }
  impl_ = std::move(resumed);
  return absl::OkStatus();
}

const Batch* Decider::Next() {
  impl_->Advance();
  return impl_->batch ? &*impl_->batch : nullptr;
}

const Verdict& Decider::verdict() const { return *impl_->verdict; }

Verdict Decider::Judge(std::string_view stop_reason, Detail detail) const {
  return impl_->Judge(stop_reason, detail);
}

const Space& Decider::space() const { return impl_->space; }
const DecideConfig& Decider::config() const { return impl_->config; }

absl::StatusOr<Verdict> JudgeRecorded(const Space& space, const DecideConfig& config,
                                      std::span<const RoundResult> results) {
  RETURN_IF_ERROR(CheckSpace(space));
  RETURN_IF_ERROR(CheckConfig(config, space.variants.size()));
  std::map<uint64_t, std::map<uint64_t, const RoundResult*>> batches;
  for (const RoundResult& result : results) {
    RETURN_IF_ERROR(CheckSamples(result, space.variants.size(), SIZE_MAX, config.objective));
    batches[result.batch].try_emplace(result.round, &result);
  }
  Observations observations(space.variants.size(), config.objective);
  Race race(observations, config);
  Outcome outcome = Outcome::kRunning;
  for (const auto& [batch, rounds] : batches) {
    for (const auto& [round, result] : rounds) observations.Fold(*result);
    outcome = race.Look();
  }
  const std::string_view reason =
      outcome == Outcome::kRunning ? "interrupted" : StopReason(outcome, race);
  return decide::MakeVerdict(space, config, observations, race, outcome, reason);
}

}  // namespace xplane_time
