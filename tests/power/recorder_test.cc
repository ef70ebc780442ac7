// Tests of the recorder without real sensors: constant power, a recorded log, a scripted NVML.
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "power/log.h"
#include "tests/read/temp_dir.h"
#include "xplane_time/power.h"

namespace xplane_time {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;

constexpr int64_t kMs = 1'000'000;

class RecorderTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_.Path(name); }

  static PowerRecordOptions Constant(const std::string& log) {
    return {.from = {.sources = {"constant:100"}}, .period_ns = kMs, .log_path = log};
  }

  static std::unique_ptr<PowerRecorder> Started(const PowerRecordOptions& options) {
    auto recorder = PowerRecorder::Start(options);
    EXPECT_TRUE(recorder.ok()) << recorder.status();
    return recorder.ok() ? *std::move(recorder) : nullptr;
  }

  static PowerSummary Summed(const std::string& log) {
    auto summary = SummarizePowerLog(log, {});
    EXPECT_TRUE(summary.ok()) << summary.status();
    return summary.ok() ? *std::move(summary) : PowerSummary();
  }

  static const WindowSummary* Window(const PowerSummary& summary, const std::string& name) {
    for (const WindowSummary& each : summary.windows) {
      if (each.name == name) return &each;
    }
    return nullptr;
  }

  const testing::TempDir folder_;
};

// Counts the items of each kind.
struct Counted : power::LogSink {
  power::LogHeader header;
  uint64_t readings = 0;
  std::vector<std::string> others;
  void Header(power::LogHeader from) override { header = std::move(from); }
  void Readings(size_t, int64_t, std::span<const power::Reading> pass) override {
    readings += pass.size();
  }
  void Mark(int64_t, std::string_view window, bool end) override {
    others.push_back((end ? "end " : "begin ") + std::string(window));
  }
  void Finding(int64_t, std::string_view code, std::string_view source,
               std::string_view message) override {
    others.push_back(std::string(code) + " " + std::string(source) + ": " + std::string(message));
  }
};

