// Runs plans in simulated worlds with known energies, and estimates the energies as from a power
// log.
#include "energy/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "energy/energies.h"
#include "gtest/gtest.h"
#include "stats/random.h"
#include "tests/support/power_world.h"

namespace xplane_time::energy {
namespace {

using test::MakeWorld;
using test::PowerSensor;
using test::World;
using test::WorldOptions;

const std::vector<PlanKernel> kEight = {
    {"matmul", 850e-6},   {"attention", 3.1e-3}, {"softmax", 41e-6}, {"layer_norm", 65e-6},
    {"all_reduce", 1e-3}, {"copy", 120e-6},      {"gelu", 33e-6},    {"conv", 480e-6}};

// Simulates a harness: durations vary by 2 %, and there is a gap between launches.
std::vector<std::vector<Interval>> Run(const Plan& plan, std::span<const PlanKernel> kernels,
                                       uint64_t seed) {
  stats::Random random = stats::RandomFor(seed, /*what=*/0x72756e, 0);
  std::vector<std::vector<Interval>> executions(kernels.size());
  double at_s = plan.steps[0].start_s;
  for (const PlanStep& step : plan.steps) {
    for (uint64_t i = 0; i < step.repetitions; ++i) {
      const double length_s = kernels[step.kernel].duration_s * (1 + 0.02 * random.Normal());
      executions[step.kernel].push_back(
          {static_cast<int64_t>(at_s * 1e12), static_cast<int64_t>((at_s + length_s) * 1e12)});
      at_s += length_s + 0.6e-6 + 2e-6 * random.Uniform();
    }
    at_s += step.pause_s;
  }
  return executions;
}

// The calibration of the simulated sensors.
PlanSensor SensorOf(PowerSensor kind) {
  PlanSensor sensor = {.lag_s = 0.02, .noise = 0.01, .idle_w = 90, .most_w = 520};
  if (kind == PowerSensor::kCounter) return sensor;
  sensor.kind = ReadingKind::kAverage;
  sensor.window_s = kind == PowerSensor::kQuarter ? 0.025 : 1;
  if (kind == PowerSensor::kSecond) sensor.noise = 0.0032;  // each value is a mean of ten
  return sensor;
}

struct Outcome {
  bool is_reached = false;
  double worst_error = 0, worst_half_width = 0;  // over all kernels, relative
};

Outcome Try(const Plan& plan, PowerSensor kind, double precision, uint64_t seed,
            std::span<const PlanKernel> planned = kEight) {
  Outcome outcome;
  const WorldOptions options = {
      .sensor = kind, .poll_s = plan.poll_s, .given = Run(plan, planned, seed)};
  const World world = MakeWorld(options, seed);
  std::vector<BusyCurve> kernels;
  for (const std::vector<Interval>& each : world.executions) kernels.emplace_back(each);
  const Sensor sensor = {.kind = world.kind,
                         .publications = FindPublications(world.polls, world.kind),
                         .prior_window_s = world.prior_window_s};
  const std::optional<Fit> fit = FitPowers(sensor, kernels, world.capture_s, {});
  if (!fit.has_value()) return outcome;
  const Energies energies = EnergiesOf(*fit, kernels, world.capture_s);
  for (size_t k = 0; k < kernels.size(); ++k) {
    const double truth_j = world.energy_j[k];
    const double found_j = energies.energy_j[static_cast<Eigen::Index>(k)];
    outcome.worst_error = std::max(outcome.worst_error, std::abs(found_j / truth_j - 1));
    outcome.worst_half_width =
        std::max(outcome.worst_half_width, energies.HalfWidthJ(std::vector<size_t>{k}) / found_j);
  }
  outcome.is_reached = std::max(outcome.worst_error, outcome.worst_half_width) <= precision;
  return outcome;
}

struct PlanCase {
  const char* name;
  PowerSensor sensor;
  double precision;

  friend void PrintTo(const PlanCase& each, std::ostream* out) { *out << each.name; }
};

class PlannedExperiment : public ::testing::TestWithParam<PlanCase> {
 public:
  static double ShareReached(uint64_t seeds) {
    const auto [name, kind, precision] = GetParam();
    size_t reached = 0;
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      const Plan plan =
          PlanExperiment(kEight, SensorOf(kind), {.precision = precision, .seed = seed});
      EXPECT_TRUE(plan.is_reached);
      const Outcome outcome = Try(plan, kind, precision, seed);
      reached += outcome.is_reached ? 1 : 0;
    }
    return static_cast<double>(reached) / static_cast<double>(seeds);
  }
};

TEST_P(PlannedExperiment, ReachesItsPrecision) { EXPECT_GE(ShareReached(4), 0.75); }

// Measures the share that is stated in docs/energy-planning.md.
TEST_P(PlannedExperiment, DISABLED_ReachesItsPrecisionIn200Seeds) {
  const double share = ShareReached(200);
  std::printf("%s: %.1f %% of 200 seeds\n", GetParam().name, 100 * share);
  EXPECT_GE(share, 0.95);
}

INSTANTIATE_TEST_SUITE_P(Sensors, PlannedExperiment,
                         ::testing::Values(PlanCase{"Counter1", PowerSensor::kCounter, 0.01},
                                           PlanCase{"Quarter1", PowerSensor::kQuarter, 0.01},
                                           PlanCase{"Second1", PowerSensor::kSecond, 0.01},
                                           PlanCase{"CounterFine", PowerSensor::kCounter, 0.003},
                                           PlanCase{"QuarterCoarse", PowerSensor::kQuarter, 0.05}),
                         [](const auto& each) { return each.param.name; });

// So many kernels are not fitted individually.
TEST(PlanExperiment, OfManyKernelsReachesItsPrecision) {
  std::vector<PlanKernel> many;
  for (int i = 0; i < 48; ++i) {
    many.push_back({"kernel_" + std::to_string(i), 30e-6 * std::pow(1.1, i)});
  }
  constexpr double kPrecision = 0.02;
  const PlanSensor sensor = SensorOf(PowerSensor::kCounter);
  const Plan plan = PlanExperiment(many, sensor, {.precision = kPrecision});
  ASSERT_TRUE(plan.is_reached);
  const Plan of_two = PlanExperiment(many, sensor, {.precision = kPrecision, .threads = 2});
  EXPECT_EQ(of_two.total_s, plan.total_s);
  int reached = 0;
  for (uint64_t seed = 0; seed < 3; ++seed) {
    reached += Try(plan, PowerSensor::kCounter, kPrecision, seed, many).is_reached ? 1 : 0;
  }
  EXPECT_GE(reached, 2);
}

}  // namespace
}  // namespace xplane_time::energy
