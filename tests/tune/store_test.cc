#include "xplane_time/store.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "tests/read/says.h"
#include "tests/read/temp_dir.h"
#include "tests/support/random.h"
#include "tests/tune/check_all.h"

namespace xplane_time {
namespace {

using testing::CheckAll;
using testing::Says;
using testing::TempDir;

TuneKey KeyOf(const std::string& driver) {
  return {"matmul[64]", "H100", driver, "jax 0.4", "-O2", "c0de", "p1"};
}

SessionSpec SpecOf(const std::string& driver = "550") {
  return {
      .key = KeyOf(driver), .space_hash = "s", .config_json = R"({"alpha":0.01})", .seed = ~0ULL};
}

std::vector<Configuration> ThreeVariants() {
  return {{"a", R"({"n":1})", 10}, {"b", R"({"n":2})", {}}, {"c", R"({"n":3})", {}}};
}

RoundRecord RoundOf(int64_t number) {
  return {.batch = number / 3,
          .round = number,
          .discarded = number % 5 == 4,
          .notes_json = absl::StrCat("{\"mhz\":", 1000 + number, "}"),
          .samples = {{"a", 0, "ok", 1'000'000 + number, 7},
                      {"b", 1, "crash(11)", {}, {}},
                      {"a", 2, "ok", 1'000'001, {}}}};
}

// One sample of two workloads.
RoundRecord WeightedRound() {
  SampleRecord sample = {"a", 0, "timeout", {}, {}};
  sample.workloads = {{"small", "ok", 400, 9}, {"big", "timeout", {}, {}}};
  return {.batch = 5, .round = 5, .samples = {sample, {"b", 1, "ok", 7, {}}}};
}

TuneStore Opened(const std::string& path) {
  auto store = TuneStore::Open(path, {});
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

void RunSql(const std::string& path, const char* sql) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_OK) << sqlite3_errmsg(db);
  sqlite3_close(db);
}

TuneSession Begun(TuneStore* store, const SessionSpec& spec) {
  auto session = store->Begin(spec);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  EXPECT_TRUE(store->RegisterVariants(*session, ThreeVariants()).ok());
  return *std::move(session);
}

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Store, GivesBackWhatWasStored) {
  const TempDir dir;
  std::vector<RoundRecord> rounds;
  {
    TuneStore store = Opened(dir.Path("t.db"));
    const TuneSession session = Begun(&store, SpecOf());
    for (int64_t i : {3, 0, 7, 4}) {
      rounds.push_back(RoundOf(i));
      EXPECT_EQ(*store.Append(session, rounds.back()), Appended::kStored);
    }
    rounds.push_back({.batch = 9, .round = 9});  // without samples
    EXPECT_EQ(*store.Append(session, rounds.back()), Appended::kStored);
  }
  TuneStore store = Opened(dir.Path("t.db"));
  EXPECT_EQ(*store.ReadRounds(1), rounds);
  EXPECT_EQ(*store.ReadVariants(1), ThreeVariants());
  const auto sessions = store.Sessions();
  ASSERT_EQ(sessions->size(), 1u);
  EXPECT_EQ((*sessions)[0].key, KeyOf("550"));
  EXPECT_EQ((*sessions)[0].seed, ~0ULL);
  EXPECT_EQ((*sessions)[0].rounds, 4u);  // those that measured something
  EXPECT_EQ((*sessions)[0].samples, 12u);
  EXPECT_TRUE(CheckAll(store).ok()) << CheckAll(store);
  EXPECT_EQ(store.Session(2).status().code(), absl::StatusCode::kNotFound);
}

