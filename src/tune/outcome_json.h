// What a tuning found and what it knew at its start, as JSON: for the store, and for users.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "json/described.h"
#include "xplane_time/decide.h"
#include "xplane_time/tune.h"

namespace xplane_time {

// What a tuning found, by ids: schema xplane-time.tune-result.v1. `pick` and `claim` first, then
// the evidence, then a row a variant.
struct TuneResult {
  using Interval = std::optional<std::array<std::optional<double>, 2>>;

  struct Regret {
    std::optional<double> est = {}, hi = {};
  };
  struct Canary {
    uint64_t rounds = 0;
    double ratio = 1;
    Interval ci = {};
    bool biased = false;
  };
  struct Budget {
    std::optional<int64_t> runs = {}, time_ps = {};
  };
  struct Out {
    std::optional<std::string> by = {};
    uint64_t round = 0;
    std::string reason;
  };
  struct Row : VariantState, Tail {
    std::string id;
    json::Json params = {};
    bool raced = true;
    std::optional<double> searched = {};
    std::optional<std::string> search_failure = {}, alias_of = {};
    std::optional<double> ratio = {};
    Interval ratio_ci = {};
    std::optional<Out> eliminated = {};
  };

  std::string schema = "xplane-time.tune-result.v1";
  std::optional<std::string> pick = {};
  Claim claim = Claim::kUndecided;
  Objective objective = Objective::kTime;
  std::optional<std::string> energy_kind = {};  // none: time decided, or the harness gave it
  std::vector<std::string> tied = {};
  std::string stop_reason;
  bool interrupted = false;
  std::optional<SearchReport> search = {};
  std::optional<Confirmation> confirmation = {};
  std::optional<DeviceCheck> devices = {};  // of several
  std::vector<TailFlag> tail_flags = {};
  std::optional<double> p_best = {};
  Regret regret = {};
  std::optional<double> delta = {};  // none: no race
  std::optional<double> mde = {};
  std::optional<Canary> canary = {};
  Budget budget = {};
  int64_t runs = 0;
  uint64_t rounds = 0;
  std::string rule;
  uint64_t seed = 0;
  int64_t session = 0;
  bool resumed = false;
  HarnessInfo harness = {};
  std::vector<Row> variants = {};
};

XPLANE_TIME_JSON_FIELDS(HarnessInfo, name, device, device_class, clock, driver, framework, flags,
                        code_hash)
XPLANE_TIME_JSON_FIELDS(DecideConfig, alpha, tie_alpha, delta, stop, objective, incumbent, canary,
                        rounds_at_once, seed)
XPLANE_TIME_JSON_FIELDS(VariantState, status, fingerprint, message, mem_bytes)
XPLANE_TIME_JSON_FIELDS(SearchReport, strategy, searched, raced, stages, rounds, runs, proposed,
                        refused, repeated)
XPLANE_TIME_JSON_FIELDS(Confirmation, baseline, rounds, metric, speedup, speedup_ci95)
XPLANE_TIME_JSON_FIELDS(TailFlag, rival, what, pick, other)
XPLANE_TIME_JSON_FIELDS(DeviceCheck::Device, name, rounds, ratio, lo, hi, verdict)
XPLANE_TIME_JSON_FIELDS(DeviceCheck::Split, variant, devices, others, ratio, others_ratio, p)
XPLANE_TIME_JSON_FIELDS(DeviceCheck::Lost, device, message)
XPLANE_TIME_JSON_FIELDS(DeviceCheck, variants, devices, classes, splits, mde, lost)
XPLANE_TIME_JSON_FIELDS(TuneResult::Regret, est, hi)
XPLANE_TIME_JSON_FIELDS(TuneResult::Canary, rounds, ratio, ci, biased)
XPLANE_TIME_JSON_FIELDS(TuneResult::Budget, runs, time_ps)
XPLANE_TIME_JSON_FIELDS(TuneResult::Out, by, round, reason)
XPLANE_TIME_JSON_FIELDS(TuneResult::Row, id, params, status, message, mem_bytes, raced, searched,
                        search_failure, alias_of, ratio, ratio_ci, eliminated, samples, typical_ps,
                        typical_uj, p95_ratio, spike_rate)
XPLANE_TIME_JSON_FIELDS(TuneResult, schema, pick, claim, objective, energy_kind, tied, stop_reason,
                        interrupted, search, confirmation, devices, tail_flags, p_best, regret,
                        delta, mde, canary, budget, runs, rounds, rule, seed, session, resumed,
                        harness, variants)

TuneResult ResultOf(const TuneOutcome& outcome);
std::string OutcomeJson(const TuneOutcome& outcome);
// Reads a result as it is in a store. Fields that an earlier version did not write stay as they
// are. None: it is no object, or a field has a value of another type.
std::optional<TuneResult> ReadTuneResult(std::string_view json);

// The config of docs/deciding.md without its budget: part of a session's identity. With a search,
// its name as `search`.
std::string DecideConfigJson(const DecideConfig& config, std::string_view incumbent,
                             std::string_view search);

// States of variants by id, kept in a session's first record, and in those of a search.
std::string PreparationJson(const HarnessInfo& harness, std::span<const TunedVariant> variants);
// Errors: DataLoss.
absl::StatusOr<std::map<std::string, VariantState>> PreparationFromJson(std::string_view json);

// The first round of a stage of a search: what it is of, and the states of those that are new.
struct StageHead {
  std::vector<std::string> ids = {};  // none: the search is over
  uint32_t rounds = 1;
  uint64_t proposed = 0, refused = 0, repeated = 0;
  std::vector<std::string> finalists = {};  // of a search that is over
};
XPLANE_TIME_JSON_FIELDS(StageHead, ids, rounds, proposed, refused, repeated, finalists)
std::string StageHeadJson(const StageHead& head, std::span<const TunedVariant> fresh);
// Errors: DataLoss.
absl::StatusOr<StageHead> StageHeadFromJson(std::string_view json);

// The notes of a round with one more; what was there is kept.
std::string WithNote(const std::string& notes_json, std::string_view name, json::Json note);

// Tails: what the typical time does not show, and whether the pick's are worse than others'.
//
// Enters: rounds of samples of the race. Leaves: of each variant its 95 % quantile and its
// rate of spikes, and flags where the pick is worse than a rival (those that it is tied with,
// the runner-up, the baseline). The typical time has decided; a flag changes nothing.
//
// A flag needs evidence, and few samples have none. Both are tested alike, on rounds in which
// pick and rival both have a time: how many samples of each are over a threshold (p95: the
// 95 % quantile of both together; spikes: each one's own), and how likely that, or worse, is
// where both are the same (Fisher's exact test, one-sided). All flags of a tuning together
// are wrong 1 % of the time at most (Bonferroni). Ten spikes against none are a flag, one in
// ten against none is not.
//
// A spike is a time over the variant's typical time (the median) by more than a tenth, and by
// more than six standard deviations, these from the median absolute deviation.

// That `a_over` of `a` and `b_over` of `b`, or more of the first, are drawn by chance.
double FisherWorse(int64_t a_over, int64_t a, int64_t b_over, int64_t b);

// Fills `tail` of the variants and `tail_flags`. `baseline` is a place of the decider's.
// O(samples log samples) for each rival.
void AddTails(std::span<const RoundResult> rounds, std::optional<uint32_t> baseline,
              TuneOutcome* outcome);

}  // namespace xplane_time
