// Store: measurements and decisions in one SQLite file that survives crashes.
//
// Input: rounds of samples and verdicts of tuning sessions. Output: the same, in the order in which
// they were stored, and the best configuration for a key. Not handled here: the choice of the next
// measurement (decide.h) and the text of exports (src/output/tuning.h).
//
// Example:
//
//   auto store = TuneStore::Open("tune.db", {});
//   if (!store.ok()) return store.status();
//   const std::vector<Configuration> variants = {{.id = "a", .params_json = R"({"block_m":32})"}};
//   auto session = store->Begin({.key = {.workload = "matmul[64]"}, .space_hash = "c0de"});
//   if (!session.ok()) return session.status();
//   // FailedPrecondition: tune.db: this session is in use by process 4711 on node3; ...
//   const absl::Status registered = store->RegisterVariants(*session, variants);
//   if (!registered.ok()) return registered;
//   const RoundRecord round = {.batch = 1, .samples = {{.variant = "a", .t_ps = 5'000}}};
//   auto appended = store->Append(*session, round);
//   if (!appended.ok()) return appended.status();
//   assert(*store->Append(*session, round) == Appended::kAlreadyStored);  // a round is stored once
//
// A round is one transaction. When Append returns, the round survives kill -9 at any moment (with
// both durabilities). With Durability::kPowerLoss it also survives a power cut, because SQLite
// flushes its log before it reports success (WAL, synchronous=FULL). kProcessLoss leaves the
// flushing to the kernel (synchronous=NORMAL): a power cut may lose the last rounds, but never a
// part of a round. Rounds, samples and verdicts are append-only; triggers in the file refuse
// changes.
//
// Format: docs/store.md; `PRAGMA user_version` is its version. Newer versions are refused. Network
// file systems are not supported (WAL needs shared memory). Use each object from one thread;
// several processes may open one file. Times are integers in picoseconds.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "xplane_time/space.h"
#include "xplane_time/tuned_table.h"

namespace xplane_time {

namespace tune {
class Database;
}

enum class Durability : uint8_t { kPowerLoss, kProcessLoss };

struct StoreOptions {
  Durability durability = Durability::kPowerLoss;
};

enum class Resume : uint8_t {
  kIfThere,   // the latest session with the same identity, finished or not; if none: a new one
  kNever,     // a new session
  kRequired,  // as kIfThere, but NotFound if there is no such session
};

// What a session measures. Two sessions have the same identity if their fields `key`, `space_hash`,
// `config_json`, `seed` and `device` are equal, byte for byte.
struct SessionSpec {
  TuneKey key = {};
  std::string space_hash = {};     // from SpaceHash()
  std::string config_json = "{}";  // config of the decision without its budget
  uint64_t seed = 0;
  std::string device = {};                // measured device; locked for the session unless empty
  std::vector<std::string> devices = {};  // several measured devices, each of which is locked
  // A file on this machine with a lock for each device, shared by all stores. Empty: no locks.
  std::string device_locks = {};
  int64_t now_unix_s = 0;  // start of the session
  Resume resume = Resume::kIfThere;
};

// A session to which only this process may append, as long as a copy of this object exists. The
// kernel releases its locks however the process ends.
struct TuneSession {
  int64_t id = 0;
  bool resumed = false;
  std::optional<std::string> verdict_json;  // set if the session was finished before
  std::vector<std::shared_ptr<const void>> locks;
};

// The result for one workload. The time of a sample is the weighted mean over the workloads.
struct WorkloadSample {
  std::string workload = {};
  std::string status = "ok";
  std::optional<int64_t> t_ps = {};
  std::optional<int64_t> energy_uj = {};
  friend bool operator==(const WorkloadSample&, const WorkloadSample&) = default;
};

struct SampleRecord {
  std::string variant;        // id of a registered variant
  int32_t slot = 0;           // position in the round
  std::string status = "ok";  // a status of docs/tuning.md; other texts are stored unchanged
  std::optional<int64_t> t_ps = {};
  std::optional<int64_t> energy_uj = {};
  std::vector<WorkloadSample> workloads = {};  // empty if there is only one workload
  friend bool operator==(const SampleRecord&, const SampleRecord&) = default;
};

struct RoundRecord {
  int64_t batch = 0, round = 0;
  bool discarded = false;         // kept, but not to be used
  std::string notes_json = "{}";  // environment: clocks, temperatures, throttling
  std::vector<SampleRecord> samples = {};
  friend bool operator==(const RoundRecord&, const RoundRecord&) = default;
};

enum class Appended : uint8_t { kStored, kAlreadyStored };

struct SessionInfo {
  int64_t id = 0;
  TuneKey key;
  std::string space_hash, config_json, device;
  uint64_t seed = 0;
  int64_t started_unix_s = 0;
  uint64_t rounds = 0, samples = 0;  // rounds that measured something, including discarded ones
  std::optional<std::string> verdict_json;  // the latest verdict
  std::optional<std::string> claim, pick;   // fields of the latest verdict
  // Whether all rows have checksums. Earlier versions wrote rows without: their values are
  // unverified.
  bool verified = true;
};

class TuneStore {
 public:
  // Opens a store and creates the file if it does not exist. Errors name the path and a remedy:
  // NotFound (no such directory), PermissionDenied (read-only), FailedPrecondition (a newer
  // version; another program's database), DataLoss (damaged, not a database), ResourceExhausted
  // (disk full), Unavailable (I/O; busy for over ten seconds).
  static absl::StatusOr<TuneStore> Open(const std::string& path, const StoreOptions& options);
  // Opens a store for look-ups and exports, also on a read-only medium. A store of an older version
  // is first upgraded, which needs a writable file.
  static absl::StatusOr<TuneStore> OpenReadOnly(const std::string& path);
  ~TuneStore();
  TuneStore(TuneStore&&) noexcept;
  TuneStore& operator=(TuneStore&&) noexcept;

