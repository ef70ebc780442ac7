// What a tuning found and what it knew at its start, as JSON: for the store, and for users.
#ifndef XPLANE_TIME_SRC_TUNE_OUTCOME_JSON_H_
#define XPLANE_TIME_SRC_TUNE_OUTCOME_JSON_H_

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
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

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_TUNE_OUTCOME_JSON_H_
