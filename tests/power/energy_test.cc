// Tests of the energy of windows: tables of expected values from the definitions, and comparisons
// of the fold with the slow reference on all tiny cases and on random ones.
#include "power/energy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/support/random.h"
#include "tests/support/slow_energy.h"

namespace xplane_time::power {
namespace {

using testing::Random;
using testing::SlowEnergy;
using testing::TimedValue;

constexpr int64_t kSecond = 1'000'000'000;
constexpr double kPjPerJ = 1e12;

struct TestWindow {
  int64_t begin_ns, end_ns;
};

std::vector<EnergyPart> Folded(const EnergyRules& rules, const std::vector<TimedValue>& readings,
                               const std::vector<TestWindow>& windows,
                               const std::vector<Suspension>& suspensions = {}) {
  WindowEdges edges;
  for (uint32_t i = 0; i < windows.size(); ++i) {
    Insert({windows[i].begin_ns, i, false}, &edges);
    Insert({windows[i].end_ns, i, true}, &edges);
  }
  EnergyFold fold(rules, &edges, &suspensions, nullptr);
  for (const auto& [t_ns, value] : readings) fold.Add(t_ns, value);
  fold.Finish();
  std::vector<EnergyPart> parts;
  for (uint32_t i = 0; i < windows.size(); ++i) parts.push_back(fold.Of(i));
  return parts;
}

std::string Text(const std::vector<TimedValue>& readings) {
  std::string text;
  for (const auto& [t_ns, value] : readings) {
    text += "(" + std::to_string(t_ns) + ", " + std::to_string(value) + ") ";
  }
  return text;
}

void ExpectNear(double value, double expected, const char* what) {
  EXPECT_NEAR(value, expected, 1e-9 * std::abs(expected) + 1e-3) << what;
}

void Compare(const EnergyRules& rules, const std::vector<TimedValue>& readings,
             const std::vector<TestWindow>& windows,
             const std::vector<Suspension>& suspensions = {}) {
  const std::vector<EnergyPart> parts = Folded(rules, readings, windows, suspensions);
  for (size_t i = 0; i < windows.size(); ++i) {
    const auto& [begin_ns, end_ns] = windows[i];
    SCOPED_TRACE(::testing::Message() << (rules.counter ? "counter " : "held ") << Text(readings)
                                      << "in " << begin_ns << " .. " << end_ns);
    const EnergyPart slow = SlowEnergy(rules, readings, suspensions, begin_ns, end_ns);
    const EnergyPart& part = parts[i];
    EXPECT_EQ(part.covered_ns, slow.covered_ns);
    ExpectNear(part.energy_pj, slow.energy_pj, "energy");
    EXPECT_EQ(part.limits, slow.limits);
    if (!IsUnbounded(part.limits)) {
      ExpectNear(part.lo_pj, slow.lo_pj, "lo");
      ExpectNear(part.hi_pj, slow.hi_pj, "hi");
      EXPECT_LE(part.lo_pj, part.energy_pj + 1e-3);
      EXPECT_GE(part.hi_pj, part.energy_pj - 1e-3);
    }
    EXPECT_EQ(part.resets, slow.resets);
    EXPECT_EQ(part.wraps, slow.wraps);
    EXPECT_EQ(part.suspended, slow.suspended);
    if (rules.counter) {
      EXPECT_EQ(part.jumps, slow.jumps);
    } else if (begin_ns < end_ns) {
      EXPECT_EQ(part.peak_mw.has_value(), slow.peak_mw.has_value());
      ExpectNear(part.peak_mw.value_or(0), slow.peak_mw.value_or(0), "peak");
    }
  }
}

EnergyRules Held(int64_t period_ns) {
  EnergyRules rules;
  rules.period_ns = rules.update_ns = period_ns;
  return rules;
}

EnergyRules Counter(int64_t period_ns) {
  EnergyRules rules = Held(period_ns);
  rules.counter = true;
  return rules;
}

// `count` readings of `value`, one per period, starting at `first_ns`.
std::vector<TimedValue> Constant(int64_t first_ns, int64_t period_ns, int count, int64_t value) {
  std::vector<TimedValue> readings;
  for (int i = 0; i < count; ++i) readings.emplace_back(first_ns + i * period_ns, value);
  return readings;
}

// 100 W for 5 s, polled 100 times. The first poll is at the begin, or one period or half a period
// later.
TEST(Held, ConstantPowerIsExact) {
  constexpr int64_t kPeriod = kSecond / 20;
  for (const int64_t first_ns : {int64_t{0}, kPeriod / 2, kPeriod}) {
    SCOPED_TRACE(first_ns);
    const auto readings = Constant(first_ns, kPeriod, 100, 100'000);
    const EnergyPart part = Folded(Held(kPeriod), readings, {{0, 5 * kSecond}})[0];
    EXPECT_DOUBLE_EQ(part.energy_pj, 500 * kPjPerJ);
    EXPECT_EQ(part.covered_ns, 5 * kSecond);
    EXPECT_EQ(part.limits, EnergyLimits::kBetweenReadings);
    EXPECT_EQ(part.peak_mw, 100'000);
  }
}

TEST(Held, OneReadingAloneIsNoEnergy) {
  const EnergyPart part = Folded(Held(10), {{50, 100}}, {{0, 100}})[0];
  EXPECT_EQ(part.covered_ns, 0);
  EXPECT_EQ(part.peak_mw, std::nullopt);
}

TEST(Held, NothingIsCoveredWithoutReadings) {
  EXPECT_EQ(Folded(Held(10), {}, {{0, 100}})[0].covered_ns, 0);
}

// 7 W from 10, a gap after 20, 9 W from 100; the period is 10.
TEST(Held, AGapIsCoveredForThreePeriodsAndOneBackwards) {
  const EnergyPart part = Folded(Held(10), {{10, 7}, {20, 7}, {100, 9}, {110, 9}}, {{0, 110}})[0];
  EXPECT_EQ(part.covered_ns, (50 - 0) + (110 - 90));
  EXPECT_DOUBLE_EQ(part.energy_pj, 7 * 50 + 9 * 20);
}

TEST(Held, NothingIsCoveredAcrossASuspension) {
  const EnergyPart part = Folded(Held(10), Constant(0, 10, 10, 5), {{0, 90}}, {{42, 48, 1}})[0];
  EXPECT_EQ(part.covered_ns, 80);
  EXPECT_TRUE(part.suspended);
}

TEST(Held, AWindowBetweenTwoReadingsHasItsShare) {
  const EnergyPart part = Folded(Held(10), {{0, 5}, {10, 7}, {20, 7}}, {{2, 6}})[0];
  EXPECT_EQ(part.covered_ns, 4);
  EXPECT_DOUBLE_EQ(part.energy_pj, 5 * 4);
}

TEST(Held, ImplausiblePowerIsNoReading) {
  const EnergyPart part =
      Folded(Held(10), {{0, 5}, {10, kMostPlausibleMw + 1}, {20, -5}, {30, 5}}, {{0, 30}})[0];
  EXPECT_DOUBLE_EQ(part.energy_pj, 5 * 30);
  EXPECT_EQ(part.jumps, 2u);
}

// 2 uJ per nanosecond, read every 10 ns.
TEST(Counter, InterpolatesAtTheEdges) {
  std::vector<TimedValue> readings;
  for (int64_t t = 0; t <= 100; t += 10) readings.emplace_back(t, 1000 + 2 * t);
  EnergyRules rules = Counter(10);
  rules.max_plausible_mw = 1'000'000'000;
  const EnergyPart part = Folded(rules, readings, {{13, 57}})[0];
  EXPECT_EQ(part.covered_ns, 44);
  EXPECT_DOUBLE_EQ(part.energy_pj, 88e6);
  EXPECT_EQ(part.limits, EnergyLimits::kBounds);
  // The lower bound: the counter at 50 has no later energy, and at 30 it has all energy up to 13.
  EXPECT_DOUBLE_EQ(part.lo_pj, (2 * 50 - 2 * 30) * 1e6);
  EXPECT_DOUBLE_EQ(part.hi_pj, (2 * 70 - 2 * 10) * 1e6);
}

// 7 J every 100 ns, read every 10 ns. The times of updates are known only from the readings.
TEST(Counter, BoundsNeedNoKnownUpdatePeriod) {
  std::vector<TimedValue> readings;
  for (int64_t t = 0; t <= 600; t += 10) readings.emplace_back(t, t / 100 * 700);
  EnergyRules rules = Counter(10);
  rules.max_plausible_mw = 100'000'000;
  const std::vector<EnergyPart> parts =
      Folded(rules, readings, {{130, 170}, {130, 250}, {10, 590}, {150, 600}});
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(parts[i].limits, EnergyLimits::kBounds);
  EXPECT_DOUBLE_EQ(parts[0].energy_pj, 7 * 40 * 1e6);
  EXPECT_DOUBLE_EQ(parts[0].lo_pj, 0);
  EXPECT_DOUBLE_EQ(parts[0].hi_pj, 700 * 1e6);  // the increase at 200 may be from any earlier time
  EXPECT_DOUBLE_EQ(parts[1].lo_pj, 0);
  EXPECT_DOUBLE_EQ(parts[1].hi_pj, 1400 * 1e6);
  // The change at 600 may contain all energy up to 590, and more.
  EXPECT_EQ(parts[2].limits, EnergyLimits::kBounds);
  EXPECT_DOUBLE_EQ(parts[2].lo_pj, (3500 - 700) * 1e6);
  EXPECT_DOUBLE_EQ(parts[2].hi_pj, 4200 * 1e6);
  // There is no change after 600, so one more step may be missing.
  EXPECT_EQ(parts[3].limits, EnergyLimits::kInterval);
  EXPECT_DOUBLE_EQ(parts[3].hi_pj, (4200 - 700 + 700) * 1e6);
}

// The calls take 8 ns. The time of the reading within a call is unknown.
TEST(Counter, BoundsHoldWheneverInACallItWasRead) {
  WindowEdges edges;
  Insert({32, 0, false}, &edges);
  Insert({53, 0, true}, &edges);
  const std::vector<Suspension> none;
  EnergyRules rules = Counter(10);
  rules.max_plausible_mw = 1'000'000'000;
  EnergyFold fold(rules, &edges, &none, nullptr);
  for (int64_t t = 0; t <= 100; t += 10) fold.Add(t, 2 * t, /*doubt_ns=*/4);
  fold.Finish();
  const EnergyPart part = fold.Of(0);
  EXPECT_EQ(part.limits, EnergyLimits::kBounds);
  EXPECT_DOUBLE_EQ(part.lo_pj, 0);  // the value up to 40, minus the value that changed after 40
  EXPECT_DOUBLE_EQ(part.hi_pj,
                   (140 - 40) * 1e6);  // the value that changed after 60, minus the value up to 20
}

TEST(Counter, AroundABreakNothingIsBounded) {
  EnergyRules rules = Counter(10);
  rules.max_plausible_mw = 1'000'000'000;
  std::vector<TimedValue> readings;
  for (int64_t t = 0; t <= 200; t += 10) readings.emplace_back(t, t < 100 ? 1000 + t : t);
  const std::vector<EnergyPart> parts =
      Folded(rules, readings, {{15, 65}, {15, 85}, {15, 95}, {15, 150}, {95, 150}, {115, 150}});
  EXPECT_EQ(parts[0].limits, EnergyLimits::kBounds);
  EXPECT_EQ(parts[1].limits,
            EnergyLimits::kFewUpdates);  // no update between the window and the reset
  EXPECT_EQ(parts[2].limits, EnergyLimits::kBrokenCounter);
  EXPECT_EQ(parts[3].limits, EnergyLimits::kBrokenCounter);
  EXPECT_EQ(parts[4].limits, EnergyLimits::kBrokenCounter);
  EXPECT_EQ(parts[5].limits, EnergyLimits::kBounds);
}

// 7 W, with a failed reading at 20.
TEST(Held, AFailedReadingEndsTheOneBefore) {
  WindowEdges edges;
  Insert({0, 0, false}, &edges);
  Insert({50, 0, true}, &edges);
  const std::vector<Suspension> none;
  EnergyFold fold(Held(10), &edges, &none, nullptr);
  for (const int64_t t_ns : {0, 10}) fold.Add(t_ns, 7);
  fold.Fail(20, /*reset=*/false);
  fold.Fail(25, /*reset=*/false);
  for (const int64_t t_ns : {30, 40}) fold.Add(t_ns, 7);
  fold.Fail(45, /*reset=*/false);
  fold.Finish();
  EXPECT_EQ(fold.Of(0).covered_ns, 20 + 15);
  EXPECT_DOUBLE_EQ(fold.Of(0).energy_pj, 7 * 35);
}

TEST(Counter, AResetThatIsToldEndsTheSegment) {
  WindowEdges edges;
  Insert({0, 0, false}, &edges);
  Insert({40, 0, true}, &edges);
  const std::vector<Suspension> none;
  for (const bool reset : {false, true}) {
    EnergyFold fold(Counter(10), &edges, &none, nullptr);
    fold.Fail(-5, reset);  // before the first reading
    fold.Add(0, 5);
    fold.Add(10, 6);
    fold.Fail(20, reset);
    fold.Fail(22, false);
    fold.Add(30, 8);
    fold.Add(40, 9);
    fold.Fail(41, false);
    fold.Finish();
    EXPECT_EQ(fold.Of(0).resets, reset ? 1u : 0u);
    EXPECT_EQ(fold.Of(0).covered_ns, reset ? 20 : 40);
    EXPECT_DOUBLE_EQ(fold.Of(0).energy_pj, (reset ? 2 : 4) * 1e6);
  }
}

struct Broken {
  const char* name;
  std::optional<int64_t> wrap_range;
  int64_t third;  // the third value, after 60 and 80
  uint32_t wraps, resets, jumps;
  int64_t covered_ns;
  double energy_uj;
};

TEST(Counter, DecreasesAndJumps) {
  EnergyRules rules = Counter(10);
  rules.max_plausible_mw =
      5'000'000;  // 5 uJ per nanosecond, so at most 100 in a span and an update
  const Broken kCases[] = {
      {"goes on", 99, 95, 0, 0, 0, 20, 35},
      {"wraps", 99, 5, 1, 0, 0, 20, 20 + 25},
      {"does not wrap without a range", std::nullopt, 5, 0, 1, 0, 10, 20},
      {"too much for a wrap", 100'000, 5, 0, 1, 0, 10, 20},
      {"was above its range before", 70, 5, 0, 1, 0, 10, 20},
      {"jumps", 99, 500, 0, 0, 1, 10, 20},
  };
  for (const Broken& each : kCases) {
    SCOPED_TRACE(each.name);
    rules.wrap_range = each.wrap_range;
    const EnergyPart part = Folded(rules, {{0, 60}, {10, 80}, {20, each.third}}, {{0, 20}})[0];
    EXPECT_EQ(part.wraps, each.wraps);
    EXPECT_EQ(part.resets, each.resets);
    EXPECT_EQ(part.jumps, each.jumps);
    EXPECT_EQ(part.covered_ns, each.covered_ns);
    EXPECT_DOUBLE_EQ(part.energy_pj, each.energy_uj * 1e6);
  }
}

TEST(Counter, AGapCountsOnlyAsAWhole) {
  EnergyRules rules = Counter(10);
  rules.max_plausible_mw = 1'000'000'000;
  const std::vector<TimedValue> readings = {{0, 0}, {10, 10}, {100, 110}, {110, 120}};
  const std::vector<EnergyPart> parts =
      Folded(rules, readings, {{0, 110}, {0, 50}, {50, 110}, {40, 60}});
  EXPECT_EQ(parts[0].covered_ns, 110);
  EXPECT_DOUBLE_EQ(parts[0].energy_pj, 120e6);
  EXPECT_EQ(parts[1].covered_ns, 10);
  EXPECT_DOUBLE_EQ(parts[1].energy_pj, 10e6);
  EXPECT_DOUBLE_EQ(parts[1].hi_pj, 120e6);
  EXPECT_EQ(parts[2].covered_ns, 10);
  EXPECT_DOUBLE_EQ(parts[2].energy_pj, 10e6);
  EXPECT_EQ(parts[3].covered_ns, 0);
}

// Polled twice per update. The energy of a window in which the counter does not change is not 0.
TEST(Counter, AReadingWithoutNewsIsNoPoint) {
  EnergyRules rules = Counter(50);
  rules.update_ns = 100;
  rules.max_plausible_mw = 1'000'000'000;
  const EnergyPart part =
      Folded(rules, {{0, 0}, {50, 0}, {100, 70}, {150, 70}, {200, 140}}, {{110, 140}})[0];
  EXPECT_DOUBLE_EQ(part.energy_pj, 0.7 * 30 * 1e6);
  EXPECT_EQ(part.covered_ns, 30);
}

// Polled up to twice per update. The energy after the last change is unknown, and not 0 J.
TEST(Counter, ReadingsWithoutNewsAtTheEndAreNotCovered) {
  EnergyRules rules = Counter(50);
  rules.update_ns = 100;
  rules.max_plausible_mw = 1'000'000'000;
  EXPECT_EQ(Folded(rules, {{0, 7}, {50, 7}, {100, 7}}, {{0, 100}})[0].covered_ns, 0);
  const EnergyPart part = Folded(rules, {{0, 7}, {50, 77}, {100, 77}}, {{0, 100}})[0];
  EXPECT_EQ(part.covered_ns, 50);
  EXPECT_DOUBLE_EQ(part.energy_pj, 70e6);
  EXPECT_EQ(part.limits, EnergyLimits::kFewUpdates);
}

TEST(Counter, ThePeakIsAMeanOverTenUpdates) {
  std::vector<TimedValue> readings;
  for (int64_t t = 0; t <= 60; ++t) readings.emplace_back(t * 10, t <= 30 ? t : 30 + 3 * (t - 30));
  EnergyRules rules = Counter(10);
  rules.max_plausible_mw = 1'000'000'000;
  const std::vector<EnergyPart> parts = Folded(rules, readings, {{0, 600}, {0, 300}, {10, 90}});
  EXPECT_DOUBLE_EQ(parts[0].peak_mw.value(), 0.3e6);
  EXPECT_DOUBLE_EQ(parts[1].peak_mw.value(), 0.1e6);
  EXPECT_EQ(parts[2].peak_mw, std::nullopt);
}

std::vector<TestWindow> AllWindows(int64_t from, int64_t to) {
  std::vector<TestWindow> windows;
  for (int64_t begin = from; begin <= to; ++begin) {
    for (int64_t end = begin; end <= to; ++end) windows.push_back({begin, end});
  }
  return windows;
}

// All choices of up to four of nine times, with all choices of four values.
TEST(Energy, AllTinyCasesAgreeWithTheReference) {
  constexpr int64_t kTimes = 9, kValues = 4;
  constexpr int64_t kScale[] = {0, 1, 2, 9};
  const std::vector<TestWindow> windows = AllWindows(-2, 12);
  for (uint32_t times = 0; times < (1u << kTimes); ++times) {
    const int count = __builtin_popcount(times);
    if (count > 4) continue;
    const int64_t choices = int64_t{1} << (2 * count);
    for (int64_t values = 0; values < choices; values += 1 + count / 4 * 10) {
      std::vector<TimedValue> readings;
      int64_t rest = values;
      for (int64_t t = 0; t < kTimes; ++t) {
        if ((times >> t & 1) == 0) continue;
        readings.emplace_back(t, kScale[rest % kValues]);
        rest /= kValues;
      }
      for (const bool counter : {false, true}) {
        EnergyRules rules = counter ? Counter(1) : Held(1);
        rules.update_ns = 1 + values % 3;
        if (values % 2 == 0) rules.wrap_range = 9;
        rules.max_plausible_mw = counter ? 3'000'000 : 8;
        Compare(rules, readings, windows);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(Energy, RandomCasesAgreeWithTheReference) {
  Random random(7);
  for (int round = 0; round < 3000; ++round) {
    EnergyRules rules = random.OneIn(2) ? Held(10) : Counter(10);
    rules.update_ns = 1 + random.Below(40);
    if (random.OneIn(2)) rules.wrap_range = 2000;
    rules.max_plausible_mw = rules.counter ? 40'000'000 : 90;
    std::vector<TimedValue> readings;
    int64_t t_ns = 100, value = random.Below(2000);
    for (int64_t i = random.Below(60); i > 0; --i) {
      t_ns += random.OneIn(10) ? 1 + random.Below(100) : 8 + random.Below(5);
      value = rules.counter ? value + random.Below(200) * random.Below(2) : random.Below(100);
      if (rules.counter && rules.wrap_range && value > 2000) value -= 2001;
      if (random.OneIn(30)) value = random.Below(4000);
      readings.emplace_back(t_ns, value);
    }
    std::vector<Suspension> suspensions;
    for (int64_t at_ns = 100 + random.Below(400); random.OneIn(2); at_ns += 50) {
      suspensions.push_back({at_ns, at_ns + 1 + random.Below(30), 5});
    }
    std::vector<TestWindow> windows;
    for (int i = 0; i < 20; ++i) {
      const int64_t begin_ns = random.Below(900);
      windows.push_back({begin_ns, begin_ns + random.Below(300)});
    }
    Compare(rules, readings, windows, suspensions);
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace xplane_time::power
