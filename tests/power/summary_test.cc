// Tests of the summaries of complete logs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tests/power/log_text.h"
#include "tests/support/random.h"
#include "xplane_time/power.h"

namespace xplane_time {
namespace {

using testing::ChannelText;
using ::testing::Contains;
using ::testing::Field;
using testing::LogText;
using ::testing::Not;

const std::string kPower = ChannelText("GPU-1", "power_mw", "instant");
const std::string kEnergy = ChannelText("GPU-1", "energy_uj", "cumulative");

PowerSummary Summary(const LogText& log, const PowerSummaryOptions& options = {}) {
  auto summary = SummarizePowerLogText(log.text(), "p.jsonl", options);
  EXPECT_TRUE(summary.ok()) << summary.status();
  return summary.ok() ? *std::move(summary) : PowerSummary();
}

const WindowSummary& WindowOf(const PowerSummary& summary, const std::string& name) {
  for (const WindowSummary& window : summary.windows) {
    if (window.name == name) return window;
  }
  ADD_FAILURE() << "no window " << name;
  return summary.windows.front();
}

// Readings at 20 Hz for `seconds`. The first one is one period after the start.
LogText Constant(double seconds, const std::string& mw) {
  LogText log(kPower);
  for (int i = 1; i <= std::lround(seconds * 20); ++i) log.Read(0.05 * i, 0, mw);
  return log.End(seconds);
}

TEST(Summary, AConstantPowerIsItsEnergy) {
  const PowerSummary summary = Summary(Constant(5, "100000"));
  ASSERT_EQ(summary.windows.size(), 1u);
  const WindowSummary& whole = summary.windows[0];
  EXPECT_EQ(whole.name, "");
  EXPECT_EQ(whole.end_ns - whole.begin_ns, 5'000'000'000);
  EXPECT_EQ(whole.begin_unix_ns, 1'700'000'000'000'000'000);
  EXPECT_FALSE(whole.cut);
  const EnergyEstimate& energy = whole.energies.at(0);
  EXPECT_EQ(energy.estimator, EnergyEstimator::kHeld);
  EXPECT_NEAR(energy.energy_j.value(), 500, 1e-9);
  EXPECT_NEAR(energy.mean_w.value(), 100, 1e-9);
  EXPECT_NEAR(energy.peak_w.value(), 100, 1e-9);
  EXPECT_NEAR(energy.coverage, 1, 1e-12);
  EXPECT_EQ(energy.reason, PowerReason::kKnown);
  EXPECT_TRUE(energy.shared);
  EXPECT_EQ(energy.readings, 100u);
  EXPECT_NEAR(whole.total.energy_j.value(), 500, 1e-9);
  EXPECT_TRUE(summary.complete);
  EXPECT_EQ(summary.host, "node1");
  const GaugeSummary& gauge = whole.gauges.at(0);
  EXPECT_EQ(gauge.n, 100u);
  EXPECT_EQ(gauge.median, 100'000.0);
  ASSERT_EQ(summary.readers.size(), 1u);
  EXPECT_NEAR(summary.readers[0].effective_hz, 20, 1e-6);
  EXPECT_EQ(summary.readers[0].missed, 2u);  // from the last line of the log
  EXPECT_EQ(summary.readers[0].own_cpu_ns, 77);
}

TEST(Summary, OneReadingIsAFault) {
  LogText log(kPower);
  log.Read(1, 0, "100000").End(2);
  const EnergyEstimate energy = Summary(log).windows.at(0).energies.at(0);
  EXPECT_EQ(energy.energy_j, std::nullopt);
  EXPECT_EQ(energy.reason, PowerReason::kNoSamples);
  EXPECT_EQ(energy.readings, 1u);
}

TEST(Summary, NoReadingAtAll) {
  LogText log(kPower);
  const PowerSummary summary = Summary(log.End(1));
  const WindowSummary& whole = summary.windows.at(0);
  EXPECT_EQ(whole.energies.at(0).energy_j, std::nullopt);
  EXPECT_EQ(whole.energies.at(0).reason, PowerReason::kNoSamples);
  EXPECT_EQ(whole.total.energy_j, std::nullopt);
  EXPECT_EQ(whole.total.reason, PowerReason::kNoSamples);
  EXPECT_EQ(whole.total.missing, "nvml GPU-1 gpu");
  EXPECT_EQ(whole.gauges.at(0).reason, PowerReason::kNoSamples);
}

TEST(Summary, UnknownReadingsTellTheirReason) {
  LogText log(kPower);
  for (int i = 0; i < 20; ++i) log.Read(0.05 * i, 0, R"(null,"permission_denied")");
  const WindowSummary whole = Summary(log.End(1)).windows.at(0);
  EXPECT_EQ(whole.energies.at(0).reason, PowerReason::kPermissionDenied);
  EXPECT_EQ(whole.gauges.at(0).unknown, 20u);
}

// A gauge is read at 1 s and at 2 s. The window is "w".
TEST(Summary, AWindowWithoutAReadingHasTheNearest) {
  struct Case {
    double begin_s, end_s, within_s;
    std::optional<double> value;
    int64_t age_ms;  // if there is a value; 0: the reading is in the window
  };
  constexpr Case kCases[] = {
      {1.1, 1.2, 0.5, 40, 100},   // the reading before it is nearer
      {1.8, 1.9, 0.5, 60, -100},  // the reading after it is nearer
      {1.4, 1.6, 0.5, 40, 400},   // both are equally near: the earlier one
      {2.1, 2.2, 0.5, 60, 100},   // no reading follows
      {0.5, 0.6, 0.5, 40, -400},  // no reading precedes
      {1.4, 1.6, 0.399, {}, 0},   // too far
      {1.4, 1.6, 0.4, 40, 400},   // exactly at the limit
      {0.9, 1.1, 0.5, 40, 0},     // a reading in the window
      {1.1, 1.2, 0, {}, 0},       // nearest readings are not requested
  };
  for (const Case& each : kCases) {
    SCOPED_TRACE(::testing::Message() << each.begin_s << " " << each.within_s);
    LogText log(ChannelText("GPU-1", "temperature_mc", "gauge"));
    log.Read(1, 0, "40").Read(2, 0, "60").End(3);
    PowerSummaryOptions options;
    options.windows = {{"w", LogText::At(each.begin_s), LogText::At(each.end_s)}};
    options.nearest_within_ns = std::llround(each.within_s * 1e9);
    const GaugeSummary gauge = WindowOf(Summary(log, options), "w").gauges.at(0);
    for (const auto& value : {gauge.avg, gauge.max, gauge.median, gauge.min}) {
      EXPECT_EQ(value, each.value);
    }
    EXPECT_EQ(gauge.n, each.value && each.age_ms == 0 ? 1u : 0u);
    EXPECT_EQ(gauge.reason, each.value ? PowerReason::kKnown : PowerReason::kNoSamples);
    ASSERT_EQ(gauge.nearest_age_ns.has_value(), each.age_ms != 0);
    EXPECT_NEAR(static_cast<double>(gauge.nearest_age_ns.value_or(0)) / 1e6,
                static_cast<double>(each.age_ms), 1e-3);
  }
}

// If the reading in the window failed, the value is unknown. Failed readings after it are skipped.
TEST(Summary, TheNearestReadingIsAKnownOne) {
  PowerSummaryOptions options;
  options.windows = {{"w", LogText::At(1.4), LogText::At(1.6)}};
  options.nearest_within_ns = 1'000'000'000;
  const auto gauge_of = [&](double failed_s) {
    LogText log(ChannelText("GPU-1", "temperature_mc", "gauge"));
    log.Read(1, 0, "40").Read(failed_s, 0, R"(null,"device_lost")").Read(2, 0, "60").End(3);
    return WindowOf(Summary(log, options), "w").gauges.at(0);
  };
  EXPECT_EQ(gauge_of(1.5).reason, PowerReason::kDeviceLost);
  EXPECT_EQ(gauge_of(1.5).avg, std::nullopt);
  EXPECT_EQ(gauge_of(1.7).avg, 40.0);
  EXPECT_EQ(gauge_of(1.3).avg, 40.0);
}

TEST(Summary, PowerHasNoNearestReading) {
  LogText log(kPower);
  log.Read(1, 0, "100000").Read(2, 0, "100000").End(3);
  PowerSummaryOptions options;
  options.windows = {{"w", LogText::At(1.4), LogText::At(1.6)}};
  options.nearest_within_ns = 1'000'000'000;
  EXPECT_EQ(WindowOf(Summary(log, options), "w").gauges.at(0).reason, PowerReason::kNoSamples);
}

// The windows "a" (1 .. 3 s) and "b" (2 .. 4 s) overlap. The power is 100 W, and 200 W from 2.5 s.
TEST(Summary, OverlappingWindows) {
  LogText log(kPower);
  for (int i = 0; i <= 100; ++i) {
    if (i == 20) log.Mark(1, "begin", "a");
    if (i == 40) log.Mark(2, "begin", "b");
    if (i == 60) log.Mark(3, "end", "a");
    if (i == 80) log.Mark(4, "end", "b");
    log.Read(0.05 * i, 0, i < 50 ? "100000" : "200000");
  }
  const PowerSummary summary = Summary(log.End(5));
  ASSERT_EQ(summary.windows.size(), 3u);
  EXPECT_NEAR(WindowOf(summary, "a").energies[0].energy_j.value(), 150 + 100, 1e-9);
  EXPECT_NEAR(WindowOf(summary, "b").energies[0].energy_j.value(), 50 + 300, 1e-9);
  EXPECT_NEAR(WindowOf(summary, "b").energies[0].peak_w.value(), 200, 1e-9);
  // readings 20 .. 60 and 40 .. 80, including both ends
  EXPECT_EQ(WindowOf(summary, "a").gauges[0].n, 41u);
  EXPECT_EQ(WindowOf(summary, "a").gauges[0].median, 100'000.0);
  EXPECT_EQ(WindowOf(summary, "b").gauges[0].n, 41u);
  EXPECT_EQ(WindowOf(summary, "b").gauges[0].median, 200'000.0);
}

TEST(Summary, AMarkBeforeAndAfterTheReadingsAroundIt) {
  for (const int lines_late : {0, 3, 30}) {
    SCOPED_TRACE(lines_late);
    LogText log(kPower);
    for (int i = 0; i <= 100; ++i) {
      log.Read(0.05 * i, 0, std::to_string(1000 * i));
      if (i == 20 + lines_late) log.Mark(1, "begin", "a");
      if (i == 60 + lines_late) log.Mark(3, "end", "a");
    }
    const PowerSummary summary = Summary(log.End(5));
    EXPECT_EQ(WindowOf(summary, "a").gauges[0].n, 41u);
    EXPECT_EQ(WindowOf(summary, "a").gauges[0].min, 20'000.0);
    EXPECT_EQ(WindowOf(summary, "a").gauges[0].max, 60'000.0);
  }
}

TEST(Summary, WindowsOfOneNameAreNumberedAndOneThatIsOpenIsCut) {
  LogText log(kPower);
  for (int i = 0; i <= 40; ++i) log.Read(0.05 * i, 0, "1000");
  log.Mark(0.1, "end", "never").Mark(0.5, "begin", "a").Mark(1, "end", "a").Mark(1.5, "begin", "a");
  log.Mark(1.6, "begin", "a");
  const PowerSummary summary = Summary(log);
  ASSERT_EQ(summary.windows.size(), 3u);
  EXPECT_EQ(summary.windows[2].number, 2u);
  EXPECT_TRUE(summary.windows[2].cut);
  EXPECT_TRUE(summary.windows[0].cut);
  EXPECT_FALSE(summary.complete);
  EXPECT_THAT(summary.findings, Contains(Field(&PowerFinding::code, "end_without_begin")));
  EXPECT_THAT(summary.findings, Contains(Field(&PowerFinding::code, "begin_of_open")));
  EXPECT_THAT(summary.findings, Contains(Field(&PowerFinding::code, "log_without_end")));
}

// Windows with 10 W for 1 s, with 20 W for 1 s, and without readings. Another sensor has 1 W.
TEST(Summary, WindowsOfOneNameTogether) {
  LogText log(kPower + "," + ChannelText("GPU-2", "power_mw", "instant"));
  for (int i = 0; i <= 100; ++i) {
    const double t = 0.05 * i;
    if (i < 80) log.Read(t, 0, i < 40 ? "10000" : "20000");
    log.Read(t, 1, "1000");
    if (i == 10 || i == 50 || i == 86) log.Mark(t, "begin", "a");
    if (i == 30 || i == 70 || i == 96) log.Mark(t, "end", "a");
    if (i == 97) log.Mark(t, "begin", "b");
  }
  const PowerSummary summary = Summary(log.End(5));
  ASSERT_EQ(summary.repeats.size(), 3u);
  const RepeatedEnergy& first = summary.repeats[0];
  EXPECT_EQ(first.window, "a");
  EXPECT_EQ(first.device, "GPU-1");
  EXPECT_EQ(first.windows, 3u);
  EXPECT_EQ(first.known, 2u);
  EXPECT_NEAR(first.mean_j.value(), 15, 1e-9);
  EXPECT_NEAR(first.std_j.value(), std::sqrt(50), 1e-9);
  EXPECT_NEAR(first.min_j.value(), 10, 1e-9);
  EXPECT_NEAR(first.max_j.value(), 20, 1e-9);
  EXPECT_NEAR(first.mean_s, 2.5 / 3, 1e-9);
  EXPECT_NEAR(first.std_s, std::sqrt(0.25 / 3), 1e-9);
  EXPECT_EQ(summary.repeats[1].device, "GPU-2");
  EXPECT_EQ(summary.repeats[1].known, 3u);
  EXPECT_EQ(summary.repeats[2].source, "total");
  EXPECT_EQ(summary.repeats[2].known, 2u);
  EXPECT_NEAR(summary.repeats[2].mean_j.value(), 16, 1e-9);
}

// A counter at 100 W, read at the end of each call. The tenth, the first, or every call is slow.
TEST(Summary, NobodyKnowsWhenASlowCallRead) {
  for (const int slow : {10, 0, -1}) {
    SCOPED_TRACE(slow);
    LogText log(kEnergy);
    double t = 0;
    for (int i = 0; i < 40; ++i) {
      const double took_s = i == slow ? 1.5 : slow < 0 ? 0.25 : 0.001;
      if (i == 20) log.Mark(t, "begin", "late");
      log.Read(t, 0, std::to_string(std::llround((t + took_s) * 100e6)), took_s);
      t += took_s + 0.05;
    }
    const PowerSummary summary = Summary(log.Mark(t, "end", "late").End(t));
    const EnergyEstimate& whole = summary.windows[0].energies.at(0);
    EXPECT_NEAR(whole.mean_w.value(), 100, 0.1);
    EXPECT_NEAR(WindowOf(summary, "late").energies.at(0).mean_w.value(), 100, 0.1);
    EXPECT_LE(whole.peak_w.value(), 101);
    const auto told = Contains(Field(&PowerFinding::code, "slow_calls"));
    if (slow < 0) {
      EXPECT_THAT(summary.findings, Not(told));
    } else {
      EXPECT_THAT(summary.findings, told);
    }
  }
}

TEST(Summary, WindowsOfOneNameAboveIdle) {
  LogText log(kPower);
  for (int i = 0; i <= 120; ++i) {
    const double t = 0.05 * i;
    if (i == 0) log.Mark(t, "begin", "idle");
    if (i == 40) log.Mark(t, "end", "idle").Mark(t, "begin", "work");
    if (i == 80) log.Mark(t, "end", "work").Mark(t, "begin", "work");
    log.Read(t, 0, i < 40 ? "50000" : i < 80 ? "300000" : "310000");
  }
  const PowerSummary summary = Summary(log.Mark(6, "end", "work").End(6));
  ASSERT_EQ(summary.repeats.size(), 1u);
  const RepeatedEnergy& work = summary.repeats[0];
  EXPECT_NEAR(work.mean_j.value(), 610, 1e-9);
  EXPECT_NEAR(work.mean_active_j.value(), 510, 1e-9);
  EXPECT_NEAR(work.std_active_j.value(), std::sqrt(200), 1e-9);
}

TEST(Summary, IdlePowerIsThatOfTheWindowsOfThatName) {
  LogText log(kPower);
  for (int i = 0; i <= 100; ++i) {
    if (i == 0) log.Mark(0, "begin", "idle");
    if (i == 40) log.Mark(2, "end", "idle").Mark(2, "begin", "work");
    log.Read(0.05 * i, 0, i < 40 ? "50000" : "300000");
  }
  log.Mark(5, "end", "work").End(5);
  const WindowSummary window = WindowOf(Summary(log), "work");
  EXPECT_NEAR(window.total.active_j.value(), 750, 1e-9);
  const EnergyEstimate work = window.energies.at(0);
  EXPECT_NEAR(work.energy_j.value(), 900, 1e-9);
  EXPECT_NEAR(work.idle_j.value(), 150, 1e-9);
  EXPECT_NEAR(work.active_j.value(), 750, 1e-9);
}

LogText Both(double counter_watts) {
  LogText log(kPower + "," + kEnergy);
  for (int i = 0; i <= 100; ++i) {
    log.Read(0.05 * i, 0, "100000");
    log.Read(0.05 * i, 1, std::to_string(std::llround(counter_watts * 0.05e6 * i)));
  }
  return log.End(5);
}

TEST(Summary, CounterAndIntegralAreCompared) {
  const EnergyEstimate same = Summary(Both(101)).windows[0].energies.at(0);
  EXPECT_EQ(same.estimator, EnergyEstimator::kCounter);
  EXPECT_NEAR(same.energy_j.value(), 505, 1e-9);
  EXPECT_NEAR(same.integral_j.value(), 500, 1e-9);
  EXPECT_FALSE(same.inconsistent);
  const PowerSummary summary = Summary(Both(120));
  const EnergyEstimate apart = summary.windows[0].energies.at(0);
  EXPECT_TRUE(apart.inconsistent);
  EXPECT_NEAR(apart.counter_j.value(), 600, 1e-9);
  EXPECT_NEAR(apart.integral_j.value(), 500, 1e-9);
  EXPECT_THAT(summary.findings, Contains(Field(&PowerFinding::code, "inconsistent")));
}

const std::string kSlowEnergy =
    ChannelText("GPU-1", "energy_uj", "cumulative", R"(,"prior_period_ns":100000000)");

// 300 W for `ms`, polled every 50 ms. The counter is updated every 100 ms, with phase `phase_ms`.
LogText ShortRun(const std::string& channels, int ms, int phase_ms, bool power) {
  LogText log(channels);
  const auto read = [&](double t_ms) {
    log.Read(t_ms / 1e3, 0, std::to_string((static_cast<int>(t_ms) + phase_ms) / 100 * 30'000'000));
    if (power) log.Read(t_ms / 1e3, 1, "300000");
  };
  read(0);
  log.Mark(0.001, "begin", "run");
  for (int t_ms = 50; t_ms <= ms; t_ms += 50) read(t_ms);
  log.Mark(0.001 + ms / 1e3, "end", "run");
  read(ms + 2);
  return log.End((ms + 3) / 1e3);
}

TEST(Summary, ACounterThatWasNotUpdatedYetIsNotZero) {
  for (const int ms : {20, 50, 80, 120, 200, 500, 3000}) {
    for (int phase_ms = 0; phase_ms < 100; phase_ms += 7) {
      SCOPED_TRACE(::testing::Message() << ms << " ms, phase " << phase_ms);
      const double truth_j = 0.3 * ms;
      const PowerSummary alone = Summary(ShortRun(kSlowEnergy, ms, phase_ms, false));
      const EnergyEstimate energy = WindowOf(alone, "run").energies.at(0);
      EXPECT_NE(energy.energy_j, 0.0);
      if (energy.energy_j.has_value()) {
        EXPECT_LE(energy.lo_j.value_or(0), truth_j);
        EXPECT_GE(energy.hi_j.value_or(truth_j), truth_j);
        EXPECT_EQ(IsUnbounded(energy.limits), !energy.hi_j.has_value());
      } else {
        EXPECT_EQ(energy.reason, PowerReason::kNoSamples);
        EXPECT_EQ(energy.coverage, 0);
        EXPECT_LE(ms, 100);
      }
      const std::string both = kSlowEnergy + "," + kPower;
      const PowerSummary with_power = Summary(ShortRun(both, ms, phase_ms, true));
      const EnergyEstimate best = WindowOf(with_power, "run").energies.at(0);
      if (best.estimator == EnergyEstimator::kHeld) {
        EXPECT_NEAR(best.energy_j.value(), truth_j, 1e-6);
        EXPECT_LE(ms, 300);
      } else {
        EXPECT_GE(ms, 120);
      }
    }
  }
}

// Ten readings, constant or growing by 10 W, and then failures (reset required), with and without
// power readings of the same device.
TEST(Summary, ACounterThatFailsSoonIsNeitherZeroNorAllThereIs) {
  for (const bool grows : {false, true}) {
    for (const bool with_power : {false, true}) {
      SCOPED_TRACE(::testing::Message() << "grows " << grows << ", power " << with_power);
      LogText log(with_power ? kEnergy + "," + kPower : kEnergy);
      for (int i = 0; i <= 100; ++i) {
        const std::string uj = std::to_string(1'000'000 + (grows ? 500'000 * i : 0));
        log.Read(0.05 * i, 0, i < 10 ? uj : R"(null,"reset_required")");
        if (with_power) log.Read(0.05 * i, 1, "300000");
      }
      const EnergyEstimate energy = Summary(log.End(5)).windows.at(0).energies.at(0);
      EXPECT_EQ(energy.counter_reason,
                with_power ? PowerReason::kResetRequired : PowerReason::kKnown);
      if (with_power) {
        EXPECT_EQ(energy.estimator, EnergyEstimator::kHeld);
        EXPECT_NEAR(energy.energy_j.value(), 1500, 1e-6);
        EXPECT_EQ(energy.reason, PowerReason::kKnown);
      } else {
        EXPECT_EQ(energy.reason, PowerReason::kResetRequired);
        EXPECT_EQ(energy.energy_j.has_value(), grows);
        EXPECT_NEAR(energy.energy_j.value_or(0), grows ? 4.5 : 0, 1e-6);
      }
    }
  }
}

// The counter may be updated rarely or never, so its energy is unknown.
TEST(Summary, ACounterThatNeverMovesIsNotZero) {
  for (const double seconds : {0.5, 3.0, 5.0}) {
    LogText log(kEnergy);
    for (int i = 0; i <= seconds * 20; ++i) log.Read(0.05 * i, 0, "77");
    const EnergyEstimate energy = Summary(log.End(seconds)).windows[0].energies.at(0);
    EXPECT_EQ(energy.energy_j, std::nullopt);
    EXPECT_EQ(energy.reason, PowerReason::kNoSamples);
    EXPECT_EQ(energy.coverage, 0);
  }
}

// The counter is updated every 10 s, which the log does not state. 100 W, and 300 W from 25 s.
TEST(Summary, ACounterThatIsUpdatedSeldom) {
  const auto true_j = [](double t) { return 100 * t + 200 * std::max(0.0, t - 25); };
  LogText log(kEnergy);
  for (int i = 0; i <= 1200; ++i) {
    const double t = 0.05 * i;
    if (i == 240) log.Mark(t, "begin", "slow");
    if (i == 560) log.Mark(t, "end", "slow");
    log.Read(t, 0, std::to_string(std::llround(true_j(std::floor(t / 10) * 10) * 1e6)));
  }
  const EnergyEstimate slow = WindowOf(Summary(log.End(60)), "slow").energies.at(0);
  EXPECT_EQ(slow.limits, EnergyLimits::kBounds);
  EXPECT_LE(slow.lo_j.value(), true_j(28) - true_j(12));
  EXPECT_GE(slow.hi_j.value(), true_j(28) - true_j(12));
  EXPECT_GT(slow.energy_j.value(), 1000);
}

// 300 W, and one reading of 340 W. Power readings cannot bound the energy between them.
TEST(Summary, ReadingsOfPowerBoundNothing) {
  LogText log(kPower);
  for (int i = 0; i <= 20; ++i) log.Read(0.05 * i, 0, i == 10 ? "340000" : "300000");
  const EnergyEstimate energy = Summary(log.End(1)).windows.at(0).energies.at(0);
  EXPECT_EQ(energy.lo_j, std::nullopt);
  EXPECT_EQ(energy.hi_j, std::nullopt);
  EXPECT_EQ(energy.limits, EnergyLimits::kBetweenReadings);
}

// The counter is updated every 100 ms and includes bursts that no power reading shows.
TEST(Summary, BoundsOfTheCounterHoldWhateverTheEstimator) {
  LogText log(kEnergy + "," + kPower);
  const auto true_j = [](double t) {  // 40 W, and 400 W in the first half of each 100 ms
    const double cycles = std::floor(t / 0.1 + 1e-9);
    return 40 * t + 360 * (0.05 * cycles + std::min(0.05, t - 0.1 * cycles));
  };
  log.Mark(1.03, "begin", "short").Mark(1.27, "end", "short");
  for (int i = 0; i <= 40; ++i) {
    const double t = 0.05 * i, updated = 0.1 * (i / 2);
    log.Read(t, 0, std::to_string(std::llround(true_j(updated) * 1e6)));
    log.Read(t, 1, "40000");
  }
  log.End(2);
  const double truth_j = true_j(1.27) - true_j(1.03);
  for (const auto estimator :
       {EnergyEstimator::kBest, EnergyEstimator::kCounter, EnergyEstimator::kHeld,
        EnergyEstimator::kTrapezoid, EnergyEstimator::kEndpointMean}) {
    SCOPED_TRACE(EnergyEstimatorName(estimator));
    const WindowSummary window = WindowOf(Summary(log, {.estimator = estimator}), "short");
    const EnergyEstimate& energy = window.energies.at(0);
    const bool covered =
        estimator <= EnergyEstimator::kHeld;  // covered up to the edges of the window
    EXPECT_EQ(energy.limits, covered ? EnergyLimits::kBounds : EnergyLimits::kCounterCoversPart);
    if (!covered) continue;
    EXPECT_LE(energy.lo_j.value(), truth_j);
    EXPECT_GE(energy.hi_j.value(), truth_j);
    const bool inside = energy.lo_j <= energy.energy_j && energy.energy_j <= energy.hi_j;
    EXPECT_TRUE(inside || energy.inconsistent);
    EXPECT_TRUE(inside || estimator == EnergyEstimator::kHeld);
    EXPECT_NEAR(energy.energy_j.value(), energy.mean_w.value() * energy.coverage * 0.24, 1e-9);
  }
}

std::string InSource(const std::string& source) {
  return R"({"source":")" + source +
         R"(","device":"d","domain":"","quantity":"power_mw","kind":"instant","in_total":true})";
}

TEST(Summary, AStatedPowerIsModelled) {
  LogText log(InSource("constant"));
  for (int i = 0; i <= 20; ++i) log.Read(0.05 * i, 0, "100000");
  const WindowSummary whole = Summary(log.End(1)).windows.at(0);
  EXPECT_TRUE(whole.energies.at(0).modelled);
  EXPECT_EQ(whole.energies.at(0).limits, EnergyLimits::kBounds);
  EXPECT_EQ(whole.energies.at(0).lo_j, whole.energies.at(0).energy_j);
  EXPECT_TRUE(whole.total.modelled);
  EXPECT_FALSE(whole.total.measured);
}

// 100 W of a GPU for a quarter of the time, and a stated power for the whole time.
TEST(Summary, ATotalOfDifferentTimesSaysSo) {
  LogText log(kPower + "," + InSource("constant"));
  for (int i = 0; i <= 80; ++i) {
    if (i <= 20) log.Read(0.05 * i, 0, "100000");
    log.Read(0.05 * i, 1, "50000");
  }
  const PowerTotal total = Summary(log.End(4)).windows.at(0).total;
  EXPECT_TRUE(total.differing_coverage);
  EXPECT_TRUE(total.measured && total.modelled);
  EXPECT_NEAR(total.least_coverage, 1.15 / 4, 1e-9);
  EXPECT_NEAR(total.energy_j.value(), total.mean_w.value() * total.coverage * 4, 1e-9);
  EXPECT_EQ(total.limits, EnergyLimits::kBetweenReadings);
  EXPECT_EQ(total.lo_j, std::nullopt);
}

TEST(Summary, ATotalHasTheSumsOfBounds) {
  LogText log(ChannelText("GPU-1", "energy_uj", "cumulative") + "," +
              ChannelText("GPU-2", "energy_uj", "cumulative"));
  for (int i = 0; i <= 40; ++i) {
    const double t = 0.05 * i;
    if (i == 10) log.Mark(t + 0.02, "begin", "a");
    if (i == 30) log.Mark(t + 0.02, "end", "a");
    log.Read(t, 0, std::to_string(5'000'000 * i)).Read(t, 1, std::to_string(1'000'000 * i));
  }
  const PowerSummary summary = Summary(log.End(2));
  const WindowSummary& window = WindowOf(summary, "a");
  EXPECT_EQ(window.total.limits, EnergyLimits::kBounds);
  EXPECT_NEAR(window.total.lo_j.value(), 6 * 18, 1e-9);
  EXPECT_NEAR(window.total.hi_j.value(), 6 * 22, 1e-9);
  const PowerTotal& whole = summary.windows.at(0).total;  // it ends with the log
  EXPECT_EQ(whole.limits, EnergyLimits::kInterval);
  EXPECT_NEAR(whole.interval_share, 0.9, 1e-9);
  EXPECT_NEAR(whole.hi_j.value(), 6 * 41, 1e-9);
}

std::string InDomain(const std::string& source, const std::string& device,
                     const std::string& domain) {
  return R"({"source":")" + source + R"(","device":")" + device + R"(","domain":")" + domain +
         R"(","quantity":"power_mw","kind":"instant","in_total":true})";
}

TEST(Summary, ASocketIsInTheTotalOnlyWithoutAPackage) {
  const std::string socket = InDomain("hwmon", "0000:05:00.0", "socket");
  const std::string channels[] = {socket + "," + InDomain("nvml", "GPU-2", "gpu"),
                                  socket + "," + InDomain("rapl", "package-7", "package")};
  for (const bool package : {false, true}) {
    LogText log(channels[package ? 1 : 0]);
    for (int i = 0; i <= 20; ++i) log.Read(0.05 * i, 0, "15000").Read(0.05 * i, 1, "20000");
    const WindowSummary whole = Summary(log.End(1)).windows.at(0);
    EXPECT_EQ(whole.energies.at(0).in_total, !package);
    EXPECT_NEAR(whole.energies.at(0).energy_j.value(), 15, 1e-9);
    EXPECT_NEAR(whole.total.energy_j.value(), package ? 20 : 35, 1e-9);
  }
}

// According to the header of the log, access to package-0 is denied.
TEST(Summary, ATotalNamesWhatMayNotBeRead) {
  const PowerTotal total = Summary(Constant(5, "100000")).windows[0].total;
  EXPECT_NEAR(total.energy_j.value(), 500, 1e-9);
  EXPECT_EQ(total.reason, PowerReason::kPermissionDenied);
  EXPECT_EQ(total.missing, "rapl package-0");
  LogText log(kPower + "," + InDomain("rapl", "package-0", "package"));
  for (int i = 0; i <= 20; ++i) log.Read(0.05 * i, 0, "15000").Read(0.05 * i, 1, "20000");
  const PowerTotal both = Summary(log.End(1)).windows[0].total;
  EXPECT_NEAR(both.energy_j.value(), 35, 1e-9);
  EXPECT_EQ(both.reason, PowerReason::kKnown);
  EXPECT_EQ(both.missing, "");
}

// This holds for every estimator.
TEST(Summary, NoPeakIsBelowItsMean) {
  LogText ramp(kPower), apart(kPower + "," + kEnergy);
  for (int i = 0; i <= 20; ++i) {
    ramp.Read(0.05 * i, 0, std::to_string(i < 20 ? 10'000 : 900'000));
    apart.Read(0.05 * i, 0, "100000").Read(0.05 * i, 1, std::to_string(6'000'000 * i));
  }
  ramp.End(1);
  apart.End(1);
  for (const LogText* log : {&ramp, &apart}) {
    for (const auto estimator :
         {EnergyEstimator::kBest, EnergyEstimator::kCounter, EnergyEstimator::kHeld,
          EnergyEstimator::kTrapezoid, EnergyEstimator::kEndpointMean}) {
      const EnergyEstimate energy =
          Summary(*log, {.estimator = estimator}).windows[0].energies.at(0);
      if (!energy.energy_j.has_value()) continue;
      EXPECT_GE(energy.peak_w.value(), energy.mean_w.value()) << EnergyEstimatorName(estimator);
    }
  }
}

TEST(Summary, NamedEstimators) {
  LogText log(kPower);
  for (int i = 0; i <= 20; ++i) log.Read(0.05 * i, 0, std::to_string(10'000 * i));
  log.End(1);
  const auto energy = [&](EnergyEstimator estimator) {
    return Summary(log, {.estimator = estimator}).windows[0].energies.at(0);
  };
  EXPECT_NEAR(energy(EnergyEstimator::kTrapezoid).energy_j.value(), 100, 1e-9);
  EXPECT_NEAR(energy(EnergyEstimator::kEndpointMean).energy_j.value(), 100, 1e-9);
  EXPECT_NEAR(energy(EnergyEstimator::kHeld).energy_j.value(), 95, 1e-9);
  EXPECT_EQ(energy(EnergyEstimator::kCounter).energy_j, std::nullopt);
  EXPECT_EQ(energy(EnergyEstimator::kCounter).reason, PowerReason::kUnsupported);
}

TEST(Summary, AStepOfTheWallClockChangesNoEnergy) {
  LogText log(kPower);
  for (int i = 0; i <= 100; ++i) {
    if (i % 20 == 0) log.Clocks(0.05 * i + 0.001, i >= 60 ? 10 : 0, 0);
    log.Read(0.05 * i, 0, "100000");
  }
  const PowerSummary summary = Summary(log.End(5));
  EXPECT_NEAR(summary.windows[0].energies.at(0).energy_j.value(), 500, 1e-9);
  EXPECT_EQ(summary.windows[0].suspended_ns, 0);
  EXPECT_THAT(summary.findings, Contains(Field(&PowerFinding::code, "clock_step")));
  EXPECT_THAT(summary.findings, Not(Contains(Field(&PowerFinding::code, "suspended"))));
}

TEST(Summary, ASuspendedMachineIsNotCovered) {
  LogText log(kEnergy);
  for (int i = 0; i <= 100; ++i) {
    if (i % 20 == 0) log.Clocks(0.05 * i + 0.001, i >= 60 ? 10 : 0, i >= 60 ? 10 : 0);
    log.Read(0.05 * i, 0, std::to_string(5'000'000 * i + (i > 50 ? 77'000'000 : 0)));
  }
  const PowerSummary summary = Summary(log.End(5));
  const EnergyEstimate& energy = summary.windows[0].energies.at(0);
  EXPECT_EQ(energy.reason, PowerReason::kSuspended);
  // The suspension is between the clocks at 2 s and 3 s, and between the readings around it.
  EXPECT_NEAR(energy.coverage, 3.95 / 5, 1e-9);
  EXPECT_NEAR(energy.mean_w.value(), 100, 1e-9);
  EXPECT_EQ(summary.windows[0].suspended_ns, 10'000'000'000);
  EXPECT_THAT(summary.findings, Contains(Field(&PowerFinding::code, "suspended")));
  EXPECT_THAT(summary.findings, Not(Contains(Field(&PowerFinding::code, "clock_step"))));
}

TEST(Summary, AResetIsReported) {
  LogText log(kEnergy);
  for (int i = 0; i <= 100; ++i) {
    log.Read(0.05 * i, 0, std::to_string(5'000'000 * (i < 50 ? i + 100 : i - 50)));
  }
  const EnergyEstimate energy = Summary(log.End(5)).windows[0].energies.at(0);
  EXPECT_EQ(energy.resets, 1u);
  EXPECT_EQ(energy.reason, PowerReason::kReset);
  EXPECT_NEAR(energy.coverage, 4.95 / 5, 1e-9);
  EXPECT_NEAR(energy.energy_j.value(), 495, 1e-9);
}

TEST(Summary, AGapIsReported) {
  LogText log(kPower);
  for (int i = 0; i <= 100; ++i) {
    if (i <= 40 || i >= 60) log.Read(0.05 * i, 0, "100000");
  }
  const EnergyEstimate energy = Summary(log.End(5)).windows[0].energies.at(0);
  EXPECT_EQ(energy.reason, PowerReason::kGap);
  EXPECT_EQ(energy.longest_gap_ns, 1'000'000'000);
  EXPECT_NEAR(energy.coverage, (5 - 0.8) / 5, 1e-9);
  EXPECT_NEAR(energy.mean_w.value(), 100, 1e-9);
}

// The counter is higher after the reset than before it.
TEST(Summary, AResetThatTheReaderTells) {
  LogText log(kEnergy);
  for (int i = 0; i <= 100; ++i) {
    log.Read(
        0.05 * i, 0,
        i == 50 ? R"(null,"reset")" : std::to_string(5'000'000 * i + (i > 50 ? 9'000'000 : 0)));
  }
  const EnergyEstimate energy = Summary(log.End(5)).windows[0].energies.at(0);
  EXPECT_EQ(energy.resets, 1u);
  EXPECT_EQ(energy.reason, PowerReason::kReset);
  EXPECT_NEAR(energy.energy_j.value(), 490, 1e-9);
}

// Impossible powers are excluded from all estimates.
TEST(Summary, ImplausiblePowerIsInNoEstimate) {
  for (const char* wrong : {"-5", "100000000000000000"}) {
    for (const auto estimator :
         {EnergyEstimator::kHeld, EnergyEstimator::kTrapezoid, EnergyEstimator::kEndpointMean}) {
      SCOPED_TRACE(::testing::Message() << wrong << " " << EnergyEstimatorName(estimator));
      LogText log(kPower);
      for (int i = 0; i <= 20; ++i) log.Read(0.05 * i, 0, i == 0 ? wrong : "100000");
      const WindowSummary whole = Summary(log.End(1), {.estimator = estimator}).windows[0];
      const EnergyEstimate& energy = whole.energies.at(0);
      EXPECT_NEAR(energy.mean_w.value(), 100, 1e-9);
      EXPECT_LE(energy.energy_j.value(), 100 + 1e-9);
      EXPECT_EQ(energy.jumps, 1u);
      EXPECT_EQ(whole.gauges.at(0).min, 100'000.0);
      EXPECT_EQ(whole.gauges.at(0).unknown, 1u);

      LogText all(kPower);
      for (int i = 0; i <= 20; ++i) all.Read(0.05 * i, 0, wrong);
      const EnergyEstimate none =
          Summary(all.End(1), {.estimator = estimator}).windows[0].energies.at(0);
      EXPECT_EQ(none.energy_j, std::nullopt);
      EXPECT_EQ(none.reason, PowerReason::kImplausible);
    }
  }
}

TEST(Summary, TimesThatGoBackwardsAreCountedAndLeftOut) {
  LogText log(kPower);
  for (int i = 0; i <= 20; ++i) log.Read(0.05 * i, 0, "100000").Read(0.05 * i - 0.5, 0, "1");
  const PowerSummary summary = Summary(log.End(1));
  EXPECT_NEAR(summary.windows[0].energies.at(0).energy_j.value(), 100, 1e-9);
  EXPECT_THAT(summary.findings, Contains(Field(&PowerFinding::code, "times_backwards")));
}

TEST(Summary, WindowsPastTheMostAreCounted) {
  LogText log(kPower);
  for (int i = 0; i < 10; ++i) log.Mark(0.1 * i, "begin", "w").Mark(0.1 * i + 0.05, "end", "w");
  const PowerSummary summary = Summary(log.End(1), {.max_windows = 4});
  EXPECT_EQ(summary.windows.size(), 4u);
  EXPECT_THAT(summary.findings, Contains(Field(&PowerFinding::code, "windows_dropped")));
  EXPECT_THAT(summary.findings, Not(Contains(Field(&PowerFinding::code, "end_without_begin"))));
}

// At most 2^20 pairs of a window and a channel are kept.
TEST(Summary, WindowsTimesChannelsAreBounded) {
  constexpr int kChannels = 4096, kKept = 256;
  std::string channels = kPower;
  for (int i = 1; i < kChannels; ++i) {
    channels += "," + ChannelText("GPU-" + std::to_string(i + 1), "power_mw", "instant");
  }
  LogText many(channels);
  for (int i = 0; i < 300; ++i) many.Mark(i, "begin", "w").Mark(i + 0.5, "end", "w");
  const PowerSummary summary = Summary(many.End(300));
  EXPECT_EQ(summary.windows.size(), kKept);
  EXPECT_THAT(summary.findings,
              Contains(::testing::AllOf(Field(&PowerFinding::code, "windows_dropped"),
                                        Field(&PowerFinding::count, 300u - (kKept - 1)))));

  // Gauges that appear after the windows.
  LogText late(kPower);
  for (int i = 0; i < 99'999; ++i) late.Mark(1e-3 * i, "begin", "w").Mark(1e-3 * i, "end", "w");
  for (int i = 0; i < 20; ++i) {
    late.Line(R"({"t":)" + std::to_string(LogText::At(100)) + R"(,"gauge":"g)" + std::to_string(i) +
              R"(","value":1})");
  }
  const PowerSummary with_gauges = Summary(late.End(101));
  EXPECT_EQ(with_gauges.windows.size(), 100'000u);
  EXPECT_EQ(with_gauges.windows[0].gauges.size(), 10u);
  EXPECT_THAT(with_gauges.findings,
              Contains(::testing::AllOf(Field(&PowerFinding::code, "channels_dropped"),
                                        Field(&PowerFinding::count, 11u))));
}

TEST(Summary, TheSeriesHasEveryJouleAndItsGaps) {
  LogText log(kPower);
  for (int i = 0; i <= 4000; ++i) {
    if (i < 1000 || i > 2000) log.Read(0.05 * i, 0, std::to_string(1000 * (i % 100)));
  }
  const PowerSummary summary = Summary(log.End(200), {.max_columns = 100});
  ASSERT_EQ(summary.series.size(), 1u);
  const PowerSeries& series = summary.series[0];
  EXPECT_LE(series.columns.size(), 100u);
  double energy_j = 0, gaps = 0;
  for (const PowerColumn& column : series.columns) {
    EXPECT_EQ(column.mean_w.has_value(), column.covered > 0);
    if (column.covered == 0) ++gaps;
    energy_j +=
        column.mean_w.value_or(0) * column.covered * static_cast<double>(series.column_ns) / 1e9;
  }
  EXPECT_GT(gaps, 0);
  // The last reading, of 0 W, is held beyond the end of the window.
  EXPECT_NEAR(energy_j, summary.windows[0].energies[0].energy_j.value(), 1e-6);
}

// Five rows of nvidia-smi, one of them without a value.
TEST(Summary, APlotIsNotLongerThanTheRun) {
  std::string text = "timestamp, index, power.draw [W]\n";
  for (int i = 0; i < 5; ++i) {
    text +=
        "2025/08/21 10:11:1" + std::to_string(i) + ", 0, " + (i == 2 ? "[N/A]" : "100 W") + "\n";
  }
  const auto summary = SummarizePowerLogText(text, "smi.csv", {});
  ASSERT_TRUE(summary.ok()) << summary.status();
  const EnergyEstimate& energy = summary->windows.at(0).energies.at(0);
  EXPECT_NEAR(energy.coverage, 0.75, 1e-12);
  EXPECT_NEAR(energy.energy_j.value(), 300, 1e-9);
  EXPECT_EQ(energy.reason, PowerReason::kUnsupported);
  const PowerSeries& series = summary->series.at(0);
  const auto columns = static_cast<int64_t>(series.columns.size());
  EXPECT_EQ(series.begin_ns, summary->windows[0].begin_ns);
  EXPECT_LE(series.begin_ns + (columns - 1) * series.column_ns, summary->windows[0].end_ns);
  EXPECT_EQ(summary->readers.at(0).latency_p50_ns, std::nullopt);
  EXPECT_EQ(summary->readers.at(0).latency_p99_ns, std::nullopt);
}

// Checks that energies of a truncated log are unknown with a reason, or at most those of the log.
void ExpectEnergiesWithin(const PowerSummary& part, const PowerSummary& whole) {
  for (const WindowSummary& window : part.windows) {
    SCOPED_TRACE(window.name + " " + std::to_string(window.number));
    for (const EnergyEstimate& energy : window.energies) {
      if (!energy.energy_j.has_value()) {
        EXPECT_NE(energy.reason, PowerReason::kKnown);
        EXPECT_EQ(energy.coverage, 0);
        continue;
      }
      EXPECT_GT(energy.coverage, 0);
      EXPECT_GE(*energy.energy_j, energy.lo_j.value_or(0));
      EXPECT_LE(*energy.energy_j, energy.hi_j.value_or(*energy.energy_j));
      EXPECT_GE(energy.lo_j.value_or(0), 0);
      for (const EnergyEstimate& most : whole.windows[0].energies) {
        if (most.device != energy.device) continue;
        EXPECT_LE(*energy.energy_j, most.hi_j.value_or(100));  // 100 W for a second
      }
    }
    EXPECT_TRUE(window.total.energy_j.has_value() || window.total.reason != PowerReason::kKnown);
  }
}

TEST(Summary, EveryCutIsSummarizedOrRefused) {
  // One GPU with power and counter, one only with power; 100 W.
  LogText log(kPower + "," + kEnergy + "," + ChannelText("GPU-2", "power_mw", "instant"));
  for (int i = 0; i < 5; ++i) {
    log.Clocks(0.05 * i, 0, 0).Mark(0.05 * i, "begin", "w");
    log.Read(0.05 * i, 0, "100000").Read(0.05 * i, 1, std::to_string(5'000'000 * i));
    log.Read(0.05 * i, 2, "100000").Mark(0.05 * i + 0.02, "end", "w");
    log.Line(R"({"t":1000000000000,"gauge":"g","value":5})");
  }
  log.End(1);
  const PowerSummary whole = Summary(log);
  ASSERT_EQ(whole.windows[0].energies.size(), 2u);
  const size_t header = log.text().find('\n');
  size_t known = 0;
  for (size_t size = 0; size <= log.text().size(); ++size) {
    SCOPED_TRACE(size);
    const auto summary =
        SummarizePowerLogText(std::string_view(log.text()).substr(0, size), "p", {});
    ASSERT_EQ(summary.ok(), size >= header) << summary.status();
    if (!summary.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(summary.status()));
      continue;
    }
    EXPECT_EQ(summary->complete, size + 1 >= log.text().size());
    EXPECT_THAT(summary->findings, Not(Contains(Field(&PowerFinding::code, "damaged_lines"))));
    ExpectEnergiesWithin(*summary, whole);
    for (const auto& each : summary->windows[0].energies) known += each.energy_j.has_value();
  }
  EXPECT_GT(known, log.text().size() / 2);
}

TEST(Summary, NoFlippedByteIsFatal) {
  LogText log(kPower + "," + kEnergy);
  for (int i = 0; i < 3; ++i) {
    log.Clocks(0.05 * i, 0, 0).Mark(0.05 * i, "begin", "w").Read(0.05 * i, 0, "100000");
    log.Read(0.05 * i, 1, "1").Mark(0.05 * i + 0.02, "end", "w");
  }
  log.End(1);
  testing::Random random(9);
  for (size_t at = 0; at < log.text().size(); ++at) {
    std::string text = log.text();
    text[at] = static_cast<char>(random.Below(256));
    const auto summary = SummarizePowerLogText(text, "p", {});
    if (!summary.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(summary.status())) << summary.status();
    } else {
      for (const WindowSummary& window : summary->windows)
        EXPECT_LE(window.begin_ns, window.end_ns);
    }
  }
}

}  // namespace
}  // namespace xplane_time
