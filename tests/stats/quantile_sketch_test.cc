// QuantileSketch against a sorted list.
#include "stats/quantile_sketch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/random.h"

namespace xplane_time::stats {
namespace {

double MedianOf(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return (static_cast<double>(values[(n - 1) / 2]) + static_cast<double>(values[n / 2])) / 2;
}

TEST(QuantileSketch, NothingHasNoMedian) {
  EXPECT_EQ(QuantileSketch().Median(), std::nullopt);
  EXPECT_EQ(QuantileSketch().Quantile(0.99), std::nullopt);
}

TEST(QuantileSketch, FewValuesAreExact) {
  testing::Random random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> values;
    QuantileSketch counts;
    for (int64_t i = 1 + random.Below(50); i > 0; --i) {
      values.push_back(random.Below(1'000'000'000) - 300'000'000);
      counts.Add(values.back());
    }
    EXPECT_EQ(counts.Median(), MedianOf(values));
    EXPECT_EQ(counts.Quantile(0),
              static_cast<double>(*std::min_element(values.begin(), values.end())));
    EXPECT_EQ(counts.Quantile(1),
              static_cast<double>(*std::max_element(values.begin(), values.end())));
  }
}

TEST(QuantileSketch, ManyAreWithinOneIn16384) {
  testing::Random random(4);
  for (const int64_t range : {int64_t{100}, int64_t{16'384}, int64_t{700'000}, int64_t{1} << 31}) {
    for (const int64_t least : {int64_t{0}, -range / 2, -range}) {
      SCOPED_TRACE(::testing::Message() << least << " + " << range);
      std::vector<int64_t> values;
      QuantileSketch counts, later;
      for (size_t i = 0; i < QuantileSketch::kMostExact + 5000; ++i) {
        values.push_back(least + random.Below(range));
        (i % 3 == 0 ? later : counts).Add(values.back());
      }
      counts.Merge(later);
      EXPECT_EQ(counts.count(), values.size());
      const double median = MedianOf(values);
      EXPECT_NEAR(counts.Median().value(), median, std::abs(median) / 16384 + 1e-9);
    }
  }
}

TEST(QuantileSketch, TheEndsOfTheAxis) {
  QuantileSketch counts;
  for (size_t i = 0; i <= QuantileSketch::kMostExact; ++i) {
    counts.Add(i % 2 == 0 ? std::numeric_limits<int64_t>::max()
                          : std::numeric_limits<int64_t>::min());
  }
  EXPECT_NEAR(counts.Quantile(1).value() / 0x1p63, 1, 1e-4);
  EXPECT_NEAR(counts.Quantile(0).value() / 0x1p63, -1, 1e-4);
}

}  // namespace
}  // namespace xplane_time::stats
