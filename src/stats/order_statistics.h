// Order statistics: values at a rank, and medians and quantiles based on them. Both have several
// definitions; each definition has its own name here.
//
//   std::vector<double> v = {4, 1, 3, 2};
//   Median(v) == 2.5, LowerMedian(v) == 2, UpperMedian(v) == 3
//   std::vector<int64_t> s = {10, 20, 30, 40};                         // sorted
//   s[NearestRank(s.size(), 0.95)] == 40, InterpolatedQuantile(s, 0.5) == 25
//
// All functions need at least one value. Functions of unsorted values reorder their argument, in
// O(n).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <vector>

namespace xplane_time::stats {

// 1.4826 MAD estimates the standard deviation of normal samples.
constexpr double kMadToSd = 1.4826;

// The value with `rank` smaller values before it in ascending order.
template <std::ranges::random_access_range Values>
auto AtRank(Values&& values, size_t rank) {
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// For an even number of values: the lower or the upper of the two middle ones.
template <std::ranges::random_access_range Values>
auto LowerMedian(Values&& values) {
  return AtRank(values, (values.size() - 1) / 2);
}
template <std::ranges::random_access_range Values>
auto UpperMedian(Values&& values) {
  return AtRank(values, values.size() / 2);
}

// For an even number of values: the mean of the two middle ones.
inline double Median(std::span<double> values) {
  const double upper = UpperMedian(values);
  if (values.size() % 2 == 1) return upper;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  return (*std::max_element(values.begin(), middle) + upper) / 2;
}

// Distances from `centre`. Their median is the median absolute deviation (MAD).
inline std::vector<double> AbsoluteDeviations(std::span<const double> values, double centre) {
  std::vector<double> deviations(values.size());
  std::transform(values.begin(), values.end(), deviations.begin(),
                 [centre](double value) { return std::abs(value - centre); });
  return deviations;
}
inline double MedianAbsoluteDeviation(std::span<const double> values, double centre) {
  std::vector<double> deviations = AbsoluteDeviations(values, centre);
  return Median(deviations);
}

// The rank of the smallest of `count` sorted values such that the fraction `share` of them is at
// most as large.
inline size_t NearestRank(size_t count, double share) {
  const double most = static_cast<double>(count);
  return static_cast<size_t>(std::clamp(std::ceil(share * most), 1.0, most)) - 1;
}

// Exact before it is rounded, for any distance.
inline double Gap(int64_t low, int64_t high) {
  return static_cast<double>(static_cast<uint64_t>(high) - static_cast<uint64_t>(low));
}
inline double Gap(double low, double high) { return high - low; }

// Interpolates from the nearer end, like numpy, so that both ends are exact.
template <typename T>
double Between(T low, T high, double share) {
  const double gap = Gap(low, high);
  if (share < 0.5) return static_cast<double>(low) + gap * share;
  return static_cast<double>(high) - gap * (1 - share);
}

// Interpolates between the two nearest ranks, like numpy's default ("linear"). `share` is 0 to 1.
template <std::ranges::random_access_range Values>
double InterpolatedQuantile(const Values& sorted, double share) {
  const double position = share * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return Between(sorted[below], sorted[above], position - static_cast<double>(below));
}

// The same, but interpolated from the lower end for any share. The last bit may differ.
inline double InterpolatedQuantileFromBelow(std::span<const double> sorted, double share) {
  const double position = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (position - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// Like MedianAbsoluteDeviation except for rounding, but without a copy. Deviations grow in both
// directions from the median, so merging outwards finds the smaller half of them.
inline double SortedMedianAbsoluteDeviation(std::span<const int64_t> sorted, double median) {
  const auto deviation_of = [median](int64_t value) {
    return std::abs(static_cast<double>(value) - median);
  };
  const auto middle = std::lower_bound(
      sorted.begin(), sorted.end(), median,
      [](int64_t value, double centre) { return static_cast<double>(value) < centre; });
  size_t below = static_cast<size_t>(middle - sorted.begin()), above = below;
  const auto next = [&] {
    const bool take_above =
        below == 0 ||
        (above < sorted.size() && deviation_of(sorted[above]) <= deviation_of(sorted[below - 1]));
    return deviation_of(take_above ? sorted[above++] : sorted[--below]);
  };
  double before = 0, deviation = 0;
  for (size_t taken = 0; taken <= sorted.size() / 2; ++taken) {
    before = deviation;
    deviation = next();
  }
  return sorted.size() % 2 == 1 ? deviation : Between(before, deviation, 0.5);
}

}  // namespace xplane_time::stats
