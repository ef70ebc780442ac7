// Tails of the normal, Student's and Fisher's distribution, and what is made of them.
//
//   StudentTail(2.228, 10)        0.025
//   StudentQuantile(0.025, 10)    2.228
//   StudentQuantile(0.5, 0)       infinity: no degrees of freedom, no interval
//
// Own incomplete beta function (Lentz's continued fraction, Stirling's series), 60 lines,
// instead of Boost.Math: libboost-dev would be the largest dependency by far, and
// std::lgamma writes a global. Accurate to 1e-12 relative; tests compare with tables.
#pragma once

#include <span>
#include <vector>

namespace xplane_time::stats {

// Regularized: I_x(a, b), 0 <= x <= 1, a and b > 0.
double IncompleteBeta(double a, double b, double x);
// P(Z > z) of a standard normal Z.
double NormalTail(double z);
// P(T > t) with df > 0 degrees of freedom (infinite: normal), t of any sign.
double StudentTail(double t, double df);
// P((Z + shift) / S > t), where Z is standard normal and S^2 an independent chi-square over its
// `df`: the noncentral t distribution, with df of at least 1. Accurate to 1e-4.
double NoncentralStudentTail(double t, double df, double shift);
// t with P(T > t) = tail, 0 < tail <= 0.5. df 0: infinity.
double StudentQuantile(double tail, double df);
// P(F > f).
double FisherTail(double f, double df1, double df2);
// The z with (nearly) the tail of t: Wallace (1959), within 0.05 for df >= 3, below it for less.
double NormalScore(double t, double df);
// Holm's step-down: adjusted p-values, in the order of the input, at most 1.
std::vector<double> HolmAdjusted(std::span<const double> p_values);

}  // namespace xplane_time::stats
