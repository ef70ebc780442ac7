#include "insight/variation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "stats/distributions.h"
#include "stats/location.h"
#include "stats/order_statistics.h"

namespace xplane_time::insight {
namespace {

double MedianOf(std::vector<double> values) { return stats::Median(values); }

// The times of the others at one run.
double MedianOfOthers(std::span<const std::vector<double>> times, size_t device, size_t run) {
  std::vector<double> others;
  for (size_t other = 0; other < times.size(); ++other) {
    if (other != device) others.push_back(times[other][run]);
  }
  return MedianOf(std::move(others));
}

PeerTest TestOf(std::vector<double> log_ratios) {
  // With so few values, some may be equal by chance, and Huber's spread would be 0.
  constexpr size_t kFew = 10;
  const auto n = static_cast<double>(log_ratios.size());
  const stats::Centre centre =
      log_ratios.size() < kFew
          ? stats::Centre{stats::Mean(log_ratios), stats::Variance(log_ratios) / n, n - 1}
          : stats::HuberCentre(std::move(log_ratios));
  PeerTest test = {.ratio = std::exp(centre.value)};
  const double beyond = centre.value - std::log(kLeastRatio);
  if (centre.variance > 0) {
    test.p_value = stats::StudentTail(beyond / std::sqrt(centre.variance), centre.df);
  } else {
    test.p_value = beyond > 0 ? 0 : 1;
  }
  return test;
}

// Ranks from 1, of equal values their mean.
std::vector<double> RanksOf(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (size_t first = 0; first < order.size();) {
    size_t end = first;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    for (size_t i = first; i < end; ++i) ranks[order[i]] = static_cast<double>(first + end + 1) / 2;
    first = end;
  }
  return ranks;
}

void FillLevels(std::span<const double> times, SlowedTest* test) {
  std::vector<double> fast, slow;
  for (size_t i = 0; i < times.size(); ++i) (test->slow[i] ? slow : fast).push_back(times[i]);
  if (fast.empty() || slow.empty()) {
    test->p_value = 1;
    return;
  }
  test->fast_level = MedianOf(std::move(fast));
  test->ratio = MedianOf(std::move(slow)) / test->fast_level;
}

// Runs that get slower little by little begin to before the change: those that have lost a quarter
// of the way count as slow.
void ExtendBack(std::span<const double> times, SlowedTest* test) {
  const auto first = std::ranges::find(test->slow, true);
  if (first == test->slow.end() || test->ratio <= 1) return;
  const double from = test->fast_level * (1 + (test->ratio - 1) / 4);
  for (auto at = static_cast<size_t>(first - test->slow.begin()); at > 0 && times[at - 1] > from;) {
    test->slow[--at] = true;
  }
}

// The sum of squares between the means of the parts before and from `at` on; less than 0 if the
// second part is not larger.
double SquaresBetween(double before, double all, size_t at, size_t count) {
  const auto k = static_cast<double>(at), n = static_cast<double>(count);
  const double step = (all - before) / (n - k) - before / k;
  return step <= 0 ? -1 : k * (n - k) * step * step;
}

// The start of the larger part, by least squares.
size_t ChangeIn(std::span<const double> times) {
  const double all = std::accumulate(times.begin(), times.end(), 0.0);
  double before = 0, most = 0;
  size_t change = times.size();
  for (size_t i = 1; i < times.size(); ++i) {
    before += times[i - 1];
    const double squares = SquaresBetween(before, all, i, times.size());
    if (squares > most) most = squares, change = i;
  }
  return change;
}

// Pettitt (1979): whether ranks are lower before some run than from it on. It does not say well
// which run that is.
SlowedTest Changed(std::span<const double> times) {
  const auto n = static_cast<double>(times.size());
  double sum = 0, most = 0;
  for (const double rank : RanksOf(times)) {
    sum += (n + 1) / 2 - rank;
    most = std::max(most, sum);
  }
  SlowedTest test = {.slow = std::vector<bool>(times.size())};
  std::fill(test.slow.begin() + static_cast<std::ptrdiff_t>(ChangeIn(times)), test.slow.end(),
            true);
  // The variance of U = 2 * sum. Ties make it smaller, and so the test stricter.
  test.p_value = std::min(1.0, std::exp(-6 * (2 * most) * (2 * most) / (n * n * n + n * n)));
  FillLevels(times, &test);
  ExtendBack(times, &test);
  return test;
}

// The value from which on runs are slow: of all ways to part them in two, that with the least
// squares within.
double LevelBetween(std::span<const double> times) {
  std::vector<double> sorted(times.begin(), times.end());
  std::ranges::sort(sorted);
  const size_t at = ChangeIn(sorted);
  return sorted[std::min(at, sorted.size() - 1)];
}

// Fewer stretches of equal levels than chance would make.
double StretchTail(const std::vector<bool>& slow, size_t first) {
  double fast_count = 0, slow_count = 0, stretches = 1;
  for (size_t i = first; i < slow.size(); ++i) {
    (slow[i] ? slow_count : fast_count) += 1;
    if (i > first && slow[i] != slow[i - 1]) stretches += 1;
  }
  constexpr double kLeast = 6;  // below, the normal approximation is invalid
  if (fast_count < kLeast || slow_count < kLeast) return 1;
  const double n = fast_count + slow_count, product = 2 * fast_count * slow_count;
  const double mean = product / n + 1, variance = product * (product - n) / (n * n * (n - 1));
  return stats::NormalTail((mean - stretches - 0.5) / std::sqrt(variance));
}

SlowedTest InStretches(std::span<const double> times) {
  SlowedTest test = {.is_for_good = false, .slow = std::vector<bool>(times.size())};
  const double level = LevelBetween(times);
  for (size_t i = 0; i < times.size(); ++i) test.slow[i] = times[i] >= level;
  size_t first = 0;
  while (first < times.size() && test.slow[first]) ++first;
  test.p_value = StretchTail(test.slow, first);
  FillLevels(times, &test);
  return test;
}

}  // namespace

std::optional<std::vector<PeerTest>> SlowerThanPeers(
    std::span<const std::vector<double>> times_by_device) {
  constexpr size_t kLeast = 3;
  if (times_by_device.size() < 2 || times_by_device[0].size() < kLeast) return std::nullopt;
  std::vector<PeerTest> tests;
  for (size_t device = 0; device < times_by_device.size(); ++device) {
    std::vector<double> log_ratios;
    for (size_t run = 0; run < times_by_device[device].size(); ++run) {
      log_ratios.push_back(
          std::log(times_by_device[device][run] / MedianOfOthers(times_by_device, device, run)));
    }
    tests.push_back(TestOf(std::move(log_ratios)));
  }
  return tests;
}

std::optional<SlowedTest> GotSlower(std::span<const double> times) {
  if (times.size() < kLeastRuns) return std::nullopt;
  SlowedTest changed = Changed(times), stretches = InStretches(times);
  const double least = std::min(changed.p_value, stretches.p_value);
  // A permanent change is significant in both tests; if they nearly agree, the test for a permanent
  // change describes it better.
  size_t agree = 0;
  for (size_t i = 0; i < times.size(); ++i) agree += changed.slow[i] == stretches.slow[i] ? 1 : 0;
  const bool stays = changed.p_value <= stretches.p_value || 10 * agree >= 9 * times.size();
  SlowedTest& better = stays ? changed : stretches;
  better.p_value = std::min(1.0, 2 * least);
  return std::move(better);
}

}  // namespace xplane_time::insight
