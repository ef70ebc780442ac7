// Runs of milliseconds on a made-up processor whose watts are known: its counter is a file that
// is new every 50 ms.
#include "tune/energy_block.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "power/machine.h"
#include "tests/read/temp_dir.h"
#include "tune/energy_harness.h"

namespace xplane_time {
namespace {

using ::testing::HasSubstr;

constexpr double kIdleW = 20;

class Device {
 public:
  explicit Device(bool counts) {
    const std::string zone = "class/powercap/intel-rapl:0/";
    sysfs_.Write(zone + "name", "package-0\n");
    sysfs_.Write(zone + "max_energy_range_uj", "262143328850\n");
    file_ = open(sysfs_.Write(zone + "energy_uj", "1000000000\n").c_str(), O_WRONLY);
    if (counts) thread_ = std::thread([this] { Publish(); });
  }
  ~Device() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
    close(file_);
  }

  // From then on, above idle.
  void Draw(int64_t t_ns, double w) {
    const std::lock_guard lock(mutex_);
    changes_.emplace_back(t_ns, w);
  }
  PowerSourceOptions Sensors() const {
    PowerSourceOptions from = {.sources = {"rapl"}};
    from.roots.sysfs = sysfs_.path();
    return from;
  }

 private:
  double EnergyUj(int64_t since_ns, int64_t t_ns) {
    constexpr double kMicroPerNano = 1e-3;
    const std::lock_guard lock(mutex_);
    double uj = kIdleW * static_cast<double>(t_ns - since_ns) * kMicroPerNano;
    for (size_t i = 0; i < changes_.size() && changes_[i].first < t_ns; ++i) {
      const int64_t until_ns = i + 1 < changes_.size() ? changes_[i + 1].first : t_ns;
      uj += changes_[i].second * static_cast<double>(std::min(until_ns, t_ns) - changes_[i].first) *
            kMicroPerNano;
    }
    return uj;
  }

  void Publish() {
    constexpr int64_t kPeriodNs = 50'000'000, kStartUj = 1'000'000'000;
    const int64_t since_ns = power::MonotonicNow();
    for (int64_t at_ns = since_ns; !stopping_; at_ns += kPeriodNs) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(at_ns - power::MonotonicNow()));
      const auto uj = kStartUj + static_cast<int64_t>(EnergyUj(since_ns, at_ns));
      const std::string text = std::to_string(uj) + "\n";
      EXPECT_EQ(pwrite(file_, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    }
  }

  const testing::TempDir sysfs_;
  int file_ = -1;
  std::mutex mutex_;
  std::vector<std::pair<int64_t, double>> changes_;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

struct Runs {
  double watts = 0;  // above idle
  std::chrono::milliseconds takes{0};
  int64_t fails_after = 1'000'000;
};

struct FakeBlockHarness : Harness {
  Device* device = nullptr;
  std::map<std::string, Runs> variants;
  int64_t calls = 1;

  absl::StatusOr<HarnessInfo> Hello() override {
    return HarnessInfo{.name = "fake", .device = "cpu:0", .device_class = "fake"};
  }
  absl::Status Prepare(std::span<const Configuration>, PreparedCallback) override {
    return absl::OkStatus();
  }
  absl::StatusOr<VariantState> Verify(const Configuration&) override { return VariantState(); }
  absl::StatusOr<RoundTimes> RunRound(int64_t, int64_t, std::string_view,
                                      std::span<const Configuration* const> order) override {
    Run(*order[0]);
    RoundTimes times;
    for (const Configuration* each : order) times.slots.push_back(Run(*each));
    return times;
  }

  SlotTime Run(const Configuration& variant) {
    Runs& runs = variants.at(variant.id);
    if (--runs.fails_after < 0) return {.status = "oom"};
    const int64_t begin_ns = power::MonotonicNow();
    device->Draw(begin_ns, runs.watts);
    std::this_thread::sleep_for(runs.takes);
    const int64_t end_ns = power::MonotonicNow();
    device->Draw(end_ns, 0);
    return {.t_ps = (end_ns - begin_ns) * 1000 / calls, .begin_ns = begin_ns, .end_ns = end_ns};
  }
};

absl::StatusOr<RoundTimes> RoundOf(FakeBlockHarness* fake) {
  const auto harness = NewEnergyHarness(fake, fake->device->Sensors(), fake->calls,
                                        [](const std::string& text) { ADD_FAILURE() << text; });
  auto info = harness->Hello();
  if (!info.ok()) return info.status();
  std::vector<Configuration> configurations;
  for (const auto& [id, runs] : fake->variants) configurations.emplace_back().id = id;
  std::vector<const Configuration*> order;
  for (const Configuration& each : configurations) order.push_back(&each);
  return harness->RunRound(1, 0, "", order);
}

constexpr std::chrono::milliseconds kShort{4}, kLonger{9};

TEST(EnergyBlockTest, RunsOfMillisecondsHaveTheirEnergies) {
  Device device(/*counts=*/true);
  FakeBlockHarness fake;
  fake.device = &device;
  fake.calls = 2;
  fake.variants = {{"a", {.watts = 30, .takes = kShort}},
                   {"b", {.watts = 80, .takes = kLonger}},
                   {"c", {.watts = 80, .takes = kShort, .fails_after = 20}},
                   {"d", {.watts = 80, .takes = kShort, .fails_after = 3}}};  // in the block's look
  const auto times = RoundOf(&fake);
  ASSERT_TRUE(times.ok()) << times.status();
  for (const size_t slot : {0U, 1U}) {
    const double w = fake.variants.at(slot == 0 ? "a" : "b").watts + kIdleW;
    const double expected_uj = w * static_cast<double>(*times->slots[slot].t_ps) * 1e-6;
    EXPECT_NEAR(static_cast<double>(times->slots[slot].energy_uj.value_or(0)) / expected_uj, 1,
                0.05);
  }
  for (const size_t slot : {2U, 3U}) {
    EXPECT_EQ(times->slots[slot].status, "oom");
    EXPECT_EQ(times->slots[slot].energy_uj, std::nullopt);
  }
  EXPECT_EQ(times->notes_json, R"({"energy_kinds":["attributed"]})");
}

TEST(EnergyBlockTest, ACounterThatStandsStillTellsNothing) {
  Device device(/*counts=*/false);
  FakeBlockHarness fake;
  fake.device = &device;
  fake.variants = {{"a", {.watts = 30, .takes = kShort}}, {"b", {.watts = 80, .takes = kLonger}}};
  const auto times = RoundOf(&fake);
  EXPECT_TRUE(absl::IsUnavailable(times.status()));
  EXPECT_THAT(times.status().message(), HasSubstr("the timed run of a"));
  EXPECT_THAT(times.status().message(), HasSubstr("too few updates of the sensor"));
  EXPECT_THAT(times.status().message(), HasSubstr("--calls"));
}

}  // namespace
}  // namespace xplane_time
