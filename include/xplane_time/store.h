// Store: what was measured and decided, in one SQLite file that outlives crashes.
//
// Enters: rounds of samples and verdicts of tuning sessions. Leaves: the same, in the order
// in which they were stored, and the best configuration for a key. Not handled here: what
// to measure next (decide.h), texts of exports (src/output/tuning.h).
//
//   auto store = TuneStore::Open("tune.db", {});
//   auto session = store->Begin({.key = key, .space_hash = hash, .config_json = "{}"});
//   // FailedPrecondition: tune.db: this session is in use by process 4711 on node3; ...
//   store->RegisterVariants(*session, configurations);
//   store->Append(*session, {.batch = 0, .round = 0, .samples = {{.variant = "a", .t_ps = 5}}});
//   store->Append(*session, the same);   // kAlreadyStored: a round is stored once
//
// A round is one transaction. When Append returns, the round survives kill -9 at any moment
// (both durabilities) and, with Durability::kPowerLoss, a power cut: SQLite then flushes its
// log before it reports success (WAL, synchronous=FULL). kProcessLoss leaves that to the
// kernel (synchronous=NORMAL): a power cut may take the last rounds, never part of one.
// Rounds, samples and verdicts are append-only; triggers in the file refuse changes.
//
// Format: docs/store.md; `PRAGMA user_version` is its version. A newer one is refused.
// Not for network file systems (WAL needs shared memory). One object is for one thread;
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
  kIfThere,   // the latest session of the same identity, finished or not; else a new one
  kNever,     // a new one
  kRequired,  // NotFound without one
};

// What a session is of. Two sessions have one identity where all of `key` to `device` are equal,
// byte for byte.
struct SessionSpec {
  TuneKey key = {};
  std::string space_hash = {};     // SpaceHash
  std::string config_json = "{}";  // of the decision, without its budget
  uint64_t seed = 0;
  std::string device = {};                // measured on; locked for the session unless empty
  std::vector<std::string> devices = {};  // where it is several: each of them is locked
  // A file of this machine with a lock for each device, whatever the store; empty: none.
  std::string device_locks = {};
  int64_t now_unix_s = 0;  // when it began
  Resume resume = Resume::kIfThere;
};

// A session that this process may append to, and nobody else while a copy of this is there. The
// kernel releases its locks however the process ends.
struct TuneSession {
  int64_t id = 0;
  bool resumed = false;
  std::optional<std::string> verdict_json;  // of a session that was finished before
  std::vector<std::shared_ptr<const void>> locks;
};

// What a sample is the weighted mean of.
struct WorkloadSample {
  std::string workload = {};
  std::string status = "ok";
  std::optional<int64_t> t_ps = {};
  std::optional<int64_t> energy_uj = {};
  friend bool operator==(const WorkloadSample&, const WorkloadSample&) = default;
};

struct SampleRecord {
  std::string variant;        // an id that was registered
  int32_t slot = 0;           // place in the round
  std::string status = "ok";  // tuning.md's names; further ones are kept as they are
  std::optional<int64_t> t_ps = {};
  std::optional<int64_t> energy_uj = {};
  std::vector<WorkloadSample> workloads = {};  // empty where there is but one
  friend bool operator==(const SampleRecord&, const SampleRecord&) = default;
};

struct RoundRecord {
  int64_t batch = 0, round = 0;
  bool discarded = false;         // kept, and not to be used
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
  uint64_t rounds = 0, samples = 0;  // rounds that measured something, discarded ones included
  std::optional<std::string> verdict_json;  // the latest
  std::optional<std::string> claim, pick;   // of it
};

class TuneStore {
 public:
  // Creates the file where there is none. Errors name the path and a way out: NotFound (no
  // such directory), PermissionDenied (read-only), FailedPrecondition (a newer version;
  // another program's database), DataLoss (damaged, not a database), ResourceExhausted
  // (disk full), Unavailable (I/O; busy for over ten seconds).
  static absl::StatusOr<TuneStore> Open(const std::string& path, const StoreOptions& options);
  // For look-ups and exports; also of a file on a read-only medium. An older version is brought
  // up to date first, which needs a file that can be written.
  static absl::StatusOr<TuneStore> OpenReadOnly(const std::string& path);
  ~TuneStore();
  TuneStore(TuneStore&&) noexcept;
  TuneStore& operator=(TuneStore&&) noexcept;

  const std::string& path() const;

  // Errors: FailedPrecondition (someone, who may be of this process, has the session or the
  // device: says who), NotFound (kRequired), and those of I/O as in Open.
  absl::StatusOr<TuneSession> Begin(const SessionSpec& spec);

  // Before their samples are appended. Known ids are left as they are; one with other
  // parameters is InvalidArgument.
  absl::Status RegisterVariants(const TuneSession& session,
                                std::span<const Configuration> variants);

  // All of the round or nothing. A (batch, round) that is stored already is left as it is:
  // kAlreadyStored where it is the same, AlreadyExists where it is not. InvalidArgument: a
  // variant that was not registered, notes that are not JSON. After an error the store
  // stays usable; the round may be appended again.
  absl::StatusOr<Appended> Append(const TuneSession& session, const RoundRecord& round);

  // A JSON object; "pick" (an id or null) and "claim" are read from it. The latest counts.
  // One with the pick and the claim of the latest, on the same rounds, is left out: answering
  // from the store makes nothing newer.
  absl::Status RecordVerdict(const TuneSession& session, std::string_view verdict_json,
                             int64_t now_unix_s);

  absl::StatusOr<std::vector<SessionInfo>> Sessions() const;
  absl::StatusOr<SessionInfo> Session(int64_t id) const;  // also NotFound

  // In the order in which they were stored. Errors of this and all that read: DataLoss where a row
  // does not have its checksum.
  absl::StatusOr<std::vector<RoundRecord>> ReadRounds(int64_t session) const;
  absl::StatusOr<std::vector<Configuration>> ReadVariants(int64_t session) const;

  // What sessions decided (winner, pick, tie), ready for look-ups: of every session, or of one.
  // Errors: NotFound (no such session), FailedPrecondition (that one has decided nothing).
  absl::StatusOr<TunedTable> Tuned(std::vector<Fallback> fallbacks = DefaultFallbacks(),
                                   std::optional<int64_t> only_session = {}) const;

  // SQLite's integrity check, which sees damage to pages and indexes: DataLoss. O(file).
  absl::Status CheckFile() const;
  // The checksum of every row of a session, or of all: DataLoss; NotFound of that session.
  absl::Status CheckRows(std::optional<int64_t> only_session = {}) const;

 private:
  explicit TuneStore(std::unique_ptr<tune::Database> db);
  std::unique_ptr<tune::Database> db_;
};

}  // namespace xplane_time
