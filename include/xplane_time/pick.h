// Pick: finds the fastest of several variants in one or more traces.
//
// Input: captures with series that have variant ids. Output: every variant with its ratio to the
// pick, and a claim.
//
// Example:
//
//   const std::vector<std::string> paths = {"variants.xplane.pb"};
//   auto measured = ReadMeasurements(paths, {});  // measurements.h
//   if (!measured.ok()) return measured.status();
//   auto choice = Pick(measured->captures, {.delta = 0.005});
//   if (!choice.ok()) return choice.status();  // FailedPrecondition: no variant ...
//   std::cout << ClaimName(choice->claim) << ": " << choice->pick << '\n';  // "tie: 3"
//   for (const std::string& id : choice->tied) std::cout << id << '\n';   // "3", "7"
//
//   winner     every other variant is proved slower
//   tie        the named variants are proved to be within delta of each other, and every other
//              variant is proved slower than each of them; the pick is the first of them, in the
//              order of ids, that no other one is proved to beat
//   pick       no other variant is more than delta faster, which bounds the cost of the pick;
//              also the only variant that ran
//   undecided  the evidence is insufficient; too_little_data if the leader, or a rival that is
//              not proved slower, has fewer than four rounds
//
// A variant that ran but cannot be judged makes the result undecided, because it may be the
// fastest. There is then no pick, and the regret is unknown. A variant cannot be judged if its runs
// on several devices do not match, if it ran on other devices than most variants, or if no run of
// it counts. The result is also undecided if another variant takes less time than the pick on every
// single device, by more than delta, or if the split of some variant into runs is uncertain. A
// variant that failed is not a candidate.
//
// No decided pick is proved slower than another variant. If the order of the variants rotates
// between rounds, each of them may be proved slower than another one (`cycle`). The result is then
// undecided and has no pick. Two variants without a common round (or capture) have no ratio, and
// leave too little data.
//
// If the runs of variants on several devices do not match, a variant that is the fastest on each
// device alone is not picked. The reason: the time of a run is the time of its slowest device, and
// unmatched runs do not show which times belong to the same run. `fastest_by_device` lists the
// fastest variant of each device.
//
// If the runs of a capture are in rounds (every variant once, then again), the log ratios within
// rounds are compared. Drift and the offset of the process then cancel.
//
//   |-a-| |-b-| |-c-|   |-a-| |-b-| |-c-|   ...      rounds
//   |-a-| |-a-| |-a-|   |-b-| |-b-| |-b-|   ...      no rounds: b may have met a slower device
//
// Otherwise each capture gives one value per variant, and captures are the units. For a single
// capture without rounds, an allowance for drift (`drift_std`, 2 % of a ratio) replaces the scatter
// between captures, so only large differences are decided. For several captures in rounds, the
// ratio is the mean over captures of Huber's centre in each. The scatter between captures is its
// error, unless it agrees with the scatter of rounds (preliminary F tests at 25 %, Bancroft 1944).
// In that case the error is that of the rounds, with an allowance for scatter that a test with few
// captures overlooks. The scatter between captures is the larger of the pair's own and the one
// pooled over all variants, because two captures show little about one pair. With two variants
// there is nothing to pool, so that two captures decide large differences only.
//
// The clock's step is part of each error of times, as in compare.h.
//
// Family-wise error: the leader is tested against each other variant at alpha / (variants - 1),
// two-sided. A wrong winner has a probability of at most alpha, because the true best variant must
// be called slower; of two equal variants either may lead. A tie is an intersection-union test,
// each pair at alpha. The regret of a tie is the upper limit of these tests, at most delta.
// Intervals are simultaneous. P(best) is a seeded simulation with the estimates and errors of the
// intervals. The same input and seed give the same result.
//
// Two statistics describe a variant, and their ratios may differ. `centre` is the typical time of
// its own runs: Huber's centre of their logarithms or, over captures, the mean of these centres.
// `ratio` is the ratio that the decision uses: in rounds, Huber's centre of the log ratios within
// rounds. The leader is the variant that no other one beats by `ratio`; if there is none, one that
// no other one is proved to beat. Over captures without rounds, `ratio` is the ratio of the
// centres.
//
// Energies (joules per run): captures are the units. The errors that a capture states for two of
// its variants may have opposite signs, and may be the same in all captures. Both are therefore
// added to the scatter in full. A variant with an unknown energy, or a capture in doubt (poor fit,
// a shared device), makes the result undecided.
//
// A tie has at most 500 members, and at most 500,000 pairs of a member and another variant.
//
// Pick is a pure function. Thread-safe. O(samples log samples + variants units + replicates
// variants units).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/claim.h"
#include "xplane_time/measurements.h"
#include "xplane_time/space.h"

