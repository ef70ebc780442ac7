// Differences between two sides of captures, and between two variants, from the logarithms of
// times.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stats/location.h"
#include "xplane_time/measurements.h"

namespace xplane_time::compare {

using stats::Centre;

struct Difference {
  double estimate = 0;  // head - base, or b - a
  double standard_error = 0;
  double df = 0;        // degrees of freedom; 0: the error is unknown
  size_t units = 0;     // for variants: number of units that hold both; 0: the estimate is unknown
  size_t captures = 0;  // for variants: number of captures with such units
  // for sides: standard deviation of a capture's centre; if df is 0, within captures only
  double spread = 0;
  // Standard deviation of the estimate due to the clock's resolution or (for sides) to stated
  // errors. It is the part of standard_error that more data do not reduce.
  double resolution = 0;
  // Of sides: how much processes differ is assumed, or it is known from options.
  bool assumed = false, known_offset = false;
  bool stated = false;           // of sides: values have stated errors, and at most kStatedDf
  bool captures_differ = false;  // of variants in rounds: the scatter between captures is the error
};
// Maximum degrees of freedom with stated errors. These errors are intervals of a regression over 20
// or more windows, so their tails are less certain than those of a normal distribution.
// Satterthwaite's formula for both errors was rejected: if few captures happen to agree, it treats
// the sum as well known, and false alarms are three times as frequent as alpha.
inline constexpr double kStatedDf = 20;
// `base` and `head`: the centres of the captures, not empty.
Difference UnpairedDifference(std::span<const Centre> base, std::span<const Centre> head,
                              std::optional<double> offset_std);
// Both of equal length.
Difference PairedDifference(std::span<const Centre> base, std::span<const Centre> head,
                            std::optional<double> offset_std);

// Compares numbers by value: "2" comes before "10".
struct NaturalLess {
  bool operator()(const std::string& a, const std::string& b) const;
};

// How much the log ratio of two variants varies between captures, pooled over all variants.
struct PooledSpread {
  double between = 0;  // variance of the centre of a pair's log ratios in one capture
  double df = 0;       // 0: unknown
  bool agrees = true;  // it cannot be distinguished from the scatter of rounds
};
// Degrees of freedom of a pooled spread, at most, for each one of a variant pair's own spread. With
// this limit, variants that vary unlike the others do not make the interval too narrow.
inline constexpr double kMaxPooling = 4;

// The log time of each variant in each unit; NaN if the unit has none.
struct Units {
  bool in_rounds = false;
  bool robust = true;             // clamp outliers; false: they count in full
  bool stated = false;            // for energies: the errors in `within` were stated
  std::vector<uint32_t> capture;  // capture of each unit
  PooledSpread spread;            // in rounds
  std::map<std::string, std::vector<double>, NaturalLess> log_time;
  std::map<std::string, Centre> typical;  // log time over the captures that have the variant
  std::map<std::string, double> step_ps;  // of the variant's clock; empty for energies
  // If captures are the units: variance of each value within its capture, and its df.
  std::map<std::string, std::vector<Centre>, NaturalLess> within;

  size_t size() const { return capture.size(); }
  // The values of the units that have the variant.
  std::vector<double> Present(const std::string& id) const;
  Centre CentreOf(std::vector<double> values) const;
};

// Makes rounds the units if every capture is in rounds: at least half of its rounds hold all
// variants. A round ends when a variant occurs again.
Units MakeUnits(std::span<const Measurements> captures, bool robust = true);

// Number of runs that are outliers among the runs of their variant and capture.
size_t WildRuns(std::span<const Measurements> captures);

// `drift_std`: standard deviation of the log ratio in a single capture without rounds.
Difference DifferenceOf(const Units& units, const std::string& a, const std::string& b,
                        double drift_std);

// The probability that each variant is the fastest, by simulation with the differences to the
// leader and their errors, as the verdict uses them. Empty if the error of a difference is unknown.
std::map<std::string, double> ProbabilityOfBest(const Units& units, const std::string& leader,
                                                double drift_std, uint32_t replicates,
                                                uint64_t seed);

}  // namespace xplane_time::compare
