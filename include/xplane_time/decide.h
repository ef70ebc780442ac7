// Decide: which variant of a kernel is the fastest, from as few timed runs as the noise allows.
//
//   enters   a space of variants, and rounds of samples as they were measured
//   leaves   the next batch of rounds to measure, or a verdict with its evidence
//
//   auto decider = Decider::Open({.variants = {{.id = "a"}, {.id = "b"}}}, {.seed = 1});
//   while (const Batch* batch = decider->Next()) {         // null: the verdict stands
//     for (size_t i = 0; i < batch->rounds.size(); ++i) {
//       absl::Status folded = decider->Fold({.batch = batch->batch, .round = i,
//                                            .samples = Measure(batch->rounds[i])}).status();
//     }
//   }
//   decider->verdict().pick;                               // index of a variant
//
//   Decider::Open({}, {})                  // InvalidArgument: the space has no variants
//   decider->Fold({.batch = 99, ...})      // InvalidArgument, and the state is as before
//
// A pure function: no clock, no file, no thread. The state depends on the set of folded rounds,
// never on the order in which they arrive, and a seed gives the same bytes again. Ids carry no
// information: only positions in the space and what the config names do.
//
// Not handled here: running anything, correctness of results, the fresh rounds after the
// decision (the driver's), what differs between devices. docs/deciding.md has the method, its
// sources and what it reached in simulation.
//
// Units: t_ps picoseconds, energy_uj microjoules; ratios are time over time (or energy, or
// their product, as the objective says), 1.01 is 1 % slower. Not thread-safe; a const Decider
// may be read by several threads.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "xplane_time/claim.h"
#include "xplane_time/objective.h"

