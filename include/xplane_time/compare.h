// Compare: did a change make functions slower?
//
// Input: the captures of two sides, each from one process. Output: for each function and device, a
// row with the ratio head / base, its interval and a verdict; and one outcome for all rows.
//
// Example:
//
//   const std::vector<std::string> base_paths = {"base1.xplane.pb", "base2.xplane.pb"};
//   const std::vector<std::string> head_paths = {"head1.xplane.pb", "head2.xplane.pb"};
//   auto base = ReadMeasurements(base_paths, {});  // measurements.h
//   auto head = ReadMeasurements(head_paths, {});
//   if (!base.ok()) return base.status();
//   if (!head.ok()) return head.status();
//   auto comparison = Compare(base->captures, head->captures, {.min_effect = 0.02});
//   if (!comparison.ok()) return comparison.status();
//   // FailedPrecondition: base and head were not measured in the same way: device model
//   // is V100 in base, H100 in head; ...
//   for (const ComparedRow& row : comparison->rows) {
//     if (row.ratio) std::cout << row.function << ' ' << *row.ratio << '\n';
//   }
//   const int exit_code = static_cast<int>(comparison->outcome);  // 0, 10, 11, 12 or 20
//
// The unit of inference is the capture. All samples of one process share its offset (memory layout,
// clock level), so more samples of one process do not help to distinguish two programs.
//
//   capture   y = Huber's centre of the log times (k = 1.345: 95 % efficient, and a spike
//             counts no more than a deviation of 1.3 sigma)
//   side      mean of y; variance s^2/k between its captures, at least the variance that the
//             scatter within captures implies
//   row       d = mean(head) - mean(base). Its variance is the larger of Welch's and the
//             pooled one, its degrees of freedom the smaller. This is exact if both sides
//             vary alike, and never below Welch's variance if they do not. A side with one
//             capture borrows the variance of the other side. Processes are taken to differ
//             by at least 0.1 %. The step of the clock (the smallest difference between
//             samples) adds step^2/6 for any number of captures, because equal times on a
//             coarse clock are weak evidence.
//   proof     family-wise over all rows, two conditions:
//             - the interval (t, Bonferroni, `confidence`) lies beyond min_effect, and
//             - d = 0 is rejected at `alpha` (two-sided t, Holm)
//             The first condition gives the size of the change. The second keeps false
//             alarms rare: at most alpha / 2 of all comparisons call an unchanged program
//             slower, for any number of captures.
//   mde       the true slowdown that would be proved in 4 of 5 comparisons
//
// One capture on each side cannot prove a change, so the outcome is 12, unless `offset_std` states
// the variation between processes. A capture that is on both sides cannot show a change, so the
// outcome is then 12 instead of 0.
//
// Each undecided row has advice, computed from its effect and noise. `needed` is the number of
// captures per side that decide the row with a probability of 80 %. The number is a range, because
// few captures give a poor estimate of the noise. The advice never suggests another threshold:
// alpha, min_effect and max_mde are chosen before the captures, and a threshold that fits the
// captures at hand proves nothing.
//
// If a function ran on both sides and cannot be judged, the outcome is at best 11. Possible
// reasons: no run counts on a side; the metrics, clocks, devices or numbers of programs differ; or
// the split into runs is uncertain.
//
// Each energy (joules per run) comes with a stated error, from the sensor and from the separation
// of kernels. This error may be the same in every capture of a side, so more captures do not reduce
// it; it is added to the scatter between captures. With fewer than 3 captures per side (4 degrees
// of freedom) the scatter is unknown. The scatter is then assumed to be 1 %, with a note, unless
// `offset_std` states it or the observed scatter is larger. With stated errors there are at most 20
// degrees of freedom. If a capture is in doubt (poor fit, a shared device), no row of it is called
// the same, less or more.
//
// References: Huber 1964; Welch 1947; Holm 1979.
//
// Compare is a pure function: no clock, no files. Thread-safe. O(samples log samples).
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
  Objective objective = Objective::kTime;  // kTime or kEnergy, as in the captures
  double min_effect = 0.01;                // smaller changes do not matter; 0.01: 1 %
  double max_mde = 0.05;    // a row with a larger mde has too little data; above min_effect
  double alpha = 0.001;     // family-wise probability of any claim if there is no change
  double confidence = 0.9;  // of all intervals together: 95 % for their lower bounds
  // Standard deviation of the log of a process's offset, if it is known.
  std::optional<double> offset_std = {};
  bool paired = false;          // the i-th captures of both sides were taken side by side
  bool allow_mismatch = false;  // compare captures that were measured differently, with a note
};

