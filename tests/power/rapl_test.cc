#include "power/reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <utility>

#include "tests/power/fake_sysfs.h"

namespace xplane_time::power {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

int NoPerf(uint32_t, uint64_t, int) {
  ADD_FAILURE() << "perf was asked";
  return -ENOSYS;
}

Discovered ReadRapl(const FakeSysfs& fake, PerfOpen open = NoPerf) {
  return Discovered(NewRaplReader(fake.options(), std::move(open)));
}

TEST(Rapl, PackagesAndTheirDramAreTheTotal) {
  FakeSysfs fake;
  fake.Write("class/powercap/intel-rapl/enabled", "1");  // the control type, which is not a zone
  fake.Zone("intel-rapl:0", "package-0", "1000");
  fake.Zone("intel-rapl:0:0", "core", "600");
  fake.Zone("intel-rapl:0:1", "uncore", "50");
  fake.Zone("intel-rapl:0:2", "dram", "200", "65712999613");
  fake.Zone("intel-rapl:1", "package-1", "2000");
  fake.Zone("intel-rapl:1:0", "dram", "300");
  fake.Zone("intel-rapl:2", "psys", "9000");
  fake.Zone("dtpm:0", "package-0", "1");
  fake.WriteProc("cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu\n");
  Discovered rapl = ReadRapl(fake);
  EXPECT_THAT(rapl.absences(), IsEmpty());
  EXPECT_THAT(rapl.Keys(), ElementsAre("package-0 package energy_uj", "package-0 core energy_uj",
                                       "package-0 uncore energy_uj", "package-0 dram energy_uj",
                                       "package-1 package energy_uj", "package-1 dram energy_uj",
                                       "psys psys energy_uj"));
  std::vector<std::string> in_total;
  for (const PowerChannel& channel : rapl.inventory().channels) {
    EXPECT_EQ(channel.source, "rapl");
    EXPECT_EQ(channel.kind, ReadingKind::kCumulative);
    EXPECT_FALSE(channel.slow);
    if (channel.in_total) in_total.push_back(channel.device + " " + channel.domain);
  }
  EXPECT_THAT(in_total, ElementsAre("package-0 package", "package-0 dram", "package-1 package",
                                    "package-1 dram"));
  EXPECT_EQ(rapl.Channel("package-0 dram energy_uj").wrap_range, 65712999613);
  ASSERT_THAT(rapl.inventory().devices, SizeIs(3));
  EXPECT_EQ(rapl.inventory().devices[0].id, "package-0");
  EXPECT_EQ(rapl.inventory().devices[0].name, "Some CPU @ 2 GHz");
  EXPECT_EQ(rapl.Value("package-1 dram energy_uj"), "300");
  EXPECT_THAT(rapl.Read(false), SizeIs(7));
}

TEST(Rapl, AnUnknownRangeIsNotARange) {
  for (const char* range : {"", "0", "-1", "many", "99999999999999999999"}) {
    SCOPED_TRACE(range);
    FakeSysfs fake;
    fake.Zone("intel-rapl:0", "package-0", "1000", range);
    Discovered rapl = ReadRapl(fake);
    EXPECT_EQ(rapl.Channel("package-0 package energy_uj").wrap_range, std::nullopt);
    EXPECT_EQ(rapl.Value("package-0 package energy_uj"), "1000");
  }
}

TEST(Rapl, ThePlausiblePowerIsGenerousAndInherited) {
  FakeSysfs fake;
  fake.Zone("intel-rapl:0", "package-0", "1000");
  fake.Write("class/powercap/intel-rapl:0/constraint_0_max_power_uw", "125000000");
  fake.Write("class/powercap/intel-rapl:0/constraint_1_max_power_uw", "0");
  fake.Zone("intel-rapl:0:0", "core", "600");
  fake.Write("class/powercap/intel-rapl:0:0/constraint_0_max_power_uw", "garbage");
  fake.Zone("intel-rapl:0:1", "dram", "600");
  fake.Write("class/powercap/intel-rapl:0:1/constraint_0_max_power_uw", "41250000");
  fake.Zone("intel-rapl:1", "package-1", "1000");
  Discovered rapl = ReadRapl(fake);
  EXPECT_EQ(rapl.Channel("package-0 package energy_uj").max_plausible_mw, 1'250'000);
  EXPECT_EQ(rapl.Channel("package-0 core energy_uj").max_plausible_mw, 1'250'000);
  EXPECT_EQ(rapl.Channel("package-0 dram energy_uj").max_plausible_mw, 412'500);
  EXPECT_EQ(rapl.Channel("package-1 package energy_uj").max_plausible_mw, std::nullopt);
}

TEST(Rapl, TheMmioTwinOfAPackageIsNotCountedTwice) {
  FakeSysfs fake;
  fake.Zone("intel-rapl-mmio:0", "package-0", "5");
  fake.Zone("intel-rapl:0", "package-0", "1000");
  Discovered both = ReadRapl(fake);
  EXPECT_THAT(both.Keys(), ElementsAre("package-0 package energy_uj"));
  EXPECT_EQ(both.Value("package-0 package energy_uj"), "1000");
  EXPECT_EQ(both.Channel("package-0 package energy_uj").note, "intel-rapl");

  fake.Remove("class/powercap/intel-rapl:0");
  Discovered alone = ReadRapl(fake);
  EXPECT_EQ(alone.Value("package-0 package energy_uj"), "5");
  EXPECT_EQ(alone.Channel("package-0 package energy_uj").note, "intel-rapl-mmio");
}

TEST(Rapl, ATwinStandsInForACounterThatFails) {
  FakeSysfs fake;
  fake.Zone("intel-rapl:0", "package-0", "garbage");
  fake.Zone("intel-rapl-mmio:0", "package-0", "5");
  Discovered rapl = ReadRapl(fake);
  EXPECT_EQ(rapl.Value("package-0 package energy_uj"), "5");
  ASSERT_THAT(rapl.absences(), SizeIs(1));
  EXPECT_EQ(rapl.absences()[0].what, "intel-rapl:0");
}

TEST(Rapl, DiesOfAPackageAreDevicesOfTheirOwn) {
  FakeSysfs fake;
  fake.Zone("intel-rapl:0", "package-0-die-0", "1");
  fake.Zone("intel-rapl:1", "package-0-die-1", "2");
  fake.Zone("intel-rapl:10", "package-1-die-0", "3");
  EXPECT_THAT(ReadRapl(fake).Keys(),
              ElementsAre("package-0-die-0 package energy_uj", "package-0-die-1 package energy_uj",
                          "package-1-die-0 package energy_uj"));
}

TEST(Rapl, ZonesOnlyBelowTheirParentsAreFoundAndLinksBackAreNotFollowed) {
  FakeSysfs fake;
  fake.Zone("intel-rapl:0", "package-0", "1");
  fake.Zone("intel-rapl:0/intel-rapl:0:0", "core", "2");
  fake.Link("class/powercap/intel-rapl:0/device", "..");
  fake.Link("class/powercap/intel-rapl:0/intel-rapl:0:0/intel-rapl:0:0:0", "..");
  Discovered rapl = ReadRapl(fake);
  EXPECT_THAT(rapl.Keys(), ElementsAre("package-0 package energy_uj", "package-0 core energy_uj",
                                       "package-0 package-0 energy_uj"));
  EXPECT_FALSE(rapl.inventory().channels[2].in_total);
}

TEST(Rapl, DramCountsOnlyOnceWhateverTheNesting) {
  FakeSysfs fake;
  fake.Zone("intel-rapl:0", "psys", "1");
  fake.Zone("intel-rapl:0:0", "dram", "2");
  fake.Zone("intel-rapl:1", "package-0", "1");
  fake.Zone("intel-rapl:1:0", "dram", "2");
  fake.Zone("intel-rapl:1:0:0", "dram", "2");
  std::vector<std::string> in_total;
  const Discovered rapl = ReadRapl(fake);
  for (const PowerChannel& channel : rapl.inventory().channels) {
    if (channel.in_total) in_total.push_back(channel.device + " " + channel.domain);
  }
  EXPECT_THAT(in_total, ElementsAre("package-0 package", "package-0 dram"));
}

TEST(Rapl, NothingThereSaysWhatToDo) {
  FakeSysfs fake;
  const Discovered bare = ReadRapl(fake);
  EXPECT_THAT(bare.Keys(), IsEmpty());
  ASSERT_THAT(bare.absences(), SizeIs(1));
  EXPECT_EQ(bare.absences()[0].reason, PowerReason::kAbsent);
  EXPECT_THAT(bare.absences()[0].message, HasSubstr(fake.sys("class/powercap").string()));
  EXPECT_THAT(bare.absences()[0].fix, HasSubstr("modprobe intel_rapl_msr"));

  fake.WriteProc("cpuinfo", "model name\t: Xeon\nflags\t\t: fpu hypervisor sse\n");
  const Discovered machine = ReadRapl(fake);
  ASSERT_THAT(machine.absences(), SizeIs(1));
  EXPECT_THAT(machine.absences()[0].message, HasSubstr("virtual machine"));
  EXPECT_THAT(machine.absences()[0].fix, Not(HasSubstr("modprobe")));
}

TEST(Rapl, AContainerThatHidesTheZonesIsNamed) {
  FakeSysfs fake;
  fake.Link("class/powercap/intel-rapl:0", "../../devices/virtual/powercap/intel-rapl:0");
  fake.Link("class/powercap/intel-rapl:1", "../../devices/virtual/powercap/intel-rapl:1");
  const Discovered rapl = ReadRapl(fake);
  EXPECT_THAT(rapl.Keys(), IsEmpty());
  ASSERT_THAT(rapl.absences(), SizeIs(1));
  EXPECT_EQ(rapl.absences()[0].reason, PowerReason::kPermissionDenied);
  EXPECT_THAT(rapl.absences()[0].message,
              AllOf(HasSubstr("intel-rapl:0 and 1 more"), HasSubstr("containers hide")));
}

TEST(Rapl, DeniedFilesAreSaidOnceWithTheirFix) {
  FakeSysfs fake;
  fake.Zone("intel-rapl:0", "package-0", "1");
  fake.Zone("intel-rapl:0:0", "dram", "2");
  fake.Deny("class/powercap/intel-rapl:0/energy_uj");
  fake.Deny("class/powercap/intel-rapl:0:0/energy_uj");
  const WithoutRoot user;
  if (!user.is_bound()) GTEST_SKIP() << "root reads everything";
  const Discovered rapl = ReadRapl(fake);
  ASSERT_THAT(rapl.absences(), SizeIs(1));
  EXPECT_EQ(rapl.absences()[0].reason, PowerReason::kPermissionDenied);
  EXPECT_THAT(rapl.absences()[0].message, HasSubstr("intel-rapl:0/energy_uj and 1 more"));
  EXPECT_THAT(rapl.absences()[0].fix, AllOf(HasSubstr("sudo chmod o+r"), HasSubstr("udev")));
}

TEST(Rapl, ATwinStandsInForACounterThatIsDenied) {
  FakeSysfs fake;
  fake.Zone("intel-rapl:0", "package-0", "1");
  fake.Zone("intel-rapl-mmio:0", "package-0", "5");
  fake.Deny("class/powercap/intel-rapl:0/energy_uj");
  const WithoutRoot user;
  if (!user.is_bound()) GTEST_SKIP() << "root reads everything";
  Discovered rapl = ReadRapl(fake);
  EXPECT_EQ(rapl.Value("package-0 package energy_uj"), "5");
  EXPECT_THAT(rapl.absences(), SizeIs(1));
}

TEST(Rapl, AnUnreadableZoneStopsNothingElse) {
  FakeSysfs fake;
  fake.Zone("intel-rapl:0", "package-0", "1");
  fake.Zone("intel-rapl:0:0", "core", "");
  fake.Zone("intel-rapl:1", "package-1", "2");
  fake.Directory("class/powercap/intel-rapl:1/energy_uj");
  fake.Zone("intel-rapl:2", "", "2");
  fake.Zone("intel-rapl:3:0", "orphan", "2");
  Discovered rapl = ReadRapl(fake);
  EXPECT_THAT(rapl.Keys(), ElementsAre("package-0 package energy_uj"));
  ASSERT_THAT(rapl.absences(), SizeIs(4));
  for (const PowerAbsence& absence : rapl.absences()) {
    EXPECT_EQ(absence.reason, PowerReason::kUnsupported) << absence.what;
    EXPECT_THAT(absence.message, HasSubstr(absence.what));
  }
}

TEST(Rapl, ACounterThatGoesIsLostNotZero) {
  FakeSysfs fake;
  fake.Zone("intel-rapl:0", "package-0", "500");
  Discovered rapl = ReadRapl(fake);
  EXPECT_EQ(rapl.Value("package-0 package energy_uj"), "500");
  fake.Remove("class/powercap/intel-rapl:0");
  EXPECT_EQ(rapl.Value("package-0 package energy_uj"), "device_lost");
  fake.Zone("intel-rapl:0", "package-0", "3");
  EXPECT_EQ(rapl.Value("package-0 package energy_uj"), "3");
  fake.Write("class/powercap/intel-rapl:0/energy_uj", "-3");
  EXPECT_EQ(rapl.Value("package-0 package energy_uj"), "unsupported");
}

class RaplByPerf : public ::testing::Test {
 protected:
  RaplByPerf() {
    fake_.Write(kPmu + "type", "22");
    fake_.Write(kPmu + "cpumask", "0,18");
    Event("energy-pkg", "event=0x02");
    Event("energy-cores", "event=0x01");
    Event("energy-psys", "event=0x05");
    for (const char* cpu : {"0", "18"}) {
      fake_.Write(std::string("devices/system/cpu/cpu") + cpu + "/topology/physical_package_id",
                  cpu[0] == '0' ? "0" : "1");
    }
  }

  void Event(const std::string& name, const std::string& config) {
    fake_.Write(kPmu + "events/" + name, config);
    fake_.Write(kPmu + "events/" + name + ".scale", "2.3283064365386962890625e-10");
    fake_.Write(kPmu + "events/" + name + ".unit", "Joules");
  }

  // Returns the counts in order, and then no data, as from an event in an error state.
  static PerfOpen Counts(std::vector<uint64_t> counts) {
    return [counts](uint32_t type, uint64_t, int) {
      EXPECT_EQ(type, 22);
      int ends[2];
      EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
      const size_t size = counts.size() * sizeof(uint64_t);
      EXPECT_EQ(write(ends[1], counts.data(), size), static_cast<ssize_t>(size));
      close(ends[1]);
      return ends[0];
    };
  }

  const std::string kPmu = "bus/event_source/devices/power/";
  FakeSysfs fake_;
};

TEST_F(RaplByPerf, EachPackageHasItsCountersAndTheBoardOne) {
  std::vector<std::string> opened;
  const PerfOpen counts = Counts({uint64_t{1} << 32, uint64_t{3} << 31});
  Discovered rapl = ReadRapl(fake_, [&](uint32_t type, uint64_t config, int cpu) {
    opened.push_back(std::to_string(config) + "@" + std::to_string(cpu));
    return counts(type, config, cpu);
  });
  EXPECT_THAT(opened, ElementsAre("2@0", "2@18", "1@0", "1@18", "5@0"));
  EXPECT_THAT(rapl.Keys(), ElementsAre("package-0 package energy_uj", "package-1 package energy_uj",
                                       "package-0 core energy_uj", "package-1 core energy_uj",
                                       "psys psys energy_uj"));
  EXPECT_THAT(rapl.absences(), IsEmpty());
  const PowerChannel& package = rapl.Channel("package-0 package energy_uj");
  EXPECT_TRUE(package.in_total);
  EXPECT_EQ(package.wrap_range, std::nullopt);
  EXPECT_THAT(package.note, HasSubstr("perf"));
  EXPECT_FALSE(rapl.Channel("package-0 core energy_uj").in_total);
  EXPECT_FALSE(rapl.Channel("psys psys energy_uj").in_total);
  EXPECT_EQ(rapl.Value("package-1 package energy_uj"), "1000000");  // 2^32 counts are 1 J
  EXPECT_EQ(rapl.Value("package-1 package energy_uj"), "1500000");
  EXPECT_EQ(rapl.Value("package-1 package energy_uj"), "device_lost");
}

TEST_F(RaplByPerf, PowercapComesFirst) {
  fake_.Zone("intel-rapl:0", "package-0", "1000");
  EXPECT_EQ(ReadRapl(fake_, NoPerf).Value("package-0 package energy_uj"), "1000");
}

TEST_F(RaplByPerf, StandsInForPackagesThatAreDenied) {
  fake_.Zone("intel-rapl:0", "package-0", "1000");
  fake_.Zone("intel-rapl:0:0", "dram", "1000");
  fake_.Deny("class/powercap/intel-rapl:0/energy_uj");
  const WithoutRoot user;
  if (!user.is_bound()) GTEST_SKIP() << "root reads everything";
  const Discovered rapl = ReadRapl(fake_, Counts({1}));
  EXPECT_THAT(rapl.absences(), IsEmpty());
  EXPECT_THAT(rapl.Keys(), SizeIs(5));  // only from perf, so packages do not occur twice
}

TEST_F(RaplByPerf, StandsInForPowercapThatIsHidden) {
  fake_.Link("class/powercap/intel-rapl:0", "nowhere");
  const Discovered rapl = ReadRapl(fake_, Counts({1}));
  EXPECT_THAT(rapl.absences(), IsEmpty());
  EXPECT_THAT(rapl.Keys(), SizeIs(5));
}

TEST_F(RaplByPerf, ARefusalNamesTheSettingAndTheFix) {
  fake_.Link("class/powercap/intel-rapl:0", "nowhere");
  fake_.WriteProc("sys/kernel/perf_event_paranoid", "2\n");
  const Discovered rapl = ReadRapl(fake_, [](uint32_t, uint64_t, int) { return -EACCES; });
  EXPECT_THAT(rapl.Keys(), IsEmpty());
  ASSERT_THAT(rapl.absences(), SizeIs(4));  // one for powercap, and one for each event
  EXPECT_EQ(rapl.absences()[0].what, "powercap");
  EXPECT_EQ(rapl.absences()[1].what, "power/energy-pkg/");
  EXPECT_EQ(rapl.absences()[1].reason, PowerReason::kPermissionDenied);
  EXPECT_THAT(rapl.absences()[1].message, HasSubstr("kernel.perf_event_paranoid is 2"));
  EXPECT_THAT(rapl.absences()[1].fix, HasSubstr("perf_event_paranoid=0"));
}

TEST_F(RaplByPerf, AKernelWithoutPerfIsNotAPermission) {
  const Discovered rapl = ReadRapl(fake_, [](uint32_t, uint64_t, int) { return -ENOSYS; });
  ASSERT_THAT(rapl.absences(), SizeIs(3));
  EXPECT_EQ(rapl.absences()[0].reason, PowerReason::kUnsupported);
  EXPECT_EQ(rapl.absences()[0].fix, "");
}

TEST_F(RaplByPerf, GarbageIsNoEvent) {
  fake_.Write(kPmu + "events/energy-pkg", "umask=0x02");
  fake_.Write(kPmu + "events/energy-cores.unit", "Watts");
  fake_.Write(kPmu + "events/energy-psys.scale", "nan");
  const Discovered rapl = ReadRapl(fake_, NoPerf);
  ASSERT_THAT(rapl.absences(), SizeIs(3));
  for (const PowerAbsence& absence : rapl.absences()) {
    EXPECT_EQ(absence.reason, PowerReason::kUnsupported);
    EXPECT_THAT(absence.message, HasSubstr("events/energy-"));
  }
}

TEST_F(RaplByPerf, AMaskOrTypeThatIsNoneIsNamed) {
  for (const char* mask : {"", "x", "0,", "0-", "5-99999999999", "0-8000,0-8000"}) {
    fake_.Write(kPmu + "cpumask", mask);
    const Discovered rapl = ReadRapl(fake_, Counts({1}));
    if (std::string_view(mask) == "0,") continue;  // read as "0"
    EXPECT_THAT(rapl.Keys(), IsEmpty()) << mask;
    ASSERT_THAT(rapl.absences(), SizeIs(1)) << mask;
    EXPECT_THAT(rapl.absences()[0].message, HasSubstr("/cpumask"));
  }
  fake_.Write(kPmu + "cpumask", "0");
  fake_.Write(kPmu + "type", "4294967296");
  const Discovered rapl = ReadRapl(fake_, NoPerf);
  ASSERT_THAT(rapl.absences(), SizeIs(1));
  EXPECT_THAT(rapl.absences()[0].message, HasSubstr("/type"));
}

TEST_F(RaplByPerf, DiesAreNamedAsByPowercap) {
  fake_.Write(kPmu + "cpumask", "0-1,7");
  for (const char* cpu : {"0", "1"}) {
    const std::string topology = std::string("devices/system/cpu/cpu") + cpu + "/topology/";
    fake_.Write(topology + "physical_package_id", "0");
    fake_.Write(topology + "die_id", cpu);
  }
  const Discovered rapl = ReadRapl(fake_, Counts({1}));
  EXPECT_THAT(rapl.Keys(), ::testing::IsSupersetOf({"package-0-die-0 package energy_uj",
                                                    "package-0-die-1 package energy_uj",
                                                    "package-of-cpu-7 package energy_uj"}));
}

// Uses perf_event_open of the kernel, with a clock instead of an energy counter.
TEST_F(RaplByPerf, WorksWithTheKernelsEvents) {
  fake_.Write(kPmu + "type", "1");   // PERF_TYPE_SOFTWARE
  Event("energy-pkg", "event=0x0");  // PERF_COUNT_SW_CPU_CLOCK, in ns
  fake_.Write(kPmu + "events/energy-pkg.scale", "1e-3");
  fake_.Write(kPmu + "cpumask", "0");
  fake_.Remove(kPmu + "events/energy-cores");
  fake_.Remove(kPmu + "events/energy-psys");
  Discovered rapl(NewRaplReader(fake_.options()));
  if (rapl.Keys().empty()) GTEST_SKIP() << rapl.absences()[0].message;
  const std::vector<Reading> first = rapl.Read(), second = rapl.Read();
  ASSERT_TRUE(first[0].value && second[0].value);
  EXPECT_GT(*first[0].value, 0);
  EXPECT_GE(*second[0].value, *first[0].value);
}

}  // namespace
}  // namespace xplane_time::power
