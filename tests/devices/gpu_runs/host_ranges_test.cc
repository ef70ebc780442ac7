// HostRanges against the question put to each range.
#include "devices/gpu_runs/host_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace xplane_time::gpu_runs {
namespace {

using Range = HostRanges::Range;

std::vector<uint32_t> Around(const HostRanges& ranges, const HostRanges::Owner& owner,
                             int64_t time_ps) {
  std::vector<uint32_t> found;
  ranges.ForEachAround(owner, time_ps, [&](uint32_t range) { found.push_back(range); });
  return found;
}

// The slow way; in the same order.
std::vector<uint32_t> AroundByHand(const HostRanges& ranges, const HostRanges::Owner& owner,
                                   int64_t time_ps) {
  std::vector<uint32_t> found;
  for (uint32_t i = 0; i < ranges.ranges().size(); ++i) {
    const Range& range = ranges.ranges()[i];
    const bool is_in = range.interval.start_ps <= time_ps && time_ps < range.interval.end_ps;
    if (range.owner == owner && is_in) found.insert(found.begin(), i);
  }
  return found;
}

void CheckAll(const std::vector<Range>& added, int64_t last_ps) {
  HostRanges ranges;
  for (const Range& range : added) ranges.Add(range);
  ranges.Order();
  ASSERT_EQ(ranges.ranges().size(), added.size());
  for (const bool is_process : {false, true}) {
    for (uint32_t index = 0; index < 3; ++index) {
      for (int64_t time_ps = -1; time_ps <= last_ps + 1; ++time_ps) {
        const HostRanges::Owner owner = {is_process, index};
        ASSERT_EQ(Around(ranges, owner, time_ps), AroundByHand(ranges, owner, time_ps))
            << index << " at " << time_ps;
      }
    }
  }
}

TEST(HostRangesTest, AllOfThreeOnOneThread) {
  constexpr int64_t kLast = 3;
  std::vector<Interval> all;
  for (int64_t start = 0; start <= kLast; ++start) {
    for (int64_t end = start; end <= kLast; ++end) all.push_back({start, end});
  }
  for (const Interval& a : all) {
    for (const Interval& b : all) {
      for (const Interval& c : all) {
        CheckAll({{{false, 0}, 0, a}, {{false, 0}, 0, b}, {{false, 0}, 0, c}}, kLast);
      }
    }
  }
}

TEST(HostRangesTest, RandomOnesOfSeveralOwners) {
  std::mt19937_64 random(11);
  for (int trial = 0; trial < 200; ++trial) {
    constexpr int64_t kLast = 40;
    std::vector<Range> added;
    for (uint64_t i = random() % 60; i > 0; --i) {
      const auto start = static_cast<int64_t>(random() % kLast);
      const auto length = static_cast<int64_t>(random() % (trial % 2 == 0 ? 4 : kLast));
      const HostRanges::Owner owner = {random() % 3 == 0, static_cast<uint32_t>(random() % 3)};
      added.push_back({owner, 0, {start, start + length}});
    }
    CheckAll(added, 2 * kLast);
  }
}

// So that a launch in very many costs no more than in 512.
TEST(HostRangesTest, TheInnermostOfVeryManyAreLeftOut) {
  constexpr int64_t kMany = 2000, kMost = 512;
  HostRanges ranges;
  for (int64_t i = 0; i < kMany; ++i) ranges.Add({{false, 0}, 0, {i, 2 * kMany - i}});
  ranges.Order();
  EXPECT_EQ(ranges.too_deep(), uint64_t{kMany - kMost});
  const std::vector<uint32_t> found = Around(ranges, {false, 0}, kMany);
  ASSERT_EQ(found.size(), size_t{kMost});
  EXPECT_EQ(found.back(), 0u);
  EXPECT_EQ(found.front(), uint32_t{kMost - 1});
}

// Each straddles the next; one that lasts is around all.
TEST(HostRangesTest, ThoseThatAreOverDoNotCount) {
  constexpr int64_t kMany = 5000;
  for (const bool is_in_one : {false, true}) {
    HostRanges ranges;
    if (is_in_one) ranges.Add({{false, 0}, 0, {-1, 20 * kMany}});
    for (int64_t i = 0; i < kMany; ++i) ranges.Add({{false, 0}, 0, {10 * i, 10 * i + 15}});
    ranges.Order();
    EXPECT_EQ(ranges.too_deep(), 0u);
    for (int64_t time_ps = 0; time_ps < 10 * kMany; time_ps += 7) {
      const HostRanges::Owner owner = {false, 0};
      const size_t expected = (is_in_one ? 1u : 0u) + (time_ps >= 10 && time_ps % 10 < 5 ? 2u : 1u);
      ASSERT_EQ(Around(ranges, owner, time_ps).size(), expected) << time_ps;
    }
  }
}

// As many as may be open, one ending whenever one begins: found as by hand.
TEST(HostRangesTest, ManyThatStraddle) {
  constexpr int64_t kMany = 3000, kOpen = 500;
  HostRanges ranges;
  for (int64_t i = 0; i < kMany; ++i) ranges.Add({{false, 0}, 0, {i, i + kOpen}});
  ranges.Order();
  EXPECT_EQ(ranges.too_deep(), 0u);
  for (int64_t time_ps = 0; time_ps < kMany + kOpen; time_ps += 37) {
    const HostRanges::Owner owner = {false, 0};
    ASSERT_EQ(Around(ranges, owner, time_ps), AroundByHand(ranges, owner, time_ps)) << time_ps;
  }
}

TEST(HostRangesTest, NamesAreKeptOnce) {
  HostRanges ranges;
  EXPECT_EQ(ranges.NameId({"forward"}), 0u);
  EXPECT_EQ(ranges.NameId({"nn.Module: Linear_0", "Linear_0"}), 1u);
  EXPECT_EQ(ranges.NameId({"forward"}), 0u);
  EXPECT_EQ(ranges.names()[1].module, "Linear_0");
}

}  // namespace
}  // namespace xplane_time::gpu_runs
