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
//   2 * 10^9 ... whether several devices agree (device_check.h): a number for each choice of
//   variants
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

// Of the decider.
inline bool IsRaceBatch(int64_t batch) { return batch > kOwnBatch && batch < kFirstSearchBatch; }

inline bool IsSearchBatch(int64_t batch) {
  return batch >= kFirstSearchBatch && batch < kFirstDeviceBatch;
}

// Of a status: nobody is to blame, and it is run again.
bool BlamesNobody(std::string_view status);

// What the objective makes of a sample: t_ps, energy_uj, or their product.
// None: it failed, or an energy that is needed is missing or 0.
std::optional<double> ObjectiveValue(Objective objective, const SampleRecord& sample);

// A round to measure, on this device or, where it is empty, on any.
struct WantedRound {
  int64_t round = 0;
  std::vector<const Configuration*> order = {};
  std::string device = {};
};

struct Measuring {
  // Says hello, and finds the session again or begins one.
  absl::Status Begin();
  // What an earlier run stored.
  const RoundRecord* Stored(int64_t batch, int64_t round) const;
  absl::Status Register(std::span<const TunedVariant> variants);
  // Compiles and verifies.
  absl::Status Prepare(std::span<TunedVariant> variants);
  absl::Status Append(const RoundRecord& record) { return store->Append(session, record).status(); }
  void TakeNotes(const RoundRecord& round);
  // What is stored of each round, or what it takes now, on several devices at once where there are
  // several: then in any order. One that wants a device that is lost is left out. Errors: Cancelled
  // between rounds; of `done`, after which no other begins.
  using DoneCallback = absl::FunctionRef<absl::Status(const RoundRecord& record)>;
  absl::Status Rounds(int64_t batch, std::span<const WantedRound> rounds, DoneCallback done);

  // As it was measured now; nothing changes here.
  // Errors: of the harness alone.
  absl::StatusOr<RoundRecord> Measured(Harness* device, const std::string& name, int64_t batch,
                                       const WantedRound& wanted) const;
  // Errors: also where the harness gives no time, or no energy where the objective needs one.
  absl::Status Keep(const RoundRecord& record);

  const TuneOptions& options;
  Harness* harness;
  TuneStore* store;
  TuneWatcher* watcher;
  HarnessInfo info = {};
  TuneSession session = {};
  std::map<std::pair<int64_t, int64_t>, RoundRecord> stored = {};  // by batch and round
  // Why variants failed in rounds, by id: the first reason of each.
  std::map<std::string, std::string> failures = {};
  std::set<std::string> energy_kinds = {};
  uint64_t rounds_measured = 0;  // now
};

// Those that the notes of a round have; TuneOutcome::energy_kinds.
std::set<std::string> EnergyKindsOf(const std::string& notes_json);

std::vector<Configuration> ConfigurationsOf(std::span<const TunedVariant> variants);

// Those of `configurations` that a record's notes (PreparationJson, StageHeadJson) have a state of,
// by id. Errors: DataLoss.
absl::StatusOr<std::map<std::string, TunedVariant>> PreparedIn(
    std::string_view notes_json, std::span<const Configuration> configurations);

// Of sound ones with one fingerprint all but the first are aliases of it.
void AssignAliases(std::vector<TunedVariant>* variants);

// Sound ones that are no aliases and were not dropped get their places in the decider's space.
void AssignPlaces(std::vector<TunedVariant>* variants);

Space SpaceOf(std::span<const TunedVariant> variants);

// By id: the place of a variant, or of what it is an alias of. Those that are not measured have
// none.
using Places = absl::flat_hash_map<std::string, uint32_t>;
Places PlacesOf(std::span<const TunedVariant> variants);
std::optional<uint32_t> PlaceOf(const Places& places, const std::string& id);

// Samples of variants that are not measured are left out.
RoundResult ResultOf(const Places& places, const RoundRecord& record);

// The run limit: how long a slot may take, from how long slots took.
//
// Enters: durations of slots as the driver sees them, which is what a limit by the driver's
// clock must be made of: calls, argument handling and all. Leaves: `times` the typical
// duration of the fastest variant, at least a second (kFloor) and at most the slot's timeout;
// the timeout alone until a round is complete.
//
//   RunLimit limit(10, 60s);
//   limit.Of("", "a", ...)                       // 60 s: nothing is known
//   limit.EndRound("", {{"b", 200ms}}, 300ms);
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

  // Of a complete round: slots that others followed, but not the first, which has the untimed
  // run in it; and the last one, with all that comes after: reading a trace, say.
  using Slot = std::pair<std::string, Duration>;  // a variant's
  void EndRound(const std::string& workload, const std::vector<Slot>& took, Duration end);

  // What a slot may take, of so many. The first one runs its variant once more; after the last
  // one comes what ends a round, which may take `times` the shortest end seen. None: no more than
  // the timeout says.
  std::optional<Duration> Of(const std::string& workload, const std::string& variant, size_t slot,
                             size_t slots) const;
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
    Duration shortest_end = Duration::max();
  };

  double times_;
  Duration timeout_;
  std::map<std::string, OfWorkload> workloads_;
  std::set<std::string> exempt_;
};

}  // namespace xplane_time
