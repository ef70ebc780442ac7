// What was measured, and what it says of one variant against another: Observations, the TwoWayFit
// of their logarithms, the Comparer.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "xplane_time/decide.h"

namespace xplane_time::decide {

// Observations: folded rounds as logarithms, by variant and by round; and which part of a sample
// is the variant, which the round, which noise.
//
// Enters: results of rounds, in canonical order (batch, round). Leaves: for each variant its
// cells and failures, for each round its cells, sums of runs and time. A cell holds the
// logarithm of the objective and that of the energy (NaN: not measured). A failed run leaves no
// cell: the round is censored for that variant, and what failed is counted against it.
// O(samples) each; nothing is ever removed.

enum Metric : uint8_t { kObjective, kEnergyUsed };

struct Cell {
  uint32_t variant = 0, round = 0;
  uint32_t slot = 0;                     // position in the round, failed runs included
  std::array<double, 2> log_value = {};  // by Metric
};

struct VariantRecord {
  std::vector<Cell> cells;  // by round, ascending
  uint32_t attempts = 0;
  uint32_t failures = 0;    // the variant's fault
  uint32_t transient = 0;   // perhaps not its fault
  double log_time_sum = 0;  // over cells
  // Why it is measured no more. Two crashes; one refusal to compile; or five transient failures
  // that are half of the attempts.
  std::optional<std::string_view> quarantine;
};

struct Observations {
  Objective objective;
  std::vector<VariantRecord> records;          // by variant
  std::vector<std::vector<Cell>> rounds = {};  // discarded rounds leave an empty one
  std::vector<double> canaries = {};           // logarithms of the leader's ratios to itself
  int64_t runs = 0;
  double time_ps = 0;
  uint64_t discarded = 0;

  const std::vector<Cell>& cells(uint32_t variant) const { return records[variant].cells; }
  void Fold(const RoundResult& result);
  // A run that failed, or that was asked for and never reported.
  void Fail(uint32_t variant, SampleStatus status);
};

// Spikes of at least a size: their share of all samples. The sizes are taken as exponential in
// the logarithm, the rate and the mean size are shrunk towards 2 % and twofold.
struct SpikeModel {
  double samples = 0, spikes = 0, log_sizes = 0;

  double Chance(double log_size) const;
};

// Of logarithms: one part in a million. Times that never vary are not known any better.
constexpr double kLeastSd = 1e-6;

//   log sample = centre of the variant + effect of the round (+ effect of the first slot) + noise
//
// Fitted by medians (Tukey 1977, median polish), then by means that skip outliers: the
// intra-block analysis of incomplete blocks (Yates 1936), robust. It ties together rounds that
// share variants, so a variant may be compared with a leader that was not in its round. What
// is left over gives the noise, pooled over the variants, and the spikes: how many, how large.
struct TwoWayFit {
  Metric metric = kObjective;
  std::vector<double> round_effect = {};  // by round; 0 where it is not tied
  std::vector<bool> is_tied = {};         // by round: enough variants inform of its effect
  double first_slot = 0;  // what the first run of a round takes longer; 0: not proved
  double sd = 0;          // of one sample
  double df = 0;          // of sd; below 1: unknown
  SpikeModel spikes = {};

