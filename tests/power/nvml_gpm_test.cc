// Tests of utilization by GPM: channels, values and failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "power/machine.h"
#include "power/nvml_gpm.h"
#include "tests/power/nvml_fixture.h"

namespace xplane_time::power {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

NvmlFixture::Setup Asked(const Json& device = Json::object(), const Json& more = Json::object()) {
  Json script = more;
  script["devices"] = Json::array({device});
  return {.script = script, .gpm = true};
}
NvmlFixture::Setup WithCalls(const Json& calls) { return Asked({{"calls", calls}}); }

// Waits until a sample is due, and returns the value or reason of each reading of a pass.
std::vector<std::string> ReadGpm(NvmlFixture& nvml) {
  std::this_thread::sleep_for(std::chrono::milliseconds(101));
  std::vector<std::string> read;
  for (const Reading& each : nvml.Read(false)) {
    if (!nvml.inventory().channels.at(each.channel).quantity.starts_with("gpm_")) continue;
    EXPECT_EQ(each.value.has_value(), each.reason == PowerReason::kKnown);
    read.push_back(each.value ? std::to_string(*each.value)
                              : std::string(PowerReasonName(each.reason)));
  }
  return read;
}

TEST(NvmlGpm, IsNotReadUnlessAsked) {
  NvmlFixture nvml({});
  EXPECT_EQ(nvml.Channel("gpu", "gpm_sm_util_ppm", ReadingKind::kGauge), nullptr);
  EXPECT_THAT(nvml.inventory().absences, IsEmpty());
}

TEST(NvmlGpm, MeansBetweenTwoSamples) {
  NvmlFixture nvml(Asked());
  EXPECT_THAT(nvml.inventory().absences, IsEmpty());
  const int64_t start_ns = MonotonicNow();
  EXPECT_THAT(ReadGpm(nvml), ElementsAre("625000", "312500", "480000"));
  EXPECT_EQ(nvml.Last("gpm_sm_util_ppm").value, 625'000);
  EXPECT_EQ(nvml.Last("gpm_tensor_util_ppm").value, 312'500);
  const Reading reading = nvml.Last("gpm_dram_bw_util_ppm");
  EXPECT_EQ(reading.value, 480'000);
  ASSERT_TRUE(reading.sampled_ns.has_value());  // the middle of an interval of over 100 ms
  EXPECT_LT(*reading.sampled_ns, reading.before_ns - 49 * kMs);
  EXPECT_GT(*reading.sampled_ns, start_ns - 1000 * kMs);
}

TEST(NvmlGpm, NoSampleTooSoonAfterTheLast) {
  NvmlFixture nvml(Asked());
  ReadGpm(nvml);
  // The fake library refuses samples that are at most 100 ms apart.
  for (int pass = 0; pass < 500; ++pass) {
    for (const Reading& each : nvml.Read(false)) EXPECT_TRUE(each.value.has_value());
  }
}

TEST(NvmlGpm, LessOftenWhereASampleTakesLong) {
  NvmlFixture nvml(WithCalls({{"nvmlGpmSampleGet", {{"value", 0}, {"latency_s", 0.03}}}}));
  const int64_t start_ns = MonotonicNow();
  const std::vector<std::string> soon = ReadGpm(nvml);
  const bool is_soon = MonotonicNow() - start_ns < 900 * kMs;  // may be false on a busy machine
  EXPECT_TRUE(soon.empty() || !is_soon);
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  EXPECT_EQ(ReadGpm(nvml).size(), 3u);
}

TEST(NvmlGpm, GrowingValues) {
  NvmlFixture nvml(WithCalls({{"nvmlGpmMetricsGet:2", {{"value", 10}, {"per_call", 5}}}}));
  for (const char* want : {"100000", "150000", "200000"}) EXPECT_EQ(ReadGpm(nvml).at(0), want);
}

TEST(NvmlGpm, WhereThereIsNone) {
  struct Case {
    std::string name;
    NvmlFixture::Setup setup;
    PowerReason reason;
    std::string message, fix;
  };
  NvmlFixture::Setup old = Asked();
  old.library = FAKE_NVML_OLD_LIBRARY;
  constexpr PowerReason kUnsupported = PowerReason::kUnsupported;
  const Case cases[] = {
      {"an A100", Asked({{"architecture", 7}}), kUnsupported, "requires Hopper", ""},
      {"split", Asked({{"mig", Json::array()}}), kUnsupported, "split (MIG)", ""},
      {"a vGPU", Asked({{"virtualization", 2}, {"calls", {{"nvmlGpmQueryDeviceSupport", 0}}}}),
       kUnsupported, "a vGPU does not support it", ""},
      {"an old driver", old, kUnsupported, "FUNCTION_NOT_FOUND", "a newer driver may support it"},
      {"not for this user", WithCalls({{"nvmlGpmSampleGet", Error(kNvmlNoPermission)}}),
       PowerReason::kPermissionDenied, "NO_PERMISSION", "NVreg_RestrictProfilingToAdminUsers=0"},
      {"not even asked for support",
       WithCalls({{"nvmlGpmQueryDeviceSupport", Error(kNvmlNoPermission)}}),
       PowerReason::kPermissionDenied, "NO_PERMISSION", "root"},
      {"no memory", Asked(Json::object(), {{"calls", {{"nvmlGpmSampleAlloc", Error(20)}}}}),
       PowerReason::kNoSamples, "MEMORY", ""},
      {"no second buffer",
       Asked(Json::object(), {{"calls", {{"nvmlGpmSampleAlloc", {{{"calls", 1}}, Error(20)}}}}}),
       PowerReason::kNoSamples, "MEMORY", ""},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    NvmlFixture nvml(each.setup);
    const PowerAbsence absence = nvml.Absence(nvml.Device(0).id + " gpm");
    EXPECT_EQ(absence.reason, each.reason);
    EXPECT_THAT(absence.message, HasSubstr(each.message));
    EXPECT_THAT(absence.fix, HasSubstr(each.fix));
    EXPECT_THAT(ReadGpm(nvml), IsEmpty());
    nvml.Read(true);
    EXPECT_EQ(nvml.Last("temperature_mc").value, 45'000);  // other quantities are read
  }
}

TEST(NvmlGpm, EveryMetricHasItsOwnResult) {
  NvmlFixture nvml(WithCalls(
      {{"nvmlGpmMetricsGet:2", Error(kNvmlNotSupported)}, {"nvmlGpmMetricsGet:5", Error(-1)}}));
  EXPECT_THAT(ReadGpm(nvml), ElementsAre("unsupported", "unsupported", "480000"));
}

TEST(NvmlGpm, ValuesThatAreNoShare) {
  const std::pair<double, const char*> cases[] = {{0, "0"},
                                                  {100, "1000000"},
                                                  {100.5, "1005000"},
                                                  {101.5, "implausible"},
                                                  {-1, "implausible"},
                                                  {1e300, "implausible"}};
  for (const auto& [percent, want] : cases) {
    NvmlFixture nvml(WithCalls({{"nvmlGpmMetricsGet:2", percent}}));
    EXPECT_EQ(ReadGpm(nvml).at(0), want) << percent;
  }
  NvmlFixture nvml(  // the second call returns infinity
      WithCalls({{"nvmlGpmMetricsGet:2",
                  {{"value", std::numeric_limits<double>::max()}, {"per_call", 1e308}}}}));
  ReadGpm(nvml);
  EXPECT_EQ(ReadGpm(nvml).at(0), "implausible");
}

// The sample after a failure counts as the first sample, so it has no means.
TEST(NvmlGpm, AFailureIsOneOfItsTime) {
  for (const char* call : {"nvmlGpmSampleGet", "nvmlGpmMetricsGet"}) {
    SCOPED_TRACE(call);
    const int before = std::string(call) == "nvmlGpmSampleGet" ? 2 : 1;  // Discover makes one call
    NvmlFixture nvml(WithCalls({{call,
                                 {{{"value", 0}, {"calls", before}},
                                  {{"error", 10}, {"calls", 1}},
                                  Json{{"value", 0}}}}}));
    EXPECT_THAT(ReadGpm(nvml), ElementsAre("625000", "312500", "480000"));
    EXPECT_THAT(ReadGpm(nvml), ElementsAre("no_samples", "no_samples", "no_samples"));
    EXPECT_THAT(ReadGpm(nvml), IsEmpty());
    EXPECT_THAT(ReadGpm(nvml), ElementsAre("625000", "312500", "480000"));
  }
}

TEST(NvmlGpm, ADeviceIsLostAndCounts) {
  NvmlFixture nvml(
      WithCalls({{"nvmlGpmSampleGet", {{{"value", 0}, {"calls", 1}}, Error(kNvmlGpuIsLost)}}}));
  EXPECT_THAT(ReadGpm(nvml), ElementsAre("device_lost", "device_lost", "device_lost"));
  nvml.Read(false);
  EXPECT_EQ(nvml.Power().reason, PowerReason::kDeviceLost);
}

// Samples from before a loss are never compared with later samples, whichever call finds the loss.
TEST(NvmlGpm, AfterALossTheNextSampleIsAFirstOne) {
  NvmlFixture nvml(WithCalls({{"nvmlDeviceGetTotalEnergyConsumption",
                               {{{"value", 1}, {"calls", 2}},
                                {{"error", kNvmlGpuIsLost}, {"calls", 1}},
                                Json{{"value", 1}}}}}));
  EXPECT_THAT(ReadGpm(nvml), ElementsAre("625000", "312500", "480000"));
  EXPECT_THAT(ReadGpm(nvml), ElementsAre("device_lost", "device_lost", "device_lost"));
  nvml.Read(/*slow=*/true);  // checks whether the device is available again
  EXPECT_EQ(nvml.Power().value, 300'000);
  EXPECT_THAT(ReadGpm(nvml), ElementsAre("625000", "312500", "480000"));
}

// Samples of the previous session are freed.
TEST(NvmlGpm, TheDriverIsReloaded) {
  NvmlFixture nvml(Asked(Json::object(), {{"reload_after", 40}}));
  int resets = 0;
  bool back = false;
  for (int pass = 0; pass < 20 && !back; ++pass) {
    const std::vector<std::string> read = ReadGpm(nvml);
    if (read.empty()) continue;  // the first sample after the reload
    if (read[0] == "reset") ++resets;
    EXPECT_THAT(read[0], AnyOf("reset", "625000"));
    back = resets > 0 && read[0] == "625000";
  }
  EXPECT_EQ(resets, 1);
  EXPECT_TRUE(back);
}

TEST(NvmlGpm, OfEachDevice) {
  NvmlFixture nvml(
      {.script = {{"devices",
                   {Json{{"calls", {{"nvmlGpmMetricsGet:2", 25}}}}, Json{{"architecture", 8}},
                    Json{{"calls", {{"nvmlGpmMetricsGet:2", 75}}}}}}},
       .gpm = true});
  ReadGpm(nvml);
  EXPECT_EQ(nvml.Last("gpm_sm_util_ppm", 0).value, 250'000);
  EXPECT_EQ(nvml.Channel("gpu", "gpm_sm_util_ppm", ReadingKind::kGauge, 1), nullptr);
  EXPECT_EQ(nvml.Last("gpm_sm_util_ppm", 2).value, 750'000);
}

}  // namespace
}  // namespace xplane_time::power
