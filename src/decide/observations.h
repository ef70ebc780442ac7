// Observations: folded rounds as logarithms, by variant and by round.
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
using Values = std::array<double, 2>;  // by Metric

struct Cell {
  uint32_t round = 0;
  uint32_t slot = 0;  // position in the round, failed runs included
  Values log_value = {};
};

struct RoundCell {
  uint32_t variant = 0;
  uint32_t slot = 0;
  Values log_value = {};
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

class Observations {
 public:
  Observations(size_t variants, Objective objective);

  void Fold(const RoundResult& result);
  // A run that was asked for and never reported.
  void Miss(uint32_t variant);

  size_t variants() const { return records_.size(); }
  const VariantRecord& record(uint32_t variant) const { return records_[variant]; }
  const std::vector<Cell>& cells(uint32_t variant) const { return records_[variant].cells; }
  // Discarded rounds leave an empty one.
  const std::vector<std::vector<RoundCell>>& rounds() const { return rounds_; }
  // Logarithms of the leader's ratios to itself.
  const std::vector<double>& canaries() const { return canaries_; }

  int64_t runs() const { return runs_; }
  double time_ps() const { return time_ps_; }
  uint64_t discarded() const { return discarded_; }

 private:
  void Fail(uint32_t variant, SampleStatus status);
  void Add(const Sample& sample, uint32_t slot);

  Objective objective_;
  std::vector<VariantRecord> records_;
  std::vector<std::vector<RoundCell>> rounds_;
  std::vector<double> canaries_;
  int64_t runs_ = 0;
  double time_ps_ = 0;
  uint64_t discarded_ = 0;
};

}  // namespace xplane_time::decide
