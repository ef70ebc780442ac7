#include "energy/sensors.h"

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace xplane_time::energy {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Device(std::string_view id, std::string_view ordinal) {
  return absl::StrCat(R"({"id":")", std::string(id), R"(","name":"n","source":"nvml","index":0,)",
                      R"("ordinal":)", std::string(ordinal),
                      R"(,"pci_bus_id":"","driver":"","mig":false,"shared":false,"note":""})");
}

std::string Channel(std::string_view device, std::string_view domain, std::string_view quantity,
                    std::string_view kind) {
  return absl::StrCat(R"({"source":"nvml","device":")", std::string(device), R"(","domain":")",
                      std::string(domain), R"(","quantity":")", std::string(quantity),
                      R"(","kind":")", std::string(kind),
                      R"(","slow":false,"in_total":true,"wrap_range":null,)"
                      R"("max_plausible_mw":null,"prior_period_ns":null,"prior_window_ns":null,)"
                      R"("note":""})");
}

// A log that began at 1000 s of the monotonic clock and 1700000000 s of the wall clock.
SensorLog Log(const std::string& devices, const std::string& channels, const std::string& lines) {
  const std::string path = ::testing::TempDir() + "/sensors.jsonl";
  std::ofstream(path) << R"({"schema":"xplane-time.power-log.v1","t":1000000000000,)"
                      << R"("clocks":{"monotonic_ns":1000000000000,)"
                      << R"("realtime_ns":1700000000000000000,"boottime_ns":1000000000000},)"
                      << R"("machine":{},"command":"","periods_ns":{"nvml":50000000},)"
                      << R"("devices":[)" << devices << R"(],"channels":[)" << channels
                      << R"(],"absent":[]})"
                      << "\n"
                      << lines;
  absl::StatusOr<SensorLog> log = ReadSensorLog(path);
  EXPECT_TRUE(log.ok()) << log.status();
  return log.ok() ? *std::move(log) : SensorLog();
}

std::string ReadingsOf(uint32_t channel) {
  std::string lines;
  for (int i = 0; i < 3; ++i) {
    absl::StrAppend(&lines, R"({"t":)", 1'001'000'000'000 + i * 50'000'000, R"(,"s":0,"r":[[)",
                    channel, ",1000,2000,", 100 + i, "]]}\n");
  }
  return lines;
}

const TraceDevice kGpu0 = {DeviceKind::kGpu, 0};

TEST(ChooseSensor, TakesTheCounterOfTheOrdinal) {
  const SensorLog log = Log(Device("GPU-a", "1") + "," + Device("GPU-b", "0"),
                            Channel("GPU-a", "gpu", "energy_uj", "cumulative") + "," +
                                Channel("GPU-b", "gpu", "power_mw", "instant") + "," +
                                Channel("GPU-b", "gpu", "energy_uj", "cumulative"),
                            ReadingsOf(0) + ReadingsOf(1) + ReadingsOf(2));
  const SensorChoice choice = ChooseSensor(log, kGpu0, {});
  ASSERT_EQ(choice.sensors.size(), 1U) << choice.message;
  EXPECT_EQ(choice.device, "GPU-b");
  EXPECT_EQ(choice.sensors[0]->channel.quantity, "energy_uj");
  const SensorChoice mapped = ChooseSensor(log, kGpu0, {{0, "GPU-a"}});
  ASSERT_EQ(mapped.sensors.size(), 1U) << mapped.message;
  EXPECT_EQ(mapped.device, "GPU-a");
}

TEST(ChooseSensor, ACounterThatWasNotReadIsNone) {
  const SensorLog log = Log(Device("GPU-a", "0"),
                            Channel("GPU-a", "gpu", "energy_uj", "cumulative") + "," +
                                Channel("GPU-a", "gpu", "power_mw", "average"),
                            ReadingsOf(1));
  const SensorChoice choice = ChooseSensor(log, kGpu0, {});
  ASSERT_EQ(choice.sensors.size(), 1U) << choice.message;
  EXPECT_EQ(choice.sensors[0]->channel.quantity, "power_mw");
}

