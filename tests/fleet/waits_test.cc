#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/fleet/made_summary.h"

namespace xplane_time {
namespace {

// Hosts with one device each, that meet `count` times. Times are nanoseconds.
struct MadeMeetings {
  size_t hosts = 4, count = 50;
  std::map<size_t, double> offsets_ns = {};      // of the clocks of hosts
  std::map<size_t, double> always_late_ns = {};  // how much later some come, each time
  double differ_ns = 50'000, transfer_ns = 20'000;
};

FleetSummary MakeMeetings(const MadeMeetings& made, uint32_t seed) {
  std::mt19937_64 engine(seed);
  std::exponential_distribution<double> chance;
  std::vector<FleetMeetings> rows(made.hosts);
  double now_ns = 1e6;
  for (size_t at = 0; at < made.count; ++at) {
    std::vector<double> enters_ns;
    for (size_t host = 0; host < made.hosts; ++host) {
      const auto late = made.always_late_ns.find(host);
      enters_ns.push_back(now_ns + made.differ_ns * chance(engine) +
                          (late == made.always_late_ns.end() ? 0 : late->second));
    }
    const double last_ns = *std::ranges::max_element(enters_ns);
    for (size_t host = 0; host < made.hosts; ++host) {
      const double leave_ns = last_ns + made.transfer_ns * (0.5 + 0.1 * chance(engine));
      rows[host].enters_ps.push_back(std::llround(1000 * enters_ns[host]));
      rows[host].lengths_ps.push_back(std::llround(1000 * (leave_ns - enters_ns[host])));
      now_ns = std::max(now_ns, leave_ns);
    }
    now_ns += 1e6;
  }
  FleetMerger merger({});
  for (size_t host = 0; host < made.hosts; ++host) {
    const auto offset = made.offsets_ns.find(host);
    FleetSummary one;
    one.captures = {{.path = std::to_string(host)}};
    one.names = {"", "GPU:0", "all-reduce", "host" + std::to_string(host), "jit_f"};
    rows[host].host = 3, rows[host].device = 1, rows[host].kernel = 2, rows[host].function = 4;
    // What is added to the clock's times is less where the clock is ahead.
    rows[host].base_ns = 1'700'000'000'000'000'000 -
                         (offset == made.offsets_ns.end() ? 0 : std::llround(offset->second));
    one.meetings = {rows[host]};
    EXPECT_TRUE(merger.Add(one).ok());
  }
  return merger.Take();
}

TEST(FleetWaits, OffsetsAreWithinTheirBounds) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 engine(seed);
    std::uniform_real_distribution<double> chance(-1, 1);
    const double size_ns = std::pow(10, 5 + 2 * std::abs(chance(engine)));  // 0.1 to 10 ms
    const MadeMeetings made = {
        .offsets_ns = {{1, size_ns * chance(engine)}, {2, size_ns * chance(engine)}}};
    const FleetWaits waits = FindFleetWaits(MakeMeetings(made, seed));
    ASSERT_EQ(waits.clocks.size(), 4U);
    for (size_t host = 0; host < 4; ++host) {
      const FleetClock& clock = waits.clocks[host];
      const auto offset = made.offsets_ns.find(host);
      const double true_ps = offset == made.offsets_ns.end() ? 0 : 1000 * offset->second;
      ASSERT_FALSE(clock.steps);
      ASSERT_TRUE(clock.offset_ps.has_value());
      EXPECT_LE(static_cast<double>(*clock.lo_ps), true_ps + 1000);
      EXPECT_GE(static_cast<double>(*clock.hi_ps), true_ps - 1000);
      EXPECT_LE(static_cast<double>(*clock.hi_ps - *clock.lo_ps), 2 * 60e6);  // 60 us
      EXPECT_NEAR(static_cast<double>(*clock.offset_ps), true_ps, 5e6);       // 5 us
    }
  }
}

TEST(FleetWaits, WhoIsLateIsNamed) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    MadeMeetings made = {.offsets_ns = {{1, 3e6}, {3, -2e6}}, .always_late_ns = {{2, 5e5}}};
    const FleetWaits waits = FindFleetWaits(MakeMeetings(made, seed));
    ASSERT_FALSE(waits.waits.empty());
    const FleetWait& first = waits.waits[0];
    EXPECT_EQ(first.host, "host2");
    EXPECT_EQ(first.kernel, "all-reduce");
    EXPECT_EQ(first.devices, 4U);
    EXPECT_GE(first.count, 45U);
    const double each_ps =
        static_cast<double>(first.waited_ps.value_or(0)) / static_cast<double>(first.count);
    EXPECT_NEAR(each_ps, 3 * 0.5e9, 0.4e9);  // three others, half a millisecond
    EXPECT_NEAR(
        static_cast<double>(first.transfer_ps.value_or(0)) / static_cast<double>(first.count), 10e6,
        5e6);
  }
}

