// The result of a tuning and the states at its start as JSON, for the store and for users.
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

// The result of a tuning, by ids: schema xplane-time.tune-result.v1. `pick` and `claim` come first,
// then the evidence, then a row for each variant.
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
  std::optional<std::string> energy_kind = {};  // empty: time decided, or the harness reported the
                                                // energy
  std::vector<std::string> tied = {};
  std::string stop_reason;
  bool interrupted = false;
  std::optional<SearchReport> search = {};
  std::optional<Confirmation> confirmation = {};
  std::optional<DeviceCheck> devices = {};  // if there are several devices
  std::vector<TailFlag> tail_flags = {};
  std::optional<double> p_best = {};
  Regret regret = {};
  std::optional<double> delta = {};  // empty: no race
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
// Reads a stored result. Fields that an earlier version did not write keep their defaults. Empty if
// it is not an object, or if a field has a value of another type.
std::optional<TuneResult> ReadTuneResult(std::string_view json);

// The config of docs/deciding.md without its budget: part of a session's identity. With a search,
// it has the search's name as `search`.
std::string DecideConfigJson(const DecideConfig& config, std::string_view incumbent,
                             std::string_view search);

// States of variants by id, as stored in a session's first record and in the records of a search.
std::string PreparationJson(const HarnessInfo& harness, std::span<const TunedVariant> variants);
// Errors: DataLoss.
absl::StatusOr<std::map<std::string, VariantState>> PreparationFromJson(std::string_view json);

// The first round of a search stage: its variants, and the states of the new ones.
struct StageHead {
  std::vector<std::string> ids = {};  // empty: the search is over
  uint32_t rounds = 1;
  uint64_t proposed = 0, refused = 0, repeated = 0;
  std::vector<std::string> finalists = {};  // set when the search is over
};
XPLANE_TIME_JSON_FIELDS(StageHead, ids, rounds, proposed, refused, repeated, finalists)
std::string StageHeadJson(const StageHead& head, std::span<const TunedVariant> fresh);
// Errors: DataLoss.
absl::StatusOr<StageHead> StageHeadFromJson(std::string_view json);

// The notes of a round with one more note.
std::string WithNote(const std::string& notes_json, std::string_view name, json::Json note);

// Tails: behaviour that the typical time does not show, and whether the pick's tails are worse than
// those of other variants.
//
// Input: rounds of samples of the race. Output: each variant's 95 % quantile and rate of spikes,
// and flags if the pick is worse than a rival (a tied variant, the runner-up or the baseline). The
// typical time has decided; a flag does not change the decision.
//
// A flag needs evidence, which few samples cannot provide. Both tests use the rounds in which pick
// and rival have a time. They compare how many samples of each are over a threshold (p95: the 95 %
// quantile of both together; spikes: each one's own) with Fisher's exact test, one-sided. All flags
// of a tuning together are wrong in at most 1 % of tunings (Bonferroni). Ten spikes against zero
// raise a flag; one in ten against zero does not.
//
// A spike is a time that exceeds the variant's median by more than a tenth and by more than six
// standard deviations, estimated from the median absolute deviation.

// The probability that chance alone gives at least `a_over` of `a` when `b_over` of `b` are over.
double FisherWorse(int64_t a_over, int64_t a, int64_t b_over, int64_t b);

// Fills `tail` of the variants and `tail_flags`. `baseline` is a place in the decider's space.
// O(samples log samples) for each rival.
void AddTails(std::span<const RoundResult> rounds, std::optional<uint32_t> baseline,
              TuneOutcome* outcome);

}  // namespace xplane_time
