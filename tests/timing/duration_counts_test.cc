// Compares DurationCounts with a map, and the median of counts with that of the complete list.
#include "timing/device_meter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "tests/support/extremes.h"
#include "xplane_time/aggregate.h"

namespace xplane_time {
namespace {

using testing::kMax;

// The counts and their expected values.
class CheckedCounts {
 public:
  void Add(int64_t duration_ps, uint64_t times = 1) {
    if (times == 1) {
      counts_.Add(duration_ps);
    } else {
      counts_.Add(duration_ps, times);
    }
    expected_[duration_ps] += times;
  }

  void Check() const {
    const std::vector<DurationCount> sorted = counts_.Sorted();
    ASSERT_EQ(sorted.size(), expected_.size());
    size_t at = 0;
    uint64_t count = 0;
    int64_t total_ps = 0;
    for (const auto& [duration_ps, times] : expected_) {
      ASSERT_EQ(sorted[at].value, duration_ps) << at;
      ASSERT_EQ(sorted[at].count, times) << duration_ps;
      count += times;
      total_ps += duration_ps * static_cast<int64_t>(times);
      ++at;
    }
    EXPECT_EQ(counts_.Total().count, count);
    EXPECT_EQ(counts_.Total().total_ps, total_ps);
  }

 private:
  DurationCounts counts_;
  std::map<int64_t, uint64_t> expected_;
};

TEST(DurationCounts, NothingAtFirst) {
  const DurationCounts counts;
  EXPECT_TRUE(counts.Sorted().empty());
  EXPECT_EQ(counts.Total().count, 0u);
  EXPECT_EQ(counts.Total().total_ps, 0);
}

TEST(DurationCounts, ADurationOfNothingIsOne) {
  CheckedCounts counts;
  counts.Add(0);
  counts.Add(0);
  counts.Check();
}

// Checks after each addition, so directly before and after every growth of the table.
TEST(DurationCounts, GrowsByOne) {
  CheckedCounts counts;
  for (int64_t i = 0; i < 300; ++i) {
    counts.Add(i * 40'000);
    if (i % 3 == 0) counts.Add(i * 20'000, 5);
    counts.Check();
  }
}

TEST(DurationCounts, RandomAgreesWithAMap) {
  for (const int64_t range : {3, 1000, 1'000'000'000}) {
    SCOPED_TRACE(range);
    std::mt19937_64 random(static_cast<uint64_t>(range));
    CheckedCounts counts;
    for (int i = 0; i < 20'000; ++i) {
      const auto duration_ps = static_cast<int64_t>(random() % static_cast<uint64_t>(range));
      counts.Add(duration_ps, 1 + random() % 3);
    }
    counts.Check();
  }
}

TEST(DurationCounts, TheTotalSaturates) {
  DurationCounts one;
  one.Add(kMax / 2, 3);
  EXPECT_EQ(one.Total().total_ps, kMax);
  EXPECT_EQ(one.Total().count, 3u);
  DurationCounts several;
  several.Add(kMax - 1);
  EXPECT_EQ(several.Total().total_ps, kMax - 1);
  several.Add(1);
  EXPECT_EQ(several.Total().total_ps, kMax);
  several.Add(2);
  EXPECT_EQ(several.Total().total_ps, kMax);
  EXPECT_EQ(several.Total().count, 3u);
}

// Compares the median of a list of durations with that of its counts.
void ExpectSameMedian(const std::vector<DurationCount>& sorted) {
  std::vector<int64_t> expanded;
  for (const DurationCount& each : sorted) {
    expanded.insert(expanded.end(), each.count, each.value);
  }
  EXPECT_EQ(CountedMedian(sorted, expanded.size()), Percentile(expanded, 0.5));
}

TEST(CountedMedian, IsThatOfTheList) {
  ExpectSameMedian({{5, 1}});
  ExpectSameMedian({{5, 2}});
  ExpectSameMedian({{5, 1}, {8, 1}});
  ExpectSameMedian({{5, 2}, {8, 2}});
  ExpectSameMedian({{5, 2}, {8, 1}});
  ExpectSameMedian({{5, 1}, {8, 2}});
  ExpectSameMedian({{0, 3}, {7, 1}, {9, 2}});
  ExpectSameMedian({{0, 3}, {7, 1}, {9, 3}});
  ExpectSameMedian({{kMax - 1, 1}, {kMax, 1}});
}

TEST(CountedMedian, RandomIsThatOfTheList) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 2000; ++round) {
    SCOPED_TRACE(round);
    std::vector<DurationCount> sorted;
    int64_t duration_ps = 0;
    for (uint64_t i = 1 + random() % 6; i > 0; --i) {
      duration_ps += 1 + static_cast<int64_t>(random() % 100);
      sorted.push_back({duration_ps, 1 + random() % 4});
    }
    ExpectSameMedian(sorted);
  }
}

TEST(DurationCounts, RoundedOnesKeepTheLeadingBitsAndExactTotals) {
  std::mt19937_64 random(11);
  DurationCounts counts;
  int64_t total_ps = 0, least_ps = kMax, most_ps = 0;
  const auto add = [&](int64_t duration_ps) {
    counts.Add(duration_ps, 2);
    total_ps += 2 * duration_ps;
    least_ps = std::min(least_ps, duration_ps);
    most_ps = std::max(most_ps, duration_ps);
  };
  add(0);
  for (int i = 0; i < 1000; ++i) add(static_cast<int64_t>(random() % 1'000'000'000));
  EXPECT_FALSE(counts.rounded());
  counts.Round(8);
  for (int i = 0; i < 1000; ++i) add(static_cast<int64_t>(random() % 1'000'000'000));
  EXPECT_TRUE(counts.rounded());
  EXPECT_EQ(counts.Total().count, 2u * 2001);
  EXPECT_EQ(counts.Total().total_ps, total_ps);
  EXPECT_EQ(counts.Total().min_ps, least_ps);
  EXPECT_EQ(counts.Total().max_ps, most_ps);
  uint64_t count = 0;
  for (const DurationCount& each : counts.Sorted()) {
    count += each.count;
    int64_t leading = each.value;
    while (leading >= 256 && leading % 2 == 0) leading /= 2;
    EXPECT_LT(leading, 256) << each.value;
  }
  EXPECT_EQ(count, 2u * 2001);
}

}  // namespace
}  // namespace xplane_time