void Pause(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

TEST_F(RecorderTest, WhatIsAwaitedIsInTheLog) {
  Counted before, after;
  auto recorder = Started(Constant(Path("log")));
  EXPECT_TRUE(recorder->Begin("a").ok());
  EXPECT_TRUE(recorder->Note("hot", "as ever").ok());
  Pause(20);
  EXPECT_TRUE(recorder->End("a").ok());
  ASSERT_TRUE(power::ReadPowerLog(Path("log"), &before).ok());
  recorder->AwaitReadings(std::chrono::seconds(10));
  ASSERT_TRUE(power::ReadPowerLog(Path("log"), &after).ok());
  EXPECT_EQ(after.header.inventory.channels, recorder->inventory().channels);
  EXPECT_THAT(after.header.periods_ns, ElementsAre(Pair("constant", kMs)));
  EXPECT_TRUE(after.header.t_ns.has_value());
  EXPECT_GT(before.readings, 0u);
  EXPECT_LT(before.readings, after.readings);
  EXPECT_THAT(after.others, ElementsAre("begin a", "hot caller: as ever", "end a"));
}

TEST_F(RecorderTest, ConstantPowerIsConstantInEveryWindow) {
  auto recorder = Started(Constant(Path("log")));
  EXPECT_TRUE(recorder->Begin("outer").ok());
  Pause(30);
  EXPECT_TRUE(recorder->Begin("inner").ok());
  Pause(50);
  EXPECT_TRUE(recorder->End("outer").ok());
  Pause(30);
  EXPECT_TRUE(recorder->End("inner").ok());
  EXPECT_TRUE(recorder->Stop().ok());
  const PowerSummary summary = Summed(Path("log"));
  EXPECT_TRUE(summary.complete);
  ASSERT_THAT(summary.windows, SizeIs(3));
  for (const WindowSummary& window : summary.windows) {
    ASSERT_THAT(window.energies, SizeIs(1)) << window.name;
    const EnergyEstimate& energy = window.energies[0];
    const double seconds = static_cast<double>(window.end_ns - window.begin_ns) / 1e9;
    ASSERT_TRUE(energy.energy_j.has_value()) << window.name;
    EXPECT_NEAR(*energy.energy_j, 100 * seconds * energy.coverage, 1e-6) << window.name;
    EXPECT_DOUBLE_EQ(*energy.mean_w, 100) << window.name;
    EXPECT_EQ(energy.estimator, EnergyEstimator::kHeld);
  }
  ASSERT_THAT(summary.readers, SizeIs(1));
  EXPECT_GT(summary.readers[0].reads, 3u);
  EXPECT_TRUE(summary.readers[0].own_cpu_ns.has_value());
}

TEST_F(RecorderTest, WithoutALogItsSummaryIsThereWhileItLives) {
  auto recorder = Started(Constant(""));
  Pause(20);
  EXPECT_TRUE(recorder->Stop().ok());
  EXPECT_TRUE(recorder->Stop().ok());
  EXPECT_TRUE(Summed(recorder->log_path()).complete);
}

TEST_F(RecorderTest, ALogCanBeReadWhileItIsWritten) {
  auto recorder = Started(Constant(Path("log")));
  EXPECT_TRUE(recorder->Begin("open").ok());
  Pause(20);
  const PowerSummary summary = Summed(Path("log"));
  EXPECT_FALSE(summary.complete);
  const WindowSummary* open = Window(summary, "open");
  ASSERT_NE(open, nullptr);
  EXPECT_TRUE(open->cut);
}

TEST_F(RecorderTest, WindowsThatMakeNoSenseAreRefused) {
  auto recorder = Started(Constant(Path("log")));
  EXPECT_THAT(recorder->End("a").message(), HasSubstr("but was not started"));
  EXPECT_THAT(recorder->Begin("").message(), HasSubstr("must not be empty"));
  EXPECT_TRUE(recorder->Begin("a").ok());
  EXPECT_THAT(recorder->Begin("a").message(), HasSubstr("already open"));
  EXPECT_TRUE(recorder->End("a").ok());
  EXPECT_TRUE(recorder->Begin("a").ok());
  EXPECT_TRUE(recorder->End("a").ok());
  EXPECT_TRUE(recorder->Stop().ok());
  const PowerSummary summary = Summed(Path("log"));
  ASSERT_THAT(summary.windows, SizeIs(3));
  EXPECT_EQ(summary.windows[2].number, 2u);
}

TEST_F(RecorderTest, GaugesOfTheCallerAreSummedUp) {
  auto recorder = Started(Constant(Path("log")));
  for (const int64_t bytes : {1000, 3000, 2000}) {
    EXPECT_TRUE(recorder->Gauge("kv_cache_bytes", bytes).ok());
  }
  EXPECT_TRUE(recorder->Stop().ok());
  const PowerSummary summary = Summed(Path("log"));
  for (const GaugeSummary& gauge : summary.windows[0].gauges) {
    const PowerChannel& channel = summary.inventory.channels[gauge.channel];
    if (channel.quantity != "kv_cache_bytes") continue;
    EXPECT_EQ(channel.source, "caller");
    EXPECT_EQ(gauge.n, 3u);
    EXPECT_EQ(gauge.max, 3000);
    EXPECT_EQ(gauge.median, 2000);
    return;
  }
  ADD_FAILURE() << "no gauge";
}

TEST_F(RecorderTest, ThreadsMarkAndGaugeAtTheSameTime) {
  auto recorder = Started(Constant(Path("log")));
  constexpr int kThreads = 4, kWindows = 50;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&recorder, i] {
      const std::string name = "thread " + std::to_string(i);
      for (int k = 0; k < kWindows; ++k) {
        EXPECT_TRUE(recorder->Begin(name).ok());
        EXPECT_TRUE(recorder->Gauge("k", k).ok());
        EXPECT_TRUE(recorder->End(name).ok());
      }
    });
  }
  for (std::thread& each : threads) each.join();
  EXPECT_TRUE(recorder->Stop().ok());
  EXPECT_THAT(Summed(Path("log")).windows, SizeIs(1 + kThreads * kWindows));
}

