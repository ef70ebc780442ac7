#include "compare/intervals.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

namespace xplane_time::compare {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMadToSigma = 1.4826;

// Stirling's series, after shifting x to where it converges.
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

// Lentz's method for the continued fraction of I_x(a, b); x < (a + 1) / (a + b + 2).
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

double NormalTail(double z) { return 0.5 * std::erfc(z / std::numbers::sqrt2); }

double StudentDensity(double t, double df) {
  if (df > 1e7) return std::exp(-t * t / 2) / std::sqrt(2 * std::numbers::pi);
  const double log_scale =
      LogGamma((df + 1) / 2) - LogGamma(df / 2) - 0.5 * std::log(df * std::numbers::pi);
  return std::exp(log_scale - (df + 1) / 2 * std::log1p(t * t / df));
}

double MedianOf(std::vector<double>* values) {
  const size_t n = values->size();
  const auto middle = values->begin() + static_cast<ptrdiff_t>(n / 2);
  std::nth_element(values->begin(), middle, values->end());
  if (n % 2 == 1) return *middle;
  return (*middle + *std::max_element(values->begin(), middle)) / 2;
}

double ScaleAround(double median, const std::vector<double>& values) {
  std::vector<double> deviations(values.size());
  std::transform(values.begin(), values.end(), deviations.begin(),
                 [median](double value) { return std::abs(value - median); });
  return kMadToSigma * MedianOf(&deviations);
}

constexpr double kHuber = 1.345;

}  // namespace

double IncompleteBeta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(LogGamma(a + b) - LogGamma(a) - LogGamma(b) + a * std::log(x) + b * std::log1p(-x));
  if (x < (a + 1) / (a + b + 2)) return front * BetaFraction(a, b, x) / a;
  return 1 - front * BetaFraction(b, a, 1 - x) / b;
}

double StudentTail(double t, double df) {
  if (t < 0) return 1 - StudentTail(-t, df);
  if (std::isinf(t)) return 0;
  if (df > 1e7) return NormalTail(t);
  return 0.5 * IncompleteBeta(df / 2, 0.5, df / (df + t * t));
}

double StudentQuantile(double tail, double df) {
  if (!(df > 0) || !(tail > 0)) return kInfinity;
  if (tail >= 0.5) return 0;
  // Newton's method for log tail over log t, which is concave; bisection where it leaves
  // the bracket.
  double lo = -50, hi = 350;  // log t
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

double Mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double Variance(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double mean = Mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum / static_cast<double>(values.size() - 1);
}

Centre HuberCentre(std::vector<double> values) {
  const double n = static_cast<double>(values.size());
  const double plain = Variance(values) / n, df = n - 1;
  const double median = MedianOf(&values);
  const double scale = ScaleAround(median, values);
  if (!(scale > 0)) return {median, plain, df};
  const double bound = kHuber * scale;
  double at = median;
  for (int i = 0; i < 100; ++i) {
    double sum = 0;
    for (const double value : values) sum += std::clamp(value - at, -bound, bound);
    at += sum / n;  // converges: the slope of the sum is at most n
    if (std::abs(sum) < 1e-12 * n * scale) break;
  }
  double squares = 0, inside = 0;
  for (const double value : values) {
    const double pulled = std::clamp(value - at, -bound, bound);
    squares += pulled * pulled;
    inside += std::abs(value - at) < bound ? 1 : 0;
  }
  if (values.size() < 2 || inside == 0) return {at, plain, df};
  const double slope = inside / n;
  // Values that were pulled in say nothing about the spread.
  return {at, squares / (n - 1) / n / (slope * slope), std::max(inside - 1, 1.0)};
}

std::vector<double> PulledIn(const std::vector<double>& values) {
  if (values.empty()) return {};
  std::vector<double> pulled = values;
  const double median = MedianOf(&pulled);
  const double bound = kHuber * ScaleAround(median, values);
  const double at = HuberCentre(values).value;
  for (size_t i = 0; i < values.size(); ++i) {
    pulled[i] = bound > 0 ? std::clamp(values[i], at - bound, at + bound) : values[i];
  }
  return pulled;
}

std::vector<double> HolmAdjusted(std::span<const double> p_values) {
  std::vector<size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size());
  double largest = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const double factor = static_cast<double>(order.size() - rank);
    largest = std::max(largest, std::min(1.0, factor * p_values[order[rank]]));
    adjusted[order[rank]] = largest;
  }
  return adjusted;
}