TEST(ChooseSensor, AModuleIsNoDevice) {
  const SensorLog log = Log(Device("GPU-a", "0"),
                            Channel("GPU-a", "module", "energy_uj", "cumulative"), ReadingsOf(0));
  const SensorChoice choice = ChooseSensor(log, kGpu0, {});
  EXPECT_TRUE(choice.sensors.empty());
  EXPECT_EQ(choice.reason, "module");
}

TEST(ChooseSensor, TwoDevicesAreNotTakenForOneAnother) {
  const std::string channels = Channel("GPU-a", "gpu", "energy_uj", "cumulative") + "," +
                               Channel("GPU-b", "gpu", "energy_uj", "cumulative");
  const SensorLog log = Log(Device("GPU-a", "null") + "," + Device("GPU-b", "null"), channels,
                            ReadingsOf(0) + ReadingsOf(1));
  const SensorChoice choice = ChooseSensor(log, kGpu0, {});
  EXPECT_EQ(choice.reason, "no_map");
  EXPECT_THAT(choice.message, HasSubstr("--map: GPU-a, GPU-b"));
  EXPECT_EQ(ChooseSensor(log, kGpu0, {{0, "GPU-"}}).reason, "no_map");
  EXPECT_EQ(ChooseSensor(log, kGpu0, {{0, "GPU-c"}}).reason, "no_sensor");
  EXPECT_EQ(ChooseSensor(log, kGpu0, {{1, "GPU-b"}}).reason, "no_sensor");
  EXPECT_EQ(ChooseSensor(log, kGpu0, {{0, "GPU-b"}}).device, "GPU-b");
}

TEST(ChooseSensor, OneDeviceThatSaysNoOrdinalIsTheDevice) {
  const SensorLog log = Log(Device("GPU-a", "null"),
                            Channel("GPU-a", "gpu", "energy_uj", "cumulative"), ReadingsOf(0));
  EXPECT_EQ(ChooseSensor(log, kGpu0, {}).device, "GPU-a");
  // It is not used for a processor.
  EXPECT_EQ(ChooseSensor(log, {DeviceKind::kCpu, 0}, {}).reason, "no_sensor");
}

std::string CpuChannel(std::string_view device, std::string_view domain) {
  return absl::StrReplaceAll(Channel(device, domain, "energy_uj", "cumulative"),
                             {{"nvml", "rapl"}});
}

std::string Round(int64_t t_ms, std::string_view readings) {
  return absl::StrCat(R"({"t":)", t_ms, R"(000000,"s":0,"r":[)", std::string(readings), "]}\n");
}

TEST(ChooseSensor, APackageIsTheProcessorAndTheBoardIsNot) {
  const SensorLog log =
      Log("", CpuChannel("package-0", "package") + "," + CpuChannel("psys", "psys"),
          ReadingsOf(0) + ReadingsOf(1));
  EXPECT_EQ(ChooseSensor(log, {DeviceKind::kCpu, 0}, {}).device, "package-0");
}

TEST(ChooseSensor, PackagesAreOneProcessorByTheSumOfRoundsInWhichAllWereRead) {
  const SensorLog log =
      Log("",
          CpuChannel("package-0", "package") + "," + CpuChannel("package-0", "core") + "," +
              CpuChannel("package-1", "package"),
          Round(1'001'000, "[0,0,5,10],[1,6,7,9],[2,8,9,1000]") +
              Round(1'001'050, "[0,0,5,20],[2,8,9,2000]") + Round(1'001'100, "[0,0,5,30]") +
              Round(1'001'160, "[2,0,5,3000]") + Round(1'001'200, "[0,0,5,50],[2,8,9,5000]"));
  const SensorChoice choice = ChooseSensor(log, {DeviceKind::kCpu, 0}, {});
  EXPECT_EQ(choice.device, "package-0, package-1");
  ASSERT_EQ(choice.sensors.size(), 2U);
  std::vector<int64_t> values;
  for (const Poll& poll : PollsSince(1'001'000'000'000, choice.sensors)) {
    values.push_back(poll.value);
    EXPECT_NEAR(poll.after_s - poll.before_s, 17e-9, 1e-12);
  }
  EXPECT_THAT(values, ElementsAre(1010, 2020, 5050));
  // One of them can be selected explicitly.
  EXPECT_EQ(ChooseSensor(log, {DeviceKind::kCpu, 0}, {{0, "package-1"}}).device, "package-1");
}

