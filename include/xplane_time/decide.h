// Decide: finds the fastest variant of a kernel with as few timed runs as the noise allows.
//
//   input    a space of variants, and rounds of samples as they were measured
//   output   the next batch of rounds to measure, or a verdict with its evidence
//
// Example:
//
//   auto decider = Decider::Open({.variants = {{.id = "a"}, {.id = "b"}}}, {.seed = 1});
//   if (!decider.ok()) return decider.status();
//   while (const Batch* next = decider->Next()) {  // null: the verdict is final
//     const Batch batch = *next;                   // `next` is valid until the next Fold
//     for (size_t i = 0; i < batch.rounds.size(); ++i) {
//       RoundResult round = {.batch = batch.batch, .round = i};
//       uint32_t slot = 0;
//       for (uint32_t variant : batch.rounds[i]) {
//         const int64_t t_ps = variant == 0 ? 5'000'000 : 5'500'000;  // run it here, and time it
//         round.samples.push_back({.variant = variant, .slot = slot++, .t_ps = t_ps});
//       }
//       auto folded = decider->Fold(round);  // InvalidArgument, with an unchanged state: batch 99
//       if (!folded.ok()) return folded.status();
//     }
//   }
//   assert(decider->verdict().pick == 0);  // index of a variant
//   assert(absl::IsInvalidArgument(Decider::Open({}, {}).status()));  // the space has no variants
//
// The decider is a pure function: it uses no clock, file or thread. Its state depends on the set of
// folded rounds and not on their order of arrival. The same seed gives the same result, byte for
// byte. The texts of ids have no influence: the result depends on positions in the space and on the
// config.
//
// Not handled here: measuring, correctness of results, the fresh rounds after the decision (the
// driver does these), and differences between devices. docs/deciding.md has the method and its
// sources, docs/deciding-measured.md its results in simulation.
//
// Units: t_ps picoseconds, energy_uj microjoules. Ratios are time over time (or energy, or their
// product, depending on the objective); 1.01 is 1 % slower. A Decider is not thread-safe, but
// several threads may read a const Decider.
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
  std::string id;                // unique; its text has no influence
  std::string params_json = {};  // canonical text; the last criterion for ties
  std::optional<int64_t> mem_bytes = {};
};

struct Space {
  std::vector<Variant> variants;  // 1 to kMaxVariants
};

constexpr size_t kMaxVariants = 100'000;  // larger spaces must be sampled first
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
// Parses the name of a status. "crash" and "crash(11)" give the same status.
std::optional<SampleStatus> ParseSampleStatus(std::string_view name);

struct Sample {
  uint32_t variant = 0;  // position in the space
  uint32_t slot = 0;     // order of the sample within its round, failed runs included
  SampleStatus status = SampleStatus::kOk;
  int64_t t_ps = 0;  // above 0 if kOk
  std::optional<double> energy_uj = {};
};

struct RoundResult {
  uint64_t batch = 0;
  uint64_t round = 0;      // unique within the batch: a position or a counter
  bool discarded = false;  // throttled: its runs count, but its samples do not
  std::vector<Sample> samples = {};
};

enum class Stop : uint8_t {
  kPick,   // stop when the regret of the pick is at most delta
  kClaim,  // stop when a winner or a tie is proved, which takes several times the runs
};
constexpr std::array<std::string_view, 2> NamesOf(Stop) { return {"pick", "claim"}; }

struct DecideConfig {
  double alpha = 0.01;      // probability of ever dropping a variant that is more than delta faster
  double tie_alpha = 0.05;  // probability of a tie if the variants are more than delta apart
  double delta = 0.005;     // differences below this fraction count as ties
  Stop stop = Stop::kPick;
  Objective objective = Objective::kTime;
  std::optional<uint32_t> incumbent = {};      // kept unless a faster variant is proved
  std::optional<int64_t> budget_runs = {};     // empty: kMaxRuns
  std::optional<int64_t> budget_time_ps = {};  // limits the sum of the measured times
  // N: the leader runs twice in every N-th round; 0: never
  uint32_t canary = 25;
  // Minimum number of rounds of a batch, if more rounds can help: the number of devices.
  uint32_t rounds_at_once = 1;
  uint64_t seed = 0;
};
constexpr int64_t kMaxRuns = 10'000'000;
constexpr uint32_t kMaxRoundsAtOnce = 1024;