TEST(Store, KeepsTheSamplesOfEachWorkload) {
  const TempDir dir;
  {
    TuneStore store = Opened(dir.Path("t.db"));
    const TuneSession session = Begun(&store, SpecOf());
    EXPECT_EQ(*store.Append(session, WeightedRound()), Appended::kStored);
    EXPECT_EQ(*store.Append(session, WeightedRound()), Appended::kAlreadyStored);
    RoundRecord other = WeightedRound();
    other.samples[0].workloads[0].t_ps = 401;
    EXPECT_EQ(store.Append(session, other).status().code(), absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(*store.ReadRounds(1), std::vector{WeightedRound()});
  }
  RunSql(
      dir.Path("t.db"),
      "DROP TRIGGER workload_sample_stays; UPDATE workload_sample SET t_ps = 401 WHERE t_ps = 400");
  EXPECT_TRUE(Says(CheckAll(Opened(dir.Path("t.db"))), "has a wrong checksum"));
}

TEST(Store, TheObjectiveIsPartOfASessionAndTheBudgetIsNot) {
  const TempDir dir;
  TuneStore store = Opened(dir.Path("t.db"));
  SessionSpec energy = SpecOf();
  energy.key.objective = "energy";
  EXPECT_EQ(Begun(&store, SpecOf()).id, 1);
  EXPECT_EQ(Begun(&store, energy).id, 2);
  EXPECT_EQ(Begun(&store, SpecOf()).id, 1);
  EXPECT_EQ(store.Session(2)->key.objective, "energy");
}

// What version 1 did not have is known from what it had.
TEST(StoreFiles, AnOlderVersionIsBroughtUpToDate) {
  const TempDir dir;
  const std::string path = dir.Path("t.db");
  {
    TuneStore store = Opened(path);
    SessionSpec spec = SpecOf();
    spec.config_json = R"({"alpha":0.01,"objective":"edp","budget":{"runs":12},"seed":7})";
    EXPECT_TRUE(store.Append(Begun(&store, spec), RoundOf(1)).ok());
    spec.config_json = "damaged";
    Begun(&store, spec);
  }
  RunSql(path,
         "DROP TABLE workload_sample; ALTER TABLE session DROP COLUMN objective;"
         "ALTER TABLE verdict DROP COLUMN rounds; ALTER TABLE verdict DROP COLUMN crc32;"
         "ALTER TABLE session DROP COLUMN crc32; ALTER TABLE variant DROP COLUMN crc32;"
         "PRAGMA user_version = 1");
  auto store = TuneStore::OpenReadOnly(path);
  ASSERT_TRUE(store.ok()) << store.status();
  EXPECT_EQ(store->Session(1)->key.objective, "edp");
  EXPECT_EQ(store->Session(1)->config_json, R"({"alpha":0.01,"objective":"edp","seed":7})");
  EXPECT_EQ(store->Session(2)->key.objective, "time");
  EXPECT_EQ(*store->ReadRounds(1), std::vector{RoundOf(1)});
  EXPECT_TRUE(CheckAll(*store).ok()) << CheckAll(*store);
}

TEST(Store, ARoundIsStoredOnce) {
  const TempDir dir;
  TuneStore store = Opened(dir.Path("t.db"));
  const TuneSession session = Begun(&store, SpecOf());
  EXPECT_EQ(*store.Append(session, RoundOf(1)), Appended::kStored);
  EXPECT_EQ(*store.Append(session, RoundOf(1)), Appended::kAlreadyStored);
  RoundRecord other = RoundOf(1);
  other.samples[0].t_ps = 5;
  const absl::Status status = store.Append(session, other).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(Says(status, "session 1: round 1 of batch 0 is already stored with other samples"))
      << status;
  EXPECT_EQ(store.ReadRounds(session.id)->size(), 1u);
}

TEST(Store, RefusesWhatItCannotKeep) {
  const TempDir dir;
  TuneStore store = Opened(dir.Path("t.db"));
  const TuneSession session = Begun(&store, SpecOf());
  RoundRecord round = RoundOf(1);
  round.samples[2].variant = "unknown";
  EXPECT_TRUE(Says(store.Append(session, round).status(), "no variant \"unknown\"; register it"));
  round = RoundOf(1);
  round.notes_json = "{";
  EXPECT_EQ(store.Append(session, round).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(store.Append(session, {.batch = -1}).ok());
  EXPECT_FALSE(store.RecordVerdict(session, "[]", 0).ok());
  const std::vector<Configuration> changed = {{"a", R"({"n":9})", {}}};
  EXPECT_TRUE(Says(store.RegisterVariants(session, changed), "is stored with {\"n\":1}"));
  // Nothing of the refused round stays, and the store is as usable as before.
  EXPECT_TRUE(store.ReadRounds(session.id)->empty());
  EXPECT_EQ(*store.Append(session, RoundOf(1)), Appended::kStored);
}

TEST(Store, ResumesTheSameIdentityOnly) {
  const TempDir dir;
  TuneStore store = Opened(dir.Path("t.db"));
  SessionSpec required = SpecOf();
  required.resume = Resume::kRequired;
  EXPECT_EQ(store.Begin(required).status().code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(Begun(&store, SpecOf()).resumed);
  for (int field = 0; field < 5; ++field) {
    SessionSpec other = SpecOf();
    if (field == 0) other.key.flags = "-O3";
    if (field == 1) other.space_hash = "t";
    if (field == 2) other.config_json = "{}";
    if (field == 3) other.seed = 1;
    if (field == 4) other.resume = Resume::kNever;
    EXPECT_FALSE(Begun(&store, other).resumed) << field;
  }
  const TuneSession again = Begun(&store, required);
  EXPECT_TRUE(again.resumed);
  EXPECT_EQ(again.id, 6);  // the latest, made by kNever
  EXPECT_EQ(again.verdict_json, std::nullopt);
}

TEST(Store, ResumedSessionKnowsItsVerdict) {
  const TempDir dir;
  TuneStore store = Opened(dir.Path("t.db"));
  {
    const TuneSession session = Begun(&store, SpecOf());
    EXPECT_TRUE(store.RecordVerdict(session, R"({"pick":"a"})", 5).ok());
    EXPECT_TRUE(store.RecordVerdict(session, R"({"pick":"b"})", 6).ok());
  }
  EXPECT_EQ(Begun(&store, SpecOf()).verdict_json, R"({"pick":"b"})");
}

TEST(Store, ASecondUserIsToldWhoHasIt) {
  const TempDir dir;
  TuneStore first = Opened(dir.Path("t.db")), second = Opened(dir.Path("t.db"));
  SessionSpec spec = SpecOf();
  spec.device = "node3/GPU-1";
  SessionSpec same_device = SpecOf("551");
  same_device.device = spec.device;
  {
    const TuneSession held = Begun(&first, spec);
    const absl::Status session = second.Begin(spec).status();
    EXPECT_EQ(session.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(Says(session, absl::StrCat("the session is in use by process ", getpid(), " on ")))
        << session;
    EXPECT_TRUE(
        Says(second.Begin(same_device).status(), "the device \"node3/GPU-1\" is in use by"));
    const TuneSession other = Begun(&second, SpecOf("552"));  // other session, no device
    EXPECT_TRUE(second.Append(other, RoundOf(1)).ok());
  }
  EXPECT_TRUE(second.Begin(same_device).ok());
  EXPECT_TRUE(second.Begin(spec).ok());
}

TEST(Store, TwoProcessesAppendToOneFile) {
  const TempDir dir;
  TuneStore first = Opened(dir.Path("t.db")), second = Opened(dir.Path("t.db"));
  const TuneSession a = Begun(&first, SpecOf("1")), b = Begun(&second, SpecOf("2"));
  for (int64_t i = 0; i < 50; ++i) {
    EXPECT_TRUE(first.Append(a, RoundOf(i)).ok());
    EXPECT_TRUE(second.Append(b, RoundOf(i)).ok());
  }
  EXPECT_EQ(*first.ReadRounds(b.id), *second.ReadRounds(a.id));
}

// The last to close a file locks all of it for a moment; who opens it just then has to wait.
TEST(StoreFiles, OpeningWaitsForAnotherThatCloses) {
  const TempDir dir;
  const std::string path = dir.Path("t.db");
  {
    TuneStore store = Opened(path);
    EXPECT_TRUE(store.Append(Begun(&store, SpecOf()), RoundOf(1)).ok());
  }
  int locked[2] = {};
  ASSERT_EQ(pipe(locked), 0);
  const pid_t other = fork();
  if (other == 0) {
    sqlite3* db = nullptr;
    sqlite3_open(path.c_str(), &db);
    const char* lock = "PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE";
    const bool held = sqlite3_exec(db, lock, nullptr, nullptr, nullptr) == SQLITE_OK;
    const bool told = write(locked[1], held ? "+" : "-", 1) == 1;
    usleep(200'000);
    _exit(held && told ? 0 : 1);
  }
  char told = 0;
  ASSERT_EQ(read(locked[0], &told, 1), 1);
  const auto reader = TuneStore::OpenReadOnly(path);
  EXPECT_TRUE(reader.ok()) << reader.status();
  int status = 0;
  ASSERT_EQ(waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0);
  close(locked[0]);
  close(locked[1]);
}

TEST(Store, WhatIsStoredCannotBeChanged) {
  const TempDir dir;
  {
    TuneStore store = Opened(dir.Path("t.db"));
    const TuneSession session = Begun(&store, SpecOf());
    EXPECT_TRUE(store.Append(session, RoundOf(1)).ok());
    EXPECT_TRUE(store.RecordVerdict(session, "{}", 1).ok());
  }
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(dir.Path("t.db").c_str(), &db), SQLITE_OK);
  for (const char* sql :
       {"UPDATE sample SET t_ps = 1", "DELETE FROM sample", "UPDATE round SET batch = 8",
        "DELETE FROM round", "UPDATE verdict SET pick = 'c'", "DELETE FROM verdict"}) {
    EXPECT_EQ(sqlite3_exec(db, sql, nullptr, nullptr, nullptr), SQLITE_CONSTRAINT) << sql;
  }
  sqlite3_close(db);
}

// --- Files that are no store, and damaged ones.

TEST(StoreFiles, OthersAreRefusedAndLeftAlone) {
  const TempDir dir;
  const std::string text = dir.Write("text", std::string(5000, 'x'));
  const absl::Status not_a_database = TuneStore::Open(text, {}).status();
  EXPECT_EQ(not_a_database.code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(Says(not_a_database, "not a tune store; give another path")) << not_a_database;
  EXPECT_EQ(BytesOf(text), std::string(5000, 'x'));
  RunSql(dir.Path("other.db"), "CREATE TABLE t(x)");
  const std::string before = BytesOf(dir.Path("other.db"));
  EXPECT_TRUE(Says(TuneStore::Open(dir.Path("other.db"), {}).status(), "of another program"));
  EXPECT_TRUE(Says(TuneStore::OpenReadOnly(dir.Path("other.db")).status(), "of another program"));
  EXPECT_EQ(BytesOf(dir.Path("other.db")), before);
  EXPECT_EQ(TuneStore::Open(dir.Path("no/such/t.db"), {}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_FALSE(TuneStore::Open(dir.path(), {}).ok());
  EXPECT_EQ(TuneStore::OpenReadOnly(dir.Path("none.db")).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(StoreFiles, ANewerVersionIsRefused) {
  const TempDir dir;
  { TuneStore store = Opened(dir.Path("t.db")); }
  RunSql(dir.Path("t.db"), "PRAGMA user_version = 5");
  const absl::Status status = TuneStore::Open(dir.Path("t.db"), {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Says(status, "written with version 5 of the store; this program supports up to 4"))
      << status;
  EXPECT_FALSE(TuneStore::OpenReadOnly(dir.Path("t.db")).ok());
}

TEST(StoreFiles, ChangedRowsAreNoticed) {
  for (const char* sql :
       {"UPDATE variant SET params_json = '{\"n\":9}' WHERE id = 1",
        "UPDATE variant SET mem_bytes = 77 WHERE id = 1",
        "UPDATE session SET config_json = '{\"delta\":1}'", "UPDATE session SET workload = 'w2'",
        "DROP TRIGGER verdict_stays; UPDATE verdict SET verdict_json = '{}'"}) {
    const TempDir dir;
    {
      TuneStore store = Opened(dir.Path("t.db"));
      const TuneSession session = Begun(&store, SpecOf());
      ASSERT_TRUE(store.Append(session, RoundOf(1)).ok());
      ASSERT_TRUE(store.RecordVerdict(session, R"({"pick":"a","claim":"winner"})", 5).ok());
      ASSERT_TRUE(CheckAll(store).ok()) << CheckAll(store);
    }
    RunSql(dir.Path("t.db"), sql);
    const auto store = TuneStore::OpenReadOnly(dir.Path("t.db"));
    ASSERT_TRUE(store.ok()) << store.status();
    const absl::Status status = CheckAll(*store);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << sql;
    EXPECT_TRUE(Says(status, "session 1: ")) << status;
    EXPECT_TRUE(Says(status, "has a wrong checksum")) << status;
  }
}

TEST(StoreFiles, ReadOnlyOpensAndRefusesToWrite) {
  const TempDir dir;
  {
    TuneStore store = Opened(dir.Path("t.db"));
    EXPECT_TRUE(store.Append(Begun(&store, SpecOf()), RoundOf(1)).ok());
  }
  auto reader = TuneStore::OpenReadOnly(dir.Path("t.db"));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->ReadRounds(1)->size(), 1u);
  EXPECT_EQ(reader->Begin(SpecOf()).status().code(), absl::StatusCode::kPermissionDenied);
}

// As a user who may not write; root may write everywhere.
TEST(StoreFiles, OnAReadOnlyMedium) {
  const TempDir dir;
  {
    TuneStore store = Opened(dir.Path("t.db"));
    EXPECT_TRUE(store.Append(Begun(&store, SpecOf()), RoundOf(1)).ok());
  }
  chmod(dir.Path("t.db").c_str(), 0444);
  chmod(dir.path().c_str(), 0555);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(100);
    const auto reader = TuneStore::OpenReadOnly(dir.Path("t.db"));
    if (!reader.ok() || reader->ReadRounds(1)->size() != 1) _exit(101);
    const absl::Status writer = TuneStore::Open(dir.Path("t.db"), {}).status();
    if (writer.code() != absl::StatusCode::kPermissionDenied) _exit(102);
    const absl::Status fresh = TuneStore::Open(dir.Path("new.db"), {}).status();
    _exit(fresh.code() == absl::StatusCode::kPermissionDenied ? 0 : 103);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << WEXITSTATUS(status);
  chmod(dir.path().c_str(), 0755);
}

// Whatever was damaged: a Status, or the rounds as they were.
TEST(StoreFiles, FlippedBytesAreNoticedOrHarmless) {
  const TempDir dir;
  std::vector<RoundRecord> rounds;
  {
    TuneStore store = Opened(dir.Path("t.db"));
    const TuneSession session = Begun(&store, SpecOf());
    for (int64_t i = 0; i < 40; ++i) {
      rounds.push_back(RoundOf(i));
      ASSERT_TRUE(store.Append(session, rounds.back()).ok());
    }
  }
  const std::string whole = BytesOf(dir.Path("t.db"));
  ASSERT_GT(whole.size(), 20'000u);
  testing::Random random(11);
  int noticed = 0;
  for (int i = 0; i < 400; ++i) {
    std::string damaged = whole;
    const auto at = static_cast<size_t>(random.Below(std::ssize(whole)));
    const auto changed = static_cast<size_t>(1 + random.Below(i % 2 == 0 ? 1 : 64));
    for (size_t j = at; j < std::min(at + changed, damaged.size()); ++j) {
      damaged[j] = static_cast<char>(random.Below(256));
    }
    const std::string path = dir.Write("damaged.db", damaged);
    const auto store = TuneStore::Open(path, {});
    const auto read = store.ok() ? store->ReadRounds(1) : store.status();
    if (read.ok()) {
      // A session's or a round's row may be gone from its index; none may be wrong.
      for (const RoundRecord& round : *read) {
        EXPECT_EQ(round, rounds[static_cast<size_t>(round.round)]) << "byte " << at;
      }
    } else {
      ++noticed;
      EXPECT_TRUE(Says(read.status(), path)) << read.status();
    }
    if (store.ok()) CheckAll(*store).IgnoreError();
    std::filesystem::remove(path + "-wal");
    std::filesystem::remove(path + "-shm");
  }
  EXPECT_GT(noticed, 50);
}

TEST(StoreFiles, CutAtEveryPage) {
  const TempDir dir;
  {
    TuneStore store = Opened(dir.Path("t.db"));
    const TuneSession session = Begun(&store, SpecOf());
    for (int64_t i = 0; i < 20; ++i) ASSERT_TRUE(store.Append(session, RoundOf(i)).ok());
    ASSERT_TRUE(store.Append(session, WeightedRound()).ok());  // no table is empty
  }
  const std::string whole = BytesOf(dir.Path("t.db"));
  for (size_t size = 1; size < whole.size(); size += 512) {
    const std::string path = dir.Write("cut.db", whole.substr(0, size));
    const auto store = TuneStore::Open(path, {});
    const absl::Status status = store.ok() ? CheckAll(*store) : store.status();
    EXPECT_FALSE(status.ok()) << size;
    EXPECT_TRUE(Says(status, path)) << status;
  }
}

// A child may write files of at most 200 KiB: the disk is full for it.
TEST(StoreFiles, FullDiskIsAStatusAndCanBeResumed) {
  const TempDir dir;
  const std::string path = dir.Path("t.db");
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {200 << 10, 200 << 10};
    setrlimit(RLIMIT_FSIZE, &limit);
    TuneStore store = *TuneStore::Open(path, {});
    const TuneSession session = *store.Begin(SpecOf());
    if (!store.RegisterVariants(session, ThreeVariants()).ok()) _exit(100);
    int64_t i = 0;
    absl::Status status;
    for (; i < 5000 && status.ok(); ++i) status = store.Append(session, RoundOf(i)).status();
    if (status.code() != absl::StatusCode::kResourceExhausted || !Says(status, path)) _exit(101);
    if (store.Append(session, RoundOf(i)).ok()) _exit(102);
    _exit(store.ReadRounds(session.id).ok() ? 0 : 103);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  TuneStore store = Opened(path);
  const TuneSession session = Begun(&store, SpecOf());
  EXPECT_TRUE(session.resumed);
  const size_t kept = store.ReadRounds(session.id)->size();
  EXPECT_GT(kept, 10u);
  EXPECT_EQ(*store.Append(session, RoundOf(std::ssize(*store.ReadRounds(session.id)))),
            Appended::kStored);
  EXPECT_TRUE(CheckAll(store).ok()) << CheckAll(store);
}

TEST(Store, ManySamplesInOneRound) {
  const TempDir dir;
  TuneStore store = Opened(dir.Path("t.db"));
  const TuneSession session = Begun(&store, SpecOf());
  RoundRecord round;
  for (int32_t i = 0; i < 200'000; ++i)
    round.samples.push_back({"a", i, "ok", int64_t{i} << 30, {}});
  ASSERT_TRUE(store.Append(session, round).ok());
  EXPECT_EQ(store.ReadRounds(session.id)->front(), round);
}

// --- Locks.

// A session in a store of its own: only the file of device locks is shared.
absl::StatusOr<TuneSession> BegunOn(const TempDir& dir, const std::string& device,
                                    const std::string& locks = "lock") {
  static int stores = 0;
  auto store = TuneStore::Open(dir.Path(absl::StrCat("own", ++stores, ".db")), {});
  if (!store.ok()) return store.status();
  return store->Begin({.device = device, .device_locks = dir.Path(locks)});
}

TEST(DeviceLocks, DevicesAreIndependent) {
  const TempDir dir;
  auto a = BegunOn(dir, "a");
  EXPECT_TRUE(a.ok()) << a.status();
  EXPECT_EQ(BegunOn(dir, "a").status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(BegunOn(dir, "b").ok());
  TuneSession moved = *std::move(a);
  EXPECT_FALSE(BegunOn(dir, "a").ok());
  moved = TuneSession();
  EXPECT_TRUE(BegunOn(dir, "a").ok());
  EXPECT_EQ(BegunOn(dir, "a", "none/lock").status().code(), absl::StatusCode::kNotFound);
}

TEST(DeviceLocks, TellWhoHasIt) {
  const TempDir dir;
  const auto held = BegunOn(dir, "a"), other = BegunOn(dir, "b");
  ASSERT_TRUE(held.ok()) << held.status();
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_TRUE(Says(BegunOn(dir, "a").status(), absl::StrCat("with process ", getpid(), " on ")));
  std::filesystem::resize_file(dir.Path("lock"), 0);
  EXPECT_TRUE(Says(BegunOn(dir, "a").status(), "another process"));
}

TEST(DeviceLocks, EndWithAKilledProcess) {
  const TempDir dir;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto held = BegunOn(dir, "a");
    if (write(ready[1], "x", 1) != 1) _exit(1);
    pause();
    _exit(held.ok() ? 0 : 1);
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_TRUE(Says(BegunOn(dir, "a").status(), absl::StrCat("with process ", child, " on ")));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(BegunOn(dir, "a").ok());
  close(ready[0]);
  close(ready[1]);
}

// --- Look-ups.

TunedEntry EntryOf(const TuneKey& key, const std::string& params, int64_t recorded = 0) {
  return {key, {VariantId(params), params, {}}, "pick", "{}", recorded};
}

TEST(TunedTable, FallsBackLevelByLevel) {
  TuneKey key = KeyOf("550");
  const TunedTable table({EntryOf(key, "{\"n\":1}")}, DefaultFallbacks());
  const auto level = [&](const TuneKey& asked) {
    const auto match = table.Find(asked);
    return match.has_value() ? match->fallback->name : std::string("none");
  };
  EXPECT_EQ(level(key), "exact");
  key.protocol_hash = "p2";
  EXPECT_EQ(level(key), "any_protocol");
  key.driver = "600";
  EXPECT_EQ(level(key), "any_driver");
  key.framework = "jax 0.9";
  EXPECT_EQ(level(key), "any_version");
  key.flags = "-O0";
  EXPECT_EQ(level(key), "any_flags");
  key.code_hash = "other";
  EXPECT_EQ(level(key), "any_code");
  TuneKey device = key, workload = key;
  device.device_class = "A100";
  workload.workload = "matmul[128]";
  EXPECT_EQ(level(device), "none");
  EXPECT_EQ(level(workload), "none");
}

TEST(TunedTable, TheClosestLevelThenTheLatestWins) {
  const TunedTable table(
      {EntryOf(KeyOf("1"), "{\"n\":1}", 50), EntryOf(KeyOf("2"), "{\"n\":2}", 40),
       EntryOf(KeyOf("3"), "{\"n\":3}", 60), EntryOf(KeyOf("2"), "{\"n\":4}", 45)},
      DefaultFallbacks());
  EXPECT_EQ(table.Find(KeyOf("2"))->entry->configuration.params_json, "{\"n\":4}");
  EXPECT_EQ(table.Find(KeyOf("9"))->entry->configuration.params_json, "{\"n\":3}");
  // Parts of a key do not run together.
  TuneKey shifted = KeyOf("2");
  shifted.workload += "H";
  shifted.device_class = "100";
  EXPECT_EQ(table.Find(shifted), std::nullopt);
}

TEST(TunedTable, FromAStoreAndThroughJson) {
  const TempDir dir;
  TuneStore store = Opened(dir.Path("t.db"));
  const TuneSession session = Begun(&store, SpecOf());
  EXPECT_TRUE(store.RecordVerdict(session, R"({"pick":"c","claim":"tie"})", 1).ok());
  EXPECT_TRUE(store
                  .RecordVerdict(session, R"({"pick":"b","claim":"winner","runs":30,
      "regret":{"est":0,"hi":0.004},"ratios":[{"id":"a"}],"eliminated":[]})",
                                 2)
                  .ok());
  const TuneSession failed = Begun(&store, SpecOf("551"));
  EXPECT_TRUE(store.RecordVerdict(failed, R"({"pick":null,"claim":"all_failed"})", 3).ok());
  const auto table = store.Tuned();
  ASSERT_TRUE(table.ok()) << table.status();
  ASSERT_EQ(table->entries().size(), 1u);
  const auto again = TunedTable::FromJson(table->ToJson(), "tuned.json");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->ToJson(), table->ToJson());
  const auto match = again->Find(KeyOf("551"));
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->fallback->name, "any_driver");
  EXPECT_EQ(match->entry->configuration, (Configuration{"b", R"({"n":2})", {}}));
  EXPECT_EQ(match->entry->claim, "winner");
  EXPECT_EQ(match->entry->evidence_json,
            R"({"claim":"winner","pick":"b","regret":{"est":0,"hi":0.004},"runs":30})");
}

TEST(TunedTable, OnlyWhatWasDecidedCounts) {
  const TempDir dir;
  TuneStore store = Opened(dir.Path("t.db"));
  {
    const TuneSession decided = Begun(&store, SpecOf());
    EXPECT_TRUE(store.RecordVerdict(decided, R"({"pick":"b","claim":"pick"})", 1).ok());
    EXPECT_TRUE(store.RecordVerdict(decided, R"({"pick":"a","claim":"undecided"})", 2).ok());
  }
  SessionSpec spec = SpecOf();
  spec.resume = Resume::kNever;
  const TuneSession later = *store.Begin(spec);
  EXPECT_TRUE(store.RegisterVariants(later, ThreeVariants()).ok());
  EXPECT_TRUE(store.RecordVerdict(later, R"({"pick":"c","claim":"undecided"})", 9).ok());
  EXPECT_EQ(store.Tuned()->Find(KeyOf("550"))->entry->configuration.id, "b");
  EXPECT_TRUE(
      Says(store.Tuned(DefaultFallbacks(), later.id).status(), "session 2 has no decision"));
  EXPECT_TRUE(Says(store.Tuned(DefaultFallbacks(), 3).status(), "no session 3"));
  EXPECT_TRUE(store.RecordVerdict(later, R"({"pick":"c","claim":"tie"})", 10).ok());
  EXPECT_EQ(store.Tuned()->Find(KeyOf("550"))->entry->configuration.id, "c");
  EXPECT_EQ(store.Tuned(DefaultFallbacks(), 1)->Find(KeyOf("550"))->entry->configuration.id, "b");
}

TEST(TunedTable, AskingAgainMakesNothingNewer) {
  const TempDir dir;
  TuneStore store = Opened(dir.Path("t.db"));
  const TuneSession session = Begun(&store, SpecOf());
  const auto recorded = [&] { return store.Tuned()->entries().at(0).recorded_unix_s; };
  EXPECT_TRUE(store.RecordVerdict(session, R"({"pick":"b","claim":"pick"})", 1).ok());
  EXPECT_TRUE(store.RecordVerdict(session, R"({"pick":"b","claim":"pick","x":1})", 2).ok());
  EXPECT_EQ(recorded(), 1);
  EXPECT_TRUE(store.Append(session, RoundOf(1)).ok());
  EXPECT_TRUE(store.RecordVerdict(session, R"({"pick":"b","claim":"pick"})", 3).ok());
  EXPECT_EQ(recorded(), 3);
}

TEST(TunedTable, AnObjectiveAnswersForItselfOnly) {
  const TempDir dir;
  TuneStore store = Opened(dir.Path("t.db"));
  SessionSpec spec = SpecOf();
  spec.key.objective = "energy";
  EXPECT_TRUE(store.RecordVerdict(Begun(&store, spec), R"({"pick":"b","claim":"pick"})", 1).ok());
  const auto table = TunedTable::FromJson(store.Tuned()->ToJson(), "tuned.json");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->Find(KeyOf("550")), std::nullopt);
  EXPECT_EQ(table->Find(spec.key)->fallback->name, "exact");
}

TEST(TunedTable, JsonErrors) {
  const auto error = [](const std::string& text) {
    return TunedTable::FromJson(text, "x").status();
  };
  EXPECT_TRUE(Says(error("{}"), "x: $: not a tuned table"));
  const std::string head = R"({"schema": "xplane-time.tuned.v1", "entries": [)";
  EXPECT_TRUE(Says(error(head + "1]}"), "x: $.entries[0]: 1 is not an object"));
  EXPECT_TRUE(Says(error(head + "{\"workload\": \"w\"}]}"), "has no \"device_class\""));
  EXPECT_TRUE(Says(error(head + R"({"workload": 1, "device_class": "d", "params": {}}]})"),
                   "$.entries[0].workload: must be a string"));
  EXPECT_TRUE(TunedTable::FromJson(head + "]}", "x").ok());
}

}  // namespace
}  // namespace xplane_time
