// Tunings and sessions of a store, for people and as JSON.
#ifndef XPLANE_TIME_SRC_OUTPUT_TUNING_H_
#define XPLANE_TIME_SRC_OUTPUT_TUNING_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "output/output.h"
#include "xplane_time/store.h"

namespace xplane_time::output {

// Of a result as it is in the store (schema xplane-time.tune-result.v1): what was decided and
// why, what to do for more, and a row a variant. Fields that are missing are left out.
std::string TuningText(std::string_view result_json, const OutputOptions& options);

// What a tuning would run.
struct TunePlan {
  std::string workload, strategy;
  std::span<const Configuration> configurations;  // that are known before it starts
  uint64_t workloads = 1, calls = 1;
  uint64_t raced = 0;        // at most
  uint64_t search_runs = 0;  // before the race; an estimate
  uint64_t race_runs = 0;    // an estimate: the noise decides
  std::optional<int64_t> budget_runs = {};
};
std::string PlanText(const TunePlan& plan, const OutputOptions& options);
// Schema xplane-time.tune-plan.v1.
std::string PlanJson(const TunePlan& plan);

std::string SessionsText(std::span<const SessionInfo> sessions, const OutputOptions& options);
// Schema xplane-time.tune-sessions.v1.
std::string SessionsJson(std::span<const SessionInfo> sessions);

}  // namespace xplane_time::output

#endif  // XPLANE_TIME_SRC_OUTPUT_TUNING_H_
