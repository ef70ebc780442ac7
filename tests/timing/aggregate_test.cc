#include "xplane_time/aggregate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <ostream>
#include <random>

#include "tests/support/extremes.h"

namespace xplane_time {
namespace {

using Values = std::vector<int64_t>;

using testing::kMax;
using testing::kMin;

Values RandomValues(size_t count, int64_t first, uint64_t range, std::mt19937_64& random) {
  Values values(count);
  for (int64_t& value : values) value = first + static_cast<int64_t>(random() % range);
  return values;
}

Moments MomentsOf(std::span<const int64_t> values) {
  Moments moments;
  for (const int64_t value : values) moments.Add(value);
  return moments;
}

// Two passes over the distances from the first value, which is exact for small distances.
double SlowStd(const Values& values) {
  long double sum = 0, squares = 0;
  for (const int64_t value : values) sum += static_cast<long double>(value - values[0]);
  const long double mean = sum / static_cast<long double>(values.size());
  for (const int64_t value : values) {
    const long double deviation = static_cast<long double>(value - values[0]) - mean;
    squares += deviation * deviation;
  }
  return static_cast<double>(std::sqrt(squares / static_cast<long double>(values.size())));
}

TEST(Moments, ByHand) {
  const Moments moments = MomentsOf(Values{2, 4, 4, 4, 5, 5, 7, 9});
  EXPECT_EQ(moments.n(), 8u);
  EXPECT_TRUE(moments.sum() == 40);
  EXPECT_EQ(moments.min(), 2);
  EXPECT_EQ(moments.max(), 9);
  EXPECT_DOUBLE_EQ(moments.mean(), 5);
  EXPECT_DOUBLE_EQ(moments.std(), 2);
  EXPECT_DOUBLE_EQ(moments.std_sample(), std::sqrt(32.0 / 7));
}

TEST(Moments, OneValueHasNoSpread) {
  const Moments moments = MomentsOf(Values{-3});
  EXPECT_EQ(moments.min(), -3);
  EXPECT_EQ(moments.max(), -3);
  EXPECT_EQ(moments.mean(), -3);
  EXPECT_EQ(moments.std(), 0);
}

TEST(Moments, LargeOffsetsKeepTheNoise) {
  std::mt19937_64 random(1);
  for (const int64_t offset : {int64_t{0}, int64_t{1'000'000'000'000'000}, kMax - 8, kMin}) {
    const Values values = RandomValues(20'000, offset, 7, random);
    const Moments moments = MomentsOf(values);
    EXPECT_NEAR(moments.std(), SlowStd(values), 1e-10) << offset;
  }
}

TEST(Moments, SumsPastAnInt64) {
  const Moments moments = MomentsOf(Values{kMax, kMax, kMax});
  EXPECT_TRUE(moments.sum() == Int128{3} * kMax);
  EXPECT_EQ(moments.mean(), static_cast<double>(kMax));
  EXPECT_EQ(moments.std(), 0);
}

TEST(Moments, EndsOfTheRange) {
  const Moments moments = MomentsOf(Values{kMin, kMax});
  EXPECT_TRUE(moments.sum() == -1);
  EXPECT_EQ(moments.mean(), -0.5);
  EXPECT_DOUBLE_EQ(moments.std(), 0x1p63);
}

TEST(Moments, MergeIsTheSameAsOnePass) {
  std::mt19937_64 random(2);
  for (const int64_t offset : {int64_t{0}, int64_t{-50}, int64_t{1'000'000'000'000'000}}) {
    for (size_t round = 0; round < 50; ++round) {
      const Values values = RandomValues(1 + random() % 400, offset, 100, random);
      const size_t cut = random() % (values.size() + 1);
      Moments merged = MomentsOf(std::span(values).first(cut));
      merged.Merge(MomentsOf(std::span(values).subspan(cut)));
      const Moments whole = MomentsOf(values);
      EXPECT_EQ(merged.n(), whole.n());
      EXPECT_TRUE(merged.sum() == whole.sum());
      EXPECT_EQ(merged.min(), whole.min());
      EXPECT_EQ(merged.max(), whole.max());
      EXPECT_EQ(merged.mean(), whole.mean());
      EXPECT_NEAR(merged.std(), whole.std(), 1e-10);
    }
  }
}

TEST(Moments, MergeOfVeryDifferentParts) {
  Moments merged = MomentsOf(Values{kMin, kMin});
  merged.Merge(MomentsOf(Values{kMax, kMax}));
  EXPECT_EQ(merged.min(), kMin);
  EXPECT_EQ(merged.max(), kMax);
  EXPECT_DOUBLE_EQ(merged.std(), 0x1p63);
}

TEST(Moments, MergeWithNothing) {
  Moments moments = MomentsOf(Values{1, 2});
  moments.Merge(Moments());
  EXPECT_EQ(moments.n(), 2u);
  EXPECT_EQ(moments.min(), 1);
  Moments nothing;
  nothing.Merge(moments);
  EXPECT_EQ(nothing.n(), 2u);
  EXPECT_EQ(nothing.min(), 1);
  EXPECT_EQ(nothing.std(), 0.5);
  nothing = Moments();
  nothing.Merge(Moments());
  EXPECT_EQ(nothing.n(), 0u);
}

TEST(Percentile, ByHand) {
  const Values four = {10, 20, 30, 40};
  EXPECT_EQ(Percentile(four, 0), 10);
  EXPECT_EQ(Percentile(four, 0.25), 17.5);
  EXPECT_EQ(Percentile(four, 0.5), 25);
  EXPECT_EQ(Percentile(four, 0.75), 32.5);
  EXPECT_DOUBLE_EQ(Percentile(four, 0.95), 38.5);
  EXPECT_DOUBLE_EQ(Percentile(four, 0.99), 39.7);
  EXPECT_EQ(Percentile(four, 1), 40);
  EXPECT_EQ(Percentile(Values{7}, 0), 7);
  EXPECT_EQ(Percentile(Values{7}, 0.3), 7);
  EXPECT_EQ(Percentile(Values{7}, 1), 7);
  EXPECT_EQ(Percentile(Values{1, 2}, 0.5), 1.5);
  EXPECT_EQ(Percentile(Values{-4, 4}, 0.25), -2);
}

TEST(Percentile, EndsOfTheRange) {
  EXPECT_EQ(Percentile(Values{kMin, kMax}, 0), static_cast<double>(kMin));
  EXPECT_EQ(Percentile(Values{kMin, kMax}, 0.5), 0);
  EXPECT_EQ(Percentile(Values{kMin, kMax}, 1), static_cast<double>(kMax));
}

TEST(Percentile, NeverFallsAsTheFractionGrows) {
  std::mt19937_64 random(3);
  Values values = RandomValues(37, 1'000'000'000'000'000, 50, random);
  std::sort(values.begin(), values.end());
  double last = Percentile(values, 0);
  for (int step = 1; step <= 10'000; ++step) {
    const double next = Percentile(values, step / 10'000.0);
    ASSERT_LE(last, next);
    last = next;
  }
}

TEST(Summarize, Nothing) {
  const Summary summary = Summarize({}, 1);
  EXPECT_EQ(summary.n, 0u);
  EXPECT_FALSE(summary.std_sample || summary.median_ci95_lo || summary.median_ci95_hi);
}

TEST(Summarize, OneValueHasNoInterval) {
  const Summary summary = Summarize(Values{42}, 1);
  EXPECT_EQ(summary.n, 1u);
  EXPECT_EQ(summary.mean, 42);
  EXPECT_EQ(summary.median, 42);
  EXPECT_EQ(summary.p99, 42);
  EXPECT_EQ(summary.std, 0);
  EXPECT_EQ(summary.mad, 0);
  EXPECT_FALSE(summary.std_sample || summary.median_ci95_lo || summary.median_ci95_hi);
}

TEST(Summarize, HeaderExample) {
  const Summary summary = Summarize(Values{5'000, 5'040, 4'980, 5'010, 4'990, 5'100}, /*seed=*/1);
  EXPECT_EQ(summary.mean, 5020);
  EXPECT_EQ(summary.median, 5005);
  EXPECT_EQ(summary.median_ci95_lo, 4985);
  EXPECT_EQ(summary.median_ci95_hi, 5070);
}

// The range of n values does not contain the median if all values are on one side: 2 of 2^n cases.
TEST(Summarize, NoIntervalWhereTheWholeRangeWouldNotDo) {
  for (size_t n = 2; n < 10; ++n) {
    const double covered = 1 - 2 * std::pow(0.5, static_cast<double>(n));
    const Summary summary = Summarize(Values(n, 7), 1);
    EXPECT_EQ(summary.median_ci95_lo.has_value(), covered >= 0.95) << n;
    EXPECT_EQ(summary.median_ci95_hi.has_value(), covered >= 0.95) << n;
    EXPECT_TRUE(summary.std_sample) << n;
  }
}

TEST(Summarize, ByHand) {
  const Summary summary = Summarize(Values{9, 1, 2, 4, 2, 6}, 1);
  EXPECT_EQ(summary.n, 6u);
  EXPECT_EQ(summary.mean, 4);
  EXPECT_DOUBLE_EQ(summary.std, std::sqrt(46.0 / 6));
  EXPECT_DOUBLE_EQ(summary.std_sample.value(), std::sqrt(46.0 / 5));
  EXPECT_EQ(summary.min, 1);
  EXPECT_EQ(summary.max, 9);
  EXPECT_EQ(summary.median, 3);
  EXPECT_EQ(summary.p50, 3);
  EXPECT_DOUBLE_EQ(summary.p95, 8.25);
  EXPECT_DOUBLE_EQ(summary.p99, 8.85);
  EXPECT_EQ(summary.mad, 1.5);  // the deviations are 1 1 1 2 3 6
}

TEST(Summarize, IdenticalValuesHaveAPointInterval) {
  for (const size_t n : {6u, 7u, 10u, 101u}) {
    const Summary summary = Summarize(Values(n, 1'000'000'000'000'007), 5);
    EXPECT_EQ(summary.median_ci95_lo, 1'000'000'000'000'007);
    EXPECT_EQ(summary.median_ci95_hi, 1'000'000'000'000'007);
    EXPECT_EQ(summary.std, 0);
    EXPECT_EQ(summary.mad, 0);
  }
}

TEST(Summarize, EndsOfTheRange) {
  const Summary summary = Summarize(Values{kMax, kMin, kMax, kMin, kMax, kMin}, 1);
  EXPECT_EQ(summary.min, kMin);
  EXPECT_EQ(summary.max, kMax);
  EXPECT_EQ(summary.median, 0);
  EXPECT_LE(summary.median_ci95_lo, summary.median_ci95_hi);
}

TEST(Summarize, SameForASeedInAnyOrder) {
  std::mt19937_64 random(4);
  Values values = RandomValues(64, 0, 100'000, random);
  const Summary first = Summarize(values, 77);
  bool seed_matters = false;
  for (uint64_t round = 0; round < 10; ++round) {
    std::shuffle(values.begin(), values.end(), random);
    const Summary again = Summarize(values, 77);
    EXPECT_EQ(again.mean, first.mean);
    EXPECT_EQ(again.std, first.std);
    EXPECT_EQ(again.median_ci95_lo, first.median_ci95_lo);
    EXPECT_EQ(again.median_ci95_hi, first.median_ci95_hi);
    if (Summarize(values, round).median_ci95_lo != first.median_ci95_lo) seed_matters = true;
  }
  EXPECT_TRUE(seed_matters);
}

TEST(Summarize, IntervalHoldsTheMedian) {
  std::mt19937_64 random(5);
  for (size_t n = 6; n < 60; ++n) {
    const Summary summary = Summarize(RandomValues(n, 1000, 500, random), n);
    EXPECT_LE(static_cast<double>(summary.min), summary.median_ci95_lo.value());
    EXPECT_LE(summary.median_ci95_lo.value(), summary.median);
    EXPECT_LE(summary.median, summary.median_ci95_hi.value());
    EXPECT_LE(summary.median_ci95_hi.value(), static_cast<double>(summary.max));
  }
}

struct Limits {
  double lo = 0, hi = 0;
};

// The standard bootstrap: draws n of n values and takes the median, a thousand times.
Limits DirectBootstrap(const Values& sorted, std::mt19937_64& random) {
  Values doubled_medians(1000);
  Values drawn(sorted.size());
  for (int64_t& doubled : doubled_medians) {
    for (int64_t& value : drawn) value = sorted[random() % sorted.size()];
    std::sort(drawn.begin(), drawn.end());
    doubled = drawn[(drawn.size() - 1) / 2] + drawn[drawn.size() / 2];
  }
  std::sort(doubled_medians.begin(), doubled_medians.end());
  return {Percentile(doubled_medians, 0.025) / 2, Percentile(doubled_medians, 0.975) / 2};
}

class BootstrapSizes : public ::testing::TestWithParam<size_t> {};

// Both limits, averaged over many seeds, agree within a few standard errors of the average. The
// seeds are fixed, so the test is deterministic.
TEST_P(BootstrapSizes, AgreesWithDirectResampling) {
  constexpr int kRounds = 100;
  const size_t n = GetParam();
  std::mt19937_64 random(6);
  Values sorted = RandomValues(n, 0, 1'000'000, random);
  std::sort(sorted.begin(), sorted.end());
  Limits direct_sum, sum;
  double direct_squares_lo = 0, direct_squares_hi = 0;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const Limits direct = DirectBootstrap(sorted, random);
    direct_sum.lo += direct.lo;
    direct_sum.hi += direct.hi;
    direct_squares_lo += direct.lo * direct.lo;
    direct_squares_hi += direct.hi * direct.hi;
    const Summary summary = Summarize(sorted, round);
    sum.lo += summary.median_ci95_lo.value();
    sum.hi += summary.median_ci95_hi.value();
  }
  const auto tolerance = [](double total, double squares) {
    const double variance = squares / kRounds - (total / kRounds) * (total / kRounds);
    return 4 * std::sqrt(2 * std::max(variance, 0.0) / kRounds) + 1;
  };
  EXPECT_NEAR(sum.lo / kRounds, direct_sum.lo / kRounds,
              tolerance(direct_sum.lo, direct_squares_lo));
  EXPECT_NEAR(sum.hi / kRounds, direct_sum.hi / kRounds,
              tolerance(direct_sum.hi, direct_squares_hi));
}

INSTANTIATE_TEST_SUITE_P(Summarize, BootstrapSizes,
                         ::testing::Values(6, 7, 10, 11, 30, 51, 200, 201),
                         ::testing::PrintToStringParamName());

struct TrimCase {
  const char* name;
  const char* policy;
  Values values;
  std::vector<bool> kept;
};

std::ostream& operator<<(std::ostream& out, const TrimCase& c) { return out << c.name; }

class TrimTable : public ::testing::TestWithParam<TrimCase> {};

TEST_P(TrimTable, KeepsByPosition) {
  const absl::StatusOr<Trim> trim = ParseTrim(GetParam().policy);
  ASSERT_TRUE(trim.ok());
  EXPECT_EQ(KeptByTrim(GetParam().values, *trim), GetParam().kept);
}

INSTANTIATE_TEST_SUITE_P(
    Trim, TrimTable,
    ::testing::Values(
        TrimCase{"NoneOfNothing", "none", {}, {}},
        TrimCase{"NoneKeepsAll", "none", {1, 1'000'000}, {1, 1}},
        TrimCase{"ExtremesOfNothing", "drop-extremes", {}, {}},
        TrimCase{"ExtremesOfTwoStay", "drop-extremes", {1, 2}, {1, 1}},
        TrimCase{"ExtremesOfThree", "drop-extremes", {5, 9, 1}, {1, 0, 0}},
        TrimCase{"ExtremesFirstOccurrences", "drop-extremes", {2, 1, 1, 3, 3}, {1, 0, 1, 0, 1}},
        TrimCase{"ExtremesOfEqualValues", "drop-extremes", {4, 4, 4}, {0, 0, 1}},
        // The quartiles are 2 and 4, so the fences are -1 and 7. Values on a fence are kept.
        TrimCase{"IqrOnTheFence", "iqr", {1, 2, 3, 4, 7}, {1, 1, 1, 1, 1}},
        TrimCase{"IqrPastTheFence", "iqr", {1, 2, 3, 4, 8}, {1, 1, 1, 1, 0}},
        TrimCase{"IqrBelow", "iqr", {-2, 2, 3, 4, 5}, {0, 1, 1, 1, 1}},
        TrimCase{"IqrOfZero", "iqr", {5, 5, 5, 5, 6}, {1, 1, 1, 1, 0}},
        TrimCase{"IqrOfOne", "iqr", {5}, {1}}, TrimCase{"IqrOfTwo", "iqr", {0, 1'000'000}, {1, 1}},
        // The median is 30, the deviations 0 10 10 20 and the last value: the limit is 44.478.
        TrimCase{"MadWithin", "mad", {74, 10, 20, 30, 40}, {1, 1, 1, 1, 1}},
        TrimCase{"MadBeyond", "mad", {75, 10, 20, 30, 40}, {0, 1, 1, 1, 1}},
        TrimCase{"MadOfZeroKeepsAll", "mad", {5, 5, 5, 900}, {1, 1, 1, 1}},
        TrimCase{"MadOfOne", "mad", {5}, {1}},
        TrimCase{"PercentZero", "percent:0", {3, 1, 2}, {1, 1, 1}},
        TrimCase{"PercentFloors", "percent:33", {3, 1, 2}, {1, 1, 1}},
        TrimCase{"PercentOneEach", "percent:34", {3, 1, 2}, {0, 0, 1}},
        TrimCase{"PercentExact", "percent:20", {5, 4, 3, 2, 1}, {0, 1, 1, 1, 0}},
        TrimCase{"PercentTiesByPosition", "percent:25", {7, 7, 7, 7}, {0, 1, 1, 0}},
        TrimCase{"PercentOfTwoStay", "percent:49.9", {1, 2}, {1, 1}},
        TrimCase{"PercentOfOne", "percent:49.9", {1}, {1}},
        TrimCase{"PercentOfNothing", "percent:10", {}, {}}),
    [](const auto& test) { return test.param.name; });

TEST(KeptByTrim, KeepsAtLeastOne) {
  std::mt19937_64 random(7);
  for (const char* policy :
       {"none", "drop-extremes", "iqr", "mad", "percent:10", "percent:49.99999999999999"}) {
    const Trim trim = ParseTrim(policy).value();
    for (size_t n = 1; n < 40; ++n) {
      for (const uint64_t range : {1u, 2u, 3u, 1000u}) {
        const std::vector<bool> kept = KeptByTrim(RandomValues(n, 0, range, random), trim);
        EXPECT_EQ(kept.size(), n);
        EXPECT_GE(std::count(kept.begin(), kept.end(), true), 1) << policy << " " << n;
      }
    }
  }
}

TEST(KeptByTrim, LargestPercentageLeavesTwo) {
  const Trim trim = {.policy = Trim::Policy::kPercent, .percent = std::nextafter(50.0, 0.0)};
  for (const size_t n : {2u, 6u, 1000u, 1u << 16}) {
    const std::vector<bool> kept = KeptByTrim(Values(n, 3), trim);
    EXPECT_EQ(std::count(kept.begin(), kept.end(), true), 2) << n;
  }
}

TEST(ParseTrim, ReadsWhatTrimNameWrites) {
  for (const char* text : {"none", "drop-extremes", "iqr", "mad", "percent:0", "percent:5",
                           "percent:12.5", "percent:0.00001", "percent:49.99999999999999"}) {
    const absl::StatusOr<Trim> trim = ParseTrim(text);
    ASSERT_TRUE(trim.ok()) << text;
    EXPECT_EQ(TrimName(*trim), text);
  }
  EXPECT_EQ(ParseTrim("percent:12.5")->percent, 12.5);
  EXPECT_EQ(TrimName(ParseTrim("percent:05.50").value()), "percent:5.5");
  const double tiny = std::numeric_limits<double>::denorm_min() * 3;
  const std::string name = TrimName({.policy = Trim::Policy::kPercent, .percent = tiny});
  EXPECT_EQ(ParseTrim(name)->percent, tiny);
}

TEST(ParseTrim, RejectsTheRestAndNamesTheForms) {
  for (const char* text : {"",
                           "NONE",
                           " none",
                           "none ",
                           "drop",
                           "iqr:3",
                           "percent",
                           "percent:",
                           "percent:.",
                           "percent:50",
                           "percent:100",
                           "percent:-1",
                           "percent:-0",
                           "percent:+5",
                           "percent: 5",
                           "percent:5 ",
                           "percent:5%",
                           "percent:1e1",
                           "percent:nan",
                           "percent:inf",
                           "percent:0x1",
                           "percent:1.2.3",
                           "percent:1,5"}) {
    const absl::StatusOr<Trim> trim = ParseTrim(text);
    ASSERT_EQ(trim.status().code(), absl::StatusCode::kInvalidArgument) << text;
    const std::string message(trim.status().message().data(), trim.status().message().size());
    for (const char* form : {"none", "drop-extremes", "iqr", "mad", "percent:P"}) {
      EXPECT_NE(message.find(form), std::string::npos) << message;
    }
  }
  EXPECT_FALSE(ParseTrim("percent:" + std::string(400, '9')).ok());
}

}  // namespace
}  // namespace xplane_time
