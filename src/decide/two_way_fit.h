// Two-way fit: which part of a sample is the variant, which the round, which noise.
//
//   log sample = centre of the variant + effect of the round (+ effect of the first slot) + noise
//
// Fitted by medians (Tukey 1977, median polish), then by means that skip outliers: the
// intra-block analysis of incomplete blocks (Yates 1936), robust. It ties together rounds that
// share variants, so a variant may be compared with a leader that was not in its round. What
// is left over gives the noise, pooled over the variants, and the spikes: how many, how large.
//
// Only variants with two samples and more inform. O(samples) a sweep, at most 10 sweeps.
#pragma once

#include <vector>

#include "decide/observations.h"

namespace xplane_time::decide {

// Spikes of at least a size: their share of all samples. The sizes are taken as exponential in
// the logarithm, the rate and the mean size are shrunk towards 2 % and twofold.
class SpikeModel {
 public:
  void Count(double samples) { samples_ += samples; }
  void Add(double log_size) {
    ++spikes_;
    log_sizes_ += log_size;
  }
  double Chance(double log_size) const;
  double samples() const { return samples_; }

 private:
  double samples_ = 0, spikes_ = 0, log_sizes_ = 0;
};

// Of logarithms: one part in a million. Times that never vary are not known any better.
constexpr double kLeastSd = 1e-6;

struct TwoWayFit {
  std::vector<double> round_effect;  // by round; 0 where it is not tied
  std::vector<bool> is_tied;         // by round: enough variants inform of its effect
  double first_slot = 0;             // what the first run of a round takes longer; 0: not proved
  double sd = 0;                     // of one sample
  double df = 0;                     // of sd; below 1: unknown
  SpikeModel spikes;
};

TwoWayFit FitTwoWay(const Observations& observations, Metric metric);

}  // namespace xplane_time::decide
