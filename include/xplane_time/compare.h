// Compare: did a change make functions slower?
//
// Enters: the captures of two sides, each a process. Leaves: a row a function and device
// with the ratio head / base, its interval and a verdict, and one outcome for all.
//
//   auto comparison = Compare(base->captures, head->captures, {.min_effect = 0.02});
//   for (const ComparedRow& row : comparison->rows) ...
//   return static_cast<int>(comparison->outcome);   // 0, 10, 11, 12, 20
//   // FailedPrecondition: base and head were not measured in the same way: device model
//   // is V100 in base, H100 in head; ...
//
// The unit of inference is the capture. Samples of one process share its offset (memory
// layout, clock level), so more samples of one process do not tell two programs apart.
//
//   capture   y = Huber's centre of the log times (k = 1.345: 95 % efficient, and a spike
//             counts no more than a deviation of 1.3 sigma)
//   side      mean of y; variance s^2/k between its captures, never less than what the
//             scatter within captures implies
//   row       d = mean(head) - mean(base). Its variance is the larger of Welch's and the
//             pooled one, its degrees of freedom the smaller: exact where both sides vary
//             alike, and never below what Welch demands where they do not. One capture on
//             one side borrows the variance of the other side. Processes differ by at least
//             0.1 %; and the step of the clock (the smallest difference between samples)
//             adds step^2/6, whatever the number of captures: that times on a
//             coarse clock agree says little.
//   proof     family-wise over rows, at once:
//             - the interval (t, Bonferroni, `confidence`) lies beyond min_effect, and
//             - d = 0 is rejected at `alpha` (two-sided t, Holm)
//             The first says how large the change is, the second keeps jobs quiet where
//             nothing changed: at most alpha / 2 of all runs call an unchanged program
//             slower, whatever the number of captures.
//   mde       the true slowdown that would be proved 4 times in 5
//
// One capture on both sides proves nothing (12 at most), unless `offset_std` says how much
// processes differ. A capture that is on both sides shows no change, whatever changed: the outcome
// is 12 instead of 0.
//
// Advice is per row, from its own effect and noise. `needed`: captures a side that decide the row
// with a probability of 80 %, as a range, because a few captures tell little about the noise.
// `deciding_alpha`: the alpha with which the captures at hand prove the change. `passing_max_mde`:
// the max_mde with which they suffice, if no row shows a slowdown.
//
// A function that ran on both sides and cannot be judged (no run of it counts on a side, other
// metrics, clocks, devices or numbers of programs, an uncertain split into runs) leaves 11 at best.
//
// Energies (joules a run) have a stated error each, of the sensor and of telling kernels apart. It
// may be the same in every capture of a side, so that more captures do not make it smaller: it is
// added to what the scatter between captures says. With fewer than 3 captures a side (4 degrees of
// freedom) the scatter is not known; unless `offset_std` says it or it is seen to be more, it is
// taken as 1 %, with a note. With stated errors there are at most 20 degrees of freedom. A doubt
// about a capture (poor fit, a shared device) leaves no row of it the same, less or more.
//
// References: Huber 1964; Welch 1947; Holm 1979.
//
// Pure: no clock, no files. Thread-safe. O(samples log samples).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/measurements.h"

