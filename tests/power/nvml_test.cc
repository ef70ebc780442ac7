// Tests of a healthy NVML: devices, channels, values, times, priors, ordinals, sharing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <ostream>
#include <thread>
#include <utility>

#include "power/nvml_api.h"
#include "tests/power/nvml_fixture.h"

namespace xplane_time::power {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The answers of a driver without power fields.
Json WithoutFields(Json device) {
  device["calls"]["nvmlDeviceGetFieldValues"] = {{"error", kNvmlNotSupported}};
  return device;
}

TEST(Nvml, AnH100) {
  NvmlFixture nvml({});
  EXPECT_THAT(nvml.inventory().absences, IsEmpty());
  ASSERT_EQ(nvml.inventory().devices.size(), 1u);
  const PowerDevice& device = nvml.Device(0);
  EXPECT_EQ(device.id, "GPU-00000000-0000-0000-0000-000000000000");
  EXPECT_EQ(device.name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(device.source, "nvml");
  EXPECT_EQ(device.index, 0);
  EXPECT_EQ(device.ordinal, 0);
  EXPECT_EQ(device.pci_bus_id, "00000000:01:00.0");
  EXPECT_EQ(device.driver, "550.54.15");
  EXPECT_FALSE(device.mig);
  EXPECT_FALSE(device.shared);
  EXPECT_EQ(device.note, "");
  EXPECT_THAT(
      nvml.ChannelNames(),
      ElementsAre("gpu energy_uj cumulative", "gpu power_mw average", "gpu power_mw instant",
                  "gpu clock_sm_mhz gauge", "gpu clock_memory_mhz gauge",
                  "gpu temperature_mc gauge", "gpu throttle_reasons gauge", "gpu pstate gauge",
                  "gpu power_limit_mw gauge", "gpu memory_used_bytes gauge",
                  "gpu memory_total_bytes gauge", "gpu utilization_gpu_ppm gauge",
                  "gpu utilization_memory_ppm gauge"));
  for (const PowerChannel& channel : nvml.inventory().channels) {
    EXPECT_EQ(channel.source, "nvml");
    EXPECT_EQ(channel.slow, channel.kind == ReadingKind::kGauge) << channel.quantity;
    EXPECT_EQ(channel.in_total, !channel.slow) << channel.quantity;
  }
}

TEST(Nvml, PriorsAndBoundsOfChannels) {
  NvmlFixture nvml({});
  const PowerChannel* energy = nvml.Channel("gpu", "energy_uj", ReadingKind::kCumulative);
  EXPECT_EQ(energy->note, "since driver load");
  EXPECT_EQ(energy->wrap_range, std::nullopt);
  EXPECT_EQ(energy->max_plausible_mw, 3 * 700'000);
  EXPECT_EQ(energy->prior_period_ns, 100 * kMs);
  const PowerChannel* instant = nvml.Channel("gpu", "power_mw", ReadingKind::kInstant);
  EXPECT_EQ(instant->prior_period_ns, 100 * kMs);
  EXPECT_EQ(instant->prior_window_ns, 25 * kMs);
  EXPECT_EQ(nvml.Channel("gpu", "power_mw", ReadingKind::kAverage)->prior_window_ns, 1000 * kMs);
}

TEST(Nvml, ValuesInTheUnitsOfTheirNames) {
  NvmlFixture nvml({.script = OneDevice({{"calls",
                                          {{"nvmlDeviceGetTotalEnergyConsumption", 123456789},
                                           {"nvmlDeviceGetFieldValues:185:0", 250000},
                                           {"nvmlDeviceGetCurrentClocksEventReasons", 0x84}}}})});
  nvml.Read(true);
  EXPECT_EQ(nvml.Energy().value, 123'456'789'000);
  EXPECT_EQ(nvml.Last("gpu", "power_mw", ReadingKind::kAverage).value, 250'000);
  EXPECT_EQ(nvml.Power().value, 300'000);
  EXPECT_EQ(nvml.Last("clock_sm_mhz").value, 1980);
  EXPECT_EQ(nvml.Last("clock_memory_mhz").value, 2619);
  EXPECT_EQ(nvml.Last("temperature_mc").value, 45'000);
  EXPECT_EQ(nvml.Last("throttle_reasons").value, 0x84);
  EXPECT_EQ(nvml.Last("pstate").value, 0);
  EXPECT_EQ(nvml.Last("power_limit_mw").value, 700'000);
  EXPECT_EQ(nvml.Last("memory_used_bytes").value, int64_t{1} << 30);
  EXPECT_EQ(nvml.Last("memory_total_bytes").value, int64_t{80} << 30);
  EXPECT_EQ(nvml.Last("utilization_gpu_ppm").value, 1'000'000);
  EXPECT_EQ(nvml.Last("utilization_memory_ppm").value, 400'000);
}

TEST(Nvml, AFastPassReadsNoGauges) {
  NvmlFixture nvml({});
  EXPECT_EQ(nvml.Read(false).size(), 3u);
  EXPECT_EQ(nvml.Read(true).size(), 13u);
}

TEST(Nvml, AtMostFiftyHertz) {
  NvmlFixture nvml({});
  EXPECT_EQ(nvml.reader().source(), "nvml");
  EXPECT_EQ(nvml.reader().min_period_ns(), 20 * kMs);
  EXPECT_EQ(nvml.reader().default_period_ns(), 50 * kMs);
}

TEST(Nvml, ReadingsLieBetweenTheTimesOfTheirCall) {
  NvmlFixture nvml({});
  const int64_t start = MonotonicNow();
  const std::vector<Reading> readings = nvml.Read(true);
  const int64_t end = MonotonicNow();
  for (const Reading& reading : readings) {
    EXPECT_LE(start, reading.before_ns);
    EXPECT_LE(reading.before_ns, reading.after_ns);
    EXPECT_LE(reading.after_ns, end);
  }
}

TEST(Nvml, AFieldsOwnTime) {
  NvmlFixture nvml({.script = OneDevice({{"field_age_us", 700'000}})});
  nvml.Read(false);
  const Reading power = nvml.Power();
  ASSERT_TRUE(power.sampled_ns.has_value());
  // The tolerance is the time between readings of two clocks.
  EXPECT_GT(*power.sampled_ns, power.before_ns - 900 * kMs);
  EXPECT_LT(*power.sampled_ns, power.after_ns - 500 * kMs);
  EXPECT_FALSE(nvml.Energy().sampled_ns.has_value());
}

TEST(Nvml, ATimeThatCannotBeIsNone) {
  for (const Json& age_us : {Json(-5'000'000), Json(10'000'000), Json(nullptr),
                             Json(int64_t{4} * 1'000'000'000'000'000)}) {
    NvmlFixture nvml({.script = OneDevice({{"field_age_us", age_us}})});
    nvml.Read(false);
    EXPECT_FALSE(nvml.Power().sampled_ns.has_value()) << age_us;
    EXPECT_EQ(nvml.Power().value, 300'000);
  }
}

TEST(Nvml, EveryFieldHasItsOwnResult) {
  NvmlFixture nvml({.script = OneDevice({{"calls",
                                          {{"nvmlDeviceGetFieldValues:186:0",
                                            {{{"value", 1000}, {"calls", 1}},
                                             {{"error", kNvmlNoPermission}, {"calls", 1}},
                                             {{"value", 2000}}}}}}})});
  nvml.Read(false);
  EXPECT_FALSE(nvml.Power().value.has_value());
  EXPECT_EQ(nvml.Power().reason, PowerReason::kPermissionDenied);
  EXPECT_EQ(nvml.Last("gpu", "power_mw", ReadingKind::kAverage).value, 300'000);
  nvml.Read(false);
  EXPECT_EQ(nvml.Power().value, 2000);
}

TEST(Nvml, ScopesOfPower) {
  NvmlFixture nvml({.script = OneDevice({{"calls",
                                          {{"nvmlDeviceGetFieldValues:185:1", 500000},
                                           {"nvmlDeviceGetFieldValues:186:2", 60000}}}})});
  nvml.Read(false);
  EXPECT_EQ(nvml.Last("module", "power_mw", ReadingKind::kAverage).value, 500'000);
  EXPECT_EQ(nvml.Last("gpu_memory", "power_mw", ReadingKind::kInstant).value, 60'000);
  for (const std::string domain : {"module", "gpu_memory"}) {
    const ReadingKind kind = domain == "module" ? ReadingKind::kAverage : ReadingKind::kInstant;
    const PowerChannel* channel = nvml.Channel(domain, "power_mw", kind);
    EXPECT_FALSE(channel->in_total);
    EXPECT_EQ(channel->prior_window_ns, std::nullopt);
  }
}

TEST(Nvml, TheCounterOfGraceHopperIsTheModules) {
  NvmlFixture nvml({.script = OneDevice({{"name", "NVIDIA GH200 480GB"}})});
  EXPECT_EQ(nvml.Channel("gpu", "energy_uj", ReadingKind::kCumulative), nullptr);
  const PowerChannel* energy = nvml.Channel("module", "energy_uj", ReadingKind::kCumulative);
  ASSERT_NE(energy, nullptr);
  EXPECT_FALSE(energy->in_total);
  EXPECT_THAT(energy->note, HasSubstr("CPU and GPU"));
  EXPECT_TRUE(nvml.Channel("gpu", "power_mw", ReadingKind::kInstant)->in_total);
}

struct ChipCase {
  std::string name;
  NvmlChip chip;
  std::optional<bool> usage_is_average;
  std::optional<int64_t> instant_period_ms, instant_window_ms, energy_period_ms;
};

std::ostream& operator<<(std::ostream& out, const ChipCase& c) { return out << c.name; }

class Chips : public ::testing::TestWithParam<ChipCase> {};

std::optional<int64_t> Ms(std::optional<int64_t> ns) {
  return ns ? std::optional(*ns / kMs) : std::nullopt;
}

TEST_P(Chips, Priors) {
  const ChipCase& c = GetParam();
  const ChipPriors priors = PriorsOf(c.chip);
  EXPECT_EQ(priors.usage_is_average, c.usage_is_average);
  EXPECT_EQ(Ms(priors.instant.period_ns), c.instant_period_ms);
  EXPECT_EQ(Ms(priors.instant.window_ns), c.instant_window_ms);
  EXPECT_EQ(priors.average.window_ns.has_value(), c.usage_is_average == true);
  EXPECT_EQ(Ms(priors.energy.period_ns), c.energy_period_ms);
}

// The label of nvmlDeviceGetPowerUsage if a driver has no fields.
TEST_P(Chips, PowerUsageIsLabelled) {
  const ChipCase& c = GetParam();
  NvmlFixture nvml({.script = OneDevice(WithoutFields(
                        {{"architecture", c.chip.architecture == 0 ? ~0U : c.chip.architecture},
                         {"capability", {c.chip.major, c.chip.minor}}}))});
  const bool average = c.usage_is_average.value_or(true);
  const PowerChannel* channel =
      nvml.Channel("gpu", "power_mw", average ? ReadingKind::kAverage : ReadingKind::kInstant);
  ASSERT_NE(channel, nullptr);
  EXPECT_EQ(
      nvml.Channel("gpu", "power_mw", average ? ReadingKind::kInstant : ReadingKind::kAverage),
      nullptr);
  EXPECT_EQ(Ms(channel->prior_window_ns), !average             ? c.instant_window_ms
                                          : c.usage_is_average ? std::optional<int64_t>(1000)
                                                               : std::nullopt);
  EXPECT_THAT(channel->note, HasSubstr(!average             ? ""
                                       : c.usage_is_average ? "average of 1 s"
                                                            : "the chip is unknown"));
  nvml.Read(false);
  EXPECT_EQ(nvml.Last("gpu", "power_mw", channel->kind).value, 300'000);
}

INSTANTIATE_TEST_SUITE_P(
    Nvml, Chips,
    ::testing::Values(
        ChipCase{"P100", {kNvmlPascal, 6, 0}, false, 20, 10, std::nullopt},
        ChipCase{"V100", {kNvmlVolta, 7, 0}, false, 20, std::nullopt, 20},
        ChipCase{"T4", {kNvmlTuring, 7, 5}, false, 100, 100, 100},
        ChipCase{"A100", {kNvmlAmpere, 8, 0}, false, 100, 25, 100},
        ChipCase{"Rtx3090", {kNvmlAmpere, 8, 6}, true, 100, 100, 100},
        ChipCase{"SomeAmpere", {kNvmlAmpere, 0, 0}, std::nullopt, 100, std::nullopt, 100},
        ChipCase{"L4", {kNvmlAda, 8, 9}, true, std::nullopt, std::nullopt, 100},
        ChipCase{"H100", {kNvmlHopper, 9, 0}, true, 100, 25, 100},
        ChipCase{"Blackwell", {10, 10, 0}, true, std::nullopt, std::nullopt, 100},
        ChipCase{"Unknown", {}, std::nullopt, std::nullopt, std::nullopt, std::nullopt}),
    [](const auto& test) { return test.param.name; });

// Reads until the buffer of the driver has samples. The last reading is the poll of the channel.
std::vector<Reading> SamplesOf(NvmlFixture& nvml) {
  for (int pass = 0; pass < 1000; ++pass) {
    std::vector<Reading> power;
    for (const Reading& reading : nvml.Read(false)) {
      const PowerChannel& channel = nvml.inventory().channels[reading.channel];
      if (channel.quantity == "power_mw") power.push_back(reading);
    }
    if (power.size() > 1) return power;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return {};
}

Json VoltaWithSamples(const std::string& clock, bool again = false) {
  return OneDevice(
      WithoutFields({{"architecture", kNvmlVolta},
                     {"capability", {7, 0}},
                     {"samples", {{"period_ms", 4}, {"clock", clock}, {"again", again}}},
                     {"calls", {{"nvmlDeviceGetSamples", 111000}}}}));
}

TEST(NvmlSamples, FillTheTimeBetweenPolls) {
  for (const auto& [clock, again] :
       {std::pair("boottime", false), std::pair("boottime", true), std::pair("realtime", false)}) {
    NvmlFixture nvml({.script = VoltaWithSamples(clock, again)});
    EXPECT_THAT(nvml.Channel("gpu", "power_mw", ReadingKind::kInstant)->note,
                HasSubstr("buffered samples"));
    int64_t newest = 0;
    for (int round = 0; round < 3; ++round) {
      const std::vector<Reading> power = SamplesOf(nvml);
      ASSERT_GT(power.size(), 1u);
      for (size_t i = 0; i + 1 < power.size(); ++i) {
        EXPECT_EQ(power[i].value, 111'000);
        ASSERT_TRUE(power[i].sampled_ns.has_value());
        // No sample occurs twice. Samples are 4 ms apart, and two clocks are read much closer
        // together.
        EXPECT_GT(*power[i].sampled_ns, newest + kMs);
        EXPECT_LE(*power[i].sampled_ns, power[i].after_ns);
        newest = *power[i].sampled_ns;
      }
      EXPECT_EQ(power.back().value, 300'000);
      EXPECT_FALSE(power.back().sampled_ns.has_value());
    }
  }
}

TEST(NvmlSamples, OfAnUnknownClockAreLeftOut) {
  NvmlFixture nvml({.script = VoltaWithSamples("none")});
  for (int pass = 0; pass < 3; ++pass) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    EXPECT_EQ(nvml.Read(false).size(), 2u);  // only energy and power
    EXPECT_EQ(nvml.Power().value, 300'000);
  }
}

TEST(NvmlSamples, NoneWhileIdleIsNoError) {
  Json script = VoltaWithSamples("boottime");
  script["devices"][0]["calls"]["nvmlDeviceGetSamples"] = {{"error", kNvmlNotFound}};
  NvmlFixture nvml({.script = script});
  EXPECT_THAT(nvml.inventory().absences, ::testing::SizeIs(0));
  EXPECT_EQ(nvml.Read(false).size(), 2u);
  EXPECT_EQ(nvml.Power().value, 300'000);
}

TEST(NvmlSamples, AreNotReadWhereTheSensorIsSlowerThanThePolls) {
  NvmlFixture nvml({.script = OneDevice({{"samples", {{"period_ms", 1}}}})});
  EXPECT_EQ(nvml.Channel("gpu", "power_mw", ReadingKind::kInstant)->note, "");
  std::this_thread::sleep_for(std::chrono::milliseconds(3));
  EXPECT_EQ(nvml.Read(false).size(), 3u);
}

Json Devices(const std::vector<Json>& devices) { return {{"devices", devices}}; }

TEST(NvmlOrdinals, HiddenDevicesStayInTheListAndAreNotRead) {
  NvmlFixture nvml({.script = Devices({Json::object(), Json::object(), Json::object()}),
                    .environment = {{"CUDA_VISIBLE_DEVICES", "2,0"}}});
  EXPECT_EQ(nvml.Device(0).ordinal, 1);
  EXPECT_EQ(nvml.Device(1).ordinal, std::nullopt);
  EXPECT_EQ(nvml.Device(2).ordinal, 0);
  EXPECT_THAT(nvml.Device(1).note, HasSubstr("CUDA_VISIBLE_DEVICES"));
  EXPECT_THAT(nvml.ChannelNames(1), IsEmpty());
  EXPECT_EQ(nvml.Read(false).size(), 6u);
}

TEST(NvmlOrdinals, NoDeviceIsVisible) {
  NvmlFixture nvml({.environment = {{"CUDA_VISIBLE_DEVICES", ""}}});
  EXPECT_EQ(nvml.inventory().devices.size(), 1u);
  EXPECT_THAT(nvml.inventory().channels, IsEmpty());
  EXPECT_THAT(nvml.Read(true), IsEmpty());
}

TEST(NvmlOrdinals, UnknownAmongSeveralModelsAndAllAreRead) {
  NvmlFixture nvml({.script = Devices({{{"name", "NVIDIA L4"}}, Json::object()}),
                    .environment = {{"CUDA_VISIBLE_DEVICES", "0"}}});
  EXPECT_EQ(nvml.Device(0).ordinal, std::nullopt);
  EXPECT_EQ(nvml.Device(1).ordinal, std::nullopt);
  const PowerAbsence absence = nvml.Absence("ordinals");
  EXPECT_THAT(absence.fix, HasSubstr("CUDA_DEVICE_ORDER=PCI_BUS_ID"));
  EXPECT_THAT(absence.fix, HasSubstr("--map"));
  EXPECT_EQ(nvml.Read(false).size(), 6u);
}

TEST(NvmlOrdinals, TheMapOverrides) {
  NvmlFixture nvml({.script = Devices({{{"name", "NVIDIA L4"}}, Json::object()}),
                    .ordinals = {{0, "GPU-10000000"}, {5, "GPU-zz"}, {6, "0000:03:00.0"}}});
  EXPECT_EQ(nvml.Device(0).ordinal, std::nullopt);
  EXPECT_EQ(nvml.Device(1).ordinal, 0);
  EXPECT_THAT(nvml.ChannelNames(0), IsEmpty());
  EXPECT_THAT(nvml.Absence("GPU-zz").fix, HasSubstr("nvidia-smi -L"));
  EXPECT_EQ(nvml.inventory().absences.size(), 1u);  // another source may have the other id
}

TEST(NvmlMig, TheParentIsReadAndShared) {
  NvmlFixture nvml({.script = Devices({Json::object(), {{"mig", {"MIG-11", "MIG-12"}}}}),
                    .environment = {{"CUDA_VISIBLE_DEVICES", "MIG-12"}}});
  const PowerDevice& parent = nvml.Device(1);
  EXPECT_EQ(parent.ordinal, 0);
  EXPECT_TRUE(parent.mig);
  EXPECT_TRUE(parent.shared);
  EXPECT_THAT(parent.note, HasSubstr("whole GPU"));
  EXPECT_THAT(nvml.ChannelNames(0), IsEmpty());
  nvml.Read(false);
  EXPECT_EQ(nvml.Power(1).value, 300'000);
}

// A procfs in which 100 is the parent of 200, 200 of 300, and init of 900.
struct FakeProcfs : testing::TempDir {
  FakeProcfs() {
    Write("100/stat", "100 (python) S 1 100");
    Write("200/stat", "200 (a) (b) S 100 100");
    Write("300/stat", "300 (x\n) R 200 100");
    Write("900/stat", "900 (other) S 1 900");
    Write("901/stat", "901");
  }
};

TEST(NvmlSharing, OwnProcessesAreNotOthers) {
  const FakeProcfs fake;
  const std::string procfs = fake.path();
  EXPECT_THAT(OtherProcesses({}, 100, procfs).others, IsEmpty());
  const Sharing own = OtherProcesses({100, 200, 300}, 100, procfs);
  EXPECT_THAT(own.others, IsEmpty());
  EXPECT_EQ(own.note, "");
  EXPECT_THAT(OtherProcesses({100, 900, 300}, 100, procfs).others, ElementsAre(900));
  EXPECT_THAT(OtherProcesses({100, 200, 300}, 200, procfs).others, ElementsAre(100));
}

TEST(NvmlSharing, WhatCannotBeKnownIsANote) {
  const FakeProcfs fake;
  const std::string procfs = fake.path();
  for (const int64_t pid : {77, 901}) {
    const Sharing unknown = OtherProcesses({100, pid}, 100, procfs);
    EXPECT_THAT(unknown.others, IsEmpty());
    EXPECT_THAT(unknown.note, HasSubstr("is unknown: process " + std::to_string(pid)));
  }
  EXPECT_EQ(OtherProcesses({77, 900}, 100, procfs).note, "");  // 900 is known to be another process
}

TEST(NvmlSharing, InAPidNamespaceNothingIsKnownOfOthers) {
  const FakeProcfs fake;
  const std::string procfs = fake.path();
  std::filesystem::create_directories(procfs + "/self/ns");
  std::filesystem::create_symlink("pid:[4026531836]", procfs + "/self/ns/pid");
  EXPECT_THAT(OtherProcesses({900}, 100, procfs).others, ElementsAre(900));
  std::filesystem::remove(procfs + "/self/ns/pid");
  std::filesystem::create_symlink("pid:[4026539999]", procfs + "/self/ns/pid");
  EXPECT_THAT(OtherProcesses({900}, 100, procfs).others, IsEmpty());
  EXPECT_THAT(OtherProcesses({900}, 100, procfs).note, HasSubstr("namespace"));
  EXPECT_EQ(OtherProcesses({200}, 100, procfs).note, "");
}

TEST(NvmlSharing, OfADevice) {
  const FakeProcfs fake;
  const std::string procfs = fake.path();
  const auto with = [&](const Json& device) {
    NvmlFixture nvml({.script = OneDevice(device), .pid = 100, .procfs = procfs});
    return nvml.Device(0);
  };
  EXPECT_FALSE(with({{"processes", {100, 300}}}).shared);
  const PowerDevice shared = with({{"processes", {300, 900}}});
  EXPECT_TRUE(shared.shared);
  EXPECT_THAT(shared.note, HasSubstr("900"));
  const PowerDevice unknown =
      with({{"calls", {{"nvmlDeviceGetComputeRunningProcesses", {{"error", kNvmlNoPermission}}}}}});
  EXPECT_FALSE(unknown.shared);
  EXPECT_THAT(unknown.note, HasSubstr("NVML_ERROR_NO_PERMISSION (4)"));
}

TEST(NvmlSharing, ThisProcessWithoutAPid) {
  NvmlFixture nvml({.script = OneDevice({{"processes", {getpid()}}})});
  EXPECT_FALSE(nvml.Device(0).shared);
  EXPECT_EQ(nvml.Device(0).note, "");
}

TEST(NvmlSharing, MoreProcessesThanTheFirstBuffer) {
  const FakeProcfs fake;
  const std::string procfs = fake.path();
  std::vector<int> pids(200, 300);
  pids.push_back(900);
  NvmlFixture nvml({.script = OneDevice({{"processes", pids}}), .pid = 100, .procfs = procfs});
  EXPECT_TRUE(nvml.Device(0).shared);
}

TEST(NvmlCalls, NumbersThatAreNoValue) {
  EXPECT_EQ(Scaled(5, 1000), 5000);
  EXPECT_EQ(Scaled(~uint64_t{0}, 1), std::nullopt);
  EXPECT_EQ(Scaled((uint64_t{1} << 63) - 1, 1), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Scaled((uint64_t{1} << 63) / 1000 + 1, 1000), std::nullopt);
}

TEST(NvmlCalls, ValuesOfEveryType) {
  EXPECT_EQ(RawOf(NvmlValue{.dbl = 12.9}, kNvmlDouble), 12u);
  EXPECT_EQ(RawOf(NvmlValue{.dbl = -1}, kNvmlDouble), std::nullopt);
  EXPECT_EQ(RawOf(NvmlValue{.dbl = std::nan("")}, kNvmlDouble), std::nullopt);
  EXPECT_EQ(RawOf(NvmlValue{.dbl = 1e300}, kNvmlDouble), std::nullopt);
  EXPECT_EQ(RawOf(NvmlValue{.uint = 7}, kNvmlUnsignedInt), 7u);
  EXPECT_EQ(RawOf(NvmlValue{.ulong = 8}, kNvmlUnsignedLong), 8u);
  EXPECT_EQ(RawOf(NvmlValue{.ullong = 9}, kNvmlUnsignedLongLong), 9u);
  EXPECT_EQ(RawOf(NvmlValue{.sllong = 10}, kNvmlSignedLongLong), 10u);
  EXPECT_EQ(RawOf(NvmlValue{.sllong = -10}, kNvmlSignedLongLong), std::nullopt);
  EXPECT_EQ(RawOf(NvmlValue{.sint = 11}, kNvmlSignedInt), 11u);
  EXPECT_EQ(RawOf(NvmlValue{.sint = -11}, kNvmlSignedInt), std::nullopt);
  EXPECT_EQ(RawOf(NvmlValue{.ushort = 12}, kNvmlUnsignedShort), 12u);
  EXPECT_EQ(RawOf(NvmlValue{.uint = 7}, 99), std::nullopt);
}

}  // namespace
}  // namespace xplane_time::power
