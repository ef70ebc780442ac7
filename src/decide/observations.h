// Observations: folded rounds as logarithms, by variant and by round; and which part of a sample
// is the variant, which the round, which noise.
//
// Enters: results of rounds, in canonical order (batch, round). Leaves: for each variant its
// cells and failures, for each round its cells, sums of runs and time. A cell holds the
// logarithm of the objective and that of the energy (NaN: not measured). A failed run leaves no
// cell: the round is censored for that variant, and what failed is counted against it.
// O(samples) each; nothing is ever removed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "xplane_time/decide.h"

namespace xplane_time::decide {

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

}  // namespace xplane_time::decide
