#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <string>

#include "tests/power/fake_sysfs.h"

namespace xplane_time::power {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class Process : public ::testing::Test {
 protected:
  Process() { Meminfo(1000, 400); }

  void Meminfo(int64_t total_kib, int64_t available_kib) {
    fake_.WriteProc("meminfo", "MemTotal:       " + std::to_string(total_kib) +
                                   " kB\nMemFree: 1 kB\nMemAvailable: " +
                                   std::to_string(available_kib) + " kB\n");
  }
  void Add(int64_t pid, int64_t parent, int64_t start, int64_t rss_kib,
           const std::string& state = "S", const std::string& name = "a (b) c") {
    const std::string directory = std::to_string(pid) + "/";
    std::string stat =
        std::to_string(pid) + " (" + name + ") " + state + " " + std::to_string(parent);
    for (int field = 5; field < 22; ++field) stat += " " + std::to_string(field);
    stat += " " + std::to_string(start) + " 23 24\n";
    fake_.WriteProc(directory + "stat", stat);
    fake_.WriteProc(directory + "comm", name + "\n");
    fake_.WriteProc(directory + "status", "Name:\t" + name + "\nVmHWM:\t" +
                                              std::to_string(rss_kib + 10) + " kB\nVmRSS:\t" +
                                              std::to_string(rss_kib) + " kB\n");
  }
  void End(int64_t pid) { fake_.RemoveProc(std::to_string(pid)); }
  Discovered Read(int64_t pid) {
    PowerSourceOptions options = fake_.options();
    options.pid = pid;
    return Discovered(NewProcessReader(options));
  }
  static std::string Kib(int64_t kib) { return std::to_string(kib * 1024); }

