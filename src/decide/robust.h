// Centres and spreads that a few wild values cannot move.
//
//   std::vector<double> v = {1, 2, 100};
//   Median(v) == 2, MedianAbsoluteDeviation(v, 2) == 1
//   MeanWithin(v, /*centre=*/2, /*reach=*/5).mean == 1.5   // 100 is skipped
//
// All expect at least one value. The medians reorder their argument. O(n).
#ifndef XPLANE_TIME_SRC_DECIDE_ROBUST_H_
#define XPLANE_TIME_SRC_DECIDE_ROBUST_H_

#include <cstddef>
#include <span>

namespace xplane_time::decide {

double Median(std::span<double> values);
double LowMedian(std::span<double> values);  // of an even number: the lower of the middle ones
double MedianAbsoluteDeviation(std::span<const double> values, double centre);

// 1.4826 MAD estimates the standard deviation of normal samples.
constexpr double kMadToSd = 1.4826;
// That, or where more than half of the values are equal (a coarse clock), the plain one.
double RobustSd(std::span<const double> values, double centre);
// Of logarithms: one part in a million. Times that never vary are not known any better.
constexpr double kLeastSd = 1e-6;

// How many standard deviations from the centre are an outlier, where the deviation is the MAD
// of so many samples: 19 for four samples, 6.4 for ten, 4 for many. So few normal
// samples are skipped that the spread of the others needs no correction.
constexpr double OutlierReach(double samples) { return 4 + 240 / (samples * samples); }

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

}  // namespace xplane_time::decide

#endif  // XPLANE_TIME_SRC_DECIDE_ROBUST_H_
