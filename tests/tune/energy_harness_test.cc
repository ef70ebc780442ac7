// Energy from sensors around a harness that gives none: files stand in for RAPL.
#include "tune/energy_harness.h"

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "power/machine.h"
#include "tests/read/temp_dir.h"

namespace xplane_time {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct FakeSlotHarness : Harness {
  std::string device = "cpu:0";
  std::optional<int64_t> energy_uj;
  size_t rounds = 0;
  std::chrono::milliseconds takes{60};
  std::chrono::milliseconds untimed{0};  // before; not 0: it says when the calls were timed
  std::vector<int64_t> timed_ns = {};    // how long the calls of each round took

  absl::StatusOr<HarnessInfo> Hello() override {
    return HarnessInfo{.name = "fake", .device = device, .device_class = "fake"};
  }
  absl::Status Prepare(std::span<const Configuration>, PreparedCallback) override {
    return absl::OkStatus();
  }
  absl::StatusOr<VariantState> Verify(const Configuration&) override { return VariantState(); }
  absl::StatusOr<RoundTimes> RunRound(int64_t, int64_t, std::string_view,
                                      std::span<const Configuration* const> order) override {
    ++rounds;
    std::this_thread::sleep_for(untimed);
    const int64_t begin_ns = power::MonotonicNow();
    std::this_thread::sleep_for(takes);
    const int64_t end_ns = power::MonotonicNow();
    timed_ns.push_back(end_ns - begin_ns);
    RoundTimes times;
    for (size_t i = 0; i < order.size(); ++i) {
      times.slots.push_back({.t_ps = 1000, .energy_uj = energy_uj});
      if (untimed.count() == 0) continue;
      times.slots.back().begin_ns = begin_ns;
      times.slots.back().end_ns = end_ns;
    }
    return times;
  }
};

class EnergyHarnessTest : public ::testing::Test {
 protected:
  EnergyHarnessTest() {
    const std::string zone = "class/powercap/intel-rapl:0/";
    sysfs_.Write(zone + "name", "package-0\n");
    sysfs_.Write(zone + "energy_uj", "5000000\n");
    sysfs_.Write(zone + "max_energy_range_uj", "262143328850\n");
  }

  absl::StatusOr<RoundTimes> Round(PowerSourceOptions from, int64_t calls = 1) {
    const auto harness = NewEnergyHarness(&inner_, std::move(from), calls,
                                          [&](const std::string& text) { told_ += text; });
    auto info = harness->Hello();
    if (!info.ok()) return info.status();
    Configuration one, two;
    one.id = "one";
    two.id = "two";
    return harness->RunRound(1, 0, "", std::vector<const Configuration*>{&one, &two});
  }
  PowerSourceOptions Rapl() const {
    PowerSourceOptions from = {.sources = {"rapl"}};
    from.roots.sysfs = sysfs_.path();
    return from;
  }

  FakeSlotHarness inner_;
  std::string told_;
  const testing::TempDir sysfs_;
};

TEST_F(EnergyHarnessTest, WhatTheHarnessMeasuresItselfStays) {
  inner_.energy_uj = 7;
  const auto times = Round(Rapl());
  ASSERT_TRUE(times.ok()) << times.status();
  EXPECT_EQ(times->slots[1].energy_uj, 7);
  EXPECT_EQ(told_, "");
  EXPECT_EQ(inner_.rounds, 1u);
}

TEST_F(EnergyHarnessTest, SensorsMeasureEachSlotOfCalls) {
  const auto one = Round({.sources = {"constant:100"}});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(inner_.rounds, 3u);  // a look, then each by itself
  for (const SlotTime& slot : one->slots) EXPECT_GE(slot.energy_uj.value_or(0), 2'000'000);
  const auto of_ten = Round({.sources = {"constant:100"}}, /*calls=*/10);
  ASSERT_TRUE(of_ten.ok()) << of_ten.status();
  for (const SlotTime& slot : of_ten->slots) EXPECT_GE(slot.energy_uj.value_or(0), 200'000);
}

TEST_F(EnergyHarnessTest, EnergyIsThatOfTheTimedCalls) {
  inner_.untimed = std::chrono::milliseconds(300);
  for (const int64_t calls : {1, 4}) {
    inner_.timed_ns.clear();
    const auto times = Round({.sources = {"constant:100"}}, calls);
    ASSERT_TRUE(times.ok()) << times.status();
    for (size_t slot = 0; slot < 2; ++slot) {
      const double expected_uj =
          1e-1 * static_cast<double>(inner_.timed_ns[slot + 1]) / static_cast<double>(calls);
      EXPECT_NEAR(static_cast<double>(*times->slots[slot].energy_uj), expected_uj, 2);
    }
  }
}

TEST_F(EnergyHarnessTest, AShortRunHasNoEnergy) {
  inner_.takes = std::chrono::milliseconds(0);
  inner_.untimed = std::chrono::milliseconds(1);
  const auto times = Round({.sources = {"constant:100"}});
  EXPECT_TRUE(absl::IsUnavailable(times.status()));
  EXPECT_THAT(times.status().message(), HasSubstr("an energy requires a run of at least 50 ms"));
  EXPECT_THAT(times.status().message(), Not(HasSubstr(" 0 ms")));
}

TEST_F(EnergyHarnessTest, ACounterThatDoesNotMoveIsNoEnergy) {
  const auto times = Round(Rapl());
  EXPECT_TRUE(absl::IsUnavailable(times.status()));
  EXPECT_THAT(times.status().message(), HasSubstr("the timed run of one"));
  EXPECT_THAT(times.status().message(), HasSubstr("has no energy: "));
  EXPECT_THAT(times.status().message(), HasSubstr("--calls"));
}

TEST_F(EnergyHarnessTest, OtherDevicesSensorsDoNotCount) {
  inner_.device = "gpu:0";
  const auto times = Round(Rapl());
  EXPECT_TRUE(absl::IsUnavailable(times.status()));
  EXPECT_THAT(times.status().message(), HasSubstr("no sensor measures the energy of gpu:0"));
  EXPECT_THAT(told_, HasSubstr("no sensor measures the energy of gpu:0"));
}

}  // namespace
}  // namespace xplane_time
