// Race: who is out, who leads, and whether it is over.
//
// Look() is called when a batch is complete. It updates the fits, finds the leader (the best
// centre), and drops variants that the evidence speaks against, Holm's way (1979): the
// strongest of m hypotheses needs evidence m / alpha, the next one (m - 1) / alpha. What is
// out stays out, with one exception: before the incumbent is kept, every variant that was
// dropped in favour of another leader must stand the test against the incumbent, or comes back.
//
//   null tested, log-ratio of j to the leader        stop = pick        stop = claim
//   j, ordinary                                      -delta             0
//   j is the incumbent                               0                  0
//
// So a twin of the incumbent does not replace it, and a variant is dropped as soon as it is not
// more than delta faster. O(samples) a look.
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
  bool not_faster = false;          // than the incumbent: alive, and no reason to replace it
  bool tied = false;                // stop = claim: within delta of the leader
  bool strictly = false;            // came back: dropped again only if slower than the leader
  std::optional<uint32_t> by = {};  // that dropped it
  uint64_t round = 0;               // rounds folded then
  Comparison comparison = {};       // to `by`, then

  void Recall() {
    out = false;
    by.reset();
  }
};

// A claim of a winner takes so many times the evidence: it may err to both sides, and where
// variants are equal the null of 0 holds exactly, so that the error is all that is allowed.
constexpr double kClaimDoubt = 3;
constexpr double kSwitchDoubt = 1.5;  // of replacing the incumbent, for the second reason

enum class Outcome : uint8_t { kRunning, kCertified, kProved, kAllFailed };

struct Race {
  Race(const DecideConfig& rule, size_t variants)
      : config(rule),
        observations{.objective = rule.objective, .records = std::vector<VariantRecord>(variants)},
        delta(std::log1p(rule.delta)),
        standings(variants) {}

  // Over the observations so far. A copy of the race is on its own once it has looked.
  Outcome Look();

  std::vector<uint32_t> Alive() const;
  // The incumbent where it is kept, else the leader.
  std::optional<uint32_t> Pick() const;
  // All others have failed, or there are none.
  bool OnlyOne() const;
  // Of the Pareto front: estimated, alive, not dominated.
  std::vector<uint32_t> Front() const;

  DecideConfig config;
  Observations observations;
  double delta;  // in logarithms; wider than that of the config once the canary has proved a bias
  Comparer comparer = Comparer(kObjective), energy = Comparer(kEnergyUsed);  // energy: of a front
  std::vector<Standing> standings;                                           // by variant
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
  // The incumbent is alive, and the answer may be to keep it.
  bool DefendsIncumbent() const;
};

inline bool Contains(const std::vector<uint32_t>& variants, uint32_t variant) {
  return std::find(variants.begin(), variants.end(), variant) != variants.end();
}

// Those of the variants that `evidence(variant)` speaks against, Holm's way.
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

// The leader against itself; none below four rounds.
std::optional<CanaryReport> ReportCanary(const std::vector<double>& log_ratios, double distance);

// Orders of a round (Williams 1949): over k rounds (2 k where k is odd) each of k variants is first
// equally often and follows each other variant equally often. k = 4:
//
//   0 1 3 2
//   1 2 0 3
//   2 3 1 0
//   3 0 2 1
//
// Row `row` (of any number: they repeat) for k variants; positions 0 to k - 1. k > 0.
std::vector<uint32_t> WilliamsRow(uint32_t k, uint64_t row);

// The plan: what to measure next.
//
//   all fit one round (20 runs)     rounds of all who are alive, in balanced order
//   more, some hardly measured      1. everyone once, in blocks
//                                   2. one block: the leader and those that look best
//                                   3. blocks of the leader, who is close to it, and the others
//   more, all measured              everyone in blocks that contain the leader
//
// A batch is what can be decided on at once: it grows with the rounds that a pair has, by a
// tenth, so a close race has few batches and wastes few runs. Every so-manieth round runs the
// leader twice, the canary. Budgets are never exceeded: rounds are left out, the last one is cut
// to the leader and its closest rivals.
struct RacePlan {
  std::vector<std::vector<uint32_t>> rounds;
  std::string stop_reason;  // where there are no rounds
};
// A stop reason: the pick is certified, a claim is out of reach.
constexpr std::string_view kNotWorthIt = "not_worth_it";

// A balanced order goes on as long as the same variants are alive.
struct BalancedOrder {
  std::vector<uint32_t> variants = {}, permuted = {};
  uint64_t row = 0;
};
// For the batch of this number; the same state gives the same plan.
RacePlan PlanBatch(const Race& race, uint64_t batch, BalancedOrder* order);

}  // namespace xplane_time::decide
