// Comparison of variants from measured rounds: Observations, the TwoWayFit of their logarithms, and
// the Comparer.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "xplane_time/decide.h"

namespace xplane_time::decide {

// Observations: folded rounds as logarithms, by variant and by round.
//
// Input: results of rounds, in canonical order (batch, round). Output: the cells and failures of
// each variant, the cells of each round, and sums of runs and time. A cell holds the logarithm of
// the objective and of the energy (NaN: not measured). A failed run has no cell: the round is
// censored for that variant, and the failure counts against the variant. O(samples) per round;
// cells are never removed.

enum Metric : uint8_t { kObjective, kEnergyUsed };

struct Cell {
  uint32_t variant = 0, round = 0;
  uint32_t slot = 0;                     // position in the round, including failed runs
  std::array<double, 2> log_value = {};  // by Metric
};

struct VariantRecord {
  std::vector<Cell> cells;  // by round, ascending
  uint32_t attempts = 0;
  uint32_t failures = 0;    // failures that the variant caused
  uint32_t transient = 0;   // failures that it may not have caused
  double log_time_sum = 0;  // sum over cells
  // The status for which the variant is not measured again: after two crashes, after one failure to
  // compile or wrong result, or after five transient failures that are at least half of the
  // attempts.
  std::optional<std::string_view> quarantine;
};

struct Observations {
  Objective objective;
  std::vector<VariantRecord> records;          // by variant
  std::vector<std::vector<Cell>> rounds = {};  // a discarded round is empty
  std::vector<double> canaries = {};           // log ratios of the leader to itself
  int64_t runs = 0;
  double time_ps = 0;
  uint64_t discarded = 0;

  const std::vector<Cell>& cells(uint32_t variant) const { return records[variant].cells; }
  void Fold(const RoundResult& result);
  // Counts a run that failed, or that was requested and never reported.
  void Fail(uint32_t variant, SampleStatus status);
};

// The probability of spikes of at least a given size, as a fraction of all samples. The model:
// sizes are exponentially distributed in the logarithm. The rate is shrunk towards 2 %, and the
// mean size towards 0.5 in the logarithm (a factor of 1.65).
struct SpikeModel {
  double samples = 0, spikes = 0, log_sizes = 0;

  double Chance(double log_size) const;
};

// Lower limit of a standard deviation of logarithms: one part in a million, even if times never
// vary.
constexpr double kLeastSd = 1e-6;

//   log sample = centre of the variant + effect of the round (+ effect of the first slot) + noise
//
// The fit starts with medians (Tukey 1977, median polish) and continues with means that skip
// outliers: a robust version of the intra-block analysis of incomplete blocks (Yates 1936). It
// connects rounds that share variants, so a variant can be compared with a leader that was not in
// its round. The residuals give the noise, pooled over the variants, and the number and sizes of
// spikes.
struct TwoWayFit {
  Metric metric = kObjective;
  std::vector<double> round_effect = {};  // by round; 0 if it is not tied
  std::vector<bool> is_tied = {};         // by round: whether enough variants determine its effect
  double first_slot = 0;  // additional time of the first run of a round; 0: not proved
  double sd = 0;          // standard deviation of one sample
  double df = 0;          // degrees of freedom of sd; below 1: unknown
  SpikeModel spikes = {};

