// Tunings and sessions of a store. Arguments must outlive the Output.
#pragma once

#include <span>

#include "absl/status/statusor.h"
#include "output/output.h"
#include "tune/outcome_json.h"
#include "xplane_time/store.h"

namespace xplane_time::output {

// The decision with its reasons, how to continue, and one row per variant. The result is in its
// stored form (outcome_json.h), which may be unreadable. `race`: the decision after fewer runs, for
// pages.
Output TuningOutput(std::string_view json, std::span<const TuneResult> race = {});

// The plan of a tuning.
struct TunePlan {
  std::string workload, strategy;
  std::span<const Configuration> configurations;  // that are known before it starts
  uint64_t workloads = 1, calls = 1;
  uint64_t raced = 0;        // at most
  uint64_t search_runs = 0;  // before the race, if no variant fails
  std::optional<int64_t> budget_runs = {};
};
XPLANE_TIME_JSON_FIELDS(TunePlan, workload, strategy, workloads, calls, raced, search_runs,
                        budget_runs)
Output PlanOutput(const TunePlan& plan);

Output SessionsOutput(std::span<const SessionInfo> sessions);

// Export: a stored session as text for other tools.
//
// Input: a store and the id of a session. Output: text. The same session gives the same bytes.
//
//   Export(store, 99, "csv")   // NotFound: tune.db: no session 99; ...
//
// Samples come in the order in which they were stored, discarded rounds included (T4 leaves
// those out). Times are in picoseconds, in T4 in milliseconds. Formats:
//
//   csv    one row per sample; one column, param_NAME, per parameter of any variant; with
//          workloads three columns for each: status_NAME, t_ps_NAME, energy_uj_NAME. A variant
//          that was dropped before its first run has a row without slot and time
//
//   json   the complete stored session (schema xplane-time.tune.v1, schemas/tune-export.v1.json)
//
//   t4     kernel_tuner's T4 results (results-schema 1.0.0 as kernel_tuner 1.5.0 writes it): one
//          result per variant that was measured or failed before, with all its times; "time" is
//          their mean, as in kernel_tuner
absl::StatusOr<std::string> Export(const TuneStore& store, int64_t session,
                                   std::string_view format);

}  // namespace xplane_time::output
