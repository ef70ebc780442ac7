// Differences: of two sides of captures, and of two variants, from the logarithms of their times.
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
  double df = 0;      // 0: nothing is known about the error
  size_t units = 0;   // of variants: that hold both
  double spread = 0;  // of sides: std of a capture's centre; df 0: as far as its own samples show
  // Of sides: std of what the clock's resolution, or stated errors, do to the estimate: part of
  // standard_error that more captures do not reduce.
  double resolution = 0;
  // Of sides: how much processes differ is assumed, or it is known from options.
  bool assumed = false, known_offset = false;
  bool stated = false;  // of sides: values have stated errors, and at most kStatedDf
};
// At most, beside stated errors. They are intervals of a regression of 20 windows and more: their
// tails are not known as those of a normal one are. Not Satterthwaite's of both: where few captures
// happen to agree it takes the sum for well known, and is wrong three times as often as alpha.
inline constexpr double kStatedDf = 20;
// `base` and `head`: one centre a capture, not empty.
Difference UnpairedDifference(std::span<const Centre> base, std::span<const Centre> head,
                              std::optional<double> offset_std);
// Of equal length.
Difference PairedDifference(std::span<const Centre> base, std::span<const Centre> head,
                            std::optional<double> offset_std);

// "2" before "10".
struct NaturalLess {
  bool operator()(const std::string& a, const std::string& b) const;
};

// The log time of each variant in each unit; NaN where it has none.
struct Units {
  bool in_rounds = false;
  bool robust = true;             // wild values are pulled in; false: they count in full
  bool stated = false;            // of energies: what is in `within` was stated
  std::vector<uint32_t> capture;  // of each unit
  std::map<std::string, std::vector<double>, NaturalLess> log_time;
  // Where captures are the units: variance of each value within its capture, its df.
  std::map<std::string, std::vector<Centre>, NaturalLess> within;

  size_t size() const { return capture.size(); }
  // Of the units that have it.
  std::vector<double> Present(const std::string& id) const;
  Centre CentreOf(std::vector<double> values) const;
};

// Rounds, where every capture is in rounds: at least half of its rounds hold all variants.
// A round ends where a variant comes again.
Units MakeUnits(std::span<const Measurements> captures, bool robust = true);

// Runs so far from the others of their variant and capture that they are outliers.
size_t WildRuns(std::span<const Measurements> captures);

// `drift_std`: of the log ratio in a single capture without rounds.
Difference DifferenceOf(const Units& units, const std::string& a, const std::string& b,
                        double drift_std);

// How often each variant is the fastest when units are drawn again, with replacement.
std::map<std::string, double> ProbabilityOfBest(const Units& units, double drift_std,
                                                uint32_t replicates, uint64_t seed);

}  // namespace xplane_time::compare
