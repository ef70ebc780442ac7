// When kernels ran: how long each had run up to any instant, and its share of the idle power.
//
//   BusyCurve curve({{0, 2'000'000'000'000}, {1'000'000'000'000, 3'000'000'000'000}});
//   curve.total_s() == 3                  // a union: overlaps count once
//   curve.At(std::vector{1.5, 9.0})       // {1.5, 3}: seconds of running before 1.5 s and 9 s
//
// Times are seconds on the capture's axis, as doubles: exact to a picosecond for two hours.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "xplane_time/intervals.h"

namespace xplane_time::energy {

inline constexpr double kPsPerS = 1e12;

class BusyCurve {
 public:
  // Accepts any order and overlaps. Uses 24 bytes for each interval of the union.
  explicit BusyCurve(std::vector<Interval> executions);

  // Returns the seconds of running before each instant; instants ascend. O(instants + intervals),
  // or O(instants log intervals) if there are few instants.
  std::vector<double> At(std::span<const double> instants_s) const;

  // Adds to the i-th element of `between_s` the seconds of running in [i, i + 1) x `step_s` after
  // `from_s`. Ignores running time outside of these intervals.
  void AddTo(double from_s, double step_s, std::span<double> between_s) const;

  double total_s() const { return before_s_.empty() ? 0 : before_s_.back() + LengthS(size() - 1); }
  std::span<const Interval> intervals() const { return intervals_; }
  // The first interval, at index `from` or later, that ends after the instant.
  size_t FirstEndingAfter(double instant_s, size_t from) const;

 private:
  size_t size() const { return intervals_.size(); }
  double LengthS(size_t i) const;

  std::vector<Interval> intervals_;  // disjoint, ascending
  std::vector<double> before_s_;     // total length of the intervals before each one
};

// The times at which at least one of the kernels ran.
BusyCurve UnionOf(std::span<const BusyCurve> kernels);

// Splits the device's busy time among the kernels, in bins of equal length over [0, capture_s). If
// m kernels run at once, each gets 1/m of the time, so the idle power of each moment is paid once.
//
//   a |-----------|            bin: a 8, b 4
//   b         |-------|
//     0       8   12  16
//
// shares[kernel][bin], in seconds. O(intervals x log kernels + overlaps).
std::vector<std::vector<double>> IdleShares(std::span<const BusyCurve> kernels, double capture_s,
                                            size_t bins, int threads = 1);

}  // namespace xplane_time::energy