TEST(FleetWaits, WhoIsNotLaterThanClocksAreKnownCannotBeTold) {
  const MadeMeetings made = {.offsets_ns = {{1, 3e6}}, .differ_ns = 100, .transfer_ns = 1e6};
  const FleetWaits waits = FindFleetWaits(MakeMeetings(made, 1));
  ASSERT_EQ(waits.waits.size(), 1U);
  EXPECT_EQ(waits.waits[0].host, "");
  EXPECT_EQ(waits.waits[0].count, 50U);
}

// All captures of MakeMeetings, as captures that have no start time.
FleetSummary WithoutStartTimes(size_t captures, bool by_earlier_version = false) {
  FleetMerger merger({});
  for (size_t capture = 0; capture < captures; ++capture) {
    FleetSummary one = MakeMeetings({.count = 10}, static_cast<uint32_t>(capture));
    for (FleetMeetings& row : one.meetings) {
      row.base_ns = 0;
      row.content = by_earlier_version ? 0 : 1 + capture;
      one.devices.push_back({.host = row.host, .device = row.device, .captures = 1});
    }
    EXPECT_TRUE(merger.Add(one).ok());
  }
  return merger.Take();
}

TEST(FleetWaits, CapturesWithoutStartTimesAreCounted) {
  for (size_t captures = 1; captures < 5; ++captures) {
    const FleetSummary summary = WithoutStartTimes(captures);
    EXPECT_EQ(summary.meetings.size(), 4 * captures);
    const auto decoded = DecodeFleetSummary(EncodeFleetSummary(summary), "x.xts");
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    const FleetWaits waits = FindFleetWaits(*decoded);
    uint64_t count = 0;
    for (const FleetWait& wait : waits.waits) {
      count += wait.count;
      EXPECT_EQ(wait.reason.empty(), captures == 1);
      EXPECT_EQ(wait.waited_ps.has_value(), captures == 1);
      EXPECT_EQ(wait.transfer_ps.has_value(), captures == 1);
    }
    EXPECT_EQ(count, 10 * captures);
    EXPECT_EQ(waits.clocks.empty(), captures > 1);
  }
}

TEST(FleetWaits, ASummaryOfAnEarlierVersionThatLostCapturesHasAReason) {
  EXPECT_EQ(FindFleetWaits(WithoutStartTimes(1, /*by_earlier_version=*/true)).waits[0].reason, "");
  const FleetWaits waits = FindFleetWaits(WithoutStartTimes(2, /*by_earlier_version=*/true));
  ASSERT_EQ(waits.waits.size(), 1U);
  EXPECT_NE(waits.waits[0].reason.find("summarize the traces again"), std::string::npos);
  EXPECT_FALSE(waits.waits[0].waited_ps.has_value());
}

TEST(FleetWaits, AClockThatStepsIsSaid) {
  FleetSummary summary = MakeMeetings({.hosts = 3}, 1);
  std::vector<int64_t>& enters_ps = summary.meetings[1].enters_ps;
  for (size_t at = 25; at < enters_ps.size(); ++at) enters_ps[at] += 5'000'000'000;
  const FleetWaits waits = FindFleetWaits(summary);
  EXPECT_TRUE(waits.waits.empty());
  EXPECT_TRUE(waits.clocks[1].steps);
  EXPECT_FALSE(waits.clocks[1].offset_ps.has_value());
}

TEST(FleetWaits, WhatIsNotThereEquallyOftenIsNotMatched) {
  FleetSummary summary = MakeMeetings({}, 1);
  summary.meetings[2].enters_ps.pop_back();
  summary.meetings[2].lengths_ps.pop_back();
  const FleetWaits waits = FindFleetWaits(summary);
  EXPECT_EQ(waits.unmatched, std::vector<std::string>{"all-reduce"});
  EXPECT_TRUE(waits.clocks.empty());
  // One host alone, or nothing at all.
  EXPECT_TRUE(FindFleetWaits(MakeMeetings({.hosts = 1}, 1)).waits.empty());
  EXPECT_TRUE(FindFleetWaits({}).clocks.empty());
}

}  // namespace
}  // namespace xplane_time
