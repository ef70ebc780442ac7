// Intervals: Student's t, and the centre of samples that hold outliers.
//
//   StudentTail(2.228, 10)        0.025
//   StudentQuantile(0.025, 10)    2.228
//   StudentQuantile(0.5, 0)       infinity: no degrees of freedom, no interval
//
// Own incomplete beta function (Lentz's continued fraction, Stirling's series), 60 lines,
// instead of Boost.Math: libboost-dev would be the largest dependency by far, and
// std::lgamma writes a global. Accurate to 1e-12 relative; tests compare with tables.
#ifndef XPLANE_TIME_SRC_COMPARE_INTERVALS_H_
#define XPLANE_TIME_SRC_COMPARE_INTERVALS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace xplane_time::compare {

// Regularized: I_x(a, b), 0 <= x <= 1, a and b > 0.
double IncompleteBeta(double a, double b, double x);

// P(T > t) with df > 0 degrees of freedom (infinite: normal), t of any sign.
double StudentTail(double t, double df);
// t with P(T > t) = tail, 0 < tail <= 0.5. df 0: infinity.
double StudentQuantile(double tail, double df);
// P(F > f).
double FisherTail(double f, double df1, double df2);

struct Centre {
  double value = 0;
  double variance = 0;  // of `value`, within its capture; 0 below two values
  double df = 0;        // of `variance`
};

// Huber's M-estimate with the scale fixed at 1.4826 * MAD, where that is 0 the median.
// Not empty. O(n log n).
Centre HuberCentre(std::vector<double> values);
// Values pulled in to Huber's bounds around the centre: what bootstraps may average.
std::vector<double> PulledIn(const std::vector<double>& values);

double Mean(std::span<const double> values);
// ddof 1; 0 below two values.
double Variance(std::span<const double> values);

// Holm's step-down: adjusted p-values, in the order of the input, at most 1.
std::vector<double> HolmAdjusted(std::span<const double> p_values);

// What the logs of times on both sides say about their difference.
struct Difference {
  double estimate = 0;  // head - base
  double standard_error = 0;
  double df = 0;      // 0: nothing is known about the error
  double spread = 0;  // std of a capture's centre; df 0: as far as its own samples show it
  // Std of what the clock's resolution does to the estimate: part of standard_error that more
  // captures do not reduce.
  double resolution = 0;
};
// `base` and `head`: one centre a capture, not empty.
Difference UnpairedDifference(std::span<const Centre> base, std::span<const Centre> head,
                              std::optional<double> offset_std);
// Of equal length.
Difference PairedDifference(std::span<const Centre> base, std::span<const Centre> head,
                            std::optional<double> offset_std);

}  // namespace xplane_time::compare

#endif  // XPLANE_TIME_SRC_COMPARE_INTERVALS_H_
