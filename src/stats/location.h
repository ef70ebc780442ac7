// Means, and centres and spreads that a few wild values cannot move.
//
//   std::vector<double> v = {1, 2, 100};
//   MeanWithin(v, /*centre=*/2, /*reach=*/5).mean == 1.5   // 100 is skipped
//   HuberCentre(v).value, about 2.5                        // 100 is pulled in
//
// All expect at least one value. O(n), where nothing else is said.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace xplane_time::stats {

double Mean(std::span<const double> values);
// ddof 1; 0 below two values.
double Variance(std::span<const double> values);

// How many standard deviations from the centre are an outlier, where the deviation is the MAD
// of so many samples: 19 for four samples, 6.4 for ten, 4 for many. So few normal
// samples are skipped that the spread of the others needs no correction.
constexpr double OutlierReach(double samples) { return 4 + 240 / (samples * samples); }

// 1.4826 MAD, or where more than half of the values are equal (a coarse clock), the plain
// standard deviation.
double RobustSd(std::span<const double> values, double centre);

struct SkippedMean {
  size_t kept = 0;
  double mean = 0;
  double squares = 0;  // sum of squared deviations of what is kept
};
// Of the values within `reach` of `centre`. None: kept is 0.
SkippedMean MeanWithin(std::span<const double> values, double centre, double reach);

// Tukey's biweight M-estimate of location (Beaton and Tukey 1974) with c = 4.685, 95 %
// efficient for normal samples, from `start` and a fixed scale; a scale of 0 gives `start`.
double Biweight(std::span<const double> values, double start, double scale);

struct Centre {
  double value = 0;
  double variance = 0;  // of `value`; 0 below two values
  double df = 0;        // of `variance`
};

// Huber's M-estimate with the scale fixed at 1.4826 * MAD, where that is 0 the median.
// O(n log n).
Centre HuberCentre(std::vector<double> values);
// Values pulled in to Huber's bounds around the centre: what bootstraps may average.
std::vector<double> PulledIn(std::vector<double> values);

}  // namespace xplane_time::stats