TEST(PollsOn, CountsFromTheStartOfTheCapture) {
  const SensorLog log =
      Log(Device("GPU-a", "0"), Channel("GPU-a", "gpu", "energy_uj", "cumulative"), ReadingsOf(0));
  const auto polls = PollsOn(log, {&log.sensors[0]}, 1'700'000'000'500'000'000);
  ASSERT_EQ(polls.size(), 3U);
  EXPECT_NEAR(polls[0].before_s, 0.500001, 1e-9);
  EXPECT_NEAR(polls[0].after_s, 0.500003, 1e-9);
  EXPECT_EQ(polls[2].value, 102);
}

// The wall clock was set in between. The line of clocks that is nearest to the capture's start is
// used.
TEST(PollsOn, AStepOfTheCalendarAfterTheCaptureChangesNothing) {
  const std::string step = R"({"t":1002000000000,"clocks":{"monotonic_ns":1002000000000,)"
                           R"("realtime_ns":1700003602000000000,"boottime_ns":1002000000000}})";
  const SensorLog log =
      Log(Device("GPU-a", "0"), Channel("GPU-a", "gpu", "energy_uj", "cumulative"),
          ReadingsOf(0) + step + "\n");
  EXPECT_NEAR(PollsOn(log, {&log.sensors[0]}, 1'700'000'000'500'000'000)[0].before_s, 0.500001,
              1e-9);
  EXPECT_NEAR(PollsOn(log, {&log.sensors[0]}, 1'700'003'602'000'000'000)[0].before_s, -0.999999,
              1e-9);
}

SensorLog CounterLog(std::vector<int64_t> values, std::optional<int64_t> wrap_range) {
  SensorLog log;
  SensorReadings& sensor = log.sensors.emplace_back();
  sensor.channel.kind = ReadingKind::kCumulative;
  sensor.channel.wrap_range = wrap_range;
  sensor.channel.max_plausible_mw = 1'000'000;
  for (size_t i = 0; i < values.size(); ++i) {
    power::Reading reading;
    reading.before_ns = static_cast<int64_t>(i) * 100'000'000;
    reading.after_ns = reading.before_ns + 1'000;
    reading.value = values[i];
    sensor.readings.push_back(reading);
  }
  return log;
}

std::vector<int64_t> ValuesOf(const SensorLog& log) {
  std::vector<int64_t> values;
  for (const Poll& poll : PollsOn(log, {&log.sensors[0]}, 0)) values.push_back(poll.value);
  return values;
}

TEST(PollsOn, ACounterGoesOnWhereItWraps) {
  EXPECT_EQ(ValuesOf(CounterLog({80, 95, 10, 30, 5}, 100)),
            (std::vector<int64_t>{80, 95, 110, 130, 205}));
}

std::vector<uint32_t> PartsOf(const SensorLog& log) {
  std::vector<uint32_t> parts;
  for (const Poll& poll : PollsOn(log, {&log.sensors[0]}, 0)) parts.push_back(poll.part);
  return parts;
}

// The value at the reset is unknown, so a new part begins, without an update between the parts.
TEST(PollsOn, AResetBeginsAPart) {
  const SensorLog log = CounterLog({80, 95, 10, 30, 45, 2, 9}, {});
  EXPECT_EQ(ValuesOf(log), (std::vector<int64_t>{80, 95, 10, 30, 45, 2, 9}));
  EXPECT_THAT(PartsOf(log), ElementsAre(0, 0, 1, 1, 1, 2, 2));
  const Publications found =
      FindPublications(PollsOn(log, {&log.sensors[0]}, 0), ReadingKind::kCumulative);
  std::vector<int64_t> updates;
  for (const Update& update : found.updates) updates.push_back(update.value);
  EXPECT_THAT(updates, ElementsAre(95, 30, 45, 9));
}

TEST(PollsOn, AJumpThatNoDeviceMakesBeginsAPart) {
  EXPECT_THAT(PartsOf(CounterLog({1, 2, 3'000'000'000'000, 3'000'000'000'001}, {})),
              ElementsAre(0, 0, 1, 1));
}

}  // namespace
}  // namespace xplane_time::energy
