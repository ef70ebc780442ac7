// Pick units: what is independent in the captures of variants, and what two variants
// differ by.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compare/intervals.h"
#include "xplane_time/measurements.h"

namespace xplane_time::compare {

// "2" before "10".
struct NaturalLess {
  bool operator()(const std::string& a, const std::string& b) const;
};

// The log time of each variant in each unit; NaN where it has none.
struct Units {
  bool in_rounds = false;
  uint64_t captures = 0;
  std::vector<uint32_t> capture;  // of each unit
  std::map<std::string, std::vector<double>, NaturalLess> log_time;
  // Where captures are the units: variance of each value within its capture, its df.
  std::map<std::string, std::vector<Centre>, NaturalLess> within;

  size_t size() const { return capture.size(); }
  // Of the units that have it.
  std::vector<double> Present(const std::string& id) const;
};

// Rounds, where every capture is in rounds: at least half of its rounds hold all variants.
// A round ends where a variant comes again.
Units MakeUnits(std::span<const Measurements> captures);

struct PairDifference {
  double estimate = 0;  // log b - log a
  double standard_error = 0;
  double df = 0;     // 0: no interval
  size_t units = 0;  // that hold both
};
// `drift_std`: of the log ratio in a single capture without rounds.
PairDifference DifferenceOf(const Units& units, const std::string& a, const std::string& b,
                            double drift_std);

// How often each variant is the fastest when units are drawn again, with replacement.
std::map<std::string, double> ProbabilityOfBest(const Units& units, double drift_std,
                                                uint32_t replicates, uint64_t seed);

}  // namespace xplane_time::compare