enum class FunctionVerdict : uint8_t {
  kSame,           // no change was found; a change as large as the mde would have been found
  kFaster,         // proved, by more than min_effect
  kSlower,         // proved, by more than min_effect
  kCannotTell,     // the estimate is beyond min_effect, but not proved; or it fails more often
  kTooLittleData,  // the mde is above max_mde
  kOnlyBase,
  kOnlyHead,
  kNotComparable,  // it ran on both sides and cannot be judged; `reason` explains why
  kFailed,         // it failed on a side, so it has no samples there
  kUnknown,        // for energies: a side has no value; `reason` explains why
};
inline constexpr std::string_view kVerdictNames[] = {
    "same",      "faster",    "slower",         "cannot_tell", "too_little_data",
    "only_base", "only_head", "not_comparable", "failed",      "unknown"};
// The name of a verdict. For energies, kFaster is "less" and kSlower is "more".
constexpr std::string_view VerdictName(FunctionVerdict verdict,
                                       Objective objective = Objective::kTime) {
  const bool of_energy = objective == Objective::kEnergy;
  if (of_energy && verdict == FunctionVerdict::kFaster) return "less";
  if (of_energy && verdict == FunctionVerdict::kSlower) return "more";
  return kVerdictNames[static_cast<size_t>(verdict)];
}

// The values are exit codes.
enum class Outcome : uint8_t {
  kNoRegression = 0,
  kSlower = 10,      // some row is slower
  kCannotTell = 11,  // some row may be slower, failed, or cannot be judged
  kTooLittleData = 12,
  kAllFailed = 20,
};
std::string_view OutcomeName(Outcome outcome, Objective objective = Objective::kTime);

struct SideEstimate {
  uint64_t captures = 0, samples = 0;
  std::optional<double> centre = {};  // picoseconds; joules for energies
  // Interval of the centre at `confidence` for this row alone. Empty: one capture of times.
  std::optional<double> lo = {}, hi = {};
};

// The number of captures per side that decide an undecided row.
struct CapturesNeeded {
  enum class Question : uint8_t {
    kChange,    // the change exceeds min_effect and differs from 0: captures that prove it
    kNoChange,  // otherwise: captures that show that an unchanged row is the same
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
  uint32_t program = 0;  // number of the program, if several have the same name
  std::string metric, clock;
  SideEstimate base, head;
  std::optional<double> ratio;           // head / base; above 1 means slower
  std::optional<double> lo, hi;          // simultaneous interval of the ratio
  std::optional<double> p_value;         // of the hypothesis "no change", after Holm
  std::optional<double> mde;             // 0.03: a slowdown of 3 %
  std::optional<double> spread;          // standard deviation of the log of a capture's centre
  std::optional<CapturesNeeded> needed;  // if undecided and more captures can decide the row
  FunctionVerdict verdict = FunctionVerdict::kTooLittleData;
  std::string reason;  // why the row is not compared, failed in some captures, or is in doubt
  // it fails more often in head than in base, so it is never the same or faster
  bool fails_more = false;
  // the split into runs is uncertain on a side, so it is never the same, faster or slower
  bool uncertain = false;
  bool in_doubt = false;  // a capture is in doubt, so it is never the same, faster or slower
};

// Mean time of a kernel per run of its function, on both sides, over all runs of the captures.
struct KernelChange {
  std::string function, kernel;
  std::optional<double> base_ps, head_ps;  // empty: the kernel is not on this side
};

struct Comparison {
  CompareOptions options;
  std::vector<std::string> base_sources, head_sources;
  std::vector<ComparedRow> rows;  // worst verdict first, then the largest slowdown
  // Changes without a verdict, because the captures are too few for one. The largest change is
  // first.
  std::vector<KernelChange> kernels = {};
  std::vector<std::string> notes;
  uint64_t compared = 0;              // rows with a ratio
  std::optional<double> largest_mde;  // empty: no row has an mde, or it is unbounded
  uint64_t shared_captures = 0;       // captures of base that are also in head
  Outcome outcome = Outcome::kNoRegression;

  uint64_t Count(FunctionVerdict verdict) const;
};

// Compares two sides. Errors: FailedPrecondition (measured in different ways, or no common
// function), InvalidArgument (options; paired sides of different length).
absl::StatusOr<Comparison> Compare(std::span<const Measurements> base,
                                   std::span<const Measurements> head,
                                   const CompareOptions& options);

// Reads both sides and compares them, as the command does. The result includes the notes that
// reading produced. `measure` has the filters. Errors: those of ReadMeasurements and Compare;
// InvalidArgument (a processor time is requested, and no input has one).
absl::StatusOr<Comparison> CompareFiles(std::span<const std::string> base,
                                        std::span<const std::string> head, MeasureOptions measure,
                                        const CompareOptions& options);

}  // namespace xplane_time
