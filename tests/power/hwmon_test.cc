#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "power/reader.h"
#include "tests/power/fake_sysfs.h"

namespace xplane_time::power {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class Hwmon : public ::testing::Test {
 protected:
  // Writes the hwmon directory and its PCI device, with the links of the kernel.
  void Gpu(const std::string& number, const std::string& driver, const std::string& address) {
    fake_.Write("class/hwmon/" + number + "/name", driver);
    fake_.Write("devices/pci0000:00/" + address + "/device", "0x74a1");
    fake_.Link("class/hwmon/" + number + "/device", "../../../devices/pci0000:00/" + address);
  }
  void File(const std::string& number, const std::string& file, const std::string& text) {
    fake_.Write("class/hwmon/" + number + "/" + file, text);
  }
  void PciFile(const std::string& address, const std::string& file, const std::string& text) {
    fake_.Write("devices/pci0000:00/" + address + "/" + file, text);
  }
  Discovered Read() { return Discovered(NewHwmonReader(fake_.options())); }

  FakeSysfs fake_;
};

TEST_F(Hwmon, AllThatAnAmdGpuShows) {
  Gpu("hwmon4", "amdgpu", "0000:03:00.0");
  File("hwmon4", "power1_average", "35123456");
  File("hwmon4", "power1_input", "41000000");
  File("hwmon4", "energy1_input", "123456789");
  File("hwmon4", "temp1_input", "-5000");
  File("hwmon4", "freq1_input", "2100000000");
  File("hwmon4", "freq2_input", "900000000");
  File("hwmon4", "power1_cap", "300000000");
  PciFile("0000:03:00.0", "product_name", "Instinct");
  PciFile("0000:03:00.0", "gpu_busy_percent", "97");
  PciFile("0000:03:00.0", "mem_busy_percent", "3");
  PciFile("0000:03:00.0", "mem_info_vram_used", "1048576");
  PciFile("0000:03:00.0", "mem_info_vram_total", "17163091968");
  fake_.Write("module/amdgpu/version", "6.7.0");
  Discovered hwmon = Read();
  EXPECT_THAT(hwmon.absences(), IsEmpty());
  ASSERT_THAT(hwmon.inventory().devices, SizeIs(1));
  const PowerDevice& device = hwmon.inventory().devices[0];
  EXPECT_EQ(device.id, "0000:03:00.0");
  EXPECT_EQ(device.pci_bus_id, "0000:03:00.0");
  EXPECT_EQ(device.name, "Instinct");
  EXPECT_EQ(device.driver, "amdgpu 6.7.0");
  EXPECT_EQ(device.index, 0);
  EXPECT_EQ(device.ordinal, std::nullopt);

  const auto& channels = hwmon.inventory().channels;
  ASSERT_THAT(channels, SizeIs(11));
  EXPECT_EQ(channels[0].kind, ReadingKind::kAverage);
  EXPECT_EQ(channels[1].kind, ReadingKind::kInstant);
  EXPECT_TRUE(channels[0].in_total && channels[1].in_total && channels[2].in_total);
  EXPECT_EQ(channels[2].max_plausible_mw, 3'000'000);
  EXPECT_EQ(channels[2].wrap_range, std::nullopt);
  std::vector<int64_t> values;
  for (const Reading& reading : hwmon.Read(true)) values.push_back(reading.value.value_or(-1));
  EXPECT_THAT(values, ElementsAre(35123, 41000, 123456789, -5000, 2100, 900, 300'000, 970'000,
                                  30'000, 1048576, 17163091968));
  EXPECT_THAT(hwmon.Read(false), SizeIs(6));  // power, energy, busy, memory in use
}

TEST_F(Hwmon, OrdinalsAreThoseOfTheMap) {
  for (const char* number : {"1", "2", "3"}) {
    const std::string hwmon = std::string("hwmon") + number;
    Gpu(hwmon, "amdgpu", std::string("0000:0") + number + ":00.0");
    File(hwmon, "power1_average", "35000000");
  }
  PowerSourceOptions options = fake_.options();
  options.ordinals = {{0, "0000:03:00.0"}, {1, "0000:01"}, {2, "0000:0"}, {3, "GPU-1"}};
  const auto devices = Discovered(NewHwmonReader(options)).inventory().devices;
  ASSERT_THAT(devices, SizeIs(3));
  EXPECT_EQ(devices[0].ordinal, 1);  // selected by a unique prefix of the address
  EXPECT_EQ(devices[1].ordinal, std::nullopt);
  EXPECT_EQ(devices[2].ordinal, 0);
}

TEST_F(Hwmon, OneKindOfPowerIsEnough) {
  Gpu("hwmon0", "amdgpu", "0000:03:00.0");
  File("hwmon0", "power1_average", "35000000");
  Discovered average = Read();
  EXPECT_EQ(average.Channel("0000:03:00.0 socket power_mw").kind, ReadingKind::kAverage);
  EXPECT_THAT(average.inventory().channels, SizeIs(1));

  fake_.Remove("class/hwmon/hwmon0/power1_average");
  File("hwmon0", "power1_input", "36000000");
  Discovered instant = Read();
  EXPECT_EQ(instant.Channel("0000:03:00.0 socket power_mw").kind, ReadingKind::kInstant);
  EXPECT_EQ(instant.Value("0000:03:00.0 socket power_mw"), "36000");
}

TEST_F(Hwmon, APowerThatMayBeTheSocketsSaysSo) {
  Gpu("hwmon0", "amdgpu", "0000:03:00.0");
  File("hwmon0", "power1_average", "35000000");
  EXPECT_THAT(Read().Channel("0000:03:00.0 socket power_mw").note, HasSubstr("APU"));
  File("hwmon0", "power1_cap", "300000000");
  EXPECT_THAT(Read().Channel("0000:03:00.0 gpu power_mw").note, Not(HasSubstr("APU")));
}

TEST_F(Hwmon, GpusAreOrderedByTheirPciAddress) {
  Gpu("hwmon2", "amdgpu", "0000:c3:00.0");
  Gpu("hwmon10", "amdgpu", "0000:03:00.0");
  Gpu("hwmon3", "xe", "0000:02:00.0");
  File("hwmon2", "power1_average", "2000000");
  File("hwmon10", "power1_average", "1000000");
  File("hwmon3", "energy1_input", "7");
  Discovered hwmon = Read();
  ASSERT_THAT(hwmon.inventory().devices, SizeIs(3));
  EXPECT_EQ(hwmon.inventory().devices[0].id, "0000:03:00.0");
  EXPECT_EQ(hwmon.inventory().devices[0].index, 0);
  EXPECT_EQ(hwmon.inventory().devices[1].id, "0000:c3:00.0");
  EXPECT_EQ(hwmon.inventory().devices[1].index, 1);
  EXPECT_EQ(hwmon.inventory().devices[2].index, 0);  // from another vendor
  EXPECT_EQ(hwmon.inventory().devices[2].name, "Intel GPU 0x74a1");
  EXPECT_EQ(hwmon.Value("0000:03:00.0 socket power_mw"), "1000");
  EXPECT_EQ(hwmon.Value("0000:c3:00.0 socket power_mw"), "2000");
}

TEST_F(Hwmon, PciAddressesAreHexadecimal) {
  const std::string addresses[] = {"0000:09:00.0", "0000:0a:00.0", "0000:19:00.0", "0000:1a:00.0"};
  for (size_t i = 0; i < std::size(addresses); ++i) {
    Gpu("hwmon" + std::to_string(9 - i), "amdgpu", addresses[i]);
  }
  const Discovered hwmon = Read();
  ASSERT_THAT(hwmon.inventory().devices, SizeIs(4));
  for (size_t i = 0; i < std::size(addresses); ++i) {
    EXPECT_EQ(hwmon.inventory().devices[i].id, addresses[i]);
  }
}

TEST_F(Hwmon, IntelsCardIsTheTotalAndItsPackageOnlyWithoutACard) {
  Gpu("hwmon0", "xe", "0000:03:00.0");
  File("hwmon0", "energy1_input", "100");
  File("hwmon0", "energy2_input", "80");
  File("hwmon0", "power1_max", "190000000");
  Discovered both = Read();
  EXPECT_TRUE(both.Channel("0000:03:00.0 gpu energy_uj").in_total);
  EXPECT_FALSE(both.Channel("0000:03:00.0 gpu_package energy_uj").in_total);
  EXPECT_EQ(both.Channel("0000:03:00.0 gpu energy_uj").max_plausible_mw, 1'900'000);
  EXPECT_EQ(both.Value("0000:03:00.0 gpu power_limit_mw"), "190000");

  fake_.Remove("class/hwmon/hwmon0/energy1_input");
  Discovered package = Read();
  EXPECT_TRUE(package.Channel("0000:03:00.0 gpu_package energy_uj").in_total);
  EXPECT_FALSE(package.Channel("0000:03:00.0 gpu power_limit_mw").in_total);
}

TEST_F(Hwmon, OtherThingsWithPowerAreNotGpus) {
  int number = 0;
  for (const char* name : {"BAT0", "nvme", "amd_energy", "zenpower", "coretemp", "ucsi_source_psy",
                           "i915_gt0", "amdgpux", ""}) {
    const std::string folder = "hwmon" + std::to_string(number++);
    File(folder, "name", name);
    File(folder, "power1_input", "5000000");
  }
  fake_.Write("class/hwmon/hwmon99/power1_average", "1");  // without a name
  const Discovered hwmon = Read();
  EXPECT_THAT(hwmon.Keys(), IsEmpty());
  EXPECT_THAT(hwmon.inventory().devices, IsEmpty());
  ASSERT_THAT(hwmon.absences(), SizeIs(1));
  EXPECT_EQ(hwmon.absences()[0].reason, PowerReason::kAbsent);
}

TEST_F(Hwmon, NoHwmonAtAll) {
  const Discovered hwmon = Read();
  ASSERT_THAT(hwmon.absences(), SizeIs(1));
  EXPECT_THAT(hwmon.absences()[0].message, HasSubstr(fake_.sys("class/hwmon").string()));
}

TEST_F(Hwmon, AGpuWithoutASensorIsNamed) {
  Gpu("hwmon0", "amdgpu", "0000:03:00.0");
  File("hwmon0", "temp1_input", "40000");
  Discovered hwmon = Read();
  EXPECT_THAT(hwmon.Keys(), ElementsAre("0000:03:00.0 gpu temperature_mc"));
  ASSERT_THAT(hwmon.absences(), SizeIs(1));
  EXPECT_EQ(hwmon.absences()[0].what, "0000:03:00.0");
  EXPECT_EQ(hwmon.absences()[0].reason, PowerReason::kUnsupported);
}

TEST_F(Hwmon, AnUnreadableSensorStopsNothingElse) {
  Gpu("hwmon0", "amdgpu", "0000:03:00.0");
  fake_.Directory("class/hwmon/hwmon0/power1_average");
  File("hwmon0", "power1_input", "");
  File("hwmon0", "temp1_input", "40000");
  Discovered hwmon = Read();
  EXPECT_THAT(hwmon.Keys(), ElementsAre("0000:03:00.0 gpu temperature_mc"));
  ASSERT_THAT(hwmon.absences(), SizeIs(2));
  EXPECT_THAT(hwmon.absences()[0].message,
              AllOf(HasSubstr("hwmon0/power1_average"), HasSubstr("unsupported")));
}

TEST_F(Hwmon, ADeniedSensorNamesTheFileAndTheFix) {
  Gpu("hwmon0", "i915", "0000:00:02.0");
  File("hwmon0", "energy1_input", "1000000");
  fake_.Deny("class/hwmon/hwmon0/energy1_input");
  const WithoutRoot user;
  if (!user.is_bound()) GTEST_SKIP() << "root reads everything";
  const Discovered hwmon = Read();
  ASSERT_THAT(hwmon.absences(), SizeIs(1));
  EXPECT_EQ(hwmon.absences()[0].reason, PowerReason::kPermissionDenied);
  EXPECT_THAT(hwmon.absences()[0].message, HasSubstr("hwmon0/energy1_input"));
  EXPECT_THAT(hwmon.absences()[0].fix, HasSubstr("sudo chmod o+r"));
}

TEST_F(Hwmon, ADriverReloadIsLossAndReturn) {
  Gpu("hwmon0", "amdgpu", "0000:03:00.0");
  File("hwmon0", "power1_average", "1000000");
  Discovered hwmon = Read();
  EXPECT_EQ(hwmon.Value("0000:03:00.0 socket power_mw"), "1000");
  fake_.Remove("class/hwmon/hwmon0");
  EXPECT_EQ(hwmon.Value("0000:03:00.0 socket power_mw"), "device_lost");
  File("hwmon0", "power1_average", "2000000");
  EXPECT_EQ(hwmon.Value("0000:03:00.0 socket power_mw"), "2000");
  File("hwmon0", "power1_average", "-1");
  EXPECT_EQ(hwmon.Value("0000:03:00.0 socket power_mw"), "unsupported");
}

TEST_F(Hwmon, ANumberThatOverflowsItsUnitIsUnknown) {
  Gpu("hwmon0", "amdgpu", "0000:03:00.0");
  PciFile("0000:03:00.0", "gpu_busy_percent", "9223372036854775807");
  EXPECT_EQ(Read().Value("0000:03:00.0 gpu utilization_gpu_ppm"), "unsupported");
}

TEST_F(Hwmon, WithoutAPciDeviceTheHwmonsNumberStandsForIt) {
  File("hwmon7", "name", "amdgpu");
  File("hwmon7", "power1_average", "1000000");
  const Discovered hwmon = Read();
  EXPECT_THAT(hwmon.Keys(), ElementsAre("hwmon7 socket power_mw"));
  EXPECT_EQ(hwmon.inventory().devices[0].pci_bus_id, "");
}

TEST_F(Hwmon, ATpuIsNamedAndOtherDevicesOfItsMakerAreNot) {
  fake_.Write("bus/pci/devices/0000:00:04.0/vendor", "0x1ae0");
  fake_.Write("bus/pci/devices/0000:00:04.0/device", "0x0042");  // a network device
  EXPECT_THAT(Read().absences(), SizeIs(1));
  for (const char* address : {"0000:00:05.0", "0000:00:06.0"}) {
    fake_.Write(std::string("bus/pci/devices/") + address + "/vendor", "0x1ae0");
    fake_.Write(std::string("bus/pci/devices/") + address + "/device", "0x0063");
  }
  const Discovered hwmon = Read();
  ASSERT_THAT(hwmon.absences(), SizeIs(2));
  EXPECT_EQ(hwmon.absences()[1].what, "tpu");
  EXPECT_EQ(hwmon.absences()[1].reason, PowerReason::kUnsupported);
  EXPECT_THAT(hwmon.absences()[1].message, HasSubstr("0000:00:05.0"));
}

std::string Metrics(uint8_t format, uint8_t content, size_t size, size_t offset, uint64_t count) {
  std::string table(size, '\0');
  table[0] = static_cast<char>(size & 0xff);
  table[1] = static_cast<char>(size >> 8);
  table[2] = static_cast<char>(format);
  table[3] = static_cast<char>(content);
  for (size_t i = 0; i < 8; ++i) table[offset + i] = static_cast<char>(count >> (8 * i) & 0xff);
  return table;
}

TEST_F(Hwmon, TheAccumulatorOfGpuMetricsCountsEnergy) {
  const struct {
    uint8_t format, content;
    size_t offset;
    uint64_t count;
    std::optional<int64_t> energy_uj;
  } kCases[] = {
      {1, 4, 24, 65536, 1'000'000},
      {1, 5, 88, 65536 * 3 + 1, 3'000'015},
      {1, 4, 24, 0, 0},
      {1, 4, 24, UINT64_MAX, {}},      // the driver's "none"
      {1, 4, 24, UINT64_MAX - 1, {}},  // beyond int64_t
      {1, 3, 24, 65536, {}},           // a unit that differs by chip
      {2, 4, 24, 65536, {}},
      {3, 0, 24, 65536, {}},
  };
  const std::string path = fake_.sys("gpu_metrics").string();
  for (const auto& each : kCases) {
    fake_.WriteBytes("gpu_metrics",
                     Metrics(each.format, each.content, 300, each.offset, each.count));
    EXPECT_EQ(ReadGpuMetricsEnergy(path).value, each.energy_uj)
        << int{each.format} << "." << int{each.content} << " " << each.count;
  }
  EXPECT_EQ(ReadGpuMetricsEnergy(path + ".none").reason, PowerReason::kAbsent);
}

TEST_F(Hwmon, GpuMetricsThatAreCutAreUnknown) {
  const std::string whole = Metrics(1, 4, 120, 24, 65536);
  const std::string path = fake_.sys("gpu_metrics").string();
  for (size_t size = 0; size <= whole.size(); ++size) {
    fake_.WriteBytes("gpu_metrics", whole.substr(0, size));
    EXPECT_EQ(ReadGpuMetricsEnergy(path).value.has_value(), size == whole.size()) << size;
  }
  fake_.WriteBytes("gpu_metrics", Metrics(1, 4, 31, 23, 65536));
  EXPECT_EQ(ReadGpuMetricsEnergy(path).reason, PowerReason::kUnsupported);
}

TEST_F(Hwmon, GpuMetricsAreAChannelWhereHwmonHasNoEnergy) {
  Gpu("hwmon0", "amdgpu", "0000:03:00.0");
  File("hwmon0", "power1_input", "1000000");
  fake_.WriteBytes("devices/pci0000:00/0000:03:00.0/gpu_metrics", Metrics(1, 4, 120, 24, 131072));
  Discovered metrics = Read();
  EXPECT_EQ(metrics.Value("0000:03:00.0 socket energy_uj"), "2000000");
  EXPECT_TRUE(metrics.Channel("0000:03:00.0 socket energy_uj").in_total);
  fake_.Remove("devices/pci0000:00/0000:03:00.0/gpu_metrics");
  EXPECT_EQ(metrics.Value("0000:03:00.0 socket energy_uj"), "device_lost");

  fake_.WriteBytes("devices/pci0000:00/0000:03:00.0/gpu_metrics", Metrics(1, 4, 120, 24, 131072));
  File("hwmon0", "energy1_input", "5");
  EXPECT_EQ(Read().Value("0000:03:00.0 socket energy_uj"), "5");
}

}  // namespace
}  // namespace xplane_time::power
