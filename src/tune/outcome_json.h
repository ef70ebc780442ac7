// What a tuning found and what it knew at its start, as JSON: for the store, and for users.
#ifndef XPLANE_TIME_SRC_TUNE_OUTCOME_JSON_H_
#define XPLANE_TIME_SRC_TUNE_OUTCOME_JSON_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/decide.h"
#include "xplane_time/tune.h"

namespace xplane_time {

// Schema xplane-time.tune-result.v1: `pick` and `claim` first, then the evidence, then a row
// a variant.
std::string OutcomeJson(const TuneOutcome& outcome);

// The space of docs/deciding.md.
std::string DecideSpaceJson(std::span<const Configuration> configurations);

// The config of docs/deciding.md without its budget: part of a session's identity. With a search,
// its name as `search`.
std::string DecideConfigJson(const DecideConfig& config, std::string_view incumbent,
                             std::string_view search);

// States of variants by id, kept in a session's first record.
std::string PreparationJson(const HarnessInfo& harness, std::span<const TunedVariant> variants);
// Errors: DataLoss.
absl::StatusOr<std::map<std::string, VariantState>> PreparationFromJson(std::string_view json);

// What a round's harness noted, and why variants failed in it, by id.
std::string NotesJson(std::string_view harness_notes_json,
                      const std::map<std::string, std::string>& failures);
std::map<std::string, std::string> FailuresOf(std::string_view notes_json);

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

#endif  // XPLANE_TIME_SRC_TUNE_OUTCOME_JSON_H_
