#include "stats/location.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "stats/order_statistics.h"

namespace xplane_time::stats {
namespace {

constexpr double kHuber = 1.345;

}  // namespace

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

double RobustSd(std::span<const double> values, double centre) {
  const double sd = kMadToSd * MedianAbsoluteDeviation(values, centre);
  if (sd > 0) return sd;
  double squares = 0;
  for (const double value : values) squares += (value - centre) * (value - centre);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

SkippedMean MeanWithin(std::span<const double> values, double centre, double reach) {
  SkippedMean result;
  for (const double value : values) {
    if (std::abs(value - centre) > reach) continue;
    ++result.kept;
    result.mean += value;
  }
  if (result.kept == 0) return result;
  result.mean /= static_cast<double>(result.kept);
  for (const double value : values) {
    if (std::abs(value - centre) > reach) continue;
    result.squares += (value - result.mean) * (value - result.mean);
  }
  return result;
}

double Biweight(std::span<const double> values, double start, double scale) {
  constexpr double kTuning = 4.685;
  constexpr int kSteps = 20;
  double centre = start;
  for (int step = 0; step < kSteps && scale > 0; ++step) {
    double weights = 0, sum = 0;
    for (const double value : values) {
      const double u = (value - centre) / (kTuning * scale);
      if (std::abs(u) >= 1) continue;
      const double weight = (1 - u * u) * (1 - u * u);
      weights += weight;
      sum += weight * value;
    }
    if (weights == 0 || sum / weights == centre) break;
    centre = sum / weights;
  }
  return centre;
}

Centre HuberCentre(std::vector<double> values) {
  const double n = static_cast<double>(values.size());
  const double plain = Variance(values) / n, df = n - 1;
  const double median = Median(values);
  const double scale = kMadToSd * MedianAbsoluteDeviation(values, median);
  if (!(scale > 0)) return {median, plain, df};
  const double bound = kHuber * scale;
  double at = median;
  for (int i = 0; i < 100; ++i) {
    double sum = 0;
    for (const double value : values) sum += std::clamp(value - at, -bound, bound);
    at += sum / n;  // converges, because the slope of the sum is at most n
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
  // Clamped values carry no information about the spread.
  return {at, squares / (n - 1) / n / (slope * slope), std::max(inside - 1, 1.0)};
}

}  // namespace xplane_time::stats