// Rounds in order of execution. A variant that is in a round twice is the canary.
struct Batch {
  uint64_t batch = 0;  // from 1
  std::vector<std::vector<uint32_t>> rounds;
};

struct Elimination {
  uint32_t variant = 0;
  std::optional<uint32_t> by = {};   // empty: the variant failed
  uint64_t round = 0;                // number of folded rounds at that time
  std::string reason = {};           // "slower", "not_faster", "dominated", or a status
  std::optional<double> ratio = {};  // ratio to `by` at that time
  std::optional<double> lo = {};     // lower bound of the ratio
};

struct Ratio {
  uint32_t variant = 0;
  double est = 1;                 // ratio to the pick
  std::optional<double> lo = {};  // time-uniform interval, 1 - alpha per side
  std::optional<double> hi = {};
};

struct CanaryReport {
  uint64_t rounds = 0;
  double ratio = 1;  // ratio of the leader to itself
  double lo = 0, hi = 0;
  // the interval excludes 1: delta grows by the distance from 1 to its nearer end
  bool biased = false;
};

struct Verdict {
  std::optional<uint32_t> pick = {};
  Claim claim = Claim::kUndecided;
  // including the pick, in order of preference; or the Pareto front
  std::vector<uint32_t> tied = {};
  std::vector<Elimination> eliminated = {};
  std::vector<Ratio> ratios = {};
  // From the bootstrap: the probability that no variant is faster, and the mean and the 95 %
  // quantile of the regret. Empty for a Pareto front.
  std::optional<double> p_best = {}, regret_est = {}, regret_hi = {};
  double delta = 0;                         // the delta in use: that of the config, or a wider one
  std::optional<CanaryReport> canary = {};  // from four canary rounds on
  // the smallest gap to the nearest rival that could be proved
  std::optional<double> mde = {};
  int64_t runs = 0;
  uint64_t rounds = 0;  // including discarded rounds
  // "certified", "proved", "one_left", "all_failed", "budget_runs", "budget_time", "throttled",
  // "interrupted"; or "not_worth_it": the pick is certified, but the budget does not suffice for a
  // claim.
  std::string stop_reason;
  std::string rule;  // name and version of the method
  uint64_t seed = 0;
};

enum class Folded : uint8_t {
  kStored,         // more rounds of the batch are missing
  kBatchComplete,  // Next() has a new result
  kRepeated,       // the round was known; ignored
};

enum class Detail : uint8_t { kAll, kStanding };

class Decider {
 public:
  // Errors: InvalidArgument (no variants or too many, a duplicate id, a config out of range).
  static absl::StatusOr<Decider> Open(Space space, const DecideConfig& config);
  Decider(Decider&&) noexcept;
  Decider& operator=(Decider&&) noexcept;
  ~Decider();

  // Adds a measured round. Errors: InvalidArgument, and the state is unchanged (an unknown batch or
  // variant, a time that is not positive, a variant more than twice, a missing energy that the
  // objective needs). O(samples); for the last round of a batch, O(all samples).
  absl::StatusOr<Folded> Fold(const RoundResult& result);

  // Folds the rounds of an interrupted run of the same space and config, in any order.
  absl::Status Resume(std::span<const RoundResult> results);

  // The batch to measure next, or null if the verdict is final. The pointer is valid until the next
  // Fold.
  const Batch* Next();
  const Verdict& verdict() const;  // valid after Next() returned null

  // The verdict on the rounds so far, for interruptions and progress. With kStanding it has no
  // p_best and no regret, because their bootstrap is most of the work.
  Verdict Judge(std::string_view stop_reason, Detail detail = Detail::kAll) const;

  const Space& space() const;

 private:
  struct Impl;
  explicit Decider(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Returns the verdict on recorded rounds under the rule of `config`, even if another rule requested
// these rounds.
absl::StatusOr<Verdict> JudgeRecorded(const Space& space, const DecideConfig& config,
                                      std::span<const RoundResult> results);

}  // namespace xplane_time
