// Comparer: one variant against another.
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
// Holds references; Update() after each batch. Compare is O(samples of the two).
#pragma once

#include <span>
#include <vector>

#include "decide/boundary.h"
#include "decide/two_way_fit.h"

namespace xplane_time::decide {

// From log-ratios of at least one round; a prior spread with `prior_df` degrees of freedom.
Comparison FromRatios(std::vector<double> ratios, double prior_df = 0, double prior_sd = 0,
                      double lost_df = 0);

class Comparer {
 public:
  Comparer(const Observations& observations, Metric metric)
      : observations_(&observations), metric_(metric) {}
  void Rebind(const Observations& observations) { observations_ = &observations; }

  void Update();

  // Of `a` to `b`; rounds is 0 where one of them has no sample.
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
  double Value(const Cell& cell) const {
    return cell.log_value[metric_] - (cell.slot == 0 ? fit_.first_slot : 0);
  }
  std::vector<double> Adjusted(uint32_t variant) const;
  Cluster FastestCluster(uint32_t variant) const;
  struct Prior {
    double df = 0, sd = 0;
  };
  Prior SpreadOfOthers(std::vector<double> ratios) const;
  Comparison Direct(std::vector<double> ratios) const;
  std::vector<Screened> ScreenedRatios(uint32_t a, uint32_t b, double level_of_b) const;
  double SpikeChance(uint32_t variant, std::span<const Screened> ratios) const;
  Comparison Screen(uint32_t a, uint32_t b) const;

  const Observations* observations_;
  Metric metric_;
  TwoWayFit fit_;
  std::vector<Cluster> clusters_;  // by variant
  double fence_ = 0;               // levels above stand out
};

}  // namespace xplane_time::decide