namespace xplane_time {

struct Variant {
  std::string id;                // unique; carries no information
  std::string params_json = {};  // canonical text; decides the last of ties
  std::optional<int64_t> mem_bytes = {};
};

struct Space {
  std::vector<Variant> variants;  // 1 to kMaxVariants
};

constexpr size_t kMaxVariants = 100'000;  // more: sample the space first
constexpr uint32_t kBlockRuns = 20;       // a longer round is split

enum class SampleStatus : uint8_t {
  kOk,
  kCompileError,
  kRuntimeError,
  kCrash,
  kTimeout,
  kOom,
  kWrongResult,
  kNoEvents,
  kThrottled,
  kInfra,
};
constexpr std::array<std::string_view, 10> NamesOf(SampleStatus) {
  return {"ok",  "compile_error", "runtime_error", "crash",     "timeout",
          "oom", "wrong_result",  "no_events",     "throttled", "infra"};
}
constexpr std::string_view SampleStatusName(SampleStatus status) {
  return NamesOf(status)[static_cast<size_t>(status)];
}
// "crash" and "crash(11)" are the same status.
std::optional<SampleStatus> ParseSampleStatus(std::string_view name);

struct Sample {
  uint32_t variant = 0;  // position in the space
  uint32_t slot = 0;     // orders the samples of the round, failed runs included
  SampleStatus status = SampleStatus::kOk;
  int64_t t_ps = 0;  // kOk: above 0
  std::optional<double> energy_uj = {};
};

struct RoundResult {
  uint64_t batch = 0;
  uint64_t round = 0;      // any number that is unique in the batch: its position, or a count
  bool discarded = false;  // throttled: its runs count, its samples do not
  std::vector<Sample> samples = {};
};

enum class Stop : uint8_t {
  kPick,   // the regret of the pick is at most delta
  kClaim,  // a winner or a tie is proved: several times the runs
};
constexpr std::array<std::string_view, 2> NamesOf(Stop) { return {"pick", "claim"}; }

struct DecideConfig {
  double alpha = 0.01;      // of ever dropping a variant that is more than delta faster
  double tie_alpha = 0.05;  // of a tie where the variants are more than delta apart
  double delta = 0.005;     // what is no difference
  Stop stop = Stop::kPick;
  Objective objective = Objective::kTime;
  std::optional<uint32_t> incumbent = {};      // stays unless a faster one is proved
  std::optional<int64_t> budget_runs = {};     // none: kMaxRuns
  std::optional<int64_t> budget_time_ps = {};  // sum of the measured times
  uint32_t canary = 25;  // the leader twice in each so-manieth round; 0: never
  // A batch has at least so many, where more of the same can help: for that many devices.
  uint32_t rounds_at_once = 1;
  uint64_t seed = 0;
};
constexpr int64_t kMaxRuns = 10'000'000;
constexpr uint32_t kMaxRoundsAtOnce = 1024;

// Rounds in execution order; a variant that is named twice in a round is the canary.
struct Batch {
  uint64_t batch = 0;  // from 1
  std::vector<std::vector<uint32_t>> rounds;
};

struct Elimination {
  uint32_t variant = 0;
  std::optional<uint32_t> by = {};   // none: it failed
  uint64_t round = 0;                // how many rounds were folded then
  std::string reason = {};           // "slower", "not_faster", "dominated" or a status
  std::optional<double> ratio = {};  // to `by`, then
  std::optional<double> lo = {};     // its lower bound
};

struct Ratio {
  uint32_t variant = 0;
  double est = 1;                 // to the pick
  std::optional<double> lo = {};  // time-uniform, 1 - alpha a side
  std::optional<double> hi = {};
};

struct CanaryReport {
  uint64_t rounds = 0;
  double ratio = 1;  // of the leader to itself
  double lo = 0, hi = 0;
  bool biased = false;  // the interval excludes 1: delta is wider by its nearer end
};

struct Verdict {
  std::optional<uint32_t> pick = {};
  Claim claim = Claim::kUndecided;
  std::vector<uint32_t> tied = {};  // with the pick, in the order of preference; or the front
  std::vector<Elimination> eliminated = {};
  std::vector<Ratio> ratios = {};
  // Of the bootstrap: that none is faster; the mean and the 95 % quantile of the regret. Not for
  // a front.
  std::optional<double> p_best = {}, regret_est = {}, regret_hi = {};
  double delta = 0;                         // the one used: that of the config, or wider
  std::optional<CanaryReport> canary = {};  // four canary rounds and more
  std::optional<double> mde = {};           // the smallest gap to the nearest rival it could prove
  int64_t runs = 0;
  uint64_t rounds = 0;  // discarded ones included
  // "certified", "proved", "one_left", "all_failed", "budget_runs", "budget_time", "throttled",
  // "interrupted"; "not_worth_it": the pick is certified, a claim is out of the budget's reach.
  std::string stop_reason;
  std::string rule;  // name and version of the method
  uint64_t seed = 0;
};

enum class Folded : uint8_t {
  kStored,         // the batch has rounds to come
  kBatchComplete,  // Next() has something new
  kRepeated,       // known already, ignored
};

enum class Detail : uint8_t { kAll, kStanding };

class Decider {
 public:
  // InvalidArgument: no or too many variants, the same id twice, a config out of range.
  static absl::StatusOr<Decider> Open(Space space, const DecideConfig& config);
  Decider(Decider&&) noexcept;
  Decider& operator=(Decider&&) noexcept;
  ~Decider();

  // InvalidArgument, and nothing has changed: an unknown batch or variant, a time that is not
  // positive, a variant more than twice, an energy that is missing where the objective needs it.
  // O(samples), and O(all samples) for the last round of a batch.
  absl::StatusOr<Folded> Fold(const RoundResult& result);

  // Rounds of an interrupted run of the same space and config, in any order.
  absl::Status Resume(std::span<const RoundResult> results);

  // The batch whose results are awaited, or null when the verdict stands. The pointer is good
  // until the next Fold.
  const Batch* Next();
  const Verdict& verdict() const;  // after Next() gave null

  // The verdict on what has been folded so far: for an interruption, and for progress. That
  // of kStanding has no p_best and no regret, whose bootstrap is most of the work.
  Verdict Judge(std::string_view stop_reason, Detail detail = Detail::kAll) const;

  const Space& space() const;

 private:
  struct Impl;
  explicit Decider(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A verdict on recorded rounds under any rule, whichever rule asked for them.
absl::StatusOr<Verdict> JudgeRecorded(const Space& space, const DecideConfig& config,
                                      std::span<const RoundResult> results);

}  // namespace xplane_time
