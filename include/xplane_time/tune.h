// Tune: a harness, a decider and a store, until the decision stands.
//
// Enters: configurations, a Harness that builds and runs them, a TuneStore, the rules of the
// decision (decide.h). Leaves: what was decided, stored round by round on the way. Not
// handled here: where configurations come from (space.h), how the decision is made
// (decide.h), processes (src/tune/process_harness.h is a Harness).
//
//   TuneOptions options;
//   options.decide.stop = Stop::kPick;
//   auto outcome = Tune(configurations, options, &harness, &store, &watcher);
//   if (!outcome.ok()) ...             // the store, or a harness that cannot work at all
//   outcome->verdict.pick              // into outcome->variants, by `measured`
//
// The way: hello; all configurations are prepared and, where the harness can, verified;
// those with one fingerprint are one variant and its aliases; where there is a searcher, its
// stages, after which few are left; then the decider's batches, each round stored before it
// counts; then fresh rounds of the pick against the baseline, which took no part in the
// choice. Of several devices each round runs on one, with all its variants; at the end some more
// show whether the devices agree. Each round is stored once, in one transaction: a run that was
// killed goes on where it was, whatever killed it.
//
// Times are integers of picoseconds: with several workloads the weighted mean of theirs.
// One thread, and with a HarnessFleet one for each of its devices; a harness is for one Tune at a
// time.
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

// What a harness says of itself; all but `device` and `name` is part of the store's key.
struct HarnessInfo {
  std::string name, device, device_class;
  std::string clock = "wall";  // device, profile, wall
  std::string driver = {}, framework = {}, flags = {}, code_hash = {};
  bool verifies = false;
};

// How preparing or verifying a variant went.
struct VariantState {
  std::string status = "ok";  // tuning.md's names
  std::string fingerprint = {}, message = {};
  std::optional<int64_t> mem_bytes = {};
};

struct SlotTime {
  std::string status = "ok";
  std::optional<int64_t> t_ps = {}, energy_uj = {};
  std::string message = {};  // of a failure
  // Of its timed calls, on CLOCK_MONOTONIC of this machine: the untimed run is before. Both or
  // none.
  std::optional<int64_t> begin_ns = {}, end_ns = {};
  std::vector<WorkloadSample> workloads = {};  // what it is the sum of; a harness leaves it empty
  // What the harness says of it besides, by names of its own: "accuracy", "peak_rss_bytes".
  std::map<std::string, double> metrics = {};
};

struct RoundTimes {
  std::vector<SlotTime> slots;  // one a slot, in order
  bool throttled = false;
  std::string notes_json = "{}";
};

// What builds and runs variants: a process (docs/harness.md), or code of this program.
// Failures of variants are statuses; an error ends the tuning, Cancelled quietly.
class HarnessFleet;
class Harness {
 public:
  virtual ~Harness() = default;
  virtual absl::StatusOr<HarnessInfo> Hello() = 0;
  // Compiles, where the harness can several at once; `done` is called once for each, in any
  // order.
  using PreparedCallback = absl::FunctionRef<void(size_t variant, const VariantState& state)>;
  virtual absl::Status Prepare(std::span<const Configuration> variants, PreparedCallback done) = 0;
  virtual absl::StatusOr<VariantState> Verify(const Configuration& variant) = 0;
  // Runs what `order` names, prepared before, one after the other, each `calls` times.
  virtual absl::StatusOr<RoundTimes> RunRound(int64_t batch, int64_t round,
                                              std::string_view workload,
                                              std::span<const Configuration* const> order) = 0;
  // Not null: several devices at once (src/tune/harness_fleet.h), which take the rounds.
  virtual HarnessFleet* Fleet() { return nullptr; }
};

// What a search knows of a configuration that it asked for.
struct Searched {
  const Configuration* configuration = nullptr;
  std::string status = "ok";
  // Of the objective, less is better: the lower median of all its samples of the search.
  std::optional<double> value = {};
  bool is_alias = false;  // of one that was measured: status and value are that one's
};

// Configurations to measure next, each in `rounds` rounds; none: the search is over.
struct SearchStage {
  std::vector<Configuration> configurations = {};
  uint32_t rounds = 1;
  // Of what was proposed since the last stage: how much, and what was passed over.
  uint64_t proposed = 0, refused = 0, repeated = 0;
};

// How a stage is measured.
struct StageRules {
  uint32_t spare_rounds = 2;      // for runs that gave nothing, and nobody is to blame
  uint32_t failures = 1;          // of its own that end a configuration
  bool measures_aliases = false;  // else what compiles to the same program is measured once
};

