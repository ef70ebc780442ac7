// Tests the kinds of series in a trace: a counter, a counter with resets, or amounts of single
// events.
#include "energy/trace_counters.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace xplane_time::energy {
namespace {

using ::testing::ElementsAre;

std::vector<CounterSample> SamplesOf(const std::vector<int64_t>& values) {
  std::vector<CounterSample> samples;
  for (const int64_t value : values) {
    samples.push_back({static_cast<int64_t>(samples.size()) * 1'000'000, value});
  }
  return samples;
}

struct Counted {
  std::vector<int64_t> values;
  uint64_t resets = 0;
};

std::optional<Counted> Count(const std::vector<int64_t>& values) {
  const std::optional<std::vector<CounterSample>> found = CountedFrom(SamplesOf(values));
  if (!found.has_value()) return std::nullopt;
  Counted counted;
  for (const CounterSample& each : *found) {
    counted.values.push_back(each.value);
    counted.resets = each.part;
  }
  return counted;
}

// The numbers of decreases and of changes, by definition.
std::pair<size_t, size_t> FallsAndChanges(const std::vector<int64_t>& values) {
  size_t falls = 0, changes = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    falls += values[i] < values[i - 1] ? 1 : 0;
    changes += values[i] != values[i - 1] ? 1 : 0;
  }
  return {falls, changes};
}

// All series of up to 5 values from -1 to 3. They are too short to detect a reset.
TEST(CountedFrom, EveryTinySeriesRisesOrIsRefused) {
  for (size_t length = 0; length <= 5; ++length) {
    const auto all = static_cast<size_t>(std::pow(5, length));
    for (size_t number = 0; number < all; ++number) {
      std::vector<int64_t> values;
      for (size_t i = 0, rest = number; i < length; ++i, rest /= 5) {
        values.push_back(static_cast<int64_t>(rest % 5) - 1);
      }
      SCOPED_TRACE(::testing::PrintToString(values));
      const std::optional<Counted> counted = Count(values);
      const auto [falls, changes] = FallsAndChanges(values);
      const bool has_negative = std::ranges::any_of(values, [](int64_t v) { return v < 0; });
      if (falls > 0 && has_negative) {
        EXPECT_FALSE(counted.has_value());
        continue;
      }
      ASSERT_TRUE(counted.has_value());
      EXPECT_EQ(counted->resets, 0U);
      std::vector<int64_t> expected = values;
      if (falls > 0) std::partial_sum(values.begin(), values.end(), expected.begin());
      EXPECT_EQ(counted->values, expected);
      EXPECT_TRUE(std::ranges::is_sorted(counted->values));
    }
  }
}

// A counter of 10 to 14 values that is reset at each place, to each of several lower values. All
// values are kept, in two parts.
TEST(CountedFrom, AResetBeginsAPart) {
  for (size_t length = 10; length <= 14; ++length) {
    for (size_t place = 1; place < length; ++place) {
      for (int64_t again = 0; again < 1000; again += 111) {
        std::vector<int64_t> values;
        for (size_t i = 0; i < length; ++i) {
          const auto step = static_cast<int64_t>(i);
          values.push_back(i < place ? 1000 + 7 * step
                                     : again + 7 * (step - static_cast<int64_t>(place)));
        }
        SCOPED_TRACE(::testing::PrintToString(values));
        const std::optional<Counted> counted = Count(values);
        ASSERT_TRUE(counted.has_value());
        EXPECT_EQ(counted->resets, 1U);
        EXPECT_EQ(counted->values, values);
        const auto samples = *CountedFrom(SamplesOf(values));
        for (size_t i = 0; i < length; ++i) EXPECT_EQ(samples[i].part, i < place ? 0U : 1U);
      }
    }
  }
}

TEST(CountedFrom, PublishedSeldomItIsStillACounter) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < 40; ++i) values.push_back(500 + i / 4 * 10 - (i < 28 ? 0 : 560));
  const std::optional<Counted> counted = Count(values);
  ASSERT_TRUE(counted.has_value());
  EXPECT_EQ(counted->resets, 1U);
  EXPECT_EQ(counted->values, values);
}

TEST(CountedFrom, WhatEachEventAdds) {
  // First, every second poll adds 0. Then a load between two idle times.
  EXPECT_THAT(Count({20, 0, 31, 0, 25})->values, ElementsAre(20, 20, 51, 51, 76));
  EXPECT_THAT(Count({10, 10, 50, 50, 10})->values, ElementsAre(10, 20, 70, 120, 130));
}

TEST(CountedFrom, NeitherIsRefused) {
  std::vector<int64_t> values;  // every sixth value decreases
  for (int64_t i = 0; i < 60; ++i) values.push_back(100 * (i % 6) + i);
  EXPECT_FALSE(Count(values).has_value());
  EXPECT_FALSE(Count({INT64_MAX, 1, INT64_MAX}).has_value());
}

}  // namespace
}  // namespace xplane_time::energy
