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

#include <optional>
#include <vector>

#include "decide/comparer.h"

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

class Race {
 public:
  // Holds both references.
  Race(const Observations& observations, const DecideConfig& config);
  // As `other` stands, over a copy of its observations that may go on.
  Race(const Race& other, const Observations& observations);

  Outcome Look();

  // In logarithms; wider than that of the config once the canary has proved a bias.
  double delta() const { return delta_; }
  std::optional<uint32_t> leader() const { return leader_; }
  const Standing& standing(uint32_t variant) const { return standings_[variant]; }
  std::vector<uint32_t> alive() const;
  const Comparer& comparer() const { return objective_; }
  // The incumbent where it is kept, else the leader.
  std::optional<uint32_t> pick() const;
  // All others have failed, or there are none.
  bool OnlyOne() const;
  // Of the Pareto front: estimated, alive, not dominated.
  std::vector<uint32_t> Front() const;

 private:
  void Quarantine();
  void RecallDroppedBy(uint32_t failed);
  void FindLeader();
  void DropSlower();
  void KeepIncumbent();
  bool RecallForIncumbent();
  void FindTies();
  void DropDominated();
  Outcome ParetoOutcome() const;
  bool BelongsToFront(uint32_t variant, const std::vector<uint32_t>& front, double alpha) const;
  Outcome Finish();
  void Drop(uint32_t variant, uint32_t by, const Comparison& comparison);
  double NullFor(uint32_t variant) const;
  bool IsClaim() const { return config_->stop == Stop::kClaim; }
  // The incumbent is alive, and the answer may be to keep it.
  bool DefendsIncumbent() const;

  const Observations* observations_;
  const DecideConfig* config_;
  double delta_;
  Comparer objective_, energy_;  // energy: for the Pareto front only
  std::vector<Standing> standings_;
  std::optional<uint32_t> leader_;
};

// The leader against itself; none below four rounds.
std::optional<CanaryReport> ReportCanary(const std::vector<double>& log_ratios, double distance);

}  // namespace xplane_time::decide