// Finds few configurations among many by few rounds each; the decider then decides among
// these, by rounds of their own. What a searcher drops is not certified to be slower.
// A run that goes on is told stored stages again, without being asked for them: what it
// says may depend on Begin and on what it was told, and on nothing else.
class Searcher {
 public:
  virtual ~Searcher() = default;
  // "halving:8": of the session's identity, so that two ways of searching do not mix.
  virtual std::string Name() const = 0;
  virtual StageRules Rules() const { return {}; }
  // Those that are there already.
  virtual void Begin(std::span<const Configuration> known) = 0;
  virtual absl::StatusOr<SearchStage> Next() = 0;
  virtual void Tell(std::span<const Searched> stage) = 0;
  // After a stage of none: ids, best first.
  virtual std::vector<std::string> Finalists() const = 0;
};

struct TuneOptions {
  DecideConfig decide;
  Searcher* searcher = nullptr;  // none: all configurations are raced
  // In all rounds of comparison at the end; empty: the incumbent; none where both are unset,
  // or where it is the pick. Its and the incumbent's ids.
  std::string baseline = {}, incumbent = {};
  uint64_t confirmation_rounds = 10;
  std::string workload = {};  // what the key calls it
  std::string space_hash = {};
  std::vector<Workload> workloads = {};  // empty: one, unnamed
  std::string protocol = {};             // how a round is measured (calls, ...), for the key
  Resume resume = Resume::kIfThere;
  int64_t now_unix_s = 0;
  // A file of this machine with a lock for each device, so that nobody else of its users
  // measures there meanwhile; empty: none.
  std::string device_locks = {};
  std::function<bool()> stopped = [] { return false; };  // asked between rounds
};

// Of the samples of the race; unknown without any.
struct Tail {
  uint64_t samples = 0;
  std::optional<double> typical_ps = {};  // the median
  std::optional<double> typical_uj = {};  // where each sample has an energy
  std::optional<double> p95_ratio = {};   // 95 % quantile over median; of 20 samples or more
  std::optional<double> spike_rate = {};  // share of samples far over the median (tuning.md)
};

// The pick is proved to be worse than a rival in what the typical time does not show.
struct TailFlag {
  std::string rival;           // its id
  std::string what;            // "p95" or "spikes"
  double pick = 0, other = 0;  // p95_ratio or spike_rate, in the rounds of both
};

struct TunedVariant {
  Configuration configuration;
  VariantState state = {};
  std::optional<size_t> alias_of = {};    // the variant with its fingerprint that is measured
  std::optional<uint32_t> measured = {};  // place in the decider's space
  std::optional<double> searched = {};    // Searched::value
  std::string search_failure = {};        // the status it failed with in the search; empty: it ran
  bool dropped = false;                   // by the search: not in the race, and not certified
  Tail tail = {};
};

// What came before the race. Its runs are not among those of the verdict.
struct SearchReport {
  std::string strategy;              // Searcher::Name
  uint64_t searched = 0, raced = 0;  // configurations; aliases are not counted
  uint64_t stages = 0, rounds = 0, runs = 0;
  uint64_t proposed = 0, refused = 0, repeated = 0;  // of a proposer
};

// On several devices of one kind: whether they agree. From rounds after the decision, in which the
// pick and its nearest rivals run on each device (docs/tuning.md).
struct DeviceCheck {
  struct Device {
    std::string name;
    uint64_t rounds = 0;
    // Its time over the median of all devices', or of two over the other's, of the same variants;
    // an interval that holds for all devices together in 99 % (alpha), and what it proves: slow,
    // fast, typical or cannot_tell.
    std::optional<double> ratio = {}, lo = {}, hi = {};
    std::string verdict = "cannot_tell";
  };
  // Two groups of devices on which a variant does differently well.
  struct Split {
    std::string variant;
    std::vector<std::string> devices, others;
    double ratio = 1, others_ratio = 1;  // its time over the median of the other variants'
    double p = 1;                        // adjusted for all variants
  };
  struct Lost {
    std::string device, message;
  };
  std::vector<std::string> variants = {};  // ids; the pick first
  std::vector<Device> devices = {};
  // Devices in groups that agree: of one there is one answer, of several each needs its own. A
  // device that was lost is in none.
  std::vector<std::vector<std::string>> classes = {};
  std::vector<Split> splits = {};
  // The smallest difference between two halves of the devices that it would have shown (95 %).
  std::optional<double> mde = {};
  std::vector<Lost> lost = {};
};

