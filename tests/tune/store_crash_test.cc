// kill -9 and power cuts at every change that a tuning run makes to its files. After each:
// the stored rounds are the first ones, all that were reported as stored are there, the run
// resumes, and at its end every round is there once.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/read/temp_dir.h"
#include "tests/tune/check_all.h"
#include "tests/tune/crash_vfs.h"
#include "xplane_time/store.h"

namespace xplane_time {
namespace {

using testing::CheckAll;
using testing::Crash;

constexpr int64_t kRounds = 8;

RoundRecord MakeCrashRound(int64_t number) {
  RoundRecord round = {.batch = 0, .round = number};
  for (int32_t slot = 0; slot < 20; ++slot) {
    round.samples.push_back({slot % 2 == 0 ? "a" : "b", slot, "ok", number * 100 + slot, {}});
  }
  return round;
}

// A run as a driver does it; reports each stored round. False: some step failed.
bool Tune(const std::string& path, Durability durability, int report) {
  auto store = TuneStore::Open(path, {.durability = durability});
  if (!store.ok()) return false;
  auto session = store->Begin({.key = {.workload = "w"}, .device = "d"});
  if (!session.ok()) return false;
  const std::vector<Configuration> variants = {{"a", "{}", {}}, {"b", "{}", {}}};
  if (!store->RegisterVariants(*session, variants).ok()) return false;
  for (int64_t i = 0; i < kRounds; ++i) {
    if (!store->Append(*session, MakeCrashRound(i)).ok()) return false;
    if (write(report, "r", 1) != 1) return false;
  }
  return store->RecordVerdict(*session, R"({"pick":"a"})", 0).ok();
}

// Flushes cost nothing in memory, and the simulated power cut needs no real disk.
class StoreCrash : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (access("/dev/shm", W_OK) == 0) setenv("TEST_TMPDIR", "/dev/shm", /*overwrite=*/1);
  }
  static void TearDownTestSuite() { unsetenv("TEST_TMPDIR"); }
};

struct Outcome {
  bool crashed = false;
  int64_t reported = 0;
};

Outcome RunInChild(const std::string& path, Durability durability, int at, Crash crash) {
  int report[2];
  EXPECT_EQ(pipe(report), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(report[0]);
    testing::InstallCrashVfs(at, crash);
    _exit(Tune(path, durability, report[1]) ? 0 : 1);
  }
  close(report[1]);
  Outcome outcome;
  for (char byte = 0; read(report[0], &byte, 1) == 1;) ++outcome.reported;
  close(report[0]);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.crashed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  EXPECT_TRUE(outcome.crashed || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
      << "at change " << at << ": status " << status;
  return outcome;
}

// How many rounds a store holds; they must be the first ones, in order.
int64_t FirstRounds(const std::string& path) {
  auto store = TuneStore::Open(path, {});
  EXPECT_TRUE(store.ok()) << store.status();
  if (!store.ok()) return -1;
  EXPECT_TRUE(CheckAll(*store).ok()) << CheckAll(*store);
  const auto rounds = store->ReadRounds(1);
  EXPECT_TRUE(rounds.ok()) << rounds.status();
  if (!rounds.ok()) return -1;
  for (int64_t i = 0; i < std::ssize(*rounds); ++i) {
    EXPECT_EQ((*rounds)[static_cast<size_t>(i)], MakeCrashRound(i));
  }
  return std::ssize(*rounds);
}

// Returns after how many crashes a reported round was gone.
int CrashEverywhere(Crash crash, Durability durability) {
  int at = 1, lost = 0;
  for (;; ++at) {
    const testing::TempDir dir;
    const std::string path = dir.Path("t.db");
    const Outcome first = RunInChild(path, durability, at, crash);
    const int64_t kept = FirstRounds(path);
    if (kept < first.reported) ++lost;
    EXPECT_LE(kept, first.reported + 1) << at;
    if (!first.crashed) break;
    // Resumed, and killed once more somewhere.
    RunInChild(path, durability, 1 + at % 37, crash);
    const Outcome last = RunInChild(path, durability, /*at=*/1'000'000, crash);
    EXPECT_FALSE(last.crashed);
    EXPECT_EQ(FirstRounds(path), kRounds) << at;
    auto store = TuneStore::OpenReadOnly(path);
    EXPECT_TRUE(store.ok()) << store.status();
    EXPECT_EQ(store.ok() ? store->Sessions()->size() : 0, 1u) << at;
  }
  EXPECT_GT(at, 80);  // opening, beginning, eight rounds, a verdict, closing
  ::testing::Test::RecordProperty("crashes", at - 1);
  return lost;
}

TEST_F(StoreCrash, KillLosesNoFinishedRound) {
  EXPECT_EQ(CrashEverywhere(Crash::kKill, Durability::kPowerLoss), 0);
}

TEST_F(StoreCrash, KillLosesNoFinishedRoundWithoutFlushing) {
  EXPECT_EQ(CrashEverywhere(Crash::kKill, Durability::kProcessLoss), 0);
}

TEST_F(StoreCrash, PowerCutLosesNoFinishedRound) {
  EXPECT_EQ(CrashEverywhere(Crash::kPowerCut, Durability::kPowerLoss), 0);
}

// Which also shows that the simulated power cut takes what was not flushed.
TEST_F(StoreCrash, PowerCutWithoutFlushingLosesTheLastRoundsOnly) {
  EXPECT_GT(CrashEverywhere(Crash::kPowerCut, Durability::kProcessLoss), 20);
}

}  // namespace
}  // namespace xplane_time