namespace xplane_time {

struct CompareOptions {
  Objective objective = Objective::kTime;  // kTime or kEnergy: that of the captures
  double min_effect = 0.01;                // changes up to this do not matter; 0.01: 1 %
  double max_mde = 0.05;    // a row that would miss larger slowdowns has too little data
  double alpha = 0.001;     // family-wise, of any claim where nothing changed
  double confidence = 0.9;  // of all intervals together: 95 % of their lower bounds
  // Standard deviation of the log of a process's offset, where it is known.
  std::optional<double> offset_std = {};
  bool paired = false;          // the i-th captures of both sides were taken side by side
  bool allow_mismatch = false;  // what was measured differently is compared, with a note
};

enum class FunctionVerdict : uint8_t {
  kSame,           // no change was seen, and one of the row's mde would have been
  kFaster,         // proved, by more than min_effect
  kSlower,         // proved, by more than min_effect
  kCannotTell,     // the estimate is beyond min_effect, but not proved; or it fails more often
  kTooLittleData,  // mde above max_mde
  kOnlyBase,
  kOnlyHead,
  kNotComparable,  // it ran on both sides and cannot be judged; `reason` says why
  kFailed,         // no samples on a side, since it failed
  kUnknown,        // of energy: no number on a side; `reason` says why
};
inline constexpr std::string_view kVerdictNames[] = {
    "same",      "faster",    "slower",         "cannot_tell", "too_little_data",
    "only_base", "only_head", "not_comparable", "failed",      "unknown"};
// Of energy "less" and "more", for kFaster and kSlower.
constexpr std::string_view VerdictName(FunctionVerdict verdict,
                                       Objective objective = Objective::kTime) {
  const bool of_energy = objective == Objective::kEnergy;
  if (of_energy && verdict == FunctionVerdict::kFaster) return "less";
  if (of_energy && verdict == FunctionVerdict::kSlower) return "more";
  return kVerdictNames[static_cast<size_t>(verdict)];
}

// Values are exit codes.
enum class Outcome : uint8_t {
  kNoRegression = 0,
  kSlower = 10,      // some row is slower
  kCannotTell = 11,  // some row may be, failed, or cannot be judged
  kTooLittleData = 12,
  kAllFailed = 20,
};
std::string_view OutcomeName(Outcome outcome, Objective objective = Objective::kTime);

struct SideEstimate {
  uint64_t captures = 0, samples = 0;
  std::optional<double> centre = {};  // picoseconds; joules where energies are compared
  // Of the centre, `confidence` for this row alone; empty: one capture, of times.
  std::optional<double> lo = {}, hi = {};
};

// Captures a side that decide an open row.
struct CapturesNeeded {
  enum class Question : uint8_t {
    kChange,    // the change is beyond min_effect and distinct from zero: to prove it
    kNoChange,  // else: to show that the row is the same, if it has not changed
  };
  Question question = Question::kNoChange;
  std::optional<uint64_t> least;   // if effect and noise are as measured
  std::optional<uint64_t> enough;  // decides with a probability of 80 %
  // Why `enough` is empty: noise_unknown (fewer than 2 captures a side, or the noise is assumed),
  // over_limit (more than 1000), resolution (the step of the clock, or a stated error, which
  // captures do not reduce) or no_min_effect (with a min_effect of 0 no row is the same).
  std::string_view unknown;
};
std::string_view QuestionName(CapturesNeeded::Question question);

struct ComparedRow {
  std::string function;
  std::optional<std::string> variant_id;
  std::string device;
  uint32_t program = 0;  // of several with one name
  std::string metric, clock;
  SideEstimate base, head;
  std::optional<double> ratio;           // head / base; above 1: slower
  std::optional<double> lo, hi;          // simultaneous
  std::optional<double> p_value;         // of "no change", after Holm
  std::optional<double> mde;             // 0.03: a slowdown of 3 %
  std::optional<double> spread;          // std of the log of a capture's centre
  std::optional<CapturesNeeded> needed;  // if the verdict is open and captures can decide it
  // If the verdict is open: the least alpha that would prove the change; empty: no alpha does.
  std::optional<double> deciding_alpha;
  FunctionVerdict verdict = FunctionVerdict::kTooLittleData;
  std::string reason;       // where rows are not compared, failed in some captures, or in doubt
  bool fails_more = false;  // in head than in base: never the same or faster
  bool uncertain = false;   // the split into runs is, on a side: never the same, faster or slower
  bool in_doubt = false;    // a capture is: never the same, faster or slower
};

// What a kernel takes of a run, of all runs that its captures have.
struct KernelChange {
  std::string function, kernel;
  std::optional<double> base_ps, head_ps;  // empty: it is not on this side
};

struct Comparison {
  CompareOptions options;
  std::vector<std::string> base_sources, head_sources;
  std::vector<ComparedRow> rows;  // worst verdict first, then the largest slowdown
  // Without a verdict, where there is too little data for one: the largest change first.
  std::vector<KernelChange> kernels = {};
  std::vector<std::string> notes;
  uint64_t compared = 0;              // rows with a ratio
  std::optional<double> largest_mde;  // empty: none, or unbounded
  uint64_t shared_captures = 0;       // of base, that head has, too
  // If the outcome is too little data: the max_mde with which it would be no regression; empty:
  // none.
  std::optional<double> passing_max_mde = {};
  Outcome outcome = Outcome::kNoRegression;

  uint64_t Count(FunctionVerdict verdict) const;
};

// Errors: FailedPrecondition: measured in different ways, or nothing in common;
// InvalidArgument: options; paired sides of different length.
absl::StatusOr<Comparison> Compare(std::span<const Measurements> base,
                                   std::span<const Measurements> head,
                                   const CompareOptions& options);

}  // namespace xplane_time