namespace xplane_time {

struct PickOptions {
  Objective objective = Objective::kTime;  // kTime or kEnergy, as in the captures
  // indifference: variants within this fraction of the best count as equal
  double delta = 0.005;
  double alpha = 0.01;
  double drift_std = 0.02;  // standard deviation of the log ratio in a capture without rounds
  // The variants of a search space, to list missing variants and show parameters.
  std::vector<Configuration> known = {};
  uint64_t seed = 1;
  uint32_t replicates = 1000;
};

struct VariantRow {
  std::string id;
  std::string function;
  uint64_t samples = 0, units = 0;  // units are rounds or captures
  uint64_t left_out = 0;
  // Picoseconds; joules for energies. The interval has level 1 - alpha for this variant alone.
  std::optional<double> centre, centre_lo, centre_hi;
  std::optional<double> p95;  // times only
  // Ratio to the leader (1 for the leader itself), with a simultaneous interval. Empty: the two
  // have no common unit.
  std::optional<double> ratio, lo, hi;
  std::optional<double> p_best;
  std::vector<Fact> params = {};  // values are JSON: {"block", "64"}
  // "picked", "leads" (undecided), "tied", "slower" ("more" for energies), "open", "no_samples" (it
  // did not run), "failed", "not_judged" (it ran), "unknown" (its energy)
  std::string status;
  std::string reason = {};  // explains "failed", "not_judged" and "unknown"
  bool uncertain = false;
};

// The variant with the smallest typical time on one device alone.
struct DeviceLeader {
  std::string device, variant_id;
  double typical = 0;  // picoseconds
};

struct PickResult {
  PickOptions options;
  std::vector<std::string> sources;
  Claim claim = Claim::kUndecided;
  std::string pick;                  // empty: there is no pick
  std::string leader;                // the base of the ratios; the pick, if there is one
  std::vector<std::string> tied;     // including the pick; empty without a tie
  std::vector<VariantRow> variants;  // fastest first; variants without samples last
  bool in_rounds = false;
  uint64_t captures = 0;
  std::optional<double> regret;  // upper bound of what the pick may lose: 0.01: 1 %
  std::optional<double> mde;     // smallest gap to the runner-up that would be proved
  // If undecided: the rival that is nearest to the pick, and the total number of units with which
  // the answer is a winner, a tie or a pick. Units are rounds. If variants did not run in rounds,
  // or if captures differ by more than their rounds explain, units are captures. `needed_least`
  // suffices if difference and noise are as measured. `needed` suffices with a probability of 80 %.
  // Empty: unknown, over 10,000, or more than 20 times `needed_least`. Both are empty if the
  // difference may be chance (`may_be_equal`): a number that follows from a difference of unknown
  // sign is not stable, and between equal variants no number of units decides. Both are also empty
  // if the rival is ahead of the pick, or if `clock_step_ps` is set.
  std::string rival;
  std::optional<uint64_t> needed_least, needed;
  bool needs_captures = false;
  bool may_be_equal = false;
  // If not empty, the difference to this rival may be an error of the clock, whose step this is,
  // and no number of units decides.
  std::optional<double> clock_step_ps;
  // If not empty, there is no pick: each variant is proved slower than the next one, and the last
  // is the first again.
  std::vector<std::string> cycle;
  std::string metric, clock;
  std::vector<std::string> doubts;  // reasons for no claim that do not depend on the numbers
  // Filled if a variant was not judged: from captures with several devices, by device.
  std::vector<DeviceLeader> fastest_by_device;
  std::vector<std::string> notes;
};

// Picks a variant. Errors: FailedPrecondition (no variants, no known variant, or captures that were
// measured differently), InvalidArgument (options).
absl::StatusOr<PickResult> Pick(std::span<const Measurements> captures, const PickOptions& options);

// Reads captures and picks, as the command does: by variant, and by the slowest device of each run.
// The result includes the notes that reading produced. `measure` has the filters. Errors: those of
// ReadMeasurements and Pick.
absl::StatusOr<PickResult> PickFiles(std::span<const std::string> paths, MeasureOptions measure,
                                     const PickOptions& options);

}  // namespace xplane_time
