#include "power/sysfs.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>
#include <iterator>
#include <random>

#include "tests/power/fake_sysfs.h"

namespace xplane_time::power {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(NumberIn, OnlyWholeNumbersOfTheRightSignAreNumbers) {
  const struct {
    std::string_view text;
    std::optional<int64_t> not_negative, any;
  } kCases[] = {
      {"0", 0, 0},
      {"35000000\n", 35000000, 35000000},
      {" 7 \n", 7, 7},
      {"9223372036854775807", INT64_MAX, INT64_MAX},
      {"-5000", {}, -5000},
      {"9223372036854775808", {}, {}},
      {"99999999999999999999999999999999999999", {}, {}},
      {"", {}, {}},
      {"\n", {}, {}},
      {"+5", {}, {}},
      {"-", {}, {}},
      {"0x10", {}, {}},
      {"1.5", {}, {}},
      {"1 2", {}, {}},
      {"12W", {}, {}},
      {"N/A", {}, {}},
      {"\xff\xfe", {}, {}},
  };
  for (const auto& each : kCases) {
    SCOPED_TRACE(each.text);
    EXPECT_EQ(NumberIn(each.text).value, each.not_negative);
    EXPECT_EQ(NumberIn(each.text, Sign::kAny).value, each.any);
    EXPECT_EQ(NumberIn(each.text).reason,
              each.not_negative ? PowerReason::kKnown : PowerReason::kUnsupported);
  }
}

TEST(ReasonOf, OpenAndReadMeanDifferentThings) {
  const struct {
    int error;
    PowerReason open, read;
  } kCases[] = {
      {EACCES, PowerReason::kPermissionDenied, PowerReason::kPermissionDenied},
      {EPERM, PowerReason::kPermissionDenied, PowerReason::kNoSamples},
      {ENOENT, PowerReason::kAbsent, PowerReason::kDeviceLost},
      {ENODEV, PowerReason::kDeviceLost, PowerReason::kDeviceLost},
      {EIO, PowerReason::kDeviceLost, PowerReason::kDeviceLost},
      {ESRCH, PowerReason::kDeviceLost, PowerReason::kDeviceLost},
      {EBUSY, PowerReason::kNoSamples, PowerReason::kNoSamples},
      {EINVAL, PowerReason::kUnsupported, PowerReason::kUnsupported},
      {EOPNOTSUPP, PowerReason::kUnsupported, PowerReason::kUnsupported},
      {EMFILE, PowerReason::kUnsupported, PowerReason::kUnsupported},
  };
  for (const auto& each : kCases) {
    EXPECT_EQ(ReasonOfOpen(each.error), each.open) << each.error;
    EXPECT_EQ(ReasonOfRead(each.error), each.read) << each.error;
  }
}

TEST(ReadNumber, WhateverIsInPlaceOfAFileHasAReason) {
  FakeSysfs fake;
  fake.Write("number", "12");
  fake.WriteBytes("empty", "");
  fake.WriteBytes("long", std::string(100'000, '1'));
  fake.Directory("directory");
  fake.Link("loop", "loop");
  ASSERT_EQ(mkfifo(fake.sys("fifo").c_str(), 0600), 0);
  const auto reason = [&](const std::string& file) {
    return ReadNumber(fake.sys(file).string()).reason;
  };
  EXPECT_EQ(ReadNumber(fake.sys("number").string()).value, 12);
  EXPECT_EQ(reason("empty"), PowerReason::kUnsupported);
  EXPECT_EQ(reason("long"), PowerReason::kUnsupported);
  EXPECT_EQ(reason("directory"), PowerReason::kUnsupported);
  EXPECT_EQ(reason("fifo"), PowerReason::kUnsupported);  // the read does not hang
  EXPECT_EQ(reason("none"), PowerReason::kAbsent);
  EXPECT_EQ(reason("number/below"), PowerReason::kAbsent);
  EXPECT_EQ(reason("loop"), PowerReason::kAbsent);
}

TEST(ReadNumber, NamesAMissingPermission) {
  FakeSysfs fake;
  fake.Write("secret", "12");
  fake.Deny("secret");
  const WithoutRoot user;
  if (!user.is_bound()) GTEST_SKIP() << "root reads everything";
  EXPECT_EQ(ReadNumber(fake.sys("secret").string()).reason, PowerReason::kPermissionDenied);
}

TEST(ReadText, KeepsTheBeginningOfALongFile) {
  FakeSysfs fake;
  fake.Write("text", "  abcdef  ");
  EXPECT_EQ(ReadText(fake.sys("text").string()).value, "abcdef");
  EXPECT_EQ(ReadText(fake.sys("text").string(), 4).value, "ab");
  EXPECT_EQ(ReadBytes(fake.sys("text").string(), 4).value, "  ab");
  EXPECT_EQ(ReadText(fake.sys("none").string()).reason, PowerReason::kAbsent);
}

TEST(HeldFile, SeesNewValuesLossAndReturn) {
  FakeSysfs fake;
  fake.Write("energy", "1");
  HeldFile file(fake.sys("energy").string());
  EXPECT_EQ(file.Read().value, 1);
  fake.Write("energy", "2");
  EXPECT_EQ(file.Read().value, 2);
  fake.Remove("energy");
  EXPECT_EQ(file.Read().reason, PowerReason::kDeviceLost);
  EXPECT_EQ(file.Read().reason, PowerReason::kDeviceLost);
  fake.Write("energy", "3");
  EXPECT_EQ(file.Read().value, 3);
}

TEST(HeldFile, OfAFileThatNeverWasIsAbsent) {
  FakeSysfs fake;
  HeldFile file(fake.sys("energy").string());
  EXPECT_EQ(file.Read().reason, PowerReason::kAbsent);
}

// A kernel file becomes invalid while it is open, like the files of an unloaded driver. Here, it
// belongs to a process that ends.
TEST(HeldFile, AnOpenFileWhoseDeviceGoesIsLost) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    pause();
    _exit(0);
  }
  const std::string path = "/proc/" + std::to_string(child) + "/oom_score";
  HeldFile file(path);
  const FileNumber before = file.Read();
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  if (!before.value) GTEST_SKIP() << path << " is not readable here";
  EXPECT_EQ(file.Read().reason, PowerReason::kDeviceLost);
  EXPECT_EQ(file.Read().reason, PowerReason::kDeviceLost);
}

TEST(FieldOf, FindsWholeKeysInTheirUnits) {
  const std::string kText =
      "VmRSSx:\t9 kB\nVmRSS:\t    3964 kB\nThreads:\t4\nBad:\tmany kB\n"
      "Huge:\t9223372036854775807 kB\nLast:\t5";
  EXPECT_EQ(FieldOf(kText, "VmRSS").value, 3964 * 1024);
  EXPECT_EQ(FieldOf(kText, "Threads").value, 4);
  EXPECT_EQ(FieldOf(kText, "Last").value, 5);
  EXPECT_EQ(FieldOf(kText, "Bad").reason, PowerReason::kUnsupported);
  EXPECT_EQ(FieldOf(kText, "Huge").reason, PowerReason::kUnsupported);
  EXPECT_EQ(FieldOf(kText, "VmHWM").reason, PowerReason::kNoSamples);
  EXPECT_EQ(FieldOf(std::string(), "VmHWM").reason, PowerReason::kNoSamples);
}

TEST(NamesIn, OrdersByNumber) {
  FakeSysfs fake;
  for (const char* name : {"hwmon10", "hwmon2", "hwmon1", "a"}) fake.Write(name, "");
  EXPECT_THAT(NamesIn(fake.sys("").string()), ElementsAre("a", "hwmon1", "hwmon2", "hwmon10"));
  EXPECT_THAT(NamesIn(fake.sys("none").string()), IsEmpty());
}

TEST(NaturalLess, IsAnOrder) {
  const std::string names[] = {"", "0", "00", "01", "1", "01x", "1x", "1a2", "1a10", "a", "a1b"};
  for (const std::string& a : names) {
    EXPECT_FALSE(NaturalLess(a, a));
    for (const std::string& b : names) {
      if (a != b) {
        EXPECT_NE(NaturalLess(a, b), NaturalLess(b, a)) << a << " " << b;
      }
      for (const std::string& c : names) {
        if (NaturalLess(a, b) && NaturalLess(b, c)) {
          EXPECT_TRUE(NaturalLess(a, c)) << a << " " << b << " " << c;
        }
      }
    }
  }
}

// Arbitrary bytes in all files. Each channel has an answer, and the reader does not crash.
TEST(Readers, StandWhateverIsInTheirFiles) {
  const std::string kSys[] = {"class/powercap/intel-rapl:0/name",
                              "class/powercap/intel-rapl:0/energy_uj",
                              "class/powercap/intel-rapl:0/max_energy_range_uj",
                              "class/powercap/intel-rapl:0/constraint_0_max_power_uw",
                              "class/powercap/intel-rapl:0:0/name",
                              "class/powercap/intel-rapl:0:0/energy_uj",
                              "class/hwmon/hwmon0/power1_average",
                              "class/hwmon/hwmon0/temp1_input",
                              "bus/pci/devices/a/vendor"};
  const std::string kProc[] = {"7/stat", "7/status", "8/stat", "8/status", "meminfo", "cpuinfo"};
  // Nearly valid pieces, so the parsers are reached.
  const std::string kPieces[] = {"7 (a) S 1",
                                 " 5",
                                 " 9",
                                 "\n",
                                 ")",
                                 "(",
                                 "VmRSS:",
                                 " 12 kB",
                                 "MemTotal:",
                                 "MemAvailable:",
                                 "package-0",
                                 "dram",
                                 "-",
                                 "0",
                                 "18446744073709551616",
                                 std::string(1, '\0'),
                                 "\xff",
                                 "flags\t: "};
  std::mt19937_64 random(20240501);
  const auto text = [&] {
    std::string made;
    for (uint64_t left = random() % 40; left > 0; --left) {
      made += kPieces[random() % std::size(kPieces)];
    }
    return made;
  };
  size_t readings = 0;
  for (int round = 0; round < 60; ++round) {
    FakeSysfs fake;
    for (const std::string& file : kSys) fake.WriteBytes(file, random() % 4 == 0 ? "7" : text());
    for (const std::string& file : kProc) fake.WriteProc(file, text());
    fake.Write("class/hwmon/hwmon0/name", "amdgpu");
    if (round % 2 == 0)
      fake.WriteProc("7/stat",
                     "7 (a) S 1 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22" + text());
    PowerSourceOptions options = fake.options();
    options.pid = 7;
    for (const auto& make : {NewHwmonReader, NewProcessReader,
                             static_cast<decltype(&NewHwmonReader)>(NewRaplReader)}) {
      Discovered reader(make(options));
      const size_t channels = reader.inventory().channels.size();
      for (int pass = 0; pass < 2; ++pass) {
        ASSERT_EQ(reader.Read(true).size(), channels);
        readings += channels;
        fake.WriteProc(kProc[random() % std::size(kProc)], text());
      }
    }
  }
  EXPECT_GT(readings, 0);
}

TEST(Constant, IsWhatWasStated) {
  Discovered constant(NewConstantReader(100'000));
  EXPECT_THAT(constant.Keys(), ElementsAre("constant constant power_mw"));
  const PowerChannel& channel = constant.Channel("constant constant power_mw");
  EXPECT_TRUE(channel.in_total);
  EXPECT_EQ(channel.source, "constant");
  EXPECT_EQ(channel.kind, ReadingKind::kInstant);
  EXPECT_EQ(constant.Value("constant constant power_mw", false), "100000");
}

TEST(MonotonicNow, DoesNotGoBack) {
  int64_t last = MonotonicNow();
  for (int i = 0; i < 1000; ++i) {
    const int64_t now = MonotonicNow();
    ASSERT_GE(now, last);
    last = now;
  }
  EXPECT_GT(last, 0);
}

}  // namespace
}  // namespace xplane_time::power
