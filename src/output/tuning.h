// Tunings and sessions of a store, for people and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "output/output.h"
#include "tune/outcome_json.h"
#include "xplane_time/store.h"

namespace xplane_time::output {

// What was decided and why, what to do for more, and a row a variant. None: it cannot be read.
std::string TuningText(const std::optional<TuneResult>& result, const OutputOptions& options);

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
