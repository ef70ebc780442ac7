// Simulated sensors with a known grid: the search must find the publication that each poll read.
#include "energy/polled_phase.h"

#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "stats/random.h"

namespace xplane_time::energy {
namespace {

using stats::Random;

constexpr double kStepOfPollsS = 0.02, kCallLengthS = 4e-4;

struct SensorCase {
  const char* name;
  double period_s, window_s;
  double seconds = 20;

  friend void PrintTo(const SensorCase& sensor, std::ostream* out) { *out << sensor.name; }
};

// Loads of 100 to 500 W that change every 5 to 200 ms.
ExpectedEnergy RandomLoad(double seconds, Random* random) {
  ExpectedEnergy load = {.from_s = -1, .step_s = 5e-4};
  double energy_j = 0, power_w = 0, left_s = 0;
  for (double at_s = load.from_s; at_s < seconds + 1; at_s += load.step_s) {
    load.energy_j.push_back(energy_j);
    if ((left_s -= load.step_s) < 0) {
      left_s = 0.005 + 0.195 * random->Uniform();
      power_w = 100 + 400 * random->Uniform();
    }
    energy_j += power_w * load.step_s;
  }
  return load;
}

struct Polled {
  std::vector<Update> updates;
  std::vector<double> published_s;  // of each update
};

// Polls of a sensor with 1 % noise. A poll without a new publication is no update.
Polled PollSensor(const SensorCase& sensor, const ExpectedEnergy& load, double phase_s,
                  double lag_s, Random* random) {
  Polled polled;
  int64_t last = -1;
  for (double at_s = 0.1; at_s < sensor.seconds; at_s += kStepOfPollsS) {
    const double low_s = at_s + kCallLengthS * random->Uniform(), high_s = low_s + kCallLengthS;
    const double middle_s = (low_s + high_s) / 2;
    const auto number = static_cast<int64_t>(std::floor((middle_s - phase_s) / sensor.period_s));
    if (number == last) continue;
    last = number;
    const double published_s = phase_s + static_cast<double>(number) * sensor.period_s;
    const double end_s = published_s - lag_s, noise = 1 + 0.01 * random->Normal();
    Update update = {low_s - kStepOfPollsS, high_s, 0, middle_s};
    const double power_w = (load.AtJ(end_s) - load.AtJ(end_s - sensor.window_s)) / sensor.window_s;
    update.value = std::llround(noise * power_w * 1e3);
    polled.updates.push_back(update);
    polled.published_s.push_back(published_s);
  }
  return polled;
}

class FindsThePhase : public ::testing::TestWithParam<SensorCase> {};

TEST_P(FindsThePhase, FromTheLoad) {
  const SensorCase& sensor = GetParam();
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Random random = stats::RandomFor(seed, 3, 0);
    const ExpectedEnergy load = RandomLoad(sensor.seconds, &random);
    const double lag_s = 0.05 * random.Uniform(), phase_s = sensor.period_s * random.Uniform();
    const Polled polled = PollSensor(sensor, load, phase_s, lag_s, &random);
    // The powers are too high by a tenth and start at another energy.
    ExpectedEnergy expected = load;
    for (double& each : expected.energy_j) each = 1000 + 1.1 * each;
    const PhaseRange range = {
        {0.85 * kStepOfPollsS, 1.05 * kStepOfPollsS}, lag_s - 0.01, lag_s + 0.012};
    const std::vector<PolledPhase> found =
        FindPolledPhases(polled.updates, expected, sensor.window_s, range, 5);
    ASSERT_FALSE(found.empty());
    for (size_t i = 1; i < found.size(); ++i) {
      EXPECT_LE(found[i - 1].unexplained, found[i].unexplained);
    }
    EXPECT_NEAR(found[0].period_s, sensor.period_s, 2e-6) << seed;
    EXPECT_NEAR(found[0].lag_s, lag_s, 0.002) << seed;
    size_t same = 0;
    for (size_t i = 0; i < polled.updates.size(); ++i) {
      const double number =
          std::floor((polled.updates[i].polled_s - found[0].phase_s) / found[0].period_s);
      const double instant_s = found[0].phase_s + number * found[0].period_s;
      same += std::abs(instant_s - polled.published_s[i]) < 0.003 ? 1 : 0;
    }
    EXPECT_GE(static_cast<double>(same), 0.95 * static_cast<double>(polled.updates.size())) << seed;
    const std::vector<PolledPhase> parallel =
        FindPolledPhases(polled.updates, expected, sensor.window_s, range, 5, 2);
    ASSERT_EQ(parallel.size(), found.size());
    EXPECT_EQ(parallel[0].phase_s, found[0].phase_s);
    EXPECT_EQ(parallel[0].period_s, found[0].period_s);
  }
}

INSTANTIATE_TEST_SUITE_P(Sensors, FindsThePhase,
                         ::testing::Values(SensorCase{"SlightlyFasterThanThePolls", 0.01994, 0.02},
                                           SensorCase{"SlightlySlowerThanThePolls", 0.02007, 0.02},
                                           SensorCase{"SkipsEveryTenthPublication", 0.0181, 0.01},
                                           SensorCase{"WindowsOverlap", 0.01951, 0.03},
                                           SensorCase{"ALongLog", 0.01994, 0.02, 60}),
                         [](const auto& sensor) { return sensor.param.name; });

TEST(FindPolledPhases, NeedsUpdates) {
  const ExpectedEnergy load = {.from_s = 0, .step_s = 1, .energy_j = {0, 1, 3, 6}};
  EXPECT_TRUE(FindPolledPhases({}, load, 0.02, {{0.017, 0.02}, 0, 0.1}, 5).empty());
  // All polls at the same moment.
  const std::vector<Update> updates(20, Update{1, 1, 5, 1});
  EXPECT_TRUE(FindPolledPhases(updates, load, 0.02, {{0.017, 0.02}, 0, 0.1}, 5).empty());
}

TEST(ExpectedEnergy, IsLinearBetweenItsPoints) {
  const ExpectedEnergy load = {.from_s = 1, .step_s = 2, .energy_j = {0, 4, 6}};
  EXPECT_EQ(load.AtJ(0), 0);
  EXPECT_EQ(load.AtJ(1), 0);
  EXPECT_EQ(load.AtJ(2), 2);
  EXPECT_EQ(load.AtJ(4), 5);
  EXPECT_EQ(load.AtJ(5), 6);
  EXPECT_EQ(load.AtJ(9), 6);
}

}  // namespace
}  // namespace xplane_time::energy
