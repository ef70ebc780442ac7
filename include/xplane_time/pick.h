// Pick: the fastest of several variants that one or more traces hold.
//
// Enters: captures whose series have variant ids. Leaves: every variant with its ratio to
// the pick, and a claim.
//
//   auto choice = Pick(measured->captures, {.delta = 0.005});
//   choice->claim == Claim::kTie, choice->pick == "3", choice->tied == {"3", "7"}
//   Pick({}, {}).status()    // FailedPrecondition: no variant ...
//
//   winner     every other variant is proved slower
//   tie        the named variants are proved to be within delta of each other, all others
//              slower; the pick is the first of them in the order of ids
//   pick       no other is more than delta faster, which bounds what the pick can cost; also
//              the only variant that ran, which won over nobody
//   undecided  none of these; too_little_data where the leader or a rival that is not
//              proved slower has fewer than four rounds
//
// A variant that ran but cannot be judged leaves the answer undecided, whatever the others show: it
// may be the fastest. There is no pick then, and the regret is unknown. A variant cannot be judged
// if its runs on several devices do not match, if it ran on other devices than most variants, or if
// no run of it counts. So is a pick that takes more time than another variant on every device
// alone, by more than delta, undecided. A variant whose split into runs is uncertain leaves the
// answer undecided, too. A variant that failed is no candidate.
//
// That a variant is the fastest on each device alone is no decision: the time of a run is that of
// its slowest device, and unmatched runs do not show which times belong to one run.
// `fastest_by_device` has that observation.
//
// Where the runs of a capture are in rounds (every variant once, then again) the log ratios
// within rounds are compared: drift and the offset of the process cancel.
//
//   |-a-| |-b-| |-c-|   |-a-| |-b-| |-c-|   ...      rounds
//   |-a-| |-a-| |-a-|   |-b-| |-b-| |-b-|   ...      not: b may have met a slower device
//
// Otherwise a capture gives one value a variant, and captures are the units. A single
// capture without rounds gets an allowance for drift (`drift_std`, 2 % of a ratio) instead
// of a scatter between captures, so that only large differences decide. Several captures in
// rounds: scatter between captures is the error unless it agrees with the scatter of rounds
// (preliminary F test at 25 %, Bancroft 1944); then all rounds are pooled.
//
// Family-wise: the leader against each other one at alpha / (variants - 1), two-sided, so a
// winner is named wrongly with probability at most alpha (the true best must be called
// slower; of two equal ones either may lead). A tie
// is an intersection-union test, each pair at alpha. Intervals are simultaneous. P(best) is
// a seeded bootstrap over units. Same input and seed: same result.
//
// Energies (joules a run): captures are the units. The errors that a capture states for two of its
// variants may go against each other, and be the same in all captures: both are added to the
// scatter in full. A variant whose energy is unknown, or a capture in doubt (poor fit, a shared
// device), leaves no claim: undecided.
//
// A tie has at most 500 members.
//
// Pure. Thread-safe. O(samples log samples + variants units + replicates variants units).
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

namespace xplane_time {

// A variant as a search space names it. Values of parameters are JSON: {"block", "64"}.
struct KnownVariant {
  std::string id;
  std::vector<Fact> params;
};

struct PickOptions {
  Objective objective = Objective::kTime;  // kTime or kEnergy: that of the captures
  double delta = 0.005;                    // indifference: what is within it of the best is as good
  double alpha = 0.01;
  double drift_std = 0.02;  // of the log ratio, in a capture without rounds
  // What a search space says: variants that are missing are listed, parameters are shown.
  std::vector<KnownVariant> known = {};
  uint64_t seed = 1;
  uint32_t replicates = 1000;
};

struct VariantRow {
  std::string id;
  std::string function;
  uint64_t samples = 0, units = 0;  // units: rounds or captures
  uint64_t left_out = 0;
  // Picoseconds; joules where energies are compared. Interval: 1 - alpha, this variant alone.
  std::optional<double> centre, centre_lo, centre_hi;
  std::optional<double> p95;            // of times
  std::optional<double> ratio, lo, hi;  // to the pick; 1 for itself; simultaneous
  std::optional<double> p_best;
  std::vector<Fact> params = {};
  // "picked", "leads" (undecided), "tied", "slower" (of energy "more"), "open", "no_samples" (it
  // did not run), "failed", "not_judged" (it ran), "unknown" (its energy)
  std::string status;
  std::string reason = {};  // of "failed", "not_judged" and "unknown"
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
  std::string pick;                  // empty: none
  std::string leader;                // what ratios are relative to; the pick, if there is one
  std::vector<std::string> tied;     // with the pick itself; empty without a tie
  std::vector<VariantRow> variants;  // fastest first, those without samples last
  bool in_rounds = false;
  uint64_t captures = 0;
  std::optional<double> regret;  // upper bound of what the pick may lose: 0.01: 1 %
  std::optional<double> mde;     // smallest gap to the runner-up that would be proved
  // If undecided: units in all with which the answer is a winner, a tie or a pick with a
  // probability of 80 %; empty: unknown. Rounds; captures, if variants did not run in rounds, or if
  // captures differ by more than their rounds explain.
  std::optional<uint64_t> needed;
  bool needs_captures = false;
  std::string metric, clock;
  std::vector<std::string> doubts;  // why no claim is made, whatever the numbers say
  // If a variant was not judged: of captures with several devices, by device.
  std::vector<DeviceLeader> fastest_by_device;
  std::vector<std::string> notes;
};

// Errors: FailedPrecondition: no variants, none that is known, or captures that were measured
// differently.
// InvalidArgument: options.
absl::StatusOr<PickResult> Pick(std::span<const Measurements> captures, const PickOptions& options);

}  // namespace xplane_time
