// Planner: what to measure next.
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
#pragma once

#include <string>
#include <vector>

#include "decide/race.h"
#include "stats/random.h"

namespace xplane_time::decide {

using stats::Random;

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

class Planner {
 public:
  Planner(const DecideConfig& config, const Observations& observations, const Race& race)
      : config_(config), observations_(observations), race_(race) {}

  struct Plan {
    std::vector<std::vector<uint32_t>> rounds;
    std::string stop_reason;  // where there are no rounds
  };
  // For the batch of this number; the same state gives the same plan.
  Plan Next(uint64_t batch);

 private:
  using Rounds = std::vector<std::vector<uint32_t>>;
  Rounds Wanted(Random& random);
  Rounds FirstPass(std::vector<uint32_t> alive, Random& random);
  Rounds SecondPass(std::vector<uint32_t> hardly_measured, Random& random) const;
  Rounds BalancedRounds(const std::vector<uint32_t>& alive, size_t count, Random& random);
  std::vector<uint32_t> CloseToLeader() const;
  size_t RoundsForBatch(const std::vector<uint32_t>& alive) const;
  void AddCanaries(Rounds& rounds, Random& random) const;
  std::string CutToBudget(Rounds& rounds) const;
  std::vector<uint32_t> CutRound(const std::vector<uint32_t>& round, int64_t runs) const;
  bool NotWorthIt() const;
  double ExpectedPs(const std::vector<uint32_t>& round) const;
  bool IsThrottled() const;
  int64_t RunsLeft() const;

  const DecideConfig& config_;
  const Observations& observations_;
  const Race& race_;
  // Of the balanced order, which goes on as long as the same variants are alive.
  std::vector<uint32_t> ordered_, permuted_;
  uint64_t row_ = 0;
};

}  // namespace xplane_time::decide