TEST_F(RecorderTest, WhatCannotBeStartedSaysWhy) {
  auto unknown = PowerRecorder::Start({.from = {.sources = {"solar"}}});
  EXPECT_TRUE(absl::IsInvalidArgument(unknown.status()));
  EXPECT_THAT(unknown.status().message(), HasSubstr("rapl"));
  auto no_place = PowerRecorder::Start(Constant(Path("no/such/folder/log")));
  EXPECT_TRUE(absl::IsInternal(no_place.status()));
  EXPECT_THAT(no_place.status().message(), HasSubstr("no/such/folder"));
  PowerRecordOptions no_sensor = {.from = {.sources = {"rapl"}}};
  no_sensor.from.roots.sysfs = Path("empty");
  auto absent = PowerRecorder::Start(no_sensor);
  EXPECT_TRUE(absl::IsFailedPrecondition(absent.status()));
  EXPECT_THAT(absent.status().message(), HasSubstr("rapl"));
  auto device = PowerRecorder::Start(Constant("/dev/full"));
  EXPECT_TRUE(absl::IsInvalidArgument(device.status()));
  EXPECT_THAT(device.status().message(), HasSubstr("regular file"));
  PowerRecordOptions mapped = Constant("");
  mapped.from.ordinals[0] = "GPU-1";
  EXPECT_THAT(PowerRecorder::Start(mapped).status().message(),
              HasSubstr("unknown device; devices: constant"));
}

TEST_F(RecorderTest, OneRecorderALog) {
  auto first = Started(Constant(Path("log")));
  Pause(20);
  const auto second = PowerRecorder::Start(Constant(Path("log")));
  EXPECT_TRUE(absl::IsInternal(second.status()));
  EXPECT_THAT(second.status().message(), HasSubstr("log: another recorder"));
  EXPECT_TRUE(first->Stop().ok());
  EXPECT_TRUE(Summed(Path("log")).complete);
  first.reset();
  EXPECT_TRUE(Started(Constant(Path("log")))->Stop().ok());
}

TEST_F(RecorderTest, WhatIsNoLogStaysAsItIs) {
  std::ofstream(Path("notes")) << "precious";
  const auto refused = PowerRecorder::Start(Constant(Path("notes")));
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_THAT(refused.status().message(), HasSubstr("notes: the existing file is not a power log"));
  EXPECT_EQ(std::filesystem::file_size(Path("notes")), 8u);
}

TEST_F(RecorderTest, APeriodThatIsRaisedIsTold) {
  PowerRecordOptions options = {.from = {.sources = {"constant:1"}}, .log_path = Path("log")};
  for (const auto& [period_ns, message] : std::vector<std::pair<int64_t, std::string>>{
           {0, ""},
           {kMs, ""},
           {kMs / 4, "polled every 1 ms, not 0.25; its sensors do not change faster"}}) {
    options.period_ns = period_ns;
    auto recorder = Started(options);
    EXPECT_TRUE(recorder->Stop().ok());
    const auto& raised = recorder->raised_periods();
    EXPECT_EQ(raised.empty() ? "" : raised.at("constant"), message);
    std::string found;
    for (const PowerFinding& each : Summed(Path("log")).findings) {
      if (each.code == "period_raised") found = each.message;
    }
    EXPECT_EQ(found, message.empty() ? "" : "constant: " + message);
  }
}

TEST_F(RecorderTest, WhatMayNeverEndIsNoLogToReplay) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  for (const std::string& path : {std::string("/dev/zero"), Path("pipe"), folder_.path()}) {
    const auto recorder = PowerRecorder::Start({.from = {.sources = {"replay:" + path}}});
    EXPECT_TRUE(absl::IsInvalidArgument(recorder.status())) << recorder.status();
    EXPECT_THAT(recorder.status().message(), HasSubstr(path + ": not a regular file"));
  }
}

