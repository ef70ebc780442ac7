#include "decide/robust.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace xplane_time::decide {

double Median(std::span<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

double LowMedian(std::span<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double MedianAbsoluteDeviation(std::span<const double> values, double centre) {
  std::vector<double> distances(values.size());
  std::transform(values.begin(), values.end(), distances.begin(),
                 [centre](double value) { return std::abs(value - centre); });
  return Median(distances);
}

double RobustSd(std::span<const double> values, double centre) {
  const double sd = kMadToSd * MedianAbsoluteDeviation(values, centre);
  if (sd > 0) return sd;
  const double squares =
      std::accumulate(values.begin(), values.end(), 0.0,
                      [centre](double sum, double x) { return sum + (x - centre) * (x - centre); });
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

}  // namespace xplane_time::decide