  double Value(const Cell& cell) const {
    return cell.log_value[metric] - (cell.slot == 0 ? first_slot : 0);
  }
  double WithoutRound(const Cell& cell) const { return Value(cell) - round_effect[cell.round]; }
};

// Uses only variants with at least two samples. O(samples) per sweep, at most 16 sweeps.
TwoWayFit FitTwoWay(const Observations& observations, Metric metric);

// Comparer: compares one variant with another, and gives the evidence against a null hypothesis.
//
// From four common rounds on, a pair is compared by these rounds alone: log ratios within the
// rounds, without outliers. The spread comes from the pair itself. While the pair has few rounds
// and scatters like the others, its spread is moderated by theirs (Smyth 2004). With fewer common
// rounds, samples are compared through the two-way fit, and the comparison counts as screening.
// Screening keeps the fastest sample and the samples that agree with it, because spikes only ever
// slow a run down.
//
//   round   1    2    3    4    5
//   j       +    +    +    +    +      five common rounds of j and L: direct
//   L       +    +    +    +    +
//   k       +              +           two: screening
//
// The boundary gives the evidence of a comparison against a null hypothesis, valid at any time:
//
//   Comparison c = {.kept = 12, .log_ratio = 0.01, .sd = 0.014, .se = 0.004, .df = 11};
//   Evidence(c, {.null = -0.005, .distance = 0.01}) >= 1 / alpha   // "not more than 0.5 % faster"
//
// Evidence is an e-value: under the null, the probability that it ever exceeds 1 / a is at most a,
// for any number of looks. For n >= 4 rounds it is the mixture of two martingales of the walk W = z
// sqrt(n), in which z is the normal score of Student's t:
// - Wald's (1945) likelihood ratio against a drift of `distance` / sd, which is best near delta;
//   Siegmund (1985) gives the allowance for the overshoot of a discrete walk;
// - the one-sided normal mixture of Robbins (1970) and Howard et al. (2021, "Time-uniform,
//   nonparametric, nonasymptotic confidence sequences", section 3.2), for larger gaps.
//
// With fewer rounds and a known pooled spread, it is a share of 1 / p (alpha spending, Lan and
// DeMets 1983). The shares sum to at most 1. The normal score accounts for the estimation of the
// spread; this is not proved, but tests/decide simulates the whole boundary under the null.

// A variant compared with another one, as logarithms of ratios: 0.01 is 1 % slower.
struct Comparison {
  uint32_t rounds = 0;      // common rounds (or, in screening, samples that other variants connect)
  uint32_t kept = 0;        // number of these that were not skipped as outliers
  double log_ratio = 0;     // mean of the kept values, on which proofs are based
  double centre = 0;        // biweight estimate: the better guess, used to find the leader
  double sd = 0;            // standard deviation of the log ratio of one round
  double se = 0;            // standard error of log_ratio
  double df = 0;            // degrees of freedom of sd
  double spike_chance = 1;  // probability that spikes alone explain the difference
  bool screening = false;   // fewer than four common rounds: the spread is the pooled one
  bool pooled = false;      // a part of alpha is spent on screening
  bool usable = false;      // the spread is known
};

// number of common rounds from which on a pair is compared directly
constexpr uint32_t kScreeningRounds = 4;
constexpr double kMaxSpikeChance = 0.002;

struct Hypothesis {
  double null = 0;      // the hypothesis "the log ratio is at most this"
  double distance = 0;  // the distance above the null for which the test is fastest
};

double Evidence(const Comparison& comparison, const Hypothesis& hypothesis);

// Whether the evidence that two variants are within `delta` of each other reaches `needed`.
bool IsWithin(double delta, const Comparison& comparison, double needed);

// The largest null that evidence of 1 / alpha rejects, if any.
std::optional<double> LowerBound(const Comparison& comparison, double distance, double alpha);

// The comparison of the second variant with the first one.
Comparison Mirrored(Comparison comparison);

// Compares log ratios of at least one round, with a prior spread of `prior_df` degrees of freedom.
Comparison FromRatios(std::vector<double> ratios, double prior_df = 0, double prior_sd = 0,
                      double lost_df = 0);

class Comparer {
 public:
  explicit Comparer(Metric metric) : fit_{.metric = metric} {}

  // Call it after each batch. It keeps a pointer to the observations until the next Update().
  void Update(const Observations& observations);

  // Compares `a` with `b`. rounds is 0 if one of them has no sample. O(samples of the two).
  Comparison Compare(uint32_t a, uint32_t b) const;

  // The same as an unbiased estimate: in screening, the difference of the levels. For display and
  // the bootstrap; it must not be used as evidence.
  Comparison Estimate(uint32_t a, uint32_t b) const;

  // Log ratios of the common rounds, in order.
  std::vector<double> Ratios(uint32_t a, uint32_t b) const;

  // The typical logarithm without the effects of rounds. Requires a sample.
  double Level(uint32_t variant) const { return clusters_[variant].mean; }

 private:
  struct Cluster {
    double mean = 0;
    uint32_t kept = 0;
  };
  struct Screened {
    double log_ratio = 0;
    bool is_common = false;
  };
  Cluster FastestCluster(uint32_t variant) const;
  Comparison Direct(std::vector<double> ratios) const;
  std::vector<Screened> ScreenedRatios(uint32_t a, uint32_t b) const;
  double SpikeChance(uint32_t variant, std::span<const Screened> ratios) const;
  Comparison Screen(uint32_t a, uint32_t b) const;
  // Maximum distance of two agreeing samples of one variant; 0: unknown.
  double Reach() const;

  const Observations* observations_ = nullptr;
  TwoWayFit fit_;
  std::vector<Cluster> clusters_;  // by variant
  double fence_ = 0;               // larger levels are conspicuous (Tukey's fence)
};

}  // namespace xplane_time::decide