namespace {

struct SideMoments {
  double mean = 0, between = 0;  // variance of centres, ddof 1
  double within = 0;             // mean variance of a centre, given its process
  double within_df = 0;          // Satterthwaite's
  double k = 0;
};

// Of a sum of independent variances with their degrees of freedom.
double SatterthwaiteDf(double total, double weighted_squares) {
  return weighted_squares > 0 ? total * total / weighted_squares : kInfinity;
}

SideMoments MomentsOf(std::span<const Centre> centres) {
  std::vector<double> values(centres.size());
  double within = 0, weighted = 0;
  for (size_t i = 0; i < centres.size(); ++i) {
    const Centre& centre = centres[i];
    values[i] = centre.value;
    within += centre.variance;
    if (centre.df > 0) weighted += centre.variance * centre.variance / centre.df;
  }
  const double k = static_cast<double>(centres.size());
  const double within_df = SatterthwaiteDf(within, weighted);
  within /= k;
  // Captures that happen to agree do not make a centre surer than its samples do.
  return {Mean(values), std::max(Variance(values), within), within, within_df, k};
}

}  // namespace

Difference UnpairedDifference(std::span<const Centre> base, std::span<const Centre> head,
                              std::optional<double> offset_std) {
  const SideMoments b = MomentsOf(base), h = MomentsOf(head);
  const double shares = 1 / b.k + 1 / h.k;
  const double free = b.k + h.k - 2;
  Difference out;
  out.estimate = h.mean - b.mean;
  double variance = 0;
  if (free > 0) {
    const double pooled = ((b.k - 1) * b.between + (h.k - 1) * h.between) / free * shares;
    variance = pooled;
    out.df = free;
    if (b.k > 1 && h.k > 1) {
      const double vb = b.between / b.k, vh = h.between / h.k, welch = vb + vh;
      if (welch > 0) {
        const double df = welch * welch / (vb * vb / (b.k - 1) + vh * vh / (h.k - 1));
        out.df = std::min(free, df);
      }
      variance = std::max(pooled, welch);
    }
  }
  if (offset_std.has_value()) {
    const double wb = b.within / b.k, wh = h.within / h.k;
    const double known = *offset_std * *offset_std * shares + wb + wh;
    variance = std::max(variance, known);
    out.df = SatterthwaiteDf(known, wb * wb / b.within_df + wh * wh / h.within_df);
  }
  out.standard_error = std::sqrt(variance);
  out.spread = std::sqrt(out.df > 0 ? variance / shares : (b.within + h.within) / 2);
  return out;
}

Difference PairedDifference(std::span<const Centre> base, std::span<const Centre> head,
                            std::optional<double> offset_std) {
  std::vector<Centre> pairs(base.size());
  for (size_t i = 0; i < base.size(); ++i) {
    pairs[i] = {head[i].value - base[i].value, head[i].variance + base[i].variance,
                std::min(head[i].df, base[i].df)};
  }
  const SideMoments moments = MomentsOf(pairs);
  Difference out;
  out.estimate = moments.mean;
  double variance = moments.k > 1 ? moments.between : 0;
  out.df = moments.k - 1;
  if (offset_std.has_value()) {
    const double known = 2 * *offset_std * *offset_std + moments.within, w = moments.within;
    variance = std::max(variance, known);
    out.df = SatterthwaiteDf(known, w * w / moments.within_df);
  }
  out.standard_error = std::sqrt(variance / moments.k);
  out.spread = std::sqrt((out.df > 0 ? variance : moments.within) / 2);
  return out;
}

}  // namespace xplane_time::compare