TEST_F(RecorderTest, AReplayedLogGivesItsEnergyAgain) {
  auto recorder = Started(Constant(Path("first")));
  Pause(40);
  EXPECT_TRUE(recorder->Stop().ok());
  auto again = Started({.from = {.sources = {"replay:" + Path("first")}},
                        .period_ns = kMs,
                        .log_path = Path("second")});
  Pause(80);
  EXPECT_TRUE(again->Stop().ok());
  const PowerSummary first = Summed(Path("first")), second = Summed(Path("second"));
  EXPECT_EQ(first.inventory.channels, second.inventory.channels);
  EXPECT_EQ(first.windows[0].energies[0].readings, second.windows[0].energies[0].readings);
  EXPECT_NEAR(*second.windows[0].energies[0].mean_w, 100, 1e-9);
}

// Collects the start of each reading of the temperature.
struct SlowPasses : power::LogSink {
  std::optional<size_t> channel;
  std::vector<int64_t> begun_ns;
  void Header(power::LogHeader from) override {
    const auto& channels = from.inventory.channels;
    for (size_t i = 0; i < channels.size(); ++i) {
      if (channels[i].quantity == "temperature_mc") channel = i;
    }
  }
  void Readings(size_t, int64_t t_ns, std::span<const power::Reading> pass) override {
    for (const power::Reading& each : pass) {
      if (each.channel == channel) begun_ns.push_back(t_ns);
    }
  }
};

class SlowPassesOf : public RecorderTest {
 protected:
  // Records for `ms` with an NVML whose temperature call takes `latency_s`.
  std::vector<int64_t> Read(double latency_s, int64_t slow_period_ns, int ms) {
    std::ofstream(Path("script")) << R"({"devices": [{"calls": {"nvmlDeviceGetTemperature":
        {"value": 45, "latency_s": )"
                                  << latency_s << "}}}]}";
    setenv("FAKE_NVML_SCRIPT", Path("script").c_str(), 1);
    PowerRecordOptions options = {
        .from = {.sources = {"nvml"}}, .period_ns = 20 * kMs, .log_path = Path("log")};
    options.slow_period_ns = slow_period_ns;
    options.from.roots.nvml_library = FAKE_NVML_LIBRARY;
    auto recorder = Started(options);
    Pause(ms);
    EXPECT_TRUE(recorder->Stop().ok());
    unsetenv("FAKE_NVML_SCRIPT");
    SlowPasses passes;
    EXPECT_TRUE(power::ReadPowerLog(Path("log"), &passes).ok());
    EXPECT_FALSE(passes.begun_ns.empty());
    return passes.begun_ns;
  }
  // The maximum number of passes if all but the first `free` are at least half a period apart.
  static size_t Most(const std::vector<int64_t>& begun_ns, int64_t period_ns, size_t free) {
    return free + 1 + static_cast<size_t>((begun_ns.back() - begun_ns.front()) / (period_ns / 2));
  }
};

TEST_F(SlowPassesOf, AsOftenAsAskedFor) {
  const std::vector<int64_t> begun_ns = Read(/*latency_s=*/0, 100 * kMs, /*ms=*/1500);
  EXPECT_FALSE(begun_ns.empty());
  EXPECT_LE(begun_ns.size(), Most(begun_ns, 100 * kMs, 1));
}

TEST_F(SlowPassesOf, OnceASecondUnlessAskedFor) {
  const std::vector<int64_t> begun_ns = Read(0, PowerRecordOptions().slow_period_ns, /*ms=*/900);
  EXPECT_LE(begun_ns.size(), Most(begun_ns, 1000 * kMs, 1));
}

// From the second pass on, it is known that the call takes 12 ms, so passes are 600 ms apart.
TEST_F(SlowPassesOf, LessOftenWhereTheyTakeLong) {
  const std::vector<int64_t> begun_ns = Read(/*latency_s=*/0.012, 100 * kMs, /*ms=*/2000);
  EXPECT_FALSE(begun_ns.empty());  // on a busy machine, there are few passes
  EXPECT_LE(begun_ns.size(), Most(begun_ns, 600 * kMs, 2));
}

