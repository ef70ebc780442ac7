// Tune: runs a harness, a decider and a store until a decision is reached.
//
// Input: configurations, a Harness that builds and runs them, a TuneStore, and the rules of the
// decision (decide.h). Output: the decision; every round is stored on the way. Not handled here:
// the source of configurations (space.h), the method of the decision (decide.h), processes
// (src/tune/process_harness.h is a Harness).
//
// Example:
//
//   struct TwoKernels : Harness {  // a harness in this process; variants are configurations
//     absl::StatusOr<HarnessInfo> Hello() override {
//       return HarnessInfo{.name = "example", .device = "gpu:0", .device_class = "NVIDIA H100"};
//     }
//     absl::Status Prepare(std::span<const Configuration> variants,
//                          PreparedCallback done) override {
//       for (size_t i = 0; i < variants.size(); ++i) done(i, {.fingerprint = variants[i].id});
//       return absl::OkStatus();
//     }
//     absl::StatusOr<VariantState> Verify(const Configuration&) override { return VariantState{}; }
//     absl::StatusOr<RoundTimes> RunRound(int64_t, int64_t, std::string_view,
//                                         std::span<const Configuration* const> order) override {
//       RoundTimes times;
//       for (const Configuration* variant : order) {  // run and time each of them here
//         times.slots.push_back({.t_ps = variant->id == "a" ? 5'000'000 : 5'500'000});
//       }
//       return times;
//     }
//   };
//   const std::vector<Configuration> variants = {{.id = "a", .params_json = R"({"block_m":32})"},
//                                                {.id = "b", .params_json = R"({"block_m":64})"}};
//   auto store = TuneStore::Open("tuned.db", {});
//   if (!store.ok()) return store.status();
//   TuneOptions options;
//   options.decide.stop = Stop::kPick;
//   TwoKernels harness;
//   TuneWatcher watcher;
//   auto outcome = Tune(variants, options, &harness, &*store, &watcher);
//   if (!outcome.ok()) return outcome.status();  // the store, or a harness that cannot work at all
//   const std::optional<size_t> pick = outcome->VariantOf(outcome->verdict.pick);
//   assert(pick && outcome->variants[*pick].configuration.id == "a");
//
// Steps:
// 1. Hello to the harness.
// 2. All configurations are prepared and, if the harness supports it, verified. Configurations with
//    one fingerprint become one variant and its aliases.
// 3. If there is a searcher, its stages reduce the configurations to a few finalists.
// 4. The batches of the decider are measured. Each round is stored before it counts.
// 5. Fresh rounds compare the pick with the baseline. They took no part in the choice.
// 6. With several devices, each round runs on one device with all its variants, and additional
//    rounds at the end check whether the devices agree.
//
// Each round is stored once, in one transaction. A killed run can therefore resume at the same
// place.
//
// Times are integers in picoseconds; with several workloads a time is their weighted mean. Tune
// uses one thread, and with a HarnessFleet one more for each of its devices. A harness serves one
// Tune at a time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "xplane_time/decide.h"
#include "xplane_time/space.h"
#include "xplane_time/store.h"

