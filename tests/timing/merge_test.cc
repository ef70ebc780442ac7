#include "xplane_time/intervals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string>

#include "tests/support/extremes.h"
#include "tests/support/slow_nest.h"

namespace xplane_time {
namespace {

using testing::kMax;
using testing::kMin;

struct MergeCase {
  std::string name;
  std::vector<Interval> intervals;
  std::vector<Interval> merged;
  int64_t length_ps;
};

std::ostream& operator<<(std::ostream& out, const MergeCase& c) { return out << c.name; }

class MergeTable : public ::testing::TestWithParam<MergeCase> {};

TEST_P(MergeTable, UnionAndItsLength) {
  EXPECT_EQ(MergeIntervals(GetParam().intervals), GetParam().merged);
  EXPECT_EQ(UnionLengthPs(GetParam().intervals), GetParam().length_ps);
}

INSTANTIATE_TEST_SUITE_P(
    Merge, MergeTable,
    ::testing::Values(MergeCase{"Nothing", {}, {}, 0}, MergeCase{"One", {{3, 8}}, {{3, 8}}, 5},
                      MergeCase{"OneEmpty", {{3, 3}}, {}, 0},
                      MergeCase{"HeaderExample", {{0, 10}, {5, 15}, {15, 20}}, {{0, 20}}, 20},
                      MergeCase{"Apart", {{0, 10}, {11, 20}}, {{0, 10}, {11, 20}}, 19},
                      MergeCase{"Unsorted", {{11, 20}, {0, 10}, {9, 10}}, {{0, 10}, {11, 20}}, 19},
                      MergeCase{"Contained", {{0, 10}, {2, 3}, {5, 9}}, {{0, 10}}, 10},
                      MergeCase{"Equal", {{0, 10}, {0, 10}}, {{0, 10}}, 10},
                      MergeCase{"ShortThenLong", {{0, 1}, {0, 10}}, {{0, 10}}, 10},
                      MergeCase{"EmptyInAGap", {{0, 1}, {2, 2}, {3, 4}}, {{0, 1}, {3, 4}}, 2},
                      MergeCase{"EmptyWhereTwoTouch", {{0, 5}, {5, 5}, {5, 8}}, {{0, 8}}, 8},
                      MergeCase{"EmptyFirst", {{0, 0}, {0, 8}}, {{0, 8}}, 8},
                      MergeCase{"BelowZero", {{-10, -5}, {-7, 2}}, {{-10, 2}}, 12},
                      MergeCase{"EndsOfTheAxis",
                                {{kMin, kMin + 2}, {kMax - 3, kMax}},
                                {{kMin, kMin + 2}, {kMax - 3, kMax}},
                                5},
                      MergeCase{"EmptyAtTheEndsOfTheAxis", {{kMin, kMin}, {kMax, kMax}}, {}, 0},
                      MergeCase{"LongerThanAnInt64", {{kMin, 0}, {0, kMax}}, {{kMin, kMax}}, kMax}),
    [](const auto& test) { return test.param.name; });

TEST(UnionLength, StartsAtZero) { EXPECT_EQ(UnionLength().length_ps(), 0); }

TEST(UnionLength, GrowsByWhatIsNew) {
  UnionLength length;
  length.Add(-5, -5);
  EXPECT_EQ(length.length_ps(), 0);
  length.Add(-5, 5);
  EXPECT_EQ(length.length_ps(), 10);
  length.Add(0, 3);
  EXPECT_EQ(length.length_ps(), 10);
  length.Add(4, 8);
  EXPECT_EQ(length.length_ps(), 13);
  length.Add(100, 101);
  EXPECT_EQ(length.length_ps(), 14);
}

TEST(UnionLengthDeathTest, RejectsAStartThatGoesBack) {
  EXPECT_DEBUG_DEATH(
      {
        UnionLength length;
        length.Add(5, 6);
        length.Add(4, 6);
      },
      "last_start_ps_");
}

void CheckAgainstReference(std::span<const Interval> span) {
  const std::vector<Interval> intervals(span.begin(), span.end());
  const std::vector<Interval> merged = MergeIntervals(intervals);
  ASSERT_EQ(merged, SlowMerge(intervals)) << Shown{intervals};
  ASSERT_EQ(UnionLengthPs(intervals), SlowUnionLength(intervals)) << Shown{intervals};
  ASSERT_EQ(UnionLengthPs(merged), UnionLengthPs(intervals)) << Shown{intervals};
  ASSERT_EQ(MergeIntervals(merged), merged) << Shown{intervals};
}

TEST(Merge, EveryTinyTraceAgreesWithTheReference) {
  ForEachTinyTrace(/*max_events=*/4, /*max_value=*/4, CheckAgainstReference);
}

TEST(Merge, RandomTracesAgreeWithTheReference) {
  std::mt19937_64 random(1);
  for (size_t round = 0; round < 200; ++round) {
    const size_t count = random() % 150;
    CheckAgainstReference(RandomIntervals(count, -500, 1000, random() % 40, random));
    CheckAgainstReference(RandomIntervals(count, kMin, 300, 20, random));
    CheckAgainstReference(RandomIntervals(count, kMax - 320, 300, 20, random));
  }
}

TEST(Merge, OrderDoesNotMatter) {
  std::mt19937_64 random(2);
  std::vector<Interval> intervals = RandomIntervals(200, 0, 5000, 50, random);
  const std::vector<Interval> merged = MergeIntervals(intervals);
  for (int round = 0; round < 20; ++round) {
    std::shuffle(intervals.begin(), intervals.end(), random);
    EXPECT_EQ(MergeIntervals(intervals), merged);
  }
}

}  // namespace
}  // namespace xplane_time