// A call of GPM hangs. The energies from before it are kept.
TEST_F(RecorderTest, GpmThatHangsIsToldAndLeavesWhatWasRead) {
  std::ofstream(Path("script")) << R"({"devices": [{"uuid": "GPU-1", "calls": {
      "nvmlGpmSampleGet": [{"value": 0, "calls": 2}, {"latency_s": 3600}]}}]})";
  setenv("FAKE_NVML_SCRIPT", Path("script").c_str(), 1);
  PowerRecordOptions options = {.from = {.sources = {"nvml", "constant:50"}, .gpm = true},
                                .period_ns = 20 * kMs,
                                .log_path = Path("log"),
                                .hung_after_ns = 200 * kMs};
  options.from.roots.nvml_library = FAKE_NVML_LIBRARY;
  auto recorder = Started(options);
  Pause(1000);
  EXPECT_TRUE(recorder->Stop().ok());
  unsetenv("FAKE_NVML_SCRIPT");
  const PowerSummary summary = Summed(Path("log"));
  ASSERT_THAT(summary.windows[0].energies, SizeIs(2));
  EXPECT_EQ(summary.windows[0].energies[1].reason, PowerReason::kHung);
  EXPECT_GT(summary.windows[0].energies[1].energy_j.value_or(0), 0);
  EXPECT_GT(summary.windows[0].energies[0].coverage, summary.windows[0].energies[1].coverage);
  size_t gpm = 0;
  for (const GaugeSummary& each : summary.windows[0].gauges) {
    const PowerChannel& channel = summary.inventory.channels.at(each.channel);
    if (!channel.quantity.starts_with("gpm_")) continue;
    ++gpm;
    EXPECT_EQ(each.n, 1u) << channel.quantity;
    EXPECT_GE(each.unknown, 1u) << channel.quantity;
  }
  EXPECT_EQ(gpm, 3u);
}

TEST_F(RecorderTest, ACallThatHangsStopsNothingElse) {
  std::ofstream(Path("script")) << R"({"devices": [{"uuid": "GPU-1", "bus": 1, "calls": {
      "nvmlDeviceGetTotalEnergyConsumption": [{"value": 1000, "per_s": 300000, "calls": 10},
                                              {"latency_s": 3600}]}}]})";
  setenv("FAKE_NVML_SCRIPT", Path("script").c_str(), 1);
  PowerRecordOptions options = {.from = {.sources = {"nvml", "constant:50"}},
                                .period_ns = 20 * kMs,
                                .log_path = Path("log"),
                                .hung_after_ns = 200 * kMs};
  options.from.roots.nvml_library = FAKE_NVML_LIBRARY;
  auto recorder = Started(options);
  Pause(600);
  EXPECT_TRUE(recorder->Stop().ok());
  unsetenv("FAKE_NVML_SCRIPT");
  const PowerSummary summary = Summed(Path("log"));
  EXPECT_TRUE(summary.complete);
  bool is_told = false;
  for (const PowerFinding& each : summary.findings) is_told |= each.code == "hung";
  EXPECT_TRUE(is_told);
  ASSERT_THAT(summary.windows[0].energies, SizeIs(2));
  const EnergyEstimate& constant = summary.windows[0].energies[0];
  const EnergyEstimate& hung = summary.windows[0].energies[1];
  EXPECT_EQ(constant.source, "constant");
  EXPECT_GT(constant.coverage, hung.coverage);
  EXPECT_EQ(hung.source, "nvml");
  EXPECT_EQ(hung.reason, PowerReason::kHung);
  // The energy is that before the call, from the counter at 300 W.
  EXPECT_EQ(hung.estimator, EnergyEstimator::kCounter);
  EXPECT_GT(hung.energy_j.value_or(0), 0);
  EXPECT_GT(hung.mean_w.value_or(0), 150);
  EXPECT_LT(hung.mean_w.value_or(0), 600);
  for (const ReaderQuality& each : summary.readers) {
    EXPECT_EQ(each.hung, each.source == "nvml") << each.source;
  }
}

}  // namespace
}  // namespace xplane_time
