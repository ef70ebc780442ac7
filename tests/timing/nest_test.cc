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

struct NestCase {
  std::string name;
  int64_t tolerance_ps;
  std::vector<Interval> events;
  std::vector<uint32_t> parent;
  std::vector<int64_t> self_ps;
  uint64_t partial_overlaps = 0;
};

std::ostream& operator<<(std::ostream& out, const NestCase& c) { return out << c.name; }

class NestTable : public ::testing::TestWithParam<NestCase> {};

TEST_P(NestTable, ParentsAndSelfTimes) {
  const Nesting nesting = Nest(GetParam().events, GetParam().tolerance_ps);
  EXPECT_EQ(nesting.parent, GetParam().parent);
  EXPECT_EQ(nesting.self_ps, GetParam().self_ps);
  EXPECT_EQ(nesting.partial_overlaps, GetParam().partial_overlaps);
}

constexpr uint32_t kRoot = kNoParent;

INSTANTIATE_TEST_SUITE_P(
    Exact, NestTable,
    ::testing::Values(
        NestCase{"Nothing", 0, {}, {}, {}}, NestCase{"One", 0, {{2, 9}}, {kRoot}, {7}},
        // The example in intervals.h: A, B, D, C, E.
        NestCase{"HeaderExample",
                 0,
                 {{0, 29}, {3, 14}, {5, 9}, {18, 26}, {22, 36}},
                 {kRoot, 0, 1, 0, kRoot},
                 {10, 7, 4, 8, 14},
                 1},
        NestCase{"Unsorted", 0, {{3, 4}, {0, 10}, {2, 6}}, {2, kRoot, 1}, {1, 6, 3}},
        NestCase{"Touching", 0, {{0, 5}, {5, 8}}, {kRoot, kRoot}, {5, 3}},
        NestCase{"EqualStart", 0, {{0, 3}, {0, 5}}, {1, kRoot}, {3, 2}},
        NestCase{"EqualEnd", 0, {{0, 5}, {3, 5}}, {kRoot, 0}, {3, 2}},
        NestCase{"TwinsByPosition", 0, {{0, 5}, {0, 5}, {0, 5}}, {kRoot, 0, 1}, {0, 0, 5}},
        NestCase{"EmptyTwins", 0, {{4, 4}, {4, 4}}, {kRoot, 0}, {0, 0}},
        NestCase{"EmptyOnABoundaryIsTheLaterOnes",
                 0,
                 {{0, 5}, {5, 5}, {5, 8}},
                 {kRoot, 2, kRoot},
                 {5, 0, 3}},
        NestCase{"EmptyAtTheVeryEnd", 0, {{0, 5}, {5, 5}}, {kRoot, 0}, {5, 0}},
        NestCase{"OnePicosecondPastTheEnd", 0, {{0, 5}, {1, 6}}, {kRoot, kRoot}, {5, 5}, 1},
        NestCase{
            "OverlappingChildren", 0, {{0, 20}, {1, 10}, {5, 15}}, {kRoot, 0, 0}, {6, 9, 10}, 1},
        NestCase{"InsideTheLaterOfTwoThatOverlap",
                 0,
                 {{0, 10}, {5, 15}, {6, 8}},
                 {kRoot, kRoot, 1},
                 {10, 8, 2},
                 1},
        NestCase{"EndsOfTheAxis",
                 0,
                 {{kMin, -1}, {kMin, kMin + 1}, {0, kMax}, {kMax, kMax}},
                 {kRoot, 0, kRoot, 2},
                 {kMax - 1, 1, kMax, 0}}),
    [](const auto& test) { return test.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Tolerant, NestTable,
    ::testing::Values(
        NestCase{"Nothing", 2, {}, {}, {}},
        NestCase{"OnePicosecondPastTheEnd", 1, {{0, 5}, {2, 6}}, {kRoot, 0}, {2, 4}},
        NestCase{"TwoPastTheEnd", 1, {{0, 5}, {3, 7}}, {kRoot, kRoot}, {5, 4}, 1},
        NestCase{"ParentStartsLater", 1, {{0, 2}, {1, 9}}, {1, kRoot}, {2, 7}},
        NestCase{
            "SticksOutAtBothEnds", 2, {{10, 20}, {8, 10}, {20, 22}}, {kRoot, 0, 0}, {10, 2, 2}},
        NestCase{"WhollyOutside", 2, {{10, 20}, {8, 9}, {21, 22}}, {kRoot, 0, 0}, {10, 1, 1}},
        NestCase{"EqualLengthByStart", 2, {{1, 6}, {0, 5}}, {1, kRoot}, {5, 1}},
        NestCase{"LongerThanItsParentNever", 2, {{0, 4}, {1, 6}}, {1, kRoot}, {4, 2}},
        // [1, 3) comes last in the order, and is not longer than the second event.
        NestCase{"ShorterOnesAreNoParents", 2, {{0, 8}, {0, 3}, {1, 3}}, {kRoot, 0, 1}, {5, 1, 2}},
        NestCase{"ToleranceStopsAtTheEndOfTheAxis",
                 kMax,
                 {{0, 0}, {1, 4}, {kMax - 9, kMax}},
                 {2, 2, kRoot},
                 {0, 3, 9}},
        NestCase{"ToleranceStopsAtTheStartOfTheAxis",
                 kMax,
                 {{kMin, kMin + 9}, {-8, -5}},
                 {kRoot, 0},
                 {9, 3}}),
    [](const auto& test) { return test.param.name; });

struct ChildTimeCase {
  std::string name;
  Interval parent;
  uint32_t self;
  std::vector<Interval> events;
  int64_t tolerance_ps;
  int64_t child_ps;
};

std::ostream& operator<<(std::ostream& out, const ChildTimeCase& c) { return out << c.name; }

class ChildTimeTable : public ::testing::TestWithParam<ChildTimeCase> {};

TEST_P(ChildTimeTable, IsTheUnionInside) {
  const ChildTimeCase& c = GetParam();
  EXPECT_EQ(ChildTimePs(c.parent, c.self, c.events, c.tolerance_ps), c.child_ps);
}

INSTANTIATE_TEST_SUITE_P(
    Nest, ChildTimeTable,
    ::testing::Values(
        ChildTimeCase{"Nothing", {0, 10}, kNoParent, {}, 0, 0},
        ChildTimeCase{"ItselfIsNoChild", {0, 10}, 0, {{0, 10}}, 0, 0},
        ChildTimeCase{"ALaterTwinIsAChild", {0, 10}, 0, {{0, 10}, {0, 10}}, 0, 10},
        ChildTimeCase{"AnEarlierTwinIsNot", {0, 10}, 1, {{0, 10}, {0, 10}}, 0, 0},
        ChildTimeCase{"AnEqualFromElsewhereIsAChild", {0, 10}, kNoParent, {{0, 10}}, 0, 10},
        ChildTimeCase{"UnionNotSum", {0, 10}, 0, {{0, 10}, {1, 5}, {3, 7}, {7, 8}}, 0, 7},
        ChildTimeCase{"AllDepths", {0, 10}, 0, {{0, 10}, {1, 5}, {2, 3}}, 0, 4},
        ChildTimeCase{"Unsorted", {0, 10}, kNoParent, {{6, 9}, {1, 5}}, 0, 7},
        ChildTimeCase{"PastTheEndIsOut", {0, 2000}, kNoParent, {{500, 2001}}, 0, 0},
        ChildTimeCase{"PastTheEndIsIn", {0, 2000}, kNoParent, {{500, 2001}}, 2000, 1500},
        ChildTimeCase{"ClippedAtBothEnds", {10, 20}, kNoParent, {{9, 12}, {18, 21}}, 1, 4},
        ChildTimeCase{"WhollyOutsideAddsNothing", {10, 20}, kNoParent, {{8, 9}}, 2, 0},
        ChildTimeCase{"LongerIsOut", {10, 20}, kNoParent, {{10, 21}}, 5, 0},
        ChildTimeCase{"EqualLengthEarlierIsOut", {10, 20}, kNoParent, {{9, 19}}, 5, 0},
        ChildTimeCase{"EqualLengthLaterIsIn", {10, 20}, kNoParent, {{11, 21}}, 5, 9},
        ChildTimeCase{"EndsOfTheAxis", {kMin, kMin + 9}, kNoParent, {{kMin, kMin + 3}}, kMax, 3}),
    [](const auto& test) { return test.param.name; });

bool SameNesting(const Nesting& a, const Nesting& b) {
  return a.parent == b.parent && a.order == b.order && a.self_ps == b.self_ps &&
         a.child_ps == b.child_ps && a.partial_overlaps == b.partial_overlaps;
}

void CheckInvariants(std::span<const Interval> events, const Nesting& nesting,
                     int64_t tolerance_ps) {
  for (size_t i = 0; i < events.size(); ++i) {
    ASSERT_GE(nesting.self_ps[i], 0) << Shown{events};
    ASSERT_EQ(nesting.self_ps[i] + nesting.child_ps[i], events[i].end_ps - events[i].start_ps)
        << Shown{events};
    // Every chain of parents ends, so there are no cycles.
    size_t depth = 0;
    for (uint32_t p = nesting.parent[i]; p != kNoParent; p = nesting.parent[p]) {
      ASSERT_LE(++depth, events.size()) << Shown{events};
    }
    const uint32_t p = nesting.parent[i];
    if (p == kNoParent || tolerance_ps != 0) continue;
    ASSERT_LE(events[p].start_ps, events[i].start_ps) << Shown{events};
    ASSERT_GE(events[p].end_ps, events[i].end_ps) << Shown{events};
  }
}

void CheckChildTimes(std::span<const Interval> events, const Nesting& nesting,
                     int64_t tolerance_ps) {
  for (uint32_t i = 0; i < events.size(); ++i) {
    const int64_t child_ps = ChildTimePs(events[i], i, events, tolerance_ps);
    ASSERT_EQ(child_ps, SlowChildTime(events[i], i, events, tolerance_ps)) << Shown{events};
    ASSERT_EQ(ChildTimePs(events[i], kNoParent, events, tolerance_ps),
              SlowChildTime(events[i], kNoParent, events, tolerance_ps))
        << Shown{events};
    // Events inside are descendants, unless siblings overlap.
    ASSERT_GE(child_ps, nesting.child_ps[i]) << Shown{events};
    if (tolerance_ps == 0 && nesting.partial_overlaps == 0) {
      ASSERT_EQ(child_ps, nesting.child_ps[i]) << Shown{events};
    }
  }
}

void CheckAgainstReference(std::span<const Interval> events, int64_t tolerance_ps) {
  const Nesting nesting = Nest(events, tolerance_ps);
  ASSERT_TRUE(SameNesting(nesting, SlowNest(events, tolerance_ps)))
      << "tolerance " << tolerance_ps << ": " << Shown{events};
  CheckInvariants(events, nesting, tolerance_ps);
}

class TinyTraces : public ::testing::TestWithParam<int64_t> {};

TEST_P(TinyTraces, AllAgreeWithTheReference) {
  ForEachTinyTrace(/*max_events=*/4, /*max_value=*/4, [](std::span<const Interval> events) {
    if (!HasFatalFailure()) CheckAgainstReference(events, GetParam());
  });
}

TEST_P(TinyTraces, ChildTimesAgreeWithTheReference) {
  ForEachTinyTrace(/*max_events=*/3, /*max_value=*/4, [](std::span<const Interval> events) {
    if (!HasFatalFailure()) CheckChildTimes(events, Nest(events, GetParam()), GetParam());
  });
}

INSTANTIATE_TEST_SUITE_P(Nest, TinyTraces, ::testing::Values(0, 1, 2),
                         ::testing::PrintToStringParamName());

TEST(Nest, RandomTracesAgreeWithTheReference) {
  std::mt19937_64 random(3);
  for (size_t round = 0; round < 150; ++round) {
    const size_t count = random() % 120;
    const uint64_t max_length = 1 + random() % 400;
    const std::vector<Interval> events = RandomIntervals(count, -200, 400, max_length, random);
    for (const int64_t tolerance_ps : {0, 1, 7, 100, 2000}) {
      CheckAgainstReference(events, tolerance_ps);
      CheckChildTimes(events, Nest(events, tolerance_ps), tolerance_ps);
      if (HasFatalFailure()) return;
    }
  }
}

// Appends properly nested events, as from a call stack. Random intervals rarely nest deeply.
void AppendCalls(const Interval& around, int depth, std::mt19937_64& random,
                 std::vector<Interval>& events) {
  events.push_back(around);
  int64_t from_ps = around.start_ps;
  while (depth > 0 && from_ps < around.end_ps && random() % 4 != 0) {
    const auto left_ps = static_cast<uint64_t>(around.end_ps - from_ps);
    const int64_t start_ps = from_ps + static_cast<int64_t>(random() % left_ps);
    const auto room_ps = static_cast<uint64_t>(around.end_ps - start_ps);
    from_ps = start_ps + static_cast<int64_t>(random() % (room_ps + 1));
    AppendCalls({start_ps, from_ps}, depth - 1, random, events);
  }
}

TEST(Nest, RandomCallStacksAgreeWithTheReference) {
  std::mt19937_64 random(4);
  for (size_t round = 0; round < 300; ++round) {
    std::vector<Interval> events;
    AppendCalls({0, 10'000}, /*depth=*/12, random, events);
    if (events.size() > 300) continue;
    EXPECT_EQ(Nest(events, 0).partial_overlaps, 0u);
    if (round % 2 == 1) std::shuffle(events.begin(), events.end(), random);
    for (const int64_t tolerance_ps : {0, 1, 50}) {
      CheckAgainstReference(events, tolerance_ps);
      CheckChildTimes(events, Nest(events, tolerance_ps), tolerance_ps);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Nest, EndsOfTheAxisAgreeWithTheReference) {
  std::mt19937_64 random(5);
  for (size_t round = 0; round < 200; ++round) {
    std::vector<Interval> events = RandomIntervals(8, kMin, 12, 6, random);
    const std::vector<Interval> high = RandomIntervals(8, kMax - 17, 12, 6, random);
    events.insert(events.end(), high.begin(), high.end());
    for (const int64_t tolerance_ps : {int64_t{0}, int64_t{3}, kMax / 2, kMax}) {
      CheckAgainstReference(events, tolerance_ps);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Nest, LengthsPastAnInt64Saturate) {
  const std::vector<Interval> events = {{kMin, kMax}, {kMin, 5}, {7, 9}};
  for (const int64_t tolerance_ps : {0, 1}) {
    const Nesting nesting = Nest(events, tolerance_ps);
    EXPECT_TRUE(SameNesting(nesting, SlowNest(events, tolerance_ps)));
    EXPECT_EQ(nesting.self_ps, (std::vector<int64_t>{0, kMax, 2}));
  }
}

// A search that skips short events one by one would take minutes here.
TEST(Nest, CrowdsWithinTheToleranceAreQuick) {
  const std::vector<Interval> events(200'000, Interval{5, 5});
  const Nesting nesting = Nest(events, /*tolerance_ps=*/10);
  EXPECT_EQ(nesting.parent[0], kNoParent);
  for (uint32_t i = 1; i < events.size(); ++i) ASSERT_EQ(nesting.parent[i], i - 1);
}

}  // namespace
}  // namespace xplane_time
