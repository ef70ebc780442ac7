// The boundary: how strongly a comparison speaks against a null, at any time.
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
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace xplane_time::decide {

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

// Holm's step-down (1979): the strongest of m is rejected with evidence m / alpha, the next one
// with (m - 1) / alpha, and so on until one is not. By position.
std::vector<bool> HolmRejected(std::span<const double> evidence, double alpha);

// The same of the other variant against this one.
Comparison Mirrored(Comparison comparison);

// The z with (nearly) the tail of t: Wallace (1959), within 0.05 for df >= 3, below it for less.
double NormalScore(double t, double df);

}  // namespace xplane_time::decide