// Pick against baseline, in rounds of their own: 1.05 is 5 % faster, or what the objective says.
struct Confirmation {
  std::string baseline = {};            // its id
  uint64_t rounds = 0;                  // in which both have a time
  Objective metric = Objective::kTime;  // of a front the time
  std::optional<double> speedup = {};
  std::optional<std::array<std::optional<double>, 2>> speedup_ci95 = {};
};

struct TuneOutcome {
  HarnessInfo harness;
  DecideConfig decide;  // with the budget of this run
  int64_t session = 0;
  bool resumed = false, interrupted = false;
  uint64_t rounds_before = 0;  // of an earlier run
  std::vector<TunedVariant> variants;
  std::optional<SearchReport> search = {};
  Verdict verdict;  // of indices of `measured`: of the finalists, where there was a search
  std::optional<Confirmation> confirmation = {};
  std::optional<DeviceCheck> devices = {};  // of several
  uint64_t rounds_measured = 0;             // by this run, of any kind
  std::vector<TailFlag> tail_flags = {};    // they change no verdict
  // Of energies from sensors: "measured", "attributed" (by regression, of runs shorter than the
  // sensor tells), "modelled" (of a power that somebody states); or several.
  std::set<std::string> energy_kinds = {};
  // Into `variants`.
  std::optional<size_t> VariantOf(std::optional<uint32_t> measured) const;
};

// Told what happens, as it happens. Its calls return soon.
class TuneWatcher {
 public:
  virtual ~TuneWatcher() = default;
  virtual void OnHello(const HarnessInfo& /*harness*/, const TuneSession& /*session*/) {}
  // A session was to go on, and another one than this begins: in what they differ.
  virtual void OnAnother(int64_t /*unfinished*/, std::span<const std::string> /*differs*/) {}
  virtual void OnPrepared(const TunedVariant& /*variant*/, size_t /*done*/, size_t /*of*/) {}
  // Of each round that counts, stored just now or by an earlier run, in the order of the session.
  // An error ends the tuning.
  virtual absl::Status OnRecord(const RoundRecord& /*round*/) { return absl::OkStatus(); }
  // After a round of the search: of the stage, those that are measured.
  virtual void OnSearching(const SearchReport& /*search*/, size_t /*in_stage*/) {}
  // After a round was folded.
  virtual void OnRound(const Decider& /*decider*/, std::span<const TunedVariant> /*variants*/) {}
  // After a round that shows whether the devices agree.
  virtual void OnCheckingDevices(uint64_t /*done*/, uint64_t /*of*/) {}
  virtual void OnConfirming(uint64_t /*done*/, uint64_t /*of*/) {}
};

// What Tune refuses, whatever the harness: InvalidArgument. To be asked before a store is made.
absl::Status CheckTuneOptions(std::span<const Configuration> configurations,
                              const TuneOptions& options);

// Errors: of the harness (Unavailable: it cannot work, or gives no energy where the objective
// is of energy), of the searcher, of the store, InvalidArgument (an incumbent or a baseline
// that is not there; options of the decision). The verdict is in the store when this returns,
// that of an interruption too.
absl::StatusOr<TuneOutcome> Tune(std::span<const Configuration> configurations,
                                 const TuneOptions& options, Harness* harness, TuneStore* store,
                                 TuneWatcher* watcher);

// All that is stored of a session, in the order in which it was stored.
struct RecordedSession {
  std::string source = {};  // whence it is, for messages
  SessionInfo info = {};
  std::vector<Configuration> variants = {};
  std::vector<RoundRecord> rounds = {};
};
// Errors: NotFound, DataLoss.
absl::StatusOr<RecordedSession> ReadSession(const TuneStore& store, int64_t session);

// A verdict on the rounds of a session by another rule: `changes_json` has the fields of
// config (docs/deciding.md) that are to differ; with a budget the first rounds that it pays
// for. Where the rounds do not suffice, stop_reason is "recorded_rounds". Errors:
// FailedPrecondition (no rounds), InvalidArgument (a field), DataLoss.
absl::StatusOr<TuneOutcome> Replay(const RecordedSession& session, std::string_view changes_json);

// What the rounds after the decision say of `pick` and the baseline, which they were of; none:
// there were none in which both have a time.
std::optional<Confirmation> RecordedConfirmation(const RecordedSession& session,
                                                 const std::string& pick, Objective objective);

}  // namespace xplane_time