  const std::string kRss = "pid:100 process rss_bytes";
  const std::string kPeak = "pid:100 process peak_rss_bytes";
  const std::string kTree = "pid:100 process_tree rss_bytes";
  FakeSysfs fake_;
};

TEST_F(Process, MemoryOfTheProcessAndTheMachine) {
  Add(100, 1, 50, 200);
  Discovered process = Read(100);
  EXPECT_THAT(process.Keys(), ElementsAre(kRss, kPeak, kTree, "machine machine memory_used_bytes",
                                          "machine machine memory_total_bytes"));
  for (const PowerChannel& channel : process.inventory().channels) {
    EXPECT_EQ(channel.kind, ReadingKind::kGauge);
    EXPECT_FALSE(channel.in_total);
  }
  EXPECT_EQ(process.inventory().devices[0].name, "a (b) c");
  EXPECT_EQ(process.Value(kRss), Kib(200));
  EXPECT_EQ(process.Value(kPeak), Kib(210));
  EXPECT_EQ(process.Value(kTree), Kib(200));
  EXPECT_EQ(process.Value("machine machine memory_used_bytes"), Kib(600));
  EXPECT_EQ(process.Value("machine machine memory_total_bytes"), Kib(1000));
  EXPECT_THAT(process.Read(false), SizeIs(4));
}

TEST_F(Process, TheTreeIsThoseThatItStarted) {
  Add(100, 1, 50, 1000);
  Add(101, 100, 60, 100);
  Add(30, 101, 70, 10);  // a grandchild with a lower pid, after pids wrapped
  Add(102, 1, 60, 7000);
  Add(103, 102, 60, 7000);
  Discovered process = Read(100);
  EXPECT_EQ(process.Value(kTree), Kib(1110));
  EXPECT_EQ(process.Value(kRss), Kib(1000));

  Add(104, 100, 80, 5);
  EXPECT_EQ(process.Value(kTree, /*slow=*/false),
            Kib(1110));  // fast passes do not search for children
  EXPECT_EQ(process.Value(kTree, /*slow=*/true), Kib(1115));

  End(101);
  Add(30, 1, 70, 10);  // its parent ended, but it still belongs to the tree
  EXPECT_EQ(process.Value(kTree), Kib(1015));
}

TEST_F(Process, AnEndedProcessHasNoMemory) {
  Add(100, 1, 50, 200);
  Discovered process = Read(100);
  End(100);
  EXPECT_EQ(process.Value(kRss), "no_samples");
  EXPECT_EQ(process.Value(kPeak), "no_samples");
  EXPECT_EQ(process.Value(kTree), "no_samples");
  EXPECT_EQ(process.Value("machine machine memory_used_bytes"), Kib(600));
}

TEST_F(Process, AZombieHasEnded) {
  Add(100, 1, 50, 200);
  Discovered process = Read(100);
  Add(100, 1, 50, 200, "Z");
  EXPECT_EQ(process.Value(kRss), "no_samples");
  EXPECT_THAT(Read(100).absences()[0].message, HasSubstr("has ended"));
}

TEST_F(Process, AProcessWithoutMemoryIsNotZero) {
  Add(100, 1, 50, 200);
  Discovered process = Read(100);
  fake_.WriteProc("100/status", "Name:\tx\nState:\tS\n");
  EXPECT_EQ(process.Value(kRss), "no_samples");
}

TEST_F(Process, ItsChildrenOutliveIt) {
  Add(100, 1, 50, 200);
  Add(101, 100, 60, 30);
  Discovered process = Read(100);
  EXPECT_EQ(process.Value(kTree), Kib(230));
  End(100);
  Add(101, 1, 60, 30);
  EXPECT_EQ(process.Value(kRss), "no_samples");
  EXPECT_EQ(process.Value(kTree), Kib(30));
  End(101);
  EXPECT_EQ(process.Value(kTree), "no_samples");
}

TEST_F(Process, ANumberThatIsUsedAgainIsSomebodyElse) {
  Add(100, 1, 50, 200);
  Add(101, 100, 60, 30);
  Discovered process = Read(100);
  EXPECT_EQ(process.Value(kTree), Kib(230));
  Add(101, 1, 90, 4000);
  EXPECT_EQ(process.Value(kTree), Kib(200));
  Add(100, 1, 95, 9000);
  Add(102, 100, 96, 9000);  // a child of the new process
  EXPECT_EQ(process.Value(kRss), "no_samples");
  EXPECT_EQ(process.Value(kTree), "no_samples");
}

TEST_F(Process, AParentThatIsYoungerIsNone) {
  Add(100, 1, 50, 200);
  Add(101, 100, 40, 30);
  EXPECT_EQ(Read(100).Value(kTree), Kib(200));
}

TEST_F(Process, NobodyOfThatNumber) {
  Discovered process = Read(100);
  EXPECT_THAT(process.Keys(), ElementsAre("machine machine memory_used_bytes",
                                          "machine machine memory_total_bytes"));
  ASSERT_THAT(process.absences(), SizeIs(1));
  EXPECT_EQ(process.absences()[0].what, "pid:100");
  EXPECT_EQ(process.absences()[0].reason, PowerReason::kAbsent);
  EXPECT_EQ(process.Value("machine machine memory_used_bytes"), Kib(600));
}

TEST_F(Process, GarbageIsNotAProcess) {
  for (const char* stat : {"", "100", "100 (x", "100 (x)", "100 (x) S", "100 (x) S -1 5",
                           "100 (x) SS 1 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22",
                           "100 (x) S 1 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 -22"}) {
    fake_.WriteProc("100/stat", stat);
    const Discovered process = Read(100);
    ASSERT_THAT(process.absences(), SizeIs(1)) << stat;
    EXPECT_EQ(process.absences()[0].reason, PowerReason::kUnsupported) << stat;
  }
}

TEST_F(Process, GarbageWhileReadingIsUnknown) {
  Add(100, 1, 50, 200);
  Add(101, 100, 60, 30);
  Discovered process = Read(100);
  EXPECT_EQ(process.Value(kTree), Kib(230));
  fake_.WriteProc("101/status", "VmRSS:\t-3 kB\n");
  EXPECT_EQ(process.Value(kTree), "unsupported");
  EXPECT_EQ(process.Value(kRss), Kib(200));
  fake_.WriteProc("101/status", "VmRSS:\t9007199254740991 kB\n");
  EXPECT_EQ(process.Value(kTree), "unsupported");  // the sum is beyond int64_t
}

TEST_F(Process, AChildThatCannotBeReadMakesTheSumUnknown) {
  Add(100, 1, 50, 200);
  Add(101, 100, 60, 30);
  Discovered process = Read(100);
  fake_.DenyProc("101/status");
  const WithoutRoot user;
  if (!user.is_bound()) GTEST_SKIP() << "root reads everything";
  EXPECT_EQ(process.Value(kTree), "permission_denied");
}

TEST_F(Process, AProcessOfSomebodyElseThatIsHiddenIsDenied) {
  Add(100, 1, 50, 200);
  fake_.DenyProc("100");
  const WithoutRoot user;
  if (!user.is_bound()) GTEST_SKIP() << "root reads everything";
  const Discovered process = Read(100);
  ASSERT_THAT(process.absences(), SizeIs(1));
  EXPECT_EQ(process.absences()[0].reason, PowerReason::kPermissionDenied);
  EXPECT_THAT(process.absences()[0].message, HasSubstr("100/stat"));
  EXPECT_THAT(process.absences()[0].fix, HasSubstr("as root"));
}

TEST_F(Process, MachineMemoryThatIsNotSaidIsUnknown) {
  const struct {
    const char* meminfo;
    const char *used, *total;
  } kCases[] = {
      {"MemTotal: 10 kB\n", "unsupported", "10240"},
      {"MemAvailable: 10 kB\n", "unsupported", "unsupported"},
      {"MemTotal: 10 kB\nMemAvailable: 11 kB\n", "unsupported", "10240"},
      {"MemTotal: 10 kB\nMemAvailable: 10 kB\n", "0", "10240"},
      {"", "unsupported", "unsupported"},
  };
  for (const auto& each : kCases) {
    SCOPED_TRACE(each.meminfo);
    fake_.WriteProc("meminfo", each.meminfo);
    Discovered process = Read(100);
    EXPECT_EQ(process.Value("machine machine memory_used_bytes"), each.used);
    EXPECT_EQ(process.Value("machine machine memory_total_bytes"), each.total);
  }
  fake_.RemoveProc("meminfo");
  const Discovered process = Read(100);
  ASSERT_THAT(process.absences(), SizeIs(2));
  EXPECT_EQ(process.absences()[1].what, "machine");
}

// Reads this machine's procfs: this process, and a child that starts and ends.
TEST(ProcessHere, KnowsThisProcessAndAChild) {
  Discovered process(NewProcessReader({}));
  const std::string device = "pid:" + std::to_string(getpid());
  const std::string tree = device + " process_tree rss_bytes";
  EXPECT_GT(std::stoll(process.Value(device + " process rss_bytes")), 0);

  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    pause();
    _exit(0);
  }
  // One pass reads both, so their difference is the memory of the child.
  const std::vector<Reading> with = process.Read(true);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const std::vector<Reading> without = process.Read(true);
  ASSERT_TRUE(with[0].value && with[2].value && without[0].value && without[2].value);
  EXPECT_GT(*with[2].value, *with[0].value);
  // Reading also takes memory, and more with a sanitizer.
  EXPECT_LT(*without[2].value - *without[0].value, *with[2].value - *with[0].value);
}

}  // namespace
}  // namespace xplane_time::power
