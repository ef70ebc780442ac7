#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/fleet/made_summary.h"

namespace xplane_time {
namespace {

using testing::MakeFleet;

bool IsSlow(const FleetOutlier& row) { return row.verdict == FleetVerdict::kSlow; }
size_t Alarms(const std::vector<FleetOutlier>& rows) {
  return static_cast<size_t>(std::ranges::count_if(
      rows, [](const FleetOutlier& row) { return row.verdict <= FleetVerdict::kFast; }));
}

// As bench/fleet_outliers does with more of them.
TEST(FleetOutliers, SlowHostsAreFoundAndOthersAreNot) {
  size_t found = 0, false_alarms = 0;
  constexpr uint32_t kFleets = 60;
  for (uint32_t seed = 0; seed < kFleets; ++seed) {
    const auto rows = FindFleetOutliers(MakeFleet({.slow_hosts = 2}, seed), {});
    bool all = true;
    for (const FleetOutlier& row : rows) {
      const bool is_slow = row.host == "host0" || row.host == "host1";
      if (is_slow) all &= IsSlow(row);
      if (!is_slow && row.verdict <= FleetVerdict::kFast) ++false_alarms;
      if (is_slow) {
        EXPECT_NEAR(*row.ratio, 1.02, 0.015);
        EXPECT_LT(*row.lo, *row.ratio);
        EXPECT_GT(*row.hi, *row.ratio);
      }
    }
    found += all ? 1 : 0;
  }
  EXPECT_GE(found, kFleets * 95 / 100);
  EXPECT_LE(false_alarms, 1U);
}

TEST(FleetOutliers, FleetsThatAreAlikeSeldomRaiseAnAlarm) {
  size_t alarms = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    alarms += Alarms(FindFleetOutliers(MakeFleet({.functions = 3}, 10'000 + seed), {})) > 0;
  }
  EXPECT_LE(alarms, 8U);  // 3 expected at most
}

TEST(FleetOutliers, AFifthOfTheHostsMayBeSlow) {
  const auto rows = FindFleetOutliers(MakeFleet({.slow_hosts = 20, .slow_by = 0.05}, 1), {});
  EXPECT_EQ(std::ranges::count_if(rows, IsSlow), 20);
  EXPECT_TRUE(std::ranges::all_of(rows.begin(), rows.begin() + 20, IsSlow));
}

// Devices of a host are alike, and hosts are not: eight of one are no eight draws.
TEST(FleetOutliers, DevicesOfAHostAreNoDrawsOfTheirOwn) {
  size_t alarms = 0;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    for (const size_t hosts : {4, 8}) {
      alarms +=
          Alarms(FindFleetOutliers(
              MakeFleet({.hosts = hosts, .devices = 8, .host_sd = 0.005, .capture_sd = 0.0005},
                        seed),
              {})) > 0;
    }
  }
  EXPECT_LE(alarms, 10U);  // 4 expected at most
}

TEST(FleetOutliers, ASlowDeviceIsToldFromItsHost) {
  const testing::MadeFleet made = {.hosts = 12, .devices = 8, .slow_hosts = 1, .slow_device = true};
  size_t found = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const auto rows = FindFleetOutliers(MakeFleet(made, seed), {});
    found += rows[0].host == "host0" && rows[0].device == "GPU:0" && IsSlow(rows[0]) ? 1 : 0;
  }
  EXPECT_GE(found, 19U);
}

TEST(FleetOutliers, FewHostsCannotBeTold) {
  for (const FleetOutlier& row : FindFleetOutliers(MakeFleet({.hosts = 3}, 1), {})) {
    EXPECT_EQ(row.verdict, FleetVerdict::kCannotTell);
    EXPECT_FALSE(row.ratio.has_value());
  }
  // Many, but equal to the last digit: chance of 0.1 % is taken for granted.
  const auto equal =
      MakeFleet({.host_sd = 0, .capture_sd = 0, .slow_hosts = 1, .slow_by = 0.02}, 1);
  EXPECT_EQ(std::ranges::count_if(FindFleetOutliers(equal, {}), IsSlow), 1);
  EXPECT_TRUE(FindFleetOutliers({}, {}).empty());
}

TEST(FleetOutliers, ModelsAreNotCompared) {
  FleetSummary mixed = MakeFleet({.hosts = 20}, 1);
  mixed.names.emplace_back("zz slower model");
  for (size_t i = 0; i < mixed.functions.size(); i += 2) {
    mixed.functions[i].model = static_cast<NameId>(mixed.names.size() - 1);
    for (int64_t& centre_ps : mixed.functions[i].centres_ps) centre_ps *= 2;
  }
  EXPECT_EQ(Alarms(FindFleetOutliers(mixed, {})), 0U);
}

TEST(FleetOutliers, WhatIsSmallDoesNotMatter) {
  const testing::MadeFleet made = {
      .host_sd = 0.0001, .capture_sd = 0.0001, .slow_hosts = 1, .slow_by = 0.008};
  EXPECT_EQ(Alarms(FindFleetOutliers(MakeFleet(made, 1), {.min_effect = 0.02})), 0U);
}

// Hosts that meet in a collective in each run: the active time of all is the same. Host 0 comes
// later than the others by `busy` and `idle`, shares of their own time.
FleetSummary MakeGang(double busy, double idle) {
  FleetSummary summary = MakeFleet({.hosts = 20, .captures = 3, .host_sd = 0.001}, 1);
  for (FleetFunction& row : summary.functions) {
    row.own.own_ps = row.own.busy_ps = row.centres_ps;
    row.own.captures_with_collectives = row.centres_ps.size();
    std::ranges::fill(row.centres_ps, 2'000'000'000);
    if (summary.names[row.host] != "host0") continue;
    for (int64_t& ps : row.own.own_ps) ps += std::llround((busy + idle) * 1e9);
    for (int64_t& ps : row.own.busy_ps) ps += std::llround(busy * 1e9);
    std::ranges::fill(row.centres_ps, 1'900'000'000);  // less waiting than the others
  }
  return summary;
}

// A slowdown below the least effect is never called slow, so it is not detectable.
TEST(FleetOutliers, TheDetectableSlowdownIsAboveTheLeastEffect) {
  const FleetSummary summary = MakeFleet({.slow_hosts = 1, .slow_by = 0.05}, 1);
  for (const double min_effect : {0.005, 0.1}) {
    for (const FleetOutlier& row : FindFleetOutliers(summary, {.min_effect = min_effect})) {
      EXPECT_GT(row.mde.value_or(1), min_effect);
      const bool is_slow = row.host == "host0" && min_effect < 0.05;
      EXPECT_EQ(row.verdict, is_slow ? FleetVerdict::kSlow : FleetVerdict::kTypical);
    }
  }
}

TEST(FleetOutliers, RowsWithoutOwnOrBusyTimesAreUnknown) {
  for (const bool lacks_own : {false, true}) {
    FleetSummary summary = MakeGang(0, 0);
    for (FleetFunction& row : summary.functions) {
      (lacks_own ? row.own.own_ps : row.own.busy_ps).clear();
    }
    const auto rows = FindFleetOutliers(summary, {});
    ASSERT_EQ(rows.size(), 20U);
    for (const FleetOutlier& row : rows) {
      EXPECT_EQ(row.verdict, FleetVerdict::kCannotTell);
      EXPECT_EQ(row.measure, FleetMeasure::kUnknown);
    }
  }
}

TEST(FleetOutliers, TheHostThatWaitsLeastIsSlow) {
  for (const auto& [busy, idle] : {std::pair(0.05, 0.0), std::pair(0.0, 0.05)}) {
    const auto rows = FindFleetOutliers(MakeGang(busy, idle), {});
    EXPECT_EQ(Alarms(rows), 1U);
    EXPECT_EQ(rows[0].host, "host0");
    EXPECT_EQ(rows[0].verdict, FleetVerdict::kSlow);
    EXPECT_EQ(rows[0].measure, FleetMeasure::kWithoutCollectives);
    EXPECT_NEAR(*rows[0].ratio, 1.05, 0.02);
  }
}

TEST(FleetOutliers, OnlyLessBusyTimeIsFast) {
  const auto computes_less = FindFleetOutliers(MakeGang(-0.05, 0), {});
  EXPECT_EQ(Alarms(computes_less), 1U);
  EXPECT_EQ(computes_less[0].verdict, FleetVerdict::kFast);
  EXPECT_EQ(Alarms(FindFleetOutliers(MakeGang(0, -0.05), {})), 0U);
}

TEST(FleetOutliers, CollectivesInSummariesOfAnEarlierVersionAreUndecided) {
  FleetSummary summary = MakeGang(0.05, 0);
  for (FleetFunction& row : summary.functions) row.own = {};
  // Without collectives, the active time is compared.
  EXPECT_EQ(FindFleetOutliers(summary, {})[0].verdict, FleetVerdict::kFast);
  const NameId function = summary.functions[0].function;
  summary.kernels.push_back({.function = function, .category = Category::kCollective});
  for (const FleetOutlier& row : FindFleetOutliers(summary, {})) {
    EXPECT_EQ(row.verdict, FleetVerdict::kCannotTell);
    EXPECT_EQ(row.measure, FleetMeasure::kUnknown);
    EXPECT_FALSE(row.ratio.has_value());
  }
  EXPECT_EQ(FindFleetOutliers(summary, {}).size(), 20U);
}

TEST(FleetOutliers, HostsWhoseCollectivesAreUnknownAreUndecided) {
  FleetSummary summary = MakeGang(0.05, 0);
  summary.functions[3].own = {};  // one host's summary is of an earlier version
  const NameId host = summary.functions[3].host;
  size_t undecided = 0;
  for (const FleetOutlier& row : FindFleetOutliers(summary, {})) {
    const bool is_earlier = row.host == summary.names[host];
    EXPECT_EQ(row.measure == FleetMeasure::kUnknown, is_earlier);
    EXPECT_EQ(row.ratio.has_value(), !is_earlier);
    undecided += row.verdict == FleetVerdict::kCannotTell ? 1 : 0;
  }
  EXPECT_EQ(undecided, 1U);
}

// The collectives of one capture may be hidden on all devices.
TEST(FleetOutliers, OneCaptureWithCollectivesIsEnough) {
  FleetSummary summary = MakeGang(0.05, 0);
  for (FleetFunction& row : summary.functions) row.own.captures_with_collectives = 0;
  EXPECT_EQ(FindFleetOutliers(summary, {})[0].measure, FleetMeasure::kActive);
  summary.functions[5].own.captures_with_collectives = 1;
  EXPECT_EQ(FindFleetOutliers(summary, {})[0].measure, FleetMeasure::kWithoutCollectives);
  EXPECT_EQ(Alarms(FindFleetOutliers(summary, {})), 1U);
}

TEST(FleetOutliers, FunctionsOfCollectivesAloneAreNotCompared) {
  FleetSummary summary = MakeGang(0.05, 0);
  for (FleetFunction& row : summary.functions) std::ranges::fill(row.own.busy_ps, 0);
  EXPECT_TRUE(FindFleetOutliers(summary, {}).empty());
}

}  // namespace
}  // namespace xplane_time
