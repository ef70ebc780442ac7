// Tails and quantiles of the normal, Student's and Fisher's distribution, and functions based on
// them.
//
//   StudentTail(2.228, 10)        0.025
//   StudentQuantile(0.025, 10)    2.228
//   StudentQuantile(0.5, 0)       infinity: no degrees of freedom, no interval
//
// The incomplete beta function is our own (Lentz's continued fraction, Stirling's series; 60
// lines). Boost.Math was rejected because libboost-dev would be the largest dependency by far, and
// std::lgamma because it writes a global. The relative accuracy is 1e-12; tests compare with
// tables.
#pragma once

#include <span>
#include <vector>

namespace xplane_time::stats {

// Regularized I_x(a, b) for 0 <= x <= 1 and a, b > 0.
double IncompleteBeta(double a, double b, double x);
// P(Z > z) for a standard normal Z.
double NormalTail(double z);
// P(T > t) with df > 0 degrees of freedom (infinite: normal), t of any sign.
double StudentTail(double t, double df);
// The t with P(T > t) = tail, for 0 < tail <= 0.5. Infinity if df is 0.
double StudentQuantile(double tail, double df);
// P(F > f).
double FisherTail(double f, double df1, double df2);
// The z with nearly the same tail as t, by Wallace (1959). Within 0.05 for df >= 3; too small for
// lower df.
double NormalScore(double t, double df);
// Adjusted p-values by Holm's step-down, in the order of the input, at most 1.
std::vector<double> HolmAdjusted(std::span<const double> p_values);

}  // namespace xplane_time::stats
