#include "stats/distributions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace xplane_time::stats {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Stirling's series, after a shift of x into the range in which it is accurate.
double LogGamma(double x) {
  constexpr double kFar = 12;
  double product = 1;
  for (; x < kFar; x += 1) product *= x;
  const double inverse = 1 / x, square = inverse * inverse;
  const double series =
      inverse * (1.0 / 12 - square * (1.0 / 360 - square * (1.0 / 1260 - square / 1680)));
  return (x - 0.5) * std::log(x) - x + 0.5 * std::log(2 * std::numbers::pi) + series -
         std::log(product);
}

// Lentz's method for the continued fraction of I_x(a, b); requires x < (a + 1) / (a + b + 2).
double BetaFraction(double a, double b, double x) {
  constexpr int kMostSteps = 10000;
  constexpr double kTiny = 1e-300;
  const auto away_from_zero = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1;
  double d = 1 / away_from_zero(1 - (a + b) * x / (a + 1));
  double fraction = d;
  for (int m = 1; m < kMostSteps; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    fraction *= c * d;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    fraction *= c * d;
    if (std::abs(c * d - 1) < 1e-15) break;
  }
  return fraction;
}

double StudentDensity(double t, double df) {
  if (df > 1e7) return std::exp(-t * t / 2) / std::sqrt(2 * std::numbers::pi);
  const double log_scale =
      LogGamma((df + 1) / 2) - LogGamma(df / 2) - 0.5 * std::log(df * std::numbers::pi);
  return std::exp(log_scale - (df + 1) / 2 * std::log1p(t * t / df));
}

}  // namespace

double IncompleteBeta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(LogGamma(a + b) - LogGamma(a) - LogGamma(b) + a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * BetaFraction(a, b, x) / a;
  return 1 - front * BetaFraction(b, a, 1 - x) / b;
}

double NormalTail(double z) { return 0.5 * std::erfc(z / std::numbers::sqrt2); }

double StudentTail(double t, double df) {
  if (t < 0) return 1 - StudentTail(-t, df);
  if (std::isinf(t)) return 0;
  if (df > 1e7) return NormalTail(t);
  return 0.5 * IncompleteBeta(df / 2, 0.5, df / (df + t * t));
}

double StudentQuantile(double tail, double df) {
  if (!(df > 0) || !(tail > 0)) return kInfinity;
  if (tail >= 0.5) return 0;
  // Newton's method for log(tail) as a function of log(t), which is concave. A step out of the
  // bracket becomes a bisection.
  double lo = -50, hi = 350;  // bracket of log(t)
  double at = std::log(std::sqrt(-2 * std::log(2 * tail)) + 1e-3);
  for (int i = 0; i < 300; ++i) {
    const double t = std::exp(at), beyond = StudentTail(t, df);
    const double miss = beyond > 0 ? std::log(beyond / tail) : -kInfinity;
    (miss > 0 ? lo : hi) = at;
    const double slope = -t * StudentDensity(t, df) / beyond;
    double next = at - miss / slope;
    if (!(next > lo && next < hi)) next = (lo + hi) / 2;
    if (std::abs(next - at) < 1e-13 * std::max(1.0, std::abs(at))) break;
    at = next;
  }
  return at > 345 ? kInfinity : std::exp(at);
}

double FisherTail(double f, double df1, double df2) {
  if (!(f > 0)) return 1;
  return IncompleteBeta(df2 / 2, df1 / 2, df2 / (df2 + df1 * f));
}

double NormalScore(double t, double df) {
  const double score = (8 * df + 1) / (8 * df + 3) * std::sqrt(df * std::log1p(t * t / df));
  return t < 0 ? -score : score;
}

std::vector<double> HolmAdjusted(std::span<const double> p_values) {
  std::vector<size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t at) { return p_values[at]; });
  std::vector<double> adjusted(p_values.size());
  double largest = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const double factor = static_cast<double>(order.size() - rank);
    largest = std::max(largest, std::min(1.0, factor * p_values[order[rank]]));
    adjusted[order[rank]] = largest;
  }
  return adjusted;
}

}  // namespace xplane_time::stats
