// Race: the state of the elimination: dropped variants, the leader, and whether the race is over.
//
// Look() is called when a batch is complete. It updates the fits, finds the leader (the best
// centre), and drops variants if the evidence rejects them. Holm's step-down (1979) accounts for
// their number: the strongest of m hypotheses needs evidence m / alpha, the next one (m - 1) /
// alpha. A dropped variant stays out, with one exception: before the incumbent is kept, every
// variant that another leader dropped must pass the test against the incumbent, or it comes back.
//
//   null tested, log ratio of j to the leader        stop = pick        stop = claim
//   j, ordinary                                      -delta             0
//   j is the incumbent                               0                  0
//
// A twin of the incumbent therefore does not replace it, and a variant is dropped as soon as it is
// proved not to be more than delta faster. O(samples) per look.
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "decide/comparer.h"
#include "stats/distributions.h"

namespace xplane_time::decide {

struct Standing {
  bool out = false;
  // alive, but not more than delta faster than the incumbent, so it cannot replace it
  bool not_faster = false;
  bool tied = false;  // with stop = claim: within delta of the leader
  // it came back, and is dropped again only if it is slower than the leader
  bool strictly = false;
  std::optional<uint32_t> by = {};  // the variant that dropped it
  uint64_t round = 0;               // number of folded rounds when it was dropped
  Comparison comparison = {};       // comparison with `by` when it was dropped

  void Recall() {
    out = false;
    by.reset();
  }
};

// Factor of the evidence for the claim of a winner. Such a claim can be wrong in both directions,
// and for equal variants the null of 0 holds exactly, so the whole allowed error is used.
constexpr double kClaimDoubt = 3;
// the same for replacing the incumbent: for equal variants the null of 0 holds exactly
constexpr double kSwitchDoubt = 1.5;

enum class Outcome : uint8_t { kRunning, kCertified, kProved, kAllFailed };

struct Race {
  Race(const DecideConfig& rule, size_t variants)
      : config(rule),
        observations{.objective = rule.objective, .records = std::vector<VariantRecord>(variants)},
        delta(std::log1p(rule.delta)),
        standings(variants) {}

  // Updates the state from the observations so far. A copy of a race becomes independent with its
  // next Look().
  Outcome Look();

  std::vector<uint32_t> Alive() const;
  // The incumbent if it is kept, else the leader.
  std::optional<uint32_t> Pick() const;
  // Whether all other variants have failed, or there are no others.
  bool OnlyOne() const;
  // The estimated Pareto front: alive and not dominated.
  std::vector<uint32_t> Front() const;

  DecideConfig config;
  Observations observations;
  double delta;  // as a logarithm; wider than that of the config if the canary has proved a bias
  // energy: for a Pareto front
  Comparer comparer = Comparer(kObjective), energy = Comparer(kEnergyUsed);
  std::vector<Standing> standings;  // by variant
  std::optional<uint32_t> leader = {};

 private:
  void Quarantine();
  void FindLeader();
  void DropSlower();
  void KeepIncumbent();
  bool RecallForIncumbent();
  void FindTies();
  void DropDominated();
  Outcome ParetoOutcome() const;
  bool BelongsToFront(uint32_t variant, const std::vector<uint32_t>& front, double alpha) const;
  Outcome Finish();
  void Drop(uint32_t variant, std::optional<uint32_t> by, const Comparison& comparison);
  bool IsClaim() const { return config.stop == Stop::kClaim; }
  // Whether the incumbent is alive and the result may be to keep it.
  bool DefendsIncumbent() const;
};

inline bool Contains(const std::vector<uint32_t>& variants, uint32_t variant) {
  return std::find(variants.begin(), variants.end(), variant) != variants.end();
}

// The variants that `evidence(variant)` rejects, by Holm's step-down.
std::vector<uint32_t> Rejected(const std::vector<uint32_t>& variants, double alpha, auto evidence) {
  std::vector<double> p_values;
  for (const uint32_t v : variants) p_values.push_back(1 / evidence(v));
  const std::vector<double> adjusted = stats::HolmAdjusted(p_values);
  std::vector<uint32_t> result;
  for (size_t i = 0; i < variants.size(); ++i) {
    if (adjusted[i] <= alpha) result.push_back(variants[i]);
  }
  return result;
}

// Compares the leader with itself; nullopt below four canary rounds.
std::optional<CanaryReport> ReportCanary(const std::vector<double>& log_ratios, double distance);

// A balanced order of a round (Williams 1949). Over k rounds (2 k if k is odd), each of k variants
// is first equally often and follows each other variant equally often. k = 4:
//
//   0 1 3 2
//   1 2 0 3
//   2 3 1 0
//   3 0 2 1
//
// Returns row number `row` for k > 0 variants, as positions 0 to k - 1. Rows repeat.
std::vector<uint32_t> WilliamsRow(uint32_t k, uint64_t row);

// Plans what to measure next.
//
//   all fit one round (20 runs)     rounds of all alive variants, in balanced order
//   more, some hardly measured      1. all once, in blocks
//                                   2. one block: the leader and the most promising ones
//                                   3. blocks of the leader, its close rivals, and the others
//   more, all measured              all in blocks that contain the leader
//
// A batch is the unit of decision. Its size is a tenth of the rounds that a pair has, so a close
// race needs few batches and wastes few runs. In every N-th round the leader runs twice (the
// canary). Budgets are never exceeded: rounds are dropped, and the last one is reduced to the
// leader and its closest rivals.
struct RacePlan {
  std::vector<std::vector<uint32_t>> rounds;
  std::string stop_reason;  // set if there are no rounds
};
// Stop reason: the pick is certified, and a claim is out of reach.
constexpr std::string_view kNotWorthIt = "not_worth_it";

// A balanced order, which continues as long as the same variants are alive.
struct BalancedOrder {
  std::vector<uint32_t> variants = {}, permuted = {};
  uint64_t row = 0;
};
// Plans the batch with this number. The same state gives the same plan.
RacePlan PlanBatch(const Race& race, uint64_t batch, BalancedOrder* order);

}  // namespace xplane_time::decide