  double Value(const Cell& cell) const {
    return cell.log_value[metric] - (cell.slot == 0 ? first_slot : 0);
  }
  double WithoutRound(const Cell& cell) const { return Value(cell) - round_effect[cell.round]; }
};

// Only variants with two samples and more inform. O(samples) a sweep, at most 10 sweeps.
TwoWayFit FitTwoWay(const Observations& observations, Metric metric);

// Comparer: one variant against another, and how strongly that speaks against a null.
//
// From four common rounds on, a pair stands on these rounds alone: log-ratios within the
// rounds, outliers skipped, spread from the pair itself, moderated by that of the others (Smyth
// 2004) while it has few rounds of its own and scatters as they do. With fewer, samples are
// compared through the two-way fit and count as screening: what is kept is the fastest sample and
// those that agree with it, since spikes only ever slow down.
//
//   round   1    2    3    4    5
//   j       +    +    +    +    +      five common rounds of j and L: direct
//   L       +    +    +    +    +
//   k       +              +           two: screening
//
// How strongly a comparison speaks against a null, at any time (its boundary):
//
//   Comparison c = {.kept = 12, .log_ratio = 0.01, .sd = 0.014, .se = 0.004, .df = 11};
//   Evidence(c, {.null = -0.005, .distance = 0.01}) >= 1 / alpha   // "not more than 0.5 % faster"
//
// Evidence is an e-value: under the null it exceeds 1 / a at any time, however often one looks,
// with probability at most a. For n >= 4 rounds it is the mixture of two martingales of the
// walk W = z sqrt(n), z the normal score of Student's t:
//   - Wald's (1945) likelihood ratio against a drift of `distance` / sd, best near delta;
//     Siegmund (1985) gives the allowance for the overshoot of a walk in steps,
//   - the one-sided normal mixture of Robbins (1970) and Howard et al. (2021, "Time-uniform,
//     nonparametric, nonasymptotic confidence sequences", section 3.2), for larger gaps.
// With fewer rounds, where a pooled spread is known, it is a share of 1 / p (alpha spending,
// Lan and DeMets 1983). Shares sum to at most 1. That the spread is estimated is allowed for by
// the normal score, not proved: tests/decide simulates the whole boundary at the null.

// A variant against another: logarithms of ratios, so 0.01 is 1 % slower.
struct Comparison {
  uint32_t rounds = 0;      // that both were in (or are tied together by others)
  uint32_t kept = 0;        // of these, not skipped as outliers
  double log_ratio = 0;     // mean of what is kept: what is proved is about this
  double centre = 0;        // biweight: the better guess, for who leads
  double sd = 0;            // of one round's log-ratio
  double se = 0;            // of log_ratio
  double df = 0;            // that sd has
  double spike_chance = 1;  // that spikes alone explain it
  bool screening = false;   // fewer than four rounds: the spread is the pooled one
  bool pooled = false;      // some of alpha is spent on screening
  bool usable = false;      // there is a spread
};

constexpr uint32_t kScreeningRounds = 4;  // from here on, a pair stands on its own rounds
constexpr double kMaxSpikeChance = 0.002;

struct Hypothesis {
  double null = 0;      // "the log-ratio is at most this"
  double distance = 0;  // how far above the null the truth is where it should be found soonest
};

double Evidence(const Comparison& comparison, const Hypothesis& hypothesis);

// Whether there is so much evidence that two variants are no more than `delta` apart.
bool IsWithin(double delta, const Comparison& comparison, double needed);

// The largest null that evidence of 1 / alpha speaks against, if any.
std::optional<double> LowerBound(const Comparison& comparison, double distance, double alpha);

// The same of the other variant against this one.
Comparison Mirrored(Comparison comparison);

// From log-ratios of at least one round; a prior spread with `prior_df` degrees of freedom.
Comparison FromRatios(std::vector<double> ratios, double prior_df = 0, double prior_sd = 0,
                      double lost_df = 0);

class Comparer {
 public:
  explicit Comparer(Metric metric) : fit_{.metric = metric} {}

  // After each batch. Holds the observations until the next one.
  void Update(const Observations& observations);

  // Of `a` to `b`; rounds is 0 where one of them has no sample. O(samples of the two).
  Comparison Compare(uint32_t a, uint32_t b) const;

  // The same without leaning towards `a` where it is screening: the difference of levels. What is
  // shown, and what the bootstrap draws from; no evidence comes from it.
  Comparison Estimate(uint32_t a, uint32_t b) const;

  // Log-ratios of the common rounds, in their order.
  std::vector<double> Ratios(uint32_t a, uint32_t b) const;

  // The typical logarithm, less the effects of rounds. Needs a sample.
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
  // How far apart two samples of one variant may be; 0: not known.
  double Reach() const;

  const Observations* observations_ = nullptr;
  TwoWayFit fit_;
  std::vector<Cluster> clusters_;  // by variant
  double fence_ = 0;               // levels above stand out
};

}  // namespace xplane_time::decide