  const std::string& path() const;

  // Begins or resumes a session. Errors: FailedPrecondition (another holder, possibly in this
  // process, has the session or the device; the message names it), NotFound (kRequired), and those
  // of I/O as in Open.
  absl::StatusOr<TuneSession> Begin(const SessionSpec& spec);

  // Registers variants; call it before their samples are appended. Known ids are kept. A known id
  // with other parameters is InvalidArgument.
  absl::Status RegisterVariants(const TuneSession& session,
                                std::span<const Configuration> variants);

  // Stores all of a round or none of it. If the (batch, round) exists, the store does not change:
  // the result is kAlreadyStored if the round is the same, and AlreadyExists otherwise. Errors:
  // InvalidArgument (a variant that is not registered, notes that are not JSON). After an error the
  // store remains usable, and the round may be appended again.
  absl::StatusOr<Appended> Append(const TuneSession& session, const RoundRecord& round);

  // Stores a verdict, a JSON object with "pick" (an id or null) and "claim". The latest verdict
  // counts. A verdict with the same pick and claim as the latest one, on the same rounds, is not
  // stored again, so that an answer from the store does not count as a newer decision.
  absl::Status RecordVerdict(const TuneSession& session, std::string_view verdict_json,
                             int64_t now_unix_s);

  absl::StatusOr<std::vector<SessionInfo>> Sessions() const;
  absl::StatusOr<SessionInfo> Session(int64_t id) const;  // Errors: also NotFound.

  // The rounds in the order in which they were stored. Errors of this and of all functions that
  // read: DataLoss if a row does not match its checksum, or lacks one although its session has one.
  absl::StatusOr<std::vector<RoundRecord>> ReadRounds(int64_t session) const;
  absl::StatusOr<std::vector<Configuration>> ReadVariants(int64_t session) const;

  // The decisions of sessions (winner, pick, tie) for look-ups: of all sessions, or of one. Errors:
  // NotFound (no such session), FailedPrecondition (that session has no decision).
  absl::StatusOr<TunedTable> Tuned(std::vector<Fallback> fallbacks = DefaultFallbacks(),
                                   std::optional<int64_t> only_session = {}) const;

  // Runs SQLite's integrity check, which detects damage to pages and indexes. Errors: DataLoss.
  // O(file).
  absl::Status CheckFile() const;
  // Checks the checksum of every row of a session, or of all. Errors: DataLoss, NotFound (no such
  // session).
  absl::Status CheckRows(std::optional<int64_t> only_session = {}) const;

 private:
  explicit TuneStore(std::unique_ptr<tune::Database> db);
  std::unique_ptr<tune::Database> db_;
};

}  // namespace xplane_time
