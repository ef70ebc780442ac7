// Means, and robust estimates of centre and spread that a few outliers cannot move.
//
//   std::vector<double> v = {1, 2, 100};
//   MeanWithin(v, /*centre=*/2, /*reach=*/5).mean == 1.5   // 100 is skipped
//   HuberCentre(v).value, about 2.5                        // 100 is clamped
//
// All functions need at least one value. They take O(n) time unless stated otherwise.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace xplane_time::stats {

double Mean(std::span<const double> values);
// ddof 1; 0 for a single value.
double Variance(std::span<const double> values);

// The distance from the centre, in standard deviations, beyond which a value is an outlier, if the
// standard deviation comes from the MAD of this many samples: 19 for four samples, 6.4 for ten, 4
// for many. It skips so few normal samples that the spread of the others needs no correction.
constexpr double OutlierReach(double samples) { return 4 + 240 / (samples * samples); }

// 1.4826 * MAD or, if more than half of the values are equal (a coarse clock), the plain standard
// deviation.
double RobustSd(std::span<const double> values, double centre);

struct SkippedMean {
  size_t kept = 0;
  double mean = 0;
  double squares = 0;  // sum of squared deviations of the kept values
};
// The mean of the values within `reach` of `centre`. If there are none, kept is 0.
SkippedMean MeanWithin(std::span<const double> values, double centre, double reach);

// Tukey's biweight M-estimate of location (Beaton and Tukey 1974) with c = 4.685, which is 95 %
// efficient for normal samples. It iterates from `start` with a fixed scale. A scale of 0 gives
// `start`.
double Biweight(std::span<const double> values, double start, double scale);

struct Centre {
  double value = 0;
  double variance = 0;  // of `value`; 0 for a single value
  double df = 0;        // degrees of freedom of `variance`
};

// Huber's M-estimate with the scale fixed at 1.4826 * MAD. If that is 0, the median. O(n log n).
Centre HuberCentre(std::vector<double> values);

}  // namespace xplane_time::stats
