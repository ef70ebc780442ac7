// Amounts of time in the captures of one side of a diff, and its units.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "insight/diff_sums.h"
#include "saturate.h"
#include "stats/location.h"

namespace xplane_time::insight {

inline constexpr size_t kSides = 2;

// An amount of time of one side, by program and capture. If units are not runs, there is only one
// "program".
struct Amount {
  std::map<uint32_t, std::vector<int64_t>> times_ps;

  void Add(uint32_t program, const std::vector<int64_t>& more_ps) {
    std::vector<int64_t>& of = times_ps.try_emplace(program, more_ps.size(), 0).first->second;
    for (size_t i = 0; i < of.size(); ++i) of[i] = SaturatingAdd(of[i], more_ps[i]);
  }
  void Add(const Amount& more) {
    for (const auto& [program, of] : more.times_ps) Add(program, of);
  }
  int64_t total_ps() const {
    int64_t sum_ps = 0;
    for (const auto& [program, of] : times_ps) {
      for (const int64_t each : of) sum_ps = SaturatingAdd(sum_ps, each);
    }
    return sum_ps;
  }
};

// Functions, by the blocks of their programs (SideProgram), which both sides share.
using Blocks = std::set<uint32_t>;

// The units of one side (steps, runs or captures). Refers to the side.
class Units {
 public:
  Units(const Side& side, DiffPer per);

  uint32_t ScopeOf(uint32_t program) const { return by_run_ ? program : 0; }
  size_t scopes() const { return by_run_ ? side_.programs.size() : 1; }
  size_t captures() const { return side_.sources.size(); }
  const std::vector<UnitTimes>& Of(uint32_t scope) const {
    return by_run_ ? side_.programs[scope].times : side_.times;
  }

  // Over the captures that have units of it.
  double Mean(const Amount& amount) const;

  // How many units each capture has in which all of `blocks` ran; of no blocks: has.
  std::vector<uint64_t> Measured(const Blocks& blocks) const;

  // The mean of each capture that has units of all parts of the amount, with the capture's index.
  // In a step or a capture in which a function did not run, it took 0. For a missing run, the time
  // is unknown.
  std::vector<std::pair<size_t, double>> Values(const Amount& amount, const Blocks& blocks) const;

 private:
  const Side& side_;
  const bool by_run_;
  std::map<uint32_t, std::vector<uint64_t>> units_of_block_;  // by capture
};

// A future row, with the input of its statistics.
struct Draft {
  DiffRow row;
  std::array<Amount, kSides> amounts;
  // The functions that have to run for the row to be measured. Empty: units are not runs, and the
  // row belongs to no function.
  Blocks blocks = {};
  bool of_kernels = false;  // not waiting, nor the total
  // Variance of the mean of each capture, as far as its executions or units show it; 0: unknown.
  std::array<std::vector<stats::Centre>, kSides> within;
  // Measured intervals in a unit: the executions of kernels; otherwise one in each function.
  std::array<double, kSides> counts = {};
};

// Half of both sides' means together.
double LevelOf(const DiffRow& row);

}  // namespace xplane_time::insight
