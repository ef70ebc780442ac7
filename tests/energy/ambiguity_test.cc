// Tests of ambiguous readings: loops that match again when shifted by one loop, few windows, and
// loads in step with the sensor. The results must not look certain.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "energy/attribution.h"
#include "gtest/gtest.h"
#include "stats/random.h"
#include "tests/support/power_world.h"

namespace xplane_time::energy {
namespace {

using test::Loop;
using test::MakeWorld;
using test::World;
using test::WorldOptions;

Attribution AttributionOf(const World& world, const AttributionOptions& options = {}) {
  std::vector<BusyCurve> kernels;
  for (const std::vector<Interval>& each : world.executions) kernels.emplace_back(each);
  PowerChannel channel;
  channel.kind = world.kind;
  return Attribute(channel, world.polls, kernels, world.capture_s, options);
}

// Counts kernels and groups with known energies, and those whose intervals contain the truth.
struct Coverage {
  size_t numbers = 0, inside = 0;

  void Add(const World& world, const Attribution& found) {
    std::vector<std::vector<size_t>> sets(2 * world.energy_j.size());
    for (size_t k = 0; k < world.energy_j.size(); ++k) {
      if (found.known[k].alone) sets[k] = {k};
      if (found.known[k].group) sets[world.energy_j.size() + *found.known[k].group].push_back(k);
    }
    for (const std::vector<size_t>& set : sets) {
      if (set.empty()) continue;
      double off_j = 0;
      for (const size_t k : set) {
        off_j += found.energies.energy_j[static_cast<Eigen::Index>(k)] - world.energy_j[k];
      }
      ++numbers;
      inside += std::abs(off_j) <= found.energies.HalfWidthJ(set) ? 1 : 0;
    }
  }
};

TEST(Ambiguity, IntervalsOfALoopKnowOfTheOtherPlacesThatItFits) {
  Coverage coverage;
  for (const double loop_s : {0.05, 0.1, 0.2, 0.3}) {
    for (uint64_t seed = 0; seed < 5; ++seed) {
      WorldOptions options = {.windows = 200, .poll_s = 0.023};
      options.given = Loop(5, loop_s, 21.5, seed);
      const World world = MakeWorld(options, seed);
      const Attribution found = AttributionOf(world);
      ASSERT_EQ(found.reason, "");
      EXPECT_EQ(found.poor_fit, "") << loop_s << " " << seed;
      coverage.Add(world, found);
    }
  }
  EXPECT_GE(coverage.numbers, 20U);
  EXPECT_GE(static_cast<double>(coverage.inside), 0.85 * static_cast<double>(coverage.numbers));
}

TEST(Ambiguity, FewWindowsWidenIntervals) {
  Coverage coverage;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const World world = MakeWorld({.kernels = 12, .windows = 30}, seed);
    const Attribution found = AttributionOf(world);
    if (found.reason.empty()) coverage.Add(world, found);
  }
  EXPECT_GE(static_cast<double>(coverage.inside), 0.85 * static_cast<double>(coverage.numbers));
}

TEST(Ambiguity, FewerWindowsThanKernelsAreRefused) {
  const World world = MakeWorld({.kernels = 40, .windows = 20}, 1);
  EXPECT_EQ(AttributionOf(world).reason, "few_windows");
}

// Another load runs in every second window.
TEST(Ambiguity, ALoadInStepWithTheSensorIsAPoorFit) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    World world = MakeWorld({.windows = 200}, seed);
    int64_t added_uj = 0;
    int64_t before = world.polls[0].value;
    bool on = false;
    for (Poll& poll : world.polls) {
      if (poll.value != before) {
        on = !on;
        added_uj += on ? 4'000'000 : 0;
        before = poll.value;
      }
      poll.value += added_uj;
    }
    const Attribution found = AttributionOf(world);
    ASSERT_EQ(found.reason, "");
    EXPECT_NE(found.poor_fit, "") << seed;
  }
}

TEST(Ambiguity, ALogThatRunsFasterIsAPoorFit) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    World world = MakeWorld({.windows = 400}, seed);
    for (Poll& poll : world.polls) poll.before_s *= 1.01, poll.after_s *= 1.01;
    EXPECT_NE(AttributionOf(world).poor_fit, "") << seed;
  }
}

// The kernel that clears a workspace before each product takes 2 us, and the product 2 ms.
TEST(Ambiguity, WhatIsNextToNothingLeavesItsCompanionANumber) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    stats::Random random = stats::RandomFor(seed, /*what=*/2, 0);
    std::vector<std::vector<Interval>> executions(3);
    double at_s = 1.2;
    while (at_s < 20) {
      const bool product = random.Uniform() < 0.5;
      for (const double until_s = at_s + 0.1 + 0.4 * random.Uniform(); at_s < until_s;) {
        const auto add = [&](size_t kernel, double length_s) {
          const auto start_ps = static_cast<int64_t>(at_s * 1e12);
          executions[kernel].push_back({start_ps, start_ps + std::llround(length_s * 1e12)});
          at_s += length_s + 1e-6;
        };
        if (product) add(1, 2e-6);
        add(product ? 0 : 2, 2e-3);
      }
      at_s += 0.05 * random.Uniform();
    }
    const World world = MakeWorld({.poll_s = 0.023, .given = executions}, seed);
    const Attribution found = AttributionOf(world);
    ASSERT_EQ(found.reason, "");
    EXPECT_EQ(found.poor_fit, "");
    for (const size_t k : {0u, 2u}) {
      EXPECT_TRUE(found.known[k].alone) << seed << " " << k;
      const double off_j =
          found.energies.energy_j[static_cast<Eigen::Index>(k)] - world.energy_j[k];
      EXPECT_LT(std::abs(off_j), 1.5 * found.energies.HalfWidthJ(std::array{k}))
          << seed << " " << k;
    }
    EXPECT_FALSE(found.known[1].alone || found.known[1].group.has_value()) << seed;
    const double most_j = 2 * found.energies.energy_j[1];
    EXPECT_LT(most_j, 0.01 * found.energies.energy_j[0]);
    EXPECT_LE(world.energy_j[1], most_j);
  }
}