namespace xplane_time {

// The harness's description of itself. All fields except `device` and `name` are part of the key in
// the store.
struct HarnessInfo {
  std::string name, device, device_class;
  std::string clock = "wall";  // "device", "profile" or "wall"
  std::string driver = {}, framework = {}, flags = {}, code_hash = {};
  bool verifies = false;
};

// The result of preparing or verifying a variant.
struct VariantState {
  std::string status = "ok";  // a status of docs/tuning.md
  std::string fingerprint = {}, message = {};
  std::optional<int64_t> mem_bytes = {};
};

struct SlotTime {
  std::string status = "ok";
  std::optional<int64_t> t_ps = {}, energy_uj = {};
  std::string message = {};  // describes a failure
  // Begin and end of the timed calls, without the untimed run before them, on CLOCK_MONOTONIC of
  // this machine. Both or neither are set.
  std::optional<int64_t> begin_ns = {}, end_ns = {};
  // the workloads of its weighted mean; a harness leaves this empty
  std::vector<WorkloadSample> workloads = {};
  // Further values that the harness reports, by name: "accuracy", "peak_rss_bytes".
  std::map<std::string, double> metrics = {};
};

struct RoundTimes {
  std::vector<SlotTime> slots;  // one per slot, in order
  bool throttled = false;
  std::string notes_json = "{}";
};

// Builds and runs variants: a process (docs/harness.md), or code of this program. Failures of
// variants are statuses. An error ends the tuning; Cancelled ends it without a message.
class HarnessFleet;
class Harness {
 public:
  virtual ~Harness() = default;
  virtual absl::StatusOr<HarnessInfo> Hello() = 0;
  // Compiles variants, several at once if the harness supports it. It calls `done` once for each
  // variant, in any order.
  using PreparedCallback = absl::FunctionRef<void(size_t variant, const VariantState& state)>;
  virtual absl::Status Prepare(std::span<const Configuration> variants, PreparedCallback done) = 0;
  virtual absl::StatusOr<VariantState> Verify(const Configuration& variant) = 0;
  // Runs the variants of `order`, which were prepared before, in sequence, each `calls` times.
  virtual absl::StatusOr<RoundTimes> RunRound(int64_t batch, int64_t round,
                                              std::string_view workload,
                                              std::span<const Configuration* const> order) = 0;
  // Not null: several devices at once (src/tune/harness_fleet.h), which measure the rounds.
  virtual HarnessFleet* Fleet() { return nullptr; }
};

// The result of a configuration that a search requested.
struct Searched {
  const Configuration* configuration = nullptr;
  std::string status = "ok";
  // Value of the objective (less is better): the lower median of all its samples in the search.
  std::optional<double> value = {};
  // alias of a measured configuration, whose status and value are given here
  bool is_alias = false;
};

// The configurations to measure next, each in `rounds` rounds. If empty, the search is over.
struct SearchStage {
  std::vector<Configuration> configurations = {};
  uint32_t rounds = 1;
  // Statistics of proposals since the last stage: all, refused ones and repeated ones.
  uint64_t proposed = 0, refused = 0, repeated = 0;
};

// How a stage is measured.
struct StageRules {
  // maximum number of further rounds, to replace runs without a time that do not count as failures
  uint32_t spare_rounds = 2;
  // number of failures after which a configuration is dropped
  uint32_t failures = 1;
  // if false, configurations that compile to the same program are measured once
  bool measures_aliases = false;
};

// Finds a few promising configurations (finalists) among many, with few rounds for each. The
// decider then decides among the finalists with new rounds. It is not proved that the
// configurations that a searcher drops are slower. A resumed run passes the stored stages to Tell()
// without calling Next() first; the behaviour of a searcher may therefore depend only on the
// arguments of Begin() and Tell().
class Searcher {
 public:
  virtual ~Searcher() = default;
  // For example "halving:8". It is part of the session's identity, so that two search methods do
  // not mix.
  virtual std::string Name() const = 0;
  virtual StageRules Rules() const { return {}; }
  // The configurations that exist at the start.
  virtual void Begin(std::span<const Configuration> known) = 0;
  virtual absl::StatusOr<SearchStage> Next() = 0;
  virtual void Tell(std::span<const Searched> stage) = 0;
  // The ids of the finalists, best first. Called after an empty stage.
  virtual std::vector<std::string> Finalists() const = 0;
};

struct TuneOptions {
  DecideConfig decide;
  Searcher* searcher = nullptr;  // null: all configurations are measured in the decision
  // Ids of variants. The baseline takes part in all rounds of the comparison at the end. An empty
  // baseline means the incumbent. There is no comparison if both are empty or if the baseline is
  // the pick.
  std::string baseline = {}, incumbent = {};
  uint64_t confirmation_rounds = 10;
  std::string workload = {};  // the name in the key
  std::string space_hash = {};
  std::vector<Workload> workloads = {};  // empty: one unnamed workload
  std::string protocol = {};             // how a round is measured (calls, ...), for the key
  Resume resume = Resume::kIfThere;
  int64_t now_unix_s = 0;
  // A file on this machine with a lock for each device, so that no other user of the file measures
  // on a device at the same time. Empty: no locks.
  std::string device_locks = {};
  std::function<bool()> stopped = [] { return false; };  // called between rounds
};

// Statistics of the samples of the decision. Unknown without samples.
struct Tail {
  uint64_t samples = 0;
  std::optional<double> typical_ps = {};  // the median
  std::optional<double> typical_uj = {};  // if each sample has an energy
  std::optional<double> p95_ratio = {};   // 95 % quantile over median; from 20 samples on
  // fraction of samples far above the median (docs/tuning.md)
  std::optional<double> spike_rate = {};
};

// The pick is proved to be worse than a rival in a property of the distribution of times that the
// typical time does not show.
struct TailFlag {
  std::string rival;           // id of the rival
  std::string what;            // "p95" or "spikes"
  double pick = 0, other = 0;  // p95_ratio or spike_rate, in the rounds of both
};

struct TunedVariant {
  Configuration configuration;
  VariantState state = {};
  std::optional<size_t> alias_of = {};    // the measured variant with the same fingerprint
  std::optional<uint32_t> measured = {};  // position in the decider's space
  std::optional<double> searched = {};    // Searched::value
  std::string search_failure = {};        // the status of its failure in the search; empty: it ran
  // the search dropped it: neither in the decision nor certified to be slower
  bool dropped = false;
  Tail tail = {};
};

// The search before the decision. The runs of the verdict do not include its runs.
struct SearchReport {
  std::string strategy;              // the name of the searcher
  uint64_t searched = 0, raced = 0;  // numbers of configurations without aliases
  uint64_t stages = 0, rounds = 0, runs = 0;
  uint64_t proposed = 0, refused = 0, repeated = 0;  // statistics of a proposer
};

// The check of whether several devices of one kind agree. The check uses rounds after the decision,
// in which the pick and its nearest rivals run on each device (docs/tuning.md).
struct DeviceCheck {
  struct Device {
    std::string name;
    uint64_t rounds = 0;
    // The time of the same variants on this device, divided by the median over all devices (if
    // there are two: by the time on the other one). The intervals of all devices together are
    // correct with a probability of 99 % (1 - alpha). The verdict follows from the interval: slow,
    // fast, typical or cannot_tell.
    std::optional<double> ratio = {}, lo = {}, hi = {};
    std::string verdict = "cannot_tell";
  };
  // Two groups of devices on which a variant has different relative speeds.
  struct Split {
    std::string variant;
    std::vector<std::string> devices, others;
    double ratio = 1, others_ratio = 1;  // its time over the median of the other variants' times
    double p = 1;                        // adjusted for all variants
  };
  struct Lost {
    std::string device, message;
  };
  std::vector<std::string> variants = {};  // ids; the pick first
  std::vector<Device> devices = {};
  // Groups of devices that agree. If there is one group, all devices share one answer. If there are
  // several, each group needs its own answer. Lost devices are in no group.
  std::vector<std::vector<std::string>> classes = {};
  std::vector<Split> splits = {};
  // The smallest difference between two halves of the devices that would have been detected (95 %).
  std::optional<double> mde = {};
  std::vector<Lost> lost = {};
};

// The pick compared with the baseline, in rounds after the decision. A speedup of 1.05 means that
// the pick is 5 % better in the metric.
struct Confirmation {
  std::string baseline = {};            // id of the baseline
  uint64_t rounds = 0;                  // rounds in which both have a time
  Objective metric = Objective::kTime;  // for a Pareto front: time
  std::optional<double> speedup = {};
  std::optional<std::array<std::optional<double>, 2>> speedup_ci95 = {};
};

struct TuneOutcome {
  HarnessInfo harness;
  DecideConfig decide;  // with the budget of this run
  int64_t session = 0;
  bool resumed = false, interrupted = false;
  uint64_t rounds_before = 0;  // rounds of an earlier run
  std::vector<TunedVariant> variants;
  std::optional<SearchReport> search = {};
  Verdict verdict;  // indices are those of `measured`; with a search, of the finalists
  std::optional<Confirmation> confirmation = {};
  std::optional<DeviceCheck> devices = {};  // for several devices
  uint64_t rounds_measured = 0;             // rounds of any kind that this run measured
  std::vector<TailFlag> tail_flags = {};    // flags do not change the verdict
  // The kinds of energies from sensors: "measured", "attributed" (by regression, for runs that are
  // shorter than the sensor resolves), "modelled" (from a stated power); or several.
  std::set<std::string> energy_kinds = {};
  // Index into `variants`.
  std::optional<size_t> VariantOf(std::optional<uint32_t> measured) const;
};

// Receives events as they happen. Its functions must return quickly.
class TuneWatcher {
 public:
  virtual ~TuneWatcher() = default;
  virtual void OnHello(const HarnessInfo& /*harness*/, const TuneSession& /*session*/) {}
  // Called if an unfinished session cannot be resumed because the named properties differ. A new
  // session begins.
  virtual void OnAnother(int64_t /*unfinished*/, std::span<const std::string> /*differs*/) {}
  virtual void OnPrepared(const TunedVariant& /*variant*/, size_t /*done*/, size_t /*of*/) {}
  // Called for each round that counts, in the order of the session; this run or an earlier run
  // stored the round. An error ends the tuning.
  virtual absl::Status OnRecord(const RoundRecord& /*round*/) { return absl::OkStatus(); }
  // Called after a round of the search, with the number of measured configurations of the stage.
  virtual void OnSearching(const SearchReport& /*search*/, size_t /*in_stage*/) {}
  // Called after a round was folded.
  virtual void OnRound(const Decider& /*decider*/, std::span<const TunedVariant> /*variants*/) {}
  // Called after a round that checks whether the devices agree.
  virtual void OnCheckingDevices(uint64_t /*done*/, uint64_t /*of*/) {}
  virtual void OnConfirming(uint64_t /*done*/, uint64_t /*of*/) {}
};

// Checks the configurations and options that Tune refuses for any harness. Call it before a store
// is created. Errors: InvalidArgument.
absl::Status CheckTuneOptions(std::span<const Configuration> configurations,
                              const TuneOptions& options);

// Runs the tuning. Errors: of the harness (Unavailable: it cannot work, or gives no energy although
// the objective needs it), of the searcher, of the store; InvalidArgument (an unknown incumbent or
// baseline; options of the decision). When this returns, the verdict is in the store, also after an
// interruption.
absl::StatusOr<TuneOutcome> Tune(std::span<const Configuration> configurations,
                                 const TuneOptions& options, Harness* harness, TuneStore* store,
                                 TuneWatcher* watcher);

// Everything that is stored for a session, in the order in which it was stored.
struct RecordedSession {
  std::string source = {};  // origin, for messages
  SessionInfo info = {};
  std::vector<Configuration> variants = {};
  std::vector<RoundRecord> rounds = {};
};
// Errors: NotFound, DataLoss.
absl::StatusOr<RecordedSession> ReadSession(const TuneStore& store, int64_t session);

// A verdict on the rounds of a session under another rule. `changes_json` has the changed fields of
// the config (docs/deciding.md). With a budget, only the first rounds that fit it count. If the
// rounds do not suffice, stop_reason is "recorded_rounds". Errors: FailedPrecondition (no rounds),
// InvalidArgument (a field), DataLoss.
absl::StatusOr<TuneOutcome> Replay(const RecordedSession& session, std::string_view changes_json);

// The comparison of `pick` with its baseline from the rounds after the decision. Empty if there are
// no such rounds in which both have a time.
std::optional<Confirmation> RecordedConfirmation(const RecordedSession& session,
                                                 const std::string& pick, Objective objective);

}  // namespace xplane_time
