// Measuring: a session of the store, and the harness that fills it.
//
// A round is stored before it counts, and one that is stored is not measured again: whoever
// asks for the same rounds in the same order after a kill goes on where the last run was.
// Batch numbers of a session:
//
//   0            round 0: the states of the variants known at the start; from 1: the
//                comparison with the baseline at the end
//   1, 2, ...    the decider's
//   10^9, ...    stages of a search: round 0 is what the stage is of, then its rounds
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "xplane_time/store.h"
#include "xplane_time/tune.h"

namespace xplane_time {

inline constexpr int64_t kOwnBatch = 0, kPreparation = 0, kFirstConfirmation = 1;
inline constexpr int64_t kFirstSearchBatch = 1'000'000'000, kStageHead = 0;

// Of the decider.
inline bool IsRaceBatch(int64_t batch) { return batch > kOwnBatch && batch < kFirstSearchBatch; }

// What the objective makes of a sample: t_ps, energy_uj, or their product.
// None: it failed, or an energy that is needed is missing or 0.
std::optional<double> ObjectiveValue(Objective objective, const SampleRecord& sample);

class Measuring {
 public:
  Measuring(const TuneOptions& options, Harness* harness, TuneStore* store)
      : options_(options), harness_(harness), store_(store) {}

  // Says hello, takes the device's lock, and finds the session again or begins one.
  absl::Status Begin(HarnessInfo* harness);
  const TuneSession& session() const { return session_; }
  // Where this session is new, and one of the same space that decided nothing was to go on:
  // that one, and the names of what differs.
  struct Unfinished {
    int64_t session = 0;
    std::vector<std::string> differs;
  };
  absl::StatusOr<std::optional<Unfinished>> FindUnfinished() const;
  // Rounds of earlier runs.
  const std::map<std::pair<int64_t, int64_t>, RoundRecord>& stored() const { return stored_; }
  const RoundRecord* Stored(int64_t batch, int64_t round) const;

  absl::Status Register(std::span<const Configuration> configurations);
  // Those known to the session, by id.
  absl::StatusOr<std::map<std::string, Configuration>> Registered() const;
  // Compiles and verifies; `done` is called once for each.
  absl::Status Prepare(std::span<TunedVariant> variants,
                       absl::FunctionRef<void(const TunedVariant&)> done);
  absl::Status Append(const RoundRecord& record);
  // Why variants failed in rounds, by id: the first reason of each.
  const std::map<std::string, std::string>& failures() const { return failures_; }
  // What is stored of the round, or what `order` takes now. Errors: Cancelled between rounds.
  absl::StatusOr<RoundRecord> Round(int64_t batch, int64_t round,
                                    std::span<const Configuration* const> order);

 private:
  absl::Status LockDevice(const std::string& device);
  absl::StatusOr<RoundTimes> RunWorkloads(int64_t batch, int64_t round,
                                          std::span<const Configuration* const> order);

  const TuneOptions& options_;
  Harness* harness_;
  TuneStore* store_;
  HarnessInfo harness_info_;
  FileLock device_lock_;
  TuneSession session_;
  SessionSpec spec_;
  std::map<std::pair<int64_t, int64_t>, RoundRecord> stored_;  // by batch and round
  std::map<std::string, std::string> failures_;
};

// The run limit: how long a slot may take, from how long slots took.
//
// Enters: durations of slots as the driver sees them, which is what a limit by the driver's
// clock must be made of: calls, argument handling and all. Leaves: `times` the typical
// duration of the fastest variant, at least a second (kFloor) and at most the slot's timeout;
// the timeout alone until a round is complete.
//
//   RunLimit limit(10, 60s);
//   limit.Of("", "a", ...)                       // 60 s: nothing is known
//   limit.Took("", "b", 200ms); limit.EndRound();
//   limit.Of("", "a", ...)                       // 2 s
//
// Not handled here: what an overrun means. docs/tuning.md says what is done so that a machine
// that stood still blames nobody.

class RunLimit {
 public:
  using Duration = std::chrono::nanoseconds;
  static constexpr Duration kFloor = std::chrono::seconds(1);

  // `times` 0: there is no limit but the timeout.
  RunLimit(double times, Duration timeout) : times_(times), timeout_(timeout) {}

  // Of a complete round: a slot that another followed, but not the first, which has the
  // untimed run in it.
  void Took(const std::string& workload, const std::string& variant, Duration duration);
  // The last slot of it, with all that comes after: reading a trace, say.
  void Ended(const std::string& workload, Duration duration);
  void EndRound();

  // What a slot may take. The first one runs its variant once more; after the last one comes
  // what ends a round, which may take `times` the shortest end seen. None: no more than the
  // timeout says.
  enum class Place : uint8_t { kFirst, kWithin, kLast };
  std::optional<Duration> Of(const std::string& workload, const std::string& variant,
                             Place place) const;
  // The same for a round of this variant alone, of which it is the second try: twice that of
  // a first slot, and the end of a round.
  Duration Alone(const std::string& workload, const std::string& variant) const;
  // It was within the limit when it ran alone: it is slow, and not stuck.
  void Exempt(const std::string& variant) { exempt_.insert(variant); }

  double times() const { return times_; }
  // Typical of the fastest.
  Duration Fastest(const std::string& workload) const;

 private:
  struct OfWorkload {
    std::map<std::string, std::vector<Duration>> slots = {};  // sorted, the first few of each
    std::optional<Duration> fastest = {};
    std::optional<Duration> shortest_end = {};
  };
  Duration EndOf(const OfWorkload& workload) const;

  double times_;
  Duration timeout_;
  std::map<std::string, OfWorkload> workloads_;
  std::set<std::string> exempt_;
};

}  // namespace xplane_time