// At the power limit, the kernel with the highest power draws up to half more in some windows, and
// the governor of the device compensates for it in the next window.
World AtItsLimit(uint64_t seed, double* limit_w) {
  World world = MakeWorld(
      {.kernels = 5, .schedule = test::PowerSchedule::kBlocks, .windows = 300, .noise = 0.002},
      seed);
  const auto most = std::ranges::max_element(world.power_w) - world.power_w.begin();
  const BusyCurve strongest(world.executions[static_cast<size_t>(most)]);
  *limit_w = world.idle_w + world.power_w[static_cast<size_t>(most)];
  double added_uj = 0, busy_s = 0;
  int64_t last = world.polls[0].value;
  stats::Random random = stats::RandomFor(seed, /*what=*/1, 0);
  double share = 0;
  for (Poll& poll : world.polls) {
    if (poll.value != last) {
      const double now_s = strongest.At(std::array{poll.before_s})[0];
      share = share > 0 ? -share : 0.1 + 0.4 * random.Uniform();
      added_uj += share * 1e6 * *limit_w * (now_s - std::exchange(busy_s, now_s));
      last = poll.value;
    }
    poll.value += std::llround(added_uj);
  }
  return world;
}

TEST(Ambiguity, ADeviceThatHoldsItsPowerLimitIsNoPoorFit) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    double limit_w = 0;
    const World world = AtItsLimit(seed, &limit_w);
    EXPECT_NE(AttributionOf(world).poor_fit, "") << seed;
    EXPECT_NE(AttributionOf(world, {.limit_w = 2 * limit_w}).poor_fit, "") << seed;
    const Attribution found = AttributionOf(world, {.limit_w = limit_w});
    EXPECT_EQ(found.poor_fit, "") << seed;
    EXPECT_GT(found.windows_at_limit, 5u) << seed;
    for (size_t k = 0; k < world.energy_j.size(); ++k) {
      const double off_j =
          found.energies.energy_j[static_cast<Eigen::Index>(k)] - world.energy_j[k];
      EXPECT_LT(std::abs(off_j), 0.05 * world.energy_j[k]) << seed << " " << k;
    }
  }
}

TEST(Ambiguity, AtALimitALogThatRunsFasterIsStillAPoorFit) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    World world = MakeWorld({.windows = 400}, seed);
    for (Poll& poll : world.polls) poll.before_s *= 1.01, poll.after_s *= 1.01;
    const double limit_w = world.idle_w + 0.9 * *std::ranges::max_element(world.power_w);
    EXPECT_NE(AttributionOf(world, {.limit_w = limit_w}).poor_fit, "") << seed;
  }
}

// A slow read ends after the next publication, and seems to return it.
TEST(Attribution, NoJoulesAreLostWhereReadsAreSlow) {
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const World world = MakeWorld({.windows = 200}, seed);
    World slow = world;
    slow.polls.clear();
    for (size_t i = 0; i < world.polls.size(); ++i) {
      slow.polls.push_back(world.polls[i]);
      if (i % 14 != 7 || i + 3 >= world.polls.size()) continue;
      slow.polls.back().after_s = world.polls[i + 3].before_s - 1e-4;
      i += 2;
    }
    const Attribution whole = AttributionOf(world), found = AttributionOf(slow);
    ASSERT_EQ(found.reason, "");
    const double mean_w = whole.measured_j / whole.covered_s;
    EXPECT_NEAR(found.measured_j / found.covered_s / mean_w, 1, 0.01) << seed;
    EXPECT_NEAR(found.covered_s, whole.covered_s, 0.02 * whole.covered_s) << seed;
  }
}

TEST(Ambiguity, WhatIsRightIsNoPoorFit) {
  for (const double poll_s : {0.02, 0.05}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      EXPECT_EQ(AttributionOf(MakeWorld({.windows = 200, .poll_s = poll_s}, seed)).poor_fit, "");
    }
  }
}

// If log and trace barely overlap, as many columns as windows would explain any data.
TEST(Ambiguity, WithoutAClockALogIsNotPlacedWhereItBarelyOverlaps) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const World world = MakeWorld({.windows = 150, .pause_s = 0.5}, seed);
    const Attribution found = AttributionOf(world, {.clock_known = false});
    if (!found.reason.empty()) continue;
    EXPECT_GT(found.fit.energy_j.size(), 120) << seed;
  }
}

// One reading is a month later. A search over the whole time would take too long.
TEST(Ambiguity, AReadingOfAnotherTimeIsLeftOut) {
  World world = MakeWorld({.windows = 60}, 1);
  Poll late = world.polls.back();
  late.before_s += 30 * 86'400.0, late.after_s += 30 * 86'400.0, late.value += 1'000'000;
  world.polls.push_back(late);
  const Attribution found = AttributionOf(world);
  EXPECT_EQ(found.reason, "");
  EXPECT_GT(found.fit.energy_j.size(), 50);
}

}  // namespace
}  // namespace xplane_time::energy
