#include "xplane_time/aggregate.h"
#include "status.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cmath>
#include <numeric>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "sort_parts.h"
#include "stats/order_statistics.h"
#include "stats/random.h"
#include "timing/radix_sort.h"

namespace xplane_time {
namespace {

constexpr size_t kReplicates = 1000;
// The whole range of five samples covers the median in 94 of 100 cases: no 95 % interval.
constexpr uint64_t kLeastWithInterval = 6;

// Which order statistics the median of n draws with replacement is: one position for odd
// n, the two middle ones for even n. The draws are floor(n U) for n uniform U, so their
// order statistics are those of the U: the k-th is Beta(k, n + 1 - k), and the next is the
// least of n - k uniforms between it and 1.
struct MedianDraw {
  size_t lower = 0, upper = 0;
};

MedianDraw DrawMedian(size_t n, stats::BetaRandom& random) {
  const size_t k = (n + 1) / 2;
  const auto position = [&](double u) {
    return std::min(static_cast<size_t>(u * static_cast<double>(n)), n - 1);
  };
  const double u = random.Beta(static_cast<double>(k), static_cast<double>(n + 1 - k));
  if (n % 2 == 1) return {position(u), position(u)};
  // 1 - V^(1 / (n - k)), without cancellation for large n.
  const double step = -std::expm1(std::log(random.Uniform()) / static_cast<double>(n - k));
  return {position(u), position(u + (1 - u) * step)};
}

using Replicates = std::array<MedianDraw, kReplicates>;

// The draws depend on n and the seed only, and many summaries of a report share these.
const Replicates& DrawReplicates(size_t n, uint64_t seed) {
  thread_local size_t drawn_n = 0;
  thread_local uint64_t drawn_seed = 0;
  thread_local Replicates draws;
  if (drawn_n != n || drawn_seed != seed) {
    stats::BetaRandom random(seed);
    for (MedianDraw& draw : draws) draw = DrawMedian(n, random);
    // Their order does not matter: so the medians nearly are in order.
    std::ranges::sort(draws, {}, [](const MedianDraw& draw) { return draw.lower + draw.upper; });
    drawn_n = n;
    drawn_seed = seed;
  }
  return draws;
}

void BootstrapMedian(std::span<const int64_t> sorted, uint64_t seed, Summary& summary) {
  std::array<double, kReplicates> medians;
  const Replicates& draws = DrawReplicates(sorted.size(), seed);
  std::transform(draws.begin(), draws.end(), medians.begin(), [&](const MedianDraw& draw) {
    return stats::Between(sorted[draw.lower], sorted[draw.upper], 0.5);
  });
  SortNearly(medians, std::less<>());
  summary.median_ci95_lo = stats::InterpolatedQuantile(medians, 0.025);
  summary.median_ci95_hi = stats::InterpolatedQuantile(medians, 0.975);
}

std::vector<int64_t> Sorted(std::span<const int64_t> values) {
  std::vector<int64_t> sorted(values.begin(), values.end());
  RadixSort(&sorted);
  return sorted;
}

void DropExtremes(std::span<const int64_t> values, const Trim&, std::vector<bool>& kept) {
  if (values.size() <= 2) return;
  const auto min = std::min_element(values.begin(), values.end());
  const auto max = std::max_element(values.begin(), values.end());
  kept[static_cast<size_t>(min - values.begin())] = false;
  // All values are equal: min and max are both the first one, and still two go.
  kept[min == max ? 1 : static_cast<size_t>(max - values.begin())] = false;
}

void DropOutsideFences(std::span<const int64_t> values, const Trim&, std::vector<bool>& kept) {
  const std::vector<int64_t> sorted = Sorted(values);
  const double q1 = Percentile(sorted, 0.25);
  const double q3 = Percentile(sorted, 0.75);
  const double reach = 1.5 * (q3 - q1);
  for (size_t i = 0; i < values.size(); ++i) {
    const double value = static_cast<double>(values[i]);
    kept[i] = value >= q1 - reach && value <= q3 + reach;
  }
}

void DropFarFromMedian(std::span<const int64_t> values, const Trim&, std::vector<bool>& kept) {
  const std::vector<int64_t> sorted = Sorted(values);
  const double median = Percentile(sorted, 0.5);
  const double reach = 3 * stats::kMadToSd * stats::SortedMedianAbsoluteDeviation(sorted, median);
  if (reach == 0) return;
  for (size_t i = 0; i < values.size(); ++i) {
    kept[i] = std::abs(static_cast<double>(values[i]) - median) <= reach;
  }
}

void DropPercent(std::span<const int64_t> values, const Trim& trim, std::vector<bool>& kept) {
  const size_t n = values.size();
  assert(trim.percent >= 0 && trim.percent < 50);
  const size_t drop = static_cast<size_t>(static_cast<double>(n) * trim.percent / 100);
  std::vector<size_t> ranked(n);
  std::iota(ranked.begin(), ranked.end(), size_t{0});
  std::stable_sort(ranked.begin(), ranked.end(),
                   [values](size_t a, size_t b) { return values[a] < values[b]; });
  for (size_t i = 0; i < drop; ++i) kept[ranked[i]] = kept[ranked[n - 1 - i]] = false;
}

// In the order of Trim::Policy; the last one is followed by its percent.
struct TrimRule {
  std::string_view name;
  void (*drop)(std::span<const int64_t> values, const Trim& trim, std::vector<bool>& kept);
};
constexpr TrimRule kTrimRules[] = {
    {"none", [](std::span<const int64_t>, const Trim&, std::vector<bool>&) {}},
    {"drop-extremes", DropExtremes},
    {"iqr", DropOutsideFences},
    {"mad", DropFarFromMedian},
    {"percent:", DropPercent},
};

absl::Status BadTrim(std::string_view text) {
  return InvalidArgument(
      "'", absl::string_view(text.data(), text.size()),
      "' is not a trim policy; valid: none, drop-extremes, iqr, mad, or percent:P with "
      "a decimal number 0 <= P < 50");
}

}  // namespace

void Moments::Add(int64_t value) {
  if (n_ > 0) {
    // n times (value - mean), exactly; it stays below 2^127.
    const Int128 distance = Int128{value} * static_cast<Int128>(n_) - sum_;
    const auto low = static_cast<int64_t>(distance);  // all of it, mostly, and faster
    const double scaled =
        low == distance ? static_cast<double>(low) : static_cast<double>(distance);
    const double n = static_cast<double>(n_);
    m2_ += scaled / n * (scaled / (n + 1));
  }
  min_ = n_ == 0 ? value : std::min(min_, value);
  max_ = n_ == 0 ? value : std::max(max_, value);
  sum_ += value;
  ++n_;
}

void Moments::Add(int64_t value, uint64_t times) {
  Moments equal;
  equal.n_ = times;
  equal.sum_ = Int128{value} * static_cast<Int128>(times);
  equal.min_ = equal.max_ = value;
  Merge(equal);
}

void Moments::Merge(const Moments& other) {
  if (other.n_ == 0) return;
  if (n_ == 0) {
    *this = other;
    return;
  }
  // The difference of the means: whole parts exactly, then what is left of them.
  const Int128 count = static_cast<Int128>(n_), other_count = static_cast<Int128>(other.n_);
  const double n = static_cast<double>(n_), other_n = static_cast<double>(other.n_);
  const Int128 whole = other.sum_ / other_count - sum_ / count;
  const double delta =
      static_cast<double>(whole) + (static_cast<double>(other.sum_ % other_count) / other_n -
                                    static_cast<double>(sum_ % count) / n);
  m2_ += other.m2_ + delta * delta * (n / (n + other_n) * other_n);
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  sum_ += other.sum_;
  n_ += other.n_;
}

Summary Summarize(std::span<const int64_t> values_ps, uint64_t seed) {
  Summary summary;
  summary.n = values_ps.size();
  if (values_ps.empty()) return summary;
  const std::vector<int64_t> sorted = Sorted(values_ps);

  // In sorted order, so that rounding does not depend on the order of the samples.
  Moments moments;
  for (const int64_t value : sorted) moments.Add(value);
  summary.mean = moments.mean();
  summary.std = moments.std();
  summary.min = moments.min();
  summary.max = moments.max();

  summary.median = summary.p50 = Percentile(sorted, 0.50);
  summary.p95 = Percentile(sorted, 0.95);
  summary.p99 = Percentile(sorted, 0.99);
  summary.mad = stats::SortedMedianAbsoluteDeviation(sorted, summary.median);
  if (summary.n > 1) summary.std_sample = moments.std_sample();
  if (summary.n >= kLeastWithInterval) BootstrapMedian(sorted, seed, summary);
  return summary;
}

double Percentile(std::span<const int64_t> sorted, double fraction) {
  assert(!sorted.empty());
  assert(fraction >= 0 && fraction <= 1);
  return stats::InterpolatedQuantile(sorted, fraction);
}

absl::StatusOr<Trim> ParseTrim(std::string_view text) {
  constexpr auto kPercent = static_cast<size_t>(Trim::Policy::kPercent);
  for (size_t i = 0; i < kPercent; ++i) {
    if (text == kTrimRules[i].name) return Trim{.policy = static_cast<Trim::Policy>(i)};
  }
  const std::string_view prefix = kTrimRules[kPercent].name;
  if (!text.starts_with(prefix)) return BadTrim(text);
  const std::string_view number = text.substr(prefix.size());
  // SimpleAtod also takes blanks, signs, exponents, "inf" and "nan".
  if (number.find_first_not_of("0123456789.") != std::string_view::npos) return BadTrim(text);
  double percent = 0;
  if (!absl::SimpleAtod(absl::string_view(number.data(), number.size()), &percent) ||
      percent >= 50) {
    return BadTrim(text);
  }
  return Trim{.policy = Trim::Policy::kPercent, .percent = percent};
}

std::string TrimName(const Trim& trim) {
  std::string name(kTrimRules[static_cast<size_t>(trim.policy)].name);
  if (trim.policy != Trim::Policy::kPercent) return name;
  // The shortest text that ParseTrim reads back as the same number; the longest such has
  // some 345 characters.
  std::array<char, 400> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), trim.percent,
                                 std::chars_format::fixed);
  return name.append(digits.data(), end.ptr);
}

std::vector<bool> KeptByTrim(std::span<const int64_t> values_ps, const Trim& trim) {
  std::vector<bool> kept(values_ps.size(), true);
  if (values_ps.empty()) return kept;
  kTrimRules[static_cast<size_t>(trim.policy)].drop(values_ps, trim, kept);
  return kept;
}

}  // namespace xplane_time
