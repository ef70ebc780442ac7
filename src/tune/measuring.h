// Measuring: a session of the store, and the harness that fills it.
//
// A round is stored before it counts, and a stored round is not measured again. So a caller that
// asks for the same rounds in the same order after a kill continues where the last run stopped.
// Batch numbers of a session:
//
//   0            round 0: the states of the variants known at the start; from 1: the
//                comparison with the baseline at the end
//   1, 2, ...    batches of the decider
//   10^9, ...    stages of a search: round 0 describes the stage, then its rounds
//   2 * 10^9 ... check of several devices (device_check.h): a number for each choice of
//                variants
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "xplane_time/tune.h"

namespace xplane_time {

inline constexpr int64_t kOwnBatch = 0, kPreparation = 0, kFirstConfirmation = 1;
inline constexpr int64_t kFirstSearchBatch = 1'000'000'000, kStageHead = 0;
inline constexpr int64_t kFirstDeviceBatch = 2'000'000'000;

// Batches of the decider.
inline bool IsRaceBatch(int64_t batch) { return batch > kOwnBatch && batch < kFirstSearchBatch; }

inline bool IsSearchBatch(int64_t batch) {
  return batch >= kFirstSearchBatch && batch < kFirstDeviceBatch;
}

// Whether the status is transient: it does not count against the variant, and the run is repeated.
bool BlamesNobody(std::string_view status);

// The objective's value of a sample: t_ps, energy_uj, or a product of them. Empty if the sample
// failed, or if a required energy is missing or 0.
std::optional<double> ObjectiveValue(Objective objective, const SampleRecord& sample);

// A round to measure, on this device or, if empty, on any.
struct WantedRound {
  int64_t round = 0;
  std::vector<const Configuration*> order = {};
  std::string device = {};
};

struct Measuring {
  // Says hello, and resumes or begins the session.
  absl::Status Begin();
  // The round that an earlier run stored, or null.
  const RoundRecord* Stored(int64_t batch, int64_t round) const;
  absl::Status Register(std::span<const TunedVariant> variants);
  // Compiles and verifies.
  absl::Status Prepare(std::span<TunedVariant> variants);
  absl::Status Append(const RoundRecord& record) { return store->Append(session, record).status(); }
  void TakeNotes(const RoundRecord& round);
  // Calls `done` with each round, stored or measured now. With several devices, rounds run
  // concurrently and finish in any order. Skips a round that needs a lost device. Errors: Cancelled
  // between rounds; that of `done`, after which no other round begins.
  using DoneCallback = absl::FunctionRef<absl::Status(const RoundRecord& record)>;
  absl::Status Rounds(int64_t batch, std::span<const WantedRound> rounds, DoneCallback done);

  // Measures a round without changing this object. Errors: those of the harness.
  absl::StatusOr<RoundRecord> Measured(Harness* device, const std::string& name, int64_t batch,
                                       const WantedRound& wanted) const;
  // Stores a round. Errors: also if the harness reports no time, or no energy although the
  // objective needs it.
  absl::Status Keep(const RoundRecord& record);

  const TuneOptions& options;
  Harness* harness;
  TuneStore* store;
  TuneWatcher* watcher;
  HarnessInfo info = {};
  TuneSession session = {};
  std::map<std::pair<int64_t, int64_t>, RoundRecord> stored = {};  // by batch and round
  // The first reason of each variant's failures in rounds, by id.
  std::map<std::string, std::string> failures = {};
  std::set<std::string> energy_kinds = {};
  uint64_t rounds_measured = 0;  // in this run
};

// The kinds in the notes of a round; TuneOutcome::energy_kinds.
std::set<std::string> EnergyKindsOf(const std::string& notes_json);

std::vector<Configuration> ConfigurationsOf(std::span<const TunedVariant> variants);

// Those of `configurations` that have a state in the notes of a record (PreparationJson,
// StageHeadJson), by id. Errors: DataLoss.
absl::StatusOr<std::map<std::string, TunedVariant>> PreparedIn(
    std::string_view notes_json, std::span<const Configuration> configurations);

// Among sound variants with the same fingerprint, all but the first become aliases of it.
void AssignAliases(std::vector<TunedVariant>* variants);

// Gives sound variants that are neither aliases nor dropped their places in the decider's space.
void AssignPlaces(std::vector<TunedVariant>* variants);

Space SpaceOf(std::span<const TunedVariant> variants);

// Place of a variant, or of the variant that it is an alias of, by id. Variants that are not
// measured have no place.
using Places = absl::flat_hash_map<std::string, uint32_t>;
Places PlacesOf(std::span<const TunedVariant> variants);
std::optional<uint32_t> PlaceOf(const Places& places, const std::string& id);

// Skips samples of variants that are not measured.
RoundResult ResultOf(const Places& places, const RoundRecord& record);

// The run limit: the maximum duration of a slot, derived from the durations of earlier slots.
//
// Input: durations of slots on the driver's clock, including calls and argument handling, because
// the driver enforces the limit. Output: `times` the typical duration of the fastest variant, but
// at least a second (kFloor) and at most the slot's timeout; the timeout alone until a round is
// complete.
//
//   RunLimit limit(10, 60s);
//   limit.Of("", "a", ...)                       // 60 s: no durations yet
//   limit.EndRound("", {{"b", 200ms}}, 300ms);
//   limit.Of("", "a", ...)                       // 2 s
//
// The consequences of an overrun are not handled here. docs/tuning.md describes how a machine that
// stood still is kept from failing a variant.

class RunLimit {
 public:
  using Duration = std::chrono::nanoseconds;
  static constexpr Duration kFloor = std::chrono::seconds(1);

  // With `times` 0, the timeout is the only limit.
  RunLimit(double times, Duration timeout) : times_(times), timeout_(timeout) {}

  // Takes the slots of a complete round that are followed by another slot. The first slot is
  // excluded, because it contains the untimed run. `end` is the last slot, including everything
  // after it, such as reading a trace.
  using Slot = std::pair<std::string, Duration>;  // variant and duration
  void EndRound(const std::string& workload, const std::vector<Slot>& took, Duration end);

  // The limit for a slot of a round with `slots` slots. The first slot includes one more run of its
  // variant. The last one includes the end of the round, which may take `times` the shortest end
  // seen. Empty if only the timeout applies.
  std::optional<Duration> Of(const std::string& workload, const std::string& variant, size_t slot,
                             size_t slots) const;
  // The limit for the second try of a variant, alone in its round: twice that of a first slot, plus
  // the end of a round.
  Duration Alone(const std::string& workload, const std::string& variant) const;
  // The variant was within the limit when it ran alone: it is slow but not stuck.
  void Exempt(const std::string& variant) { exempt_.insert(variant); }

  double times() const { return times_; }
  // The typical duration of the fastest variant.
  Duration Fastest(const std::string& workload) const;

 private:
  struct OfWorkload {
    // sorted; the first few of each variant
    std::map<std::string, std::vector<Duration>> slots = {};
    std::optional<Duration> fastest = {};
    Duration shortest_end = Duration::max();
  };

  double times_;
  Duration timeout_;
  std::map<std::string, OfWorkload> workloads_;
  std::set<std::string> exempt_;
};

}  // namespace xplane_time
