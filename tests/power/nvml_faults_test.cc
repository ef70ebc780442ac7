// Tests of failures of NVML. Each of them has a reason instead of a value.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <set>

#include "power/nvml_api.h"
#include "tests/power/nvml_fixture.h"
#include "tests/support/random.h"

namespace xplane_time::power {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Answers `calls` times, then fails.
Json Then(const Json& value, int calls, NvmlReturn result) {
  return {{{"value", value}, {"calls", calls}}, Error(result)};
}

void ExpectAll(const std::vector<Reading>& readings, PowerReason reason) {
  EXPECT_FALSE(readings.empty());
  for (const Reading& reading : readings) {
    EXPECT_FALSE(reading.value.has_value()) << reading.channel;
    EXPECT_EQ(reading.reason, reason) << reading.channel;
  }
}

TEST(NvmlFaults, NoLibrary) {
  NvmlFixture nvml({.library = "libno-such-nvml.so.1"});
  const PowerAbsence absence = nvml.Absence("libno-such-nvml.so.1");
  EXPECT_EQ(absence.source, "nvml");
  EXPECT_EQ(absence.reason, PowerReason::kAbsent);
  EXPECT_THAT(absence.message, HasSubstr("libno-such-nvml.so.1"));
  EXPECT_THAT(absence.fix, AllOf(HasSubstr("--gpus all"), HasSubstr("NVIDIA_DRIVER_CAPABILITIES"),
                                 HasSubstr("--nvml-library")));
  EXPECT_THAT(nvml.inventory().devices, IsEmpty());
  EXPECT_THAT(nvml.inventory().channels, IsEmpty());
  EXPECT_THAT(nvml.Read(true), IsEmpty());
}

TEST(NvmlFaults, AnotherLibrary) {
  NvmlFixture nvml({.library = "libm.so.6"});
  EXPECT_THAT(nvml.Absence("libm.so.6").message, HasSubstr("not an NVML library"));
  EXPECT_THAT(nvml.Read(true), IsEmpty());
}

TEST(NvmlFaults, ReadWithoutDiscover) {
  std::vector<Reading> readings;
  NewNvmlReader({})->Read(true, &readings);
  EXPECT_THAT(readings, IsEmpty());
}

struct InitCase {
  NvmlReturn result;
  PowerReason reason;
  std::string name, fix;
};

std::ostream& operator<<(std::ostream& out, const InitCase& c) { return out << c.name; }

class NvmlInit : public ::testing::TestWithParam<InitCase> {};

TEST_P(NvmlInit, FailsWithAReasonAndAWayOut) {
  NvmlFixture nvml({.script = {{"devices", {Json::object()}},
                               {"calls", {{"nvmlInit", Error(GetParam().result)}}}}});
  ASSERT_EQ(nvml.inventory().absences.size(), 1u);
  const PowerAbsence& absence = nvml.inventory().absences[0];
  EXPECT_EQ(absence.reason, GetParam().reason);
  EXPECT_THAT(absence.message, AllOf(HasSubstr("nvmlInit"), HasSubstr(GetParam().name)));
  EXPECT_THAT(absence.fix, HasSubstr(GetParam().fix));
  EXPECT_THAT(nvml.inventory().devices, IsEmpty());
  EXPECT_THAT(nvml.Read(true), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(
    NvmlFaults, NvmlInit,
    ::testing::Values(
        InitCase{kNvmlNoPermission, PowerReason::kPermissionDenied, "NO_PERMISSION",
                 "/dev/nvidiactl"},
        InitCase{kNvmlDriverNotLoaded, PowerReason::kAbsent, "DRIVER_NOT_LOADED", "modprobe"},
        InitCase{kNvmlLibraryNotFound, PowerReason::kAbsent, "LIBRARY_NOT_FOUND", "--gpus all"},
        InitCase{kNvmlOperatingSystem, PowerReason::kPermissionDenied, "OPERATING_SYSTEM",
                 "cgroup"},
        InitCase{kNvmlLibRmVersionMismatch, PowerReason::kDriverMismatch, "LIB_RM_VERSION_MISMATCH",
                 "reload the nvidia modules"},
        InitCase{kNvmlResetRequired, PowerReason::kResetRequired, "RESET_REQUIRED", "--gpu-reset"},
        InitCase{kNvmlGpuIsLost, PowerReason::kDeviceLost, "GPU_IS_LOST", "Xid 79"},
        InitCase{999, PowerReason::kNoSamples, "UNKNOWN", ""}),
    [](const auto& test) { return test.param.name; });

TEST(NvmlFaults, EveryNumberHasAReason) {
  EXPECT_EQ(ReasonOf(kNvmlSuccess), PowerReason::kKnown);
  EXPECT_EQ(NvmlErrorText(kNvmlSuccess), "NVML_SUCCESS (0)");
  for (NvmlReturn result = 1; result < 1200; ++result) {
    EXPECT_NE(ReasonOf(result), PowerReason::kKnown) << result;
    EXPECT_THAT(NvmlErrorText(result), HasSubstr("(" + std::to_string(result) + ")"));
  }
}

TEST(NvmlFaults, NoGpus) {
  NvmlFixture nvml({.script = {{"devices", Json::array()}}});
  EXPECT_EQ(nvml.Absence("devices").reason, PowerReason::kAbsent);
  EXPECT_THAT(nvml.Read(true), IsEmpty());
}

TEST(NvmlFaults, CountingFails) {
  NvmlFixture nvml({.script = {{"devices", {Json::object()}},
                               {"calls", {{"nvmlDeviceGetCount", Error(kNvmlNoPermission)}}}}});
  EXPECT_EQ(nvml.Absence("devices").reason, PowerReason::kPermissionDenied);
}

TEST(NvmlFaults, OneGpuIsOutOfReachAndTheOtherIsRead) {
  for (const auto& [result, reason] :
       {std::pair(kNvmlGpuIsLost, PowerReason::kDeviceLost),
        std::pair(kNvmlNoPermission, PowerReason::kPermissionDenied)}) {
    const Json gone = {{"calls", {{"nvmlDeviceGetHandleByIndex", Error(result)}}}};
    NvmlFixture nvml({.script = {{"devices", {gone, Json::object()}}}});
    EXPECT_EQ(nvml.Absence("GPU 0").reason, reason);
    ASSERT_EQ(nvml.inventory().devices.size(), 1u);
    EXPECT_EQ(nvml.Device(0).index, 1);
    nvml.Read(false);
    EXPECT_EQ(nvml.Power().value, 300'000);
  }
}

TEST(NvmlFaults, NoPermissionForPower) {
  NvmlFixture nvml({.script = OneDevice(
                        {{"calls",
                          {{"nvmlDeviceGetFieldValues", Error(kNvmlNoPermission)},
                           {"nvmlDeviceGetPowerUsage", Error(kNvmlNoPermission)},
                           {"nvmlDeviceGetTotalEnergyConsumption", Error(kNvmlNoPermission)}}}})});
  const PowerAbsence absence = nvml.Absence(nvml.Device(0).id + " power");
  EXPECT_EQ(absence.reason, PowerReason::kPermissionDenied);
  EXPECT_THAT(absence.fix, HasSubstr("/dev/nvidia"));
  nvml.Read(true);
  EXPECT_EQ(nvml.Last("temperature_mc").value, 45'000);
}

TEST(NvmlFaults, ACallThatTheDeviceLacksIsNamed) {
  NvmlFixture nvml(
      {.script = OneDevice({{"calls",
                             {{"nvmlDeviceGetTotalEnergyConsumption", Error(kNvmlNotSupported)},
                              {"nvmlDeviceGetPerformanceState", 32},
                              {"nvmlDeviceGetClockInfo:1", Error(kNvmlNotSupported)},
                              {"nvmlDeviceGetClockInfo:2", Error(kNvmlNotSupported)},
                              {"nvmlDeviceGetTemperature", Error(kNvmlNoPermission)}}}})});
  std::vector<std::string> messages;
  for (const PowerAbsence& absence : nvml.inventory().absences) messages.push_back(absence.message);
  const std::string id = nvml.Device(0).id;
  EXPECT_THAT(messages,
              ElementsAre(id + ": nvmlDeviceGetClockInfo, nvmlDeviceGetPerformanceState, "
                               "nvmlDeviceGetTotalEnergyConsumption: NVML_ERROR_NOT_SUPPORTED (3)",
                          id + ": nvmlDeviceGetTemperature: NVML_ERROR_NO_PERMISSION (4)"));
  EXPECT_EQ(nvml.Channel("gpu", "energy_uj", ReadingKind::kCumulative), nullptr);
  EXPECT_EQ(nvml.Channel("gpu", "pstate", ReadingKind::kGauge), nullptr);
}

TEST(NvmlFaults, AVgpuHasNoSensors) {
  NvmlFixture nvml({.script = OneDevice(
                        {{"virtualization", 2},
                         {"calls",
                          {{"nvmlDeviceGetFieldValues", Error(kNvmlNotSupported)},
                           {"nvmlDeviceGetPowerUsage", Error(kNvmlNotSupported)},
                           {"nvmlDeviceGetTotalEnergyConsumption", Error(kNvmlNotSupported)}}}})});
  const PowerAbsence absence = nvml.Absence(nvml.Device(0).id + " power");
  EXPECT_EQ(absence.reason, PowerReason::kUnsupported);
  EXPECT_THAT(absence.message, HasSubstr("vGPU"));
  EXPECT_THAT(absence.fix, HasSubstr("host"));
}

TEST(NvmlFaults, AnOlderDriver) {
  NvmlFixture nvml({.library = FAKE_NVML_OLD_LIBRARY});
  // Without an architecture, the meaning of the power is unknown.
  const PowerChannel* power = nvml.Channel("gpu", "power_mw", ReadingKind::kAverage);
  ASSERT_NE(power, nullptr);
  EXPECT_THAT(power->note, HasSubstr("the chip is unknown"));
  EXPECT_EQ(power->prior_period_ns, std::nullopt);
  const PowerAbsence absence = nvml.Absence(nvml.Device(0).id);
  EXPECT_EQ(absence.reason, PowerReason::kUnsupported);
  EXPECT_THAT(absence.message, AllOf(HasSubstr("nvmlDeviceGetTotalEnergyConsumption"),
                                     HasSubstr("FUNCTION_NOT_FOUND")));
  EXPECT_THAT(nvml.Device(0).note,
              HasSubstr("FUNCTION_NOT_FOUND"));  // the query for other processes failed
  EXPECT_EQ(nvml.Device(0).pci_bus_id, "00000000:01:00.0");
  nvml.Read(true);
  EXPECT_EQ(nvml.Last("gpu", "power_mw", ReadingKind::kAverage).value, 300'000);
  EXPECT_EQ(nvml.Last("throttle_reasons").value, 0);
}

TEST(NvmlFaults, ADeviceIsLost) {
  const Json dying = {
      {"calls", {{"nvmlDeviceGetTotalEnergyConsumption", Then(1000, 2, kNvmlGpuIsLost)}}}};
  NvmlFixture nvml({.script = {{"devices", {dying, Json::object()}}}});
  nvml.Read(false);
  EXPECT_EQ(nvml.Energy().value, 1'000'000);
  nvml.Read(true);
  EXPECT_EQ(nvml.Energy().reason, PowerReason::kDeviceLost);
  EXPECT_EQ(nvml.Last("temperature_mc").reason, PowerReason::kDeviceLost);  // no longer queried
  EXPECT_FALSE(nvml.Last("temperature_mc").value.has_value());
  EXPECT_EQ(nvml.Power(1).value, 300'000);
  // Fast passes do not query a lost device, although only the counter would fail.
  nvml.Read(false);
  EXPECT_EQ(nvml.Power().reason, PowerReason::kDeviceLost);
  EXPECT_EQ(nvml.Energy().reason, PowerReason::kDeviceLost);
}

TEST(NvmlFaults, ALostDeviceIsAskedOnceASecond) {
  const Json back = {{{"value", 1000}, {"calls", 1}},
                     {{"error", kNvmlGpuIsLost}, {"calls", 1}},
                     {{"value", 2000}}};
  NvmlFixture nvml(
      {.script = OneDevice({{"calls", {{"nvmlDeviceGetTotalEnergyConsumption", back}}}})});
  nvml.Read(false);
  EXPECT_EQ(nvml.Energy().reason, PowerReason::kDeviceLost);
  nvml.Read(false);
  EXPECT_EQ(nvml.Energy().reason, PowerReason::kDeviceLost);
  nvml.Read(true);
  EXPECT_EQ(nvml.Energy().value, 2'000'000);
}

TEST(NvmlFaults, AFieldSaysThatTheDeviceIsLost) {
  NvmlFixture nvml(
      {.script = OneDevice(
           {{"calls", {{"nvmlDeviceGetFieldValues:185:0", Then(1000, 1, kNvmlGpuIsLost)}}}})});
  nvml.Read(false);
  EXPECT_EQ(nvml.Energy().reason, PowerReason::kDeviceLost);
}

TEST(NvmlFaults, AFieldThatTheDriverLeavesAloneIsNotZero) {
  const Json untouched = {{{"value", 1000}, {"calls", 1}}, {{"error", -1}}};
  NvmlFixture nvml(
      {.script = OneDevice({{"calls", {{"nvmlDeviceGetFieldValues:186:0", untouched}}}})});
  nvml.Read(false);
  EXPECT_FALSE(nvml.Power().value.has_value());
  EXPECT_EQ(nvml.Power().reason, PowerReason::kUnsupported);
}

TEST(NvmlFaults, LostForEver) {
  NvmlFixture nvml({.script = OneDevice({{"lost_after", 40}})});
  for (int pass = 0; pass < 20; ++pass) nvml.Read(pass % 2 == 0);
  ExpectAll(nvml.Read(true), PowerReason::kDeviceLost);
  ExpectAll(nvml.Read(false), PowerReason::kDeviceLost);
}

TEST(NvmlFaults, ResetRequired) {
  NvmlFixture nvml(
      {.script =
           OneDevice({{"calls",
                       {{"nvmlDeviceGetTotalEnergyConsumption", Then(1000, 1, kNvmlResetRequired)},
                        {"nvmlDeviceGetTemperature", Then(50, 1, kNvmlResetRequired)}}}})});
  nvml.Read(true);
  EXPECT_EQ(nvml.Energy().reason, PowerReason::kResetRequired);
  EXPECT_FALSE(nvml.Energy().value.has_value());
  EXPECT_EQ(nvml.Last("temperature_mc").reason, PowerReason::kResetRequired);
  EXPECT_EQ(nvml.Power().value, 300'000);
}

TEST(NvmlFaults, TheDriverIsReloaded) {
  // The calls for the second device follow those for the first. The reload interrupts a pass.
  for (const int after : {60, 63, 67, 71}) {
    NvmlFixture nvml(
        {.script = {{"devices", {Json::object(), Json::object()}}, {"reload_after", after}}});
    int resets = 0;
    bool back = false;
    for (int pass = 0; pass < 30 && !back; ++pass) {
      const bool slow = pass % 5 == 4;
      const std::vector<Reading> readings = nvml.Read(slow);
      ASSERT_EQ(readings.size(), slow ? 26u : 6u) << after;
      if (readings[0].value.has_value()) {
        back = resets > 0;
        for (const Reading& reading : readings) EXPECT_TRUE(reading.value.has_value());
      } else {
        ++resets;
        ExpectAll(readings, PowerReason::kReset);
      }
    }
    EXPECT_TRUE(back) << after;
    EXPECT_EQ(resets, 1) << after;
    EXPECT_EQ(nvml.Power(1).value, 300'000);
  }
}

TEST(NvmlFaults, TheDriverIsGoneForAWhile) {
  NvmlFixture nvml({.script = {{"devices", {Json::object()}},
                               {"reload_after", 40},
                               {"calls",
                                {{"nvmlInit",
                                  {{{"calls", 1}},
                                   {{"error", kNvmlDriverNotLoaded}, {"calls", 2}},
                                   Json::object()}}}}}});
  std::vector<PowerReason> reasons;
  int absent = 0;
  for (int pass = 0; pass < 60; ++pass) {
    const PowerReason reason = nvml.Read(pass % 4 == 3).front().reason;
    if (reason == PowerReason::kAbsent) ++absent;
    if (reasons.empty() || reasons.back() != reason) reasons.push_back(reason);
  }
  EXPECT_THAT(reasons, ElementsAre(PowerReason::kKnown, PowerReason::kAbsent, PowerReason::kReset,
                                   PowerReason::kKnown));
  EXPECT_GE(absent, 5);  // only slow passes query it, and it fails twice
}

TEST(NvmlFaults, AfterAnUpdateLibraryAndModuleDiffer) {
  NvmlFixture nvml(
      {.script = {
           {"devices", {Json::object()}},
           {"reload_after", 40},
           {"calls", {{"nvmlInit", {{{"calls", 1}}, {{"error", kNvmlLibRmVersionMismatch}}}}}}}});
  for (int pass = 0; pass < 60; ++pass) nvml.Read(pass % 4 == 3);
  ExpectAll(nvml.Read(true), PowerReason::kDriverMismatch);
}

TEST(NvmlFaults, ASlowCallKeepsItsTimes) {
  NvmlFixture nvml(
      {.script = OneDevice(
           {{"calls",
             {{"nvmlDeviceGetTotalEnergyConsumption",
               {{{"value", 1000}, {"calls", 1}}, {{"value", 2000}, {"latency_s", 0.05}}}}}}})});
  nvml.Read(false);
  const Reading energy = nvml.Energy();
  EXPECT_EQ(energy.value, 2'000'000);
  EXPECT_GE(energy.after_ns - energy.before_ns, 50 * kMs);
}

TEST(NvmlFaults, ValuesThatNoDeviceHas) {
  NvmlFixture nvml({.script = OneDevice({{"calls",
                                          {{"nvmlDeviceGetTotalEnergyConsumption", 1e19},
                                           {"nvmlDeviceGetFieldValues:186:0", 4294967295}}}})});
  nvml.Read(false);
  EXPECT_EQ(nvml.Energy().reason, PowerReason::kImplausible);
  EXPECT_FALSE(nvml.Energy().value.has_value());
  EXPECT_EQ(nvml.Power().reason, PowerReason::kImplausible);
  EXPECT_FALSE(nvml.Power().value.has_value());
}

TEST(NvmlFaults, CountersAreGivenAsTheyAre) {
  const Json jumps = {{{"value", 5}, {"calls", 1}},
                      {{"value", 4'000'000'000.0}, {"calls", 1}},
                      {{"value", 3}, {"calls", 1}},
                      {{"value", 900'000'000'000.0}}};
  NvmlFixture nvml(
      {.script = OneDevice({{"calls", {{"nvmlDeviceGetTotalEnergyConsumption", jumps}}}})});
  for (const int64_t want :
       {int64_t{4'000'000'000'000}, int64_t{3'000}, int64_t{900'000'000'000'000}}) {
    nvml.Read(false);
    EXPECT_EQ(nvml.Energy().value, want);
  }
}

// A call with random answers and failures.
Json RandomAnswer(xplane_time::testing::Random& random, const Json& value) {
  Json steps = Json::array();
  for (int64_t n = 1 + random.Below(5); n > 0; --n) {
    Json step = random.OneIn(2) ? Json{{"value", value}}
                                : Error(static_cast<NvmlReturn>(1 + random.Below(30)));
    step["calls"] = 1 + random.Below(6);
    steps.push_back(step);
  }
  return steps;
}

// For any answers of NVML, every due channel has one reading with a value or a reason.
TEST(NvmlFaults, AnyFaultsGiveEveryDueChannelAValueOrAReason) {
  xplane_time::testing::Random random(7);
  const std::map<std::string, Json> values = {
      {"nvmlDeviceGetPowerUsage", 300000},        {"nvmlDeviceGetFieldValues", 0},
      {"nvmlDeviceGetFieldValues:185:0", 250000}, {"nvmlDeviceGetFieldValues:186:0", 250000},
      {"nvmlDeviceGetFieldValues:186:1", 250000}, {"nvmlDeviceGetTotalEnergyConsumption", 1000},
      {"nvmlDeviceGetClockInfo:1", 1000},         {"nvmlDeviceGetTemperature", 40},
      {"nvmlDeviceGetMemoryInfo", {1, 2}},        {"nvmlDeviceGetUtilizationRates", {1, 2}}};
  for (int round = 0; round < 300; ++round) {
    Json script = {{"devices", Json::array()}};
    for (int64_t n = 1 + random.Below(3); n > 0; --n) {
      Json device = {{"calls", Json::object()}};
      for (const auto& [name, value] : values) {
        if (random.OneIn(2)) device["calls"][name] = RandomAnswer(random, value);
      }
      if (random.OneIn(4)) device["lost_after"] = random.Below(100);
      script["devices"].push_back(device);
    }
    if (random.OneIn(3)) script["reload_after"] = random.Below(200);
    if (random.OneIn(4)) script["calls"]["nvmlInit"] = RandomAnswer(random, 0);
    NvmlFixture nvml({.script = script});
    const std::vector<PowerChannel>& channels = nvml.inventory().channels;
    for (int pass = 0; pass < 12; ++pass) {
      const bool slow = pass % 3 == 0;
      std::multiset<uint32_t> want;
      std::multiset<uint32_t> got;
      for (uint32_t i = 0; i < channels.size(); ++i) {
        if (slow || !channels[i].slow) want.insert(i);
      }
      for (const Reading& reading : nvml.Read(slow)) {
        got.insert(reading.channel);
        ASSERT_EQ(reading.value.has_value(), reading.reason == PowerReason::kKnown);
      }
      ASSERT_EQ(got, want) << script.dump();
    }
  }
}

}  // namespace
}  // namespace xplane_time::power
