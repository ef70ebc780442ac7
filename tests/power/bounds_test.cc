// Checks that energy bounds hold, with simulated loads and sensors and known true energies. If
// XPLANE_TIME_BOUNDS_TABLE is set, it prints the table of docs/power-bounds.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "tests/power/log_text.h"
#include "tests/support/random.h"
#include "xplane_time/power.h"

namespace xplane_time {
namespace {

using testing::ChannelText;
using testing::LogText;
using testing::Random;

constexpr int kMs = 20'000;  // length of a world in milliseconds; the power is constant within each
constexpr double kMsPerS = 1000;
constexpr double kRoundingJ = 2e-6;  // rounding error of a counter in microjoules

// The energy from the start to each millisecond.
using World = std::vector<double>;

World WorldOf(const std::string& load, Random* random) {
  World joules = {0};
  const double phase = static_cast<double>(random->Below(1000)) / 1000;
  const double sine_s = 0.3 + static_cast<double>(random->Below(3000)) / 1000;
  double watts = 0;
  int holds_ms = 0;
  for (int ms = 0; ms < kMs; ++ms) {
    const double t = ms / kMsPerS;
    const auto square = [&](double period_s) {
      return std::fmod(t / period_s + phase, 1) < 0.5 ? 400.0 : 60.0;
    };
    if (load == "sine") {
      watts = 230 + 170 * std::sin(2 * std::numbers::pi * (t / sine_s + phase));
    } else if (load == "square 0.4 s") {
      watts = square(0.4);
    } else if (load == "square 0.1 s") {
      watts = square(0.1);
    } else if (holds_ms-- == 0) {
      watts = static_cast<double>(40 + random->Below(400));
      holds_ms =
          static_cast<int>(load == "stepped" ? 100 + random->Below(2000) : 5 + random->Below(40));
    }
    joules.push_back(joules.back() + watts / kMsPerS);
  }
  return joules;
}

double EnergyAt(const World& joules, double ms) {
  const double at = std::clamp(ms, 0.0, static_cast<double>(kMs));
  const auto before = static_cast<size_t>(at);
  if (before + 1 >= joules.size()) return joules.back();
  return joules[before] + (joules[before + 1] - joules[before]) * (at - std::floor(at));
}

struct Sensor {
  std::string name;
  std::string channels;
  int update_ms = 100;
  int average_ms = 1;  // averaging time of the published power
};

const std::vector<Sensor> kSensors = {
    {"instant, 100 ms", ChannelText("GPU-1", "power_mw", "instant"), 100, 1},
    {"average, 1 s", ChannelText("GPU-1", "power_mw", "average"), 100, 1000},
    {"counter, 1 ms", ChannelText("GPU-1", "energy_uj", "cumulative"), 1},
    {"counter, 100 ms", ChannelText("GPU-1", "energy_uj", "cumulative"), 100},
    {"counter, 3 s", ChannelText("GPU-1", "energy_uj", "cumulative"), 3000},
    {"counter with instant power, 100 ms",
     ChannelText("GPU-1", "energy_uj", "cumulative") + "," +
         ChannelText("GPU-1", "power_mw", "instant"),
     100},
};

struct Mark {
  double ms;
  const char* which;
  std::string window;
};

// 20 windows within the log, and 2 that are open at its end.
std::vector<Mark> MarksOf(Random* random) {
  std::vector<Mark> marks;
  for (int i = 0; i < 22; ++i) {
    const std::string name = "w" + std::to_string(i);
    const auto long_ms = static_cast<double>(20 + random->Below(i % 2 == 0 ? 400 : 5000));
    const auto begin_ms = static_cast<double>(1000 + random->Below(kMs - 8000));
    const bool cut = i >= 20;
    marks.push_back({cut ? kMs - 50 - long_ms : begin_ms, "begin", name});
    if (!cut) marks.push_back({begin_ms + long_ms, "end", name});
  }
  std::sort(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) { return a.ms < b.ms; });
  return marks;
}

LogText LogOf(const World& joules, const Sensor& sensor, int period_ms, Random* random) {
  LogText log(sensor.channels);
  const std::vector<Mark> marks = MarksOf(random);
  size_t marked = 0;
  const auto phase_ms = static_cast<double>(random->Below(sensor.update_ms));
  const bool counter = sensor.channels.find("energy_uj") != std::string::npos;
  const bool power = sensor.channels.find("power_mw") != std::string::npos;
  for (double ms = 0; ms < kMs;) {
    for (; marked < marks.size() && marks[marked].ms <= ms; ++marked) {
      log.Mark(marks[marked].ms / kMsPerS, marks[marked].which, marks[marked].window);
    }
    const double updated_ms =
        std::floor((ms - phase_ms) / sensor.update_ms) * sensor.update_ms + phase_ms;
    const double counter_j = EnergyAt(joules, updated_ms);
    const double watts = (counter_j - EnergyAt(joules, updated_ms - sensor.average_ms)) /
                         sensor.average_ms * kMsPerS;
    if (counter) log.Read(ms / kMsPerS, 0, std::to_string(std::llround(counter_j * 1e6)));
    if (power) log.Read(ms / kMsPerS, counter ? 1 : 0, std::to_string(std::llround(watts * 1e3)));
    // The polls are irregular, as on a busy machine.
    ms += period_ms + static_cast<double>(random->Below(period_ms)) / 4;
  }
  return log.End(kMs / kMsPerS);
}

struct Tally {
  int windows = 0, bounds = 0, in_bounds = 0, intervals = 0, in_interval = 0;
  void operator+=(const Tally& other) {
    windows += other.windows;
    bounds += other.bounds;
    in_bounds += other.in_bounds;
    intervals += other.intervals;
    in_interval += other.in_interval;
  }
};

Tally TallyOf(const World& joules, const LogText& log) {
  Tally tally;
  const auto summary = SummarizePowerLogText(log.text(), "p", {});
  EXPECT_TRUE(summary.ok()) << summary.status();
  for (const WindowSummary& window : summary->windows) {
    const EnergyEstimate& energy = window.energies.at(0);
    if (window.name.empty() || !energy.energy_j.has_value()) continue;
    ++tally.windows;
    if (IsUnbounded(energy.limits)) continue;
    const auto ms = [](int64_t t_ns) {
      return static_cast<double>(t_ns - LogText::kStartNs) / 1e6;
    };
    // The truth of the covered part. Only the end of a window can be uncovered.
    const double begin_ms = ms(window.begin_ns);
    const double end_ms = begin_ms + energy.coverage * (ms(window.end_ns) - begin_ms);
    const double truth_j = EnergyAt(joules, end_ms) - EnergyAt(joules, begin_ms);
    const bool inside =
        *energy.lo_j <= truth_j + kRoundingJ && truth_j <= *energy.hi_j + kRoundingJ;
    EXPECT_LE(*energy.lo_j, *energy.energy_j + kRoundingJ);
    EXPECT_GE(*energy.hi_j, *energy.energy_j - kRoundingJ);
    const bool bounds = energy.limits == EnergyLimits::kBounds;
    (bounds ? tally.bounds : tally.intervals) += 1;
    if (inside) (bounds ? tally.in_bounds : tally.in_interval) += 1;
  }
  return tally;
}

TEST(Bounds, HoldForEveryLoadAndSensor) {
  const bool print = std::getenv("XPLANE_TIME_BOUNDS_TABLE") != nullptr;
  Random random(16);
  std::map<std::string, Tally> of_sensors;
  for (const Sensor& sensor : kSensors) {
    for (const char* load : {"stepped", "sine", "square 0.4 s", "square 0.1 s", "random"}) {
      Tally tally;
      for (const int period_ms : {10, 50, 400, 2000}) {
        for (int round = 0; round < 3; ++round) {
          const World joules = WorldOf(load, &random);
          tally += TallyOf(joules, LogOf(joules, sensor, period_ms, &random));
        }
      }
      SCOPED_TRACE(sensor.name + ", " + load);
      EXPECT_EQ(tally.in_bounds, tally.bounds);
      of_sensors[sensor.name] += tally;
      if (!print) continue;
      std::printf("| %s | %s | %d | %d of %d | %d of %d |\n", sensor.name.c_str(), load,
                  tally.windows, tally.in_bounds, tally.bounds, tally.in_interval, tally.intervals);
    }
  }
  for (const auto& [name, tally] : of_sensors) {
    SCOPED_TRACE(name);
    EXPECT_GE(tally.in_interval, kIntervalShare * tally.intervals);
    const bool counter = name.starts_with("counter");
    EXPECT_EQ(tally.bounds > 0, counter);
    EXPECT_EQ(tally.intervals > 0, counter);
  }
}

}  // namespace
}  // namespace xplane_time
