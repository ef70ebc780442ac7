// The store of tunings: an SQLite database (docs/store.md) with sessions, variants, rounds,
// verdicts.
//
// - Rows are only added. Each row has a checksum over its values (ChecksumOf), so damage to the
//   file that SQLite cannot detect is reported when the row is read.
// - A session's identity is its key, space, rule, seed and device. TakeSession resumes the latest
//   session with the same identity, or begins one.
// - Locks: one tuning at a time for each device, over all stores, and for each session and device
//   of a store. A lock is one byte of a lock file, chosen by a hash of the name; the file also has
//   notes about the holders, for messages. The kernel releases locks when a process ends.
// - Tuned entries: for each key and device, the latest verdict with a decision (ThatHold).
//
// Reads are O(rows); a round is written in one transaction.
#include "xplane_time/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "io/database_file.h"
#include "io/descriptor.h"
#include "io/whole_file.h"
#include "json/json.h"
#include "status.h"
#include "tune/outcome_json.h"
#include "tune/space_json.h"
#include "tune/store_sqlite.h"

namespace xplane_time {

using tune::Database, tune::Statement;

TuneStore::TuneStore(std::unique_ptr<Database> db) : db_(std::move(db)) {}
TuneStore::~TuneStore() = default;
TuneStore::TuneStore(TuneStore&&) noexcept = default;
TuneStore& TuneStore::operator=(TuneStore&&) noexcept = default;

const std::string& TuneStore::path() const { return db_->path(); }

namespace {

// --- Checksums of a row's values, to detect changes.

std::string OrDash(const std::optional<int64_t>& value) {
  return value.has_value() ? absl::StrCat(*value) : std::string("-");
}

int64_t Crc32(std::string_view bytes) {
  return static_cast<int64_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::string Framed(const std::string& text) { return absl::StrCat(text.size(), ":", text); }

// Numbers as text; each part as BYTES:TEXT and a comma.
template <typename... Parts>
std::string FramedAll(const Parts&... parts) {
  return (... + (Framed(absl::StrCat(parts)) + ","));
}

// Rows of a session have its id before their values. Before version 4 they had the values alone.
struct Checksums {
  int64_t now, before_version_4;
};
Checksums ChecksumsWith(int64_t session, const std::string& values) {
  return {Crc32(Framed(absl::StrCat(session)) + "," + values), Crc32(values)};
}
template <typename... Parts>
Checksums ChecksumsOf(int64_t session, const Parts&... parts) {
  return ChecksumsWith(session, FramedAll(parts...));
}

Checksums ChecksumsOf(int64_t session, const RoundRecord& round) {
  std::string bytes = absl::StrCat(round.batch, ",", round.round, ",", round.discarded ? 1 : 0, ",",
                                   Framed(round.notes_json));
  for (const SampleRecord& s : round.samples) {
    absl::StrAppend(&bytes, ";", Framed(s.variant), ",", s.slot, ",", Framed(s.status));
    absl::StrAppend(&bytes, ",", OrDash(s.t_ps), ",", OrDash(s.energy_uj));
    for (const WorkloadSample& own : s.workloads) {
      absl::StrAppend(&bytes, "/", Framed(own.workload), ",", Framed(own.status));
      absl::StrAppend(&bytes, ",", OrDash(own.t_ps), ",", OrDash(own.energy_uj));
    }
  }
  return ChecksumsWith(session, bytes);
}

Checksums ChecksumsOf(int64_t session, const Configuration& variant) {
  return ChecksumsOf(session, variant.id, variant.params_json, OrDash(variant.mem_bytes));
}

std::string KeyColumns() {
  return absl::StrJoin(kKeyParts, ", ",
                       [](std::string* out, const KeyPart& part) { out->append(part.name); });
}
template <typename Key>
auto PartsOf(Key& key) {
  return std::apply([&](const auto&... part) { return std::tie(key.*part.member...); }, kKeyParts);
}

// Columns of the identity of a requested or stored session.
std::string IdentityColumns() { return KeyColumns() + ", space_hash, config_json, seed, device"; }
constexpr char kIdentityMarks[] = "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?";
template <typename Session>
auto IdentityOf(Session& of) {
  return std::tuple_cat(PartsOf(of.key),
                        std::tie(of.space_hash, of.config_json, of.seed, of.device));
}

template <typename Session>
int64_t SessionChecksum(const Session& of, int64_t started_unix_s) {
  return std::apply([&](const auto&... part) { return Crc32(FramedAll(part..., started_unix_s)); },
                    IdentityOf(of));
}

// A check for rows without a checksum: parameters are always an object.
absl::Status CheckParams(const std::string& path, int64_t session, const Configuration& variant) {
  const auto params = tune::ParseJson(variant.params_json, "params");
  if (params.ok() && params->is_object()) return absl::OkStatus();
  return DataLoss(path, ": session ", session, ": the parameters of the variant \"", variant.id,
                  "\" cannot be read; the file was damaged after it was written");
}

// Reports damage to the file that SQLite cannot detect. Rows of version 1 have no checksum.
absl::Status CheckRow(const std::string& path, int64_t session, absl::string_view what,
                      const std::optional<int64_t>& stored, int64_t computed) {
  if (stored.value_or(computed) == computed) return absl::OkStatus();
  return DataLoss(path, ": session ", session, ": ", what,
                  " has a wrong checksum; the file was damaged after it was written");
}
absl::Status CheckRow(const std::string& path, int64_t session, absl::string_view what,
                      const std::optional<int64_t>& stored, const Checksums& computed) {
  const bool is_earlier = stored == computed.before_version_4;
  return CheckRow(path, session, what, stored,
                  is_earlier ? computed.before_version_4 : computed.now);
}

absl::Status CheckVariant(const std::string& path, int64_t session, const Configuration& variant,
                          const std::optional<int64_t>& stored) {
  RETURN_IF_ERROR(CheckRow(path, session, absl::StrCat("the variant \"", variant.id, "\""), stored,
                           ChecksumsOf(session, variant)));
  return CheckParams(path, session, variant);
}

// --- Opening.

// SQLite treats a file of a few bytes as an empty database and would overwrite it.
absl::Status CheckHeader(const std::string& path) {
  const std::string head = io::ReadFile(path, io::kDatabaseBegin.size()).value_or("");
  if (head.empty() || head == io::kDatabaseBegin) return absl::OkStatus();
  return DataLoss(path, ": not a tune store; give another path");
}

// SQLite reports "no such file" if it is not allowed to create one.
absl::Status CannotCreate(const std::string& path, const absl::Status& status) {
  std::error_code ignored;
  const std::filesystem::path directory = std::filesystem::absolute(path, ignored).parent_path();
  if (!absl::IsNotFound(status) || !std::filesystem::exists(directory, ignored)) return status;
  return PermissionDenied(path,
                          ": cannot be created; make the directory writable, or give another path");
}

}  // namespace

absl::StatusOr<TuneStore> TuneStore::Open(const std::string& path, const StoreOptions& options) {
  RETURN_IF_ERROR(CheckHeader(path));
  auto db = Database::Open(path, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (!db.ok()) return CannotCreate(path, db.status());
  const Database& of = **db;
  RETURN_IF_ERROR(of.CheckWritable());
  RETURN_IF_ERROR(tune::PrepareSchema(of));
  ASSIGN_OR_RETURN(const auto mode, of.First<std::string>("PRAGMA journal_mode = WAL"));
  if (mode != "wal") {
    return FailedPrecondition(path,
                              ": this file system does not support the shared memory that the "
                              "write-ahead log requires; put the store on a local disk");
  }
  const bool power = options.durability == Durability::kPowerLoss;
  RETURN_IF_ERROR(of.Execute(power ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL"));
  return TuneStore(*std::move(db));
}

absl::StatusOr<TuneStore> TuneStore::OpenReadOnly(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return NotFound(path, ": no such store; tune creates it, --store selects another");
  }
  ASSIGN_OR_RETURN(auto db, Database::Open(path, path, SQLITE_OPEN_READONLY));
  auto version = tune::VersionOf(*db, /*may_be_empty=*/false);
  // In a read-only directory, SQLite cannot create its log or the log's index.
  const bool cannot_open =
      absl::IsPermissionDenied(version.status()) || absl::IsNotFound(version.status());
  const auto log_bytes = std::filesystem::file_size(path + "-wal", ignored);
  const bool has_log = !ignored && log_bytes > 0;
  if (cannot_open && has_log) {
    return PermissionDenied(path, ": cannot open it read-only, because its log (", path,
                            "-wal) must be applied first; copy both files to a writable directory");
  }
  if (cannot_open) {
    // There is no log, and it cannot be created, so no program can be writing.
    const std::string escaped =
        absl::StrReplaceAll(std::filesystem::absolute(path, ignored).string(),
                            {{"%", "%25"}, {"?", "%3f"}, {"#", "%23"}});
    ASSIGN_OR_RETURN(db, Database::Open(absl::StrCat("file:", escaped, "?immutable=1"), path,
                                        SQLITE_OPEN_READONLY | SQLITE_OPEN_URI));
    version = tune::VersionOf(*db, /*may_be_empty=*/false);
  }
  if (!version.ok()) return version.status();
  if (*version != tune::kStoreVersion) {
    if (auto updated = Open(path, {}); !updated.ok()) {
      return FailedPrecondition(path, ": written by an older version and cannot be updated (",
                                updated.status().message(), "); copy it to a writable directory");
    }
  }
  return TuneStore(std::move(db));
}

// --- Locks by name: each is a byte of a file that is created once and stays.

namespace {

// The position of a name's lock: 60 bits, below 2^63.
uint64_t ByteOf(std::string_view name) {
  return std::strtoull(tune::StableHash(name).substr(0, 15).c_str(), nullptr, 16);
}

// The beginning of the file has notes "BYTE WHO" about the last holders, in this many slots. The
// kernel does not report which open file description holds a lock.
constexpr size_t kNotes = 1024, kNoteBytes = 128;
off_t PlaceOfNote(uint64_t byte) { return static_cast<off_t>(byte % kNotes * kNoteBytes); }

std::string NoteOf(uint64_t byte) {
  std::array<char, 65> host = {};
  gethostname(host.data(), host.size() - 1);
  std::string note =
      absl::StrCat(absl::Hex(byte, absl::kZeroPad16), " process ", getpid(), " on ", host.data());
  note.resize(kNoteBytes - 1, ' ');
  return note + "\n";
}

std::string HolderOf(int file, uint64_t byte) {
  std::string note(kNoteBytes, '\0');
  if (pread(file, note.data(), note.size(), PlaceOfNote(byte)) < 0) note.clear();
  absl::string_view holder = absl::StripAsciiWhitespace(note);
  const bool is_it = absl::ConsumePrefix(&holder, absl::StrCat(absl::Hex(byte, absl::kZeroPad16)));
  return is_it ? std::string(absl::StripLeadingAsciiWhitespace(holder)) : "another process";
}

// The locks of devices are in a directory that other users may write to (TMPDIR), so that file must
// belong to us. The locks of a store belong to the creator of the store.
enum class LockOwner : uint8_t { kUs, kAny };

// Opens or creates a lock file. Refuses symbolic links and files with a second name, because the
// note of the holder would overwrite another file. Errors: PermissionDenied (not a lock file),
// those of io::IoError.
absl::StatusOr<std::shared_ptr<io::Descriptor>> OpenLockFile(const std::string& path,
                                                             LockOwner owner) {
  const auto refused = [&](const char* what) {
    return PermissionDenied(path, ": ", what, ", so it cannot be used for locks; remove it",
                            owner == LockOwner::kUs
                                ? ", or set XDG_RUNTIME_DIR or TMPDIR to a directory that you own"
                                : "");
  };
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  auto opened = std::make_shared<io::Descriptor>(open(path.c_str(), kFlags, 0666));
  if (!opened->open() && errno == ELOOP) return refused("is a symbolic link");
  if (!opened->open()) return io::IoError(path, "cannot be opened");
  struct stat info = {};
  if (fstat(opened->get(), &info) != 0) return io::IoError(path, "cannot be read");
  if (!S_ISREG(info.st_mode)) return refused("is not a regular file");
  if (owner == LockOwner::kUs && info.st_nlink != 1) return refused("has other hard links");
  if (owner == LockOwner::kUs && info.st_uid != geteuid())
    return refused("belongs to another user");
  return opened;
}

std::string LockName(const SessionSpec& spec) {
  std::string texts;
  for (const auto& [name, member] : kKeyParts) texts += Framed(spec.key.*member);
  texts += Framed(spec.space_hash) + Framed(spec.config_json) + Framed(spec.device);
  return absl::StrCat("session:", tune::StableHash(absl::StrCat(texts, spec.seed)));
}

// Takes an open file description lock. It belongs to the descriptor, so it also excludes other
// users in the same process, and it ends with the descriptor. Errors: FailedPrecondition (the lock
// is held; the message is `before`, the holder, `after`), those of OpenLockFile.
absl::Status Lock(const std::string& path, LockOwner owner, std::string_view name,
                  std::string_view before, std::string_view after, TuneSession* session) {
  ASSIGN_OR_RETURN(auto opened, OpenLockFile(path, owner));
  const int fd = opened->get();
  const uint64_t byte = ByteOf(name);
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(byte);
  lock.l_len = 1;
  if (fcntl(fd, F_OFD_SETLK, &lock) != 0) {
    if (errno == EAGAIN || errno == EACCES) {
      return FailedPrecondition(before, HolderOf(fd, byte), after);
    }
    return Unavailable(path, ": cannot be locked: ", std::strerror(errno));
  }
  session->locks.push_back(std::move(opened));
  // If this fails, messages only lack the holder.
  [[maybe_unused]] const auto wrote =
      pwrite(fd, NoteOf(byte).data(), kNoteBytes, PlaceOfNote(byte));
  return absl::OkStatus();
}

// Locks the device for all stores, and the session and the device in this store.
absl::Status LockAll(const std::string& store, const SessionSpec& spec, TuneSession* session) {
  constexpr char kOther[] = "; wait for it, stop it, or use another store";
  std::vector<std::string> devices = spec.devices;
  if (devices.empty()) devices.push_back(spec.device);
  for (const std::string& device : devices) {
    if (spec.device_locks.empty()) break;
    RETURN_IF_ERROR(Lock(spec.device_locks, LockOwner::kUs, device,
                         Cat("the device ", device, " is in use by another tuning with "),
                         Cat(" (", spec.device_locks, "); wait for it, or stop it"), session));
  }
  const std::string file = store + "-lock";
  RETURN_IF_ERROR(Lock(file, LockOwner::kAny, LockName(spec), store + ": the session is in use by ",
                       kOther, session));
  for (const std::string& device : devices) {
    if (device.empty()) continue;
    RETURN_IF_ERROR(Lock(file, LockOwner::kAny, "device:" + device,
                         Cat(store, ": the device \"", device, "\" is in use by "), kOther,
                         session));
  }
  return absl::OkStatus();
}

// --- Sessions.

// Resumes or begins the session.
absl::Status TakeSession(const Database& db, const SessionSpec& spec, TuneSession* session) {
  if (spec.resume != Resume::kNever) {
    ASSIGN_OR_RETURN(
        const auto found,
        db.First<int64_t>(absl::StrCat("SELECT id FROM session WHERE (", IdentityColumns(), ") = (",
                                       kIdentityMarks, ") ORDER BY id DESC LIMIT 1"),
                          IdentityOf(spec)));
    session->resumed = found.has_value();
    if (session->resumed) return session->id = *found, absl::OkStatus();
    if (spec.resume == Resume::kRequired) {
      return NotFound(db.path(),
                      ": no session with this workload, device, code, space and configuration; run "
                      "without --resume, or list the sessions");
    }
  }
  RETURN_IF_ERROR(
      db.Run(absl::StrCat("INSERT INTO session(", IdentityColumns(),
                          ", started_unix_s, crc32) VALUES(", kIdentityMarks, ", ?, ?)"),
             IdentityOf(spec), spec.now_unix_s, SessionChecksum(spec, spec.now_unix_s)));
  session->id = sqlite3_last_insert_rowid(db.get());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TuneSession> TuneStore::Begin(const SessionSpec& spec) {
  RETURN_IF_ERROR(db_->CheckWritable());
  TuneSession session;
  RETURN_IF_ERROR(LockAll(path(), spec, &session));
  RETURN_IF_ERROR(db_->Transaction([&] { return TakeSession(*db_, spec, &session); }));
  if (session.resumed) {
    ASSIGN_OR_RETURN(SessionInfo info, Session(session.id));
    session.verdict_json = std::move(info.verdict_json);
  }
  return session;
}

absl::Status TuneStore::RegisterVariants(const TuneSession& session,
                                         std::span<const Configuration> variants) {
  const Database& db = *db_;
  const auto add = [&](const Configuration& v) -> absl::Status {
    RETURN_IF_ERROR(
        db.Run("INSERT INTO variant(session, variant, params_json, mem_bytes, crc32) "
               "VALUES(?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
               session.id, v.id, v.params_json, v.mem_bytes, ChecksumsOf(session.id, v).now));
    if (sqlite3_changes(db.get()) > 0) return absl::OkStatus();
    Configuration stored;
    stored.id = v.id;
    std::optional<int64_t> checksum;
    RETURN_IF_ERROR(db.Each(
        "SELECT params_json, mem_bytes, crc32 FROM variant WHERE session = ? AND variant = ?",
        [&](const Statement& row) {
          row.Read(&stored.params_json, &stored.mem_bytes, &checksum);
          return false;
        },
        session.id, v.id));
    if (stored.params_json == v.params_json) return absl::OkStatus();
    RETURN_IF_ERROR(CheckVariant(path(), session.id, stored, checksum));
    return InvalidArgument(path(), ": session ", session.id, ": the variant \"", v.id,
                           "\" is stored with ", stored.params_json, ", but now has ",
                           v.params_json, "; use another id");
  };
  return db.Transaction([&]() -> absl::Status {
    for (const Configuration& each : variants) RETURN_IF_ERROR(add(each));
    return absl::OkStatus();
  });
}

// --- Rounds.

namespace {

absl::Status InsertSample(const Database& db, int64_t session, int64_t round_id, size_t place,
                          const SampleRecord& sample) {
  ASSIGN_OR_RETURN(const auto variant,
                   db.First<int64_t>("SELECT id FROM variant WHERE session = ? AND variant = ?",
                                     session, sample.variant));
  if (!variant.has_value()) {
    return InvalidArgument(db.path(), ": session ", session, ": no variant \"", sample.variant,
                           "\"; register it first");
  }
  RETURN_IF_ERROR(db.Run("INSERT INTO sample VALUES(?, ?, ?, ?, ?, ?, ?)", round_id, place,
                         *variant, sample.slot, sample.status, sample.t_ps, sample.energy_uj));
  for (size_t part = 0; part < sample.workloads.size(); ++part) {
    const WorkloadSample& own = sample.workloads[part];
    RETURN_IF_ERROR(db.Run("INSERT INTO workload_sample VALUES(?, ?, ?, ?, ?, ?, ?)", round_id,
                           place, part, own.workload, own.status, own.t_ps, own.energy_uj));
  }
  return absl::OkStatus();
}

absl::StatusOr<Appended> InsertRound(const Database& db, int64_t session,
                                     const RoundRecord& round) {
  const Checksums checksums = ChecksumsOf(session, round);
  RETURN_IF_ERROR(
      db.Run("INSERT INTO round(session, batch, round, discarded, notes_json, samples, crc32) "
             "VALUES(?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
             session, round.batch, round.round, round.discarded, round.notes_json,
             round.samples.size(), checksums.now));
  if (sqlite3_changes(db.get()) > 0) {
    const int64_t round_id = sqlite3_last_insert_rowid(db.get());
    for (size_t place = 0; place < round.samples.size(); ++place) {
      RETURN_IF_ERROR(InsertSample(db, session, round_id, place, round.samples[place]));
    }
    return Appended::kStored;
  }
  ASSIGN_OR_RETURN(
      const auto stored,
      db.First<int64_t>("SELECT crc32 FROM round WHERE session = ? AND batch = ? AND round = ?",
                        session, round.batch, round.round));
  if (stored == checksums.now || stored == checksums.before_version_4) {
    return Appended::kAlreadyStored;
  }
  return absl::AlreadyExistsError(
      absl::StrCat(db.path(), ": session ", session, ": round ", round.round, " of batch ",
                   round.batch, " is already stored with other samples, which are kept"));
}

}  // namespace

absl::StatusOr<Appended> TuneStore::Append(const TuneSession& session, const RoundRecord& round) {
  RETURN_IF_ERROR(tune::ParseJson(round.notes_json, "notes").status());
  if (round.batch < 0 || round.round < 0) {
    return InvalidArgument(path(), ": batch ", round.batch, ", round ", round.round,
                           ": numbers start at 0");
  }
  Appended appended = Appended::kStored;
  RETURN_IF_ERROR(db_->Transaction([&]() -> absl::Status {
    ASSIGN_OR_RETURN(appended, InsertRound(*db_, session.id, round));
    return absl::OkStatus();
  }));
  return appended;
}

absl::Status TuneStore::RecordVerdict(const TuneSession& session, std::string_view verdict_json,
                                      int64_t now_unix_s) {
  ASSIGN_OR_RETURN(const tune::Json verdict, tune::ParseJson(verdict_json, "verdict"));
  if (!verdict.is_object()) {
    return InvalidArgument(path(), ": the verdict is not a JSON object");
  }
  const auto text = [&](const char* name) {
    const tune::Json found = verdict.value(name, tune::Json());
    return found.is_string() ? found.get<std::string>() : std::string();
  };
  const std::string pick = text("pick"), claim = text("claim");
  return db_->Transaction([&] {
    return db_->Run(
        "WITH rounds(n) AS (SELECT count(*) FROM round WHERE session = ?1), "
        "latest AS (SELECT * FROM verdict WHERE session = ?1 ORDER BY id DESC LIMIT 1) "
        "INSERT INTO verdict(session, pick, claim, verdict_json, recorded_unix_s, rounds, crc32) "
        "SELECT ?1, nullif(?2, ''), ?3, ?4, ?5, n, ?6 FROM rounds WHERE NOT EXISTS(SELECT 1 FROM "
        "latest WHERE latest.rounds = n AND claim = ?3 AND coalesce(pick, '') = ?2)",
        session.id, pick, claim, verdict_json, now_unix_s,
        ChecksumsOf(session.id, pick, claim, std::string(verdict_json), now_unix_s).now);
  });
}

// --- Reading.

namespace {

// Rows of versions 1 and 2 have no checksum, so a verdict must also be in the form that
// RecordVerdict writes: a JSON object with the pick and the claim of its row.
absl::Status CheckVerdict(const std::string& path, int64_t session, const std::string& pick,
                          const std::string& claim, const std::string& verdict_json) {
  const json::Json verdict = json::Parse(verdict_json);
  const bool is_sound = verdict.is_object() && json::TextOf(verdict, "pick").value_or("") == pick &&
                        json::TextOf(verdict, "claim").value_or("") == claim;
  if (is_sound) return absl::OkStatus();
  return DataLoss(path, ": session ", session,
                  ": its verdict cannot be read; the file was damaged after it was written");
}

absl::StatusOr<SessionInfo> SessionAt(const Statement& row, const std::string& path) {
  SessionInfo info;
  std::optional<int64_t> own, of_verdict;
  int64_t recorded_unix_s = 0;
  row.Read(IdentityOf(info), &info.id, &info.started_unix_s, &info.rounds, &info.samples, &own,
           &info.pick, &info.claim, &info.verdict_json, &recorded_unix_s, &of_verdict,
           &info.verified);
  RETURN_IF_ERROR(CheckRow(path, info.id, "its key or decision rule", own,
                           SessionChecksum(info, info.started_unix_s)));
  if (!info.verdict_json.has_value()) return info;
  RETURN_IF_ERROR(CheckRow(path, info.id, "its verdict", of_verdict,
                           ChecksumsOf(info.id, info.pick.value_or(""), info.claim.value_or(""),
                                       *info.verdict_json, recorded_unix_s)));
  RETURN_IF_ERROR(CheckVerdict(path, info.id, info.pick.value_or(""), info.claim.value_or(""),
                               *info.verdict_json));
  return info;
}

// Earlier versions wrote rows without a checksum. A version that gives one to a session also gives
// one to the later sessions, and to all variants and verdicts of these.
absl::Status CheckNoChecksumIsMissing(const Database& db, std::optional<int64_t> only_session) {
  constexpr char kMissing[] =
      "SELECT s.id FROM session s WHERE (?1 IS NULL OR s.id = ?1) AND CASE WHEN s.crc32 IS NULL "
      "THEN EXISTS(SELECT 1 FROM session WHERE id < s.id AND crc32 IS NOT NULL) "
      "ELSE EXISTS(SELECT 1 FROM variant WHERE session = s.id AND crc32 IS NULL) "
      "OR EXISTS(SELECT 1 FROM verdict WHERE session = s.id AND crc32 IS NULL) END LIMIT 1";
  ASSIGN_OR_RETURN(const auto session, db.First<int64_t>(kMissing, only_session));
  if (!session.has_value()) return absl::OkStatus();
  return DataLoss(db.path(), ": session ", *session,
                  ": a checksum is missing; the file was damaged after it was written");
}

// Of one session, or of all.
absl::StatusOr<std::vector<SessionInfo>> ReadSessions(const Database& db,
                                                      std::optional<int64_t> only) {
  const std::string sql =
      absl::StrCat("SELECT ", IdentityColumns(),
                   ", s.id, started_unix_s, "
                   "(SELECT count(*) FROM round r WHERE r.session = s.id AND r.samples > 0), "
                   "(SELECT coalesce(sum(samples), 0) FROM round r WHERE r.session = s.id), "
                   "s.crc32, nullif(v.pick, ''), nullif(v.claim, ''), v.verdict_json, "
                   "v.recorded_unix_s, v.crc32, s.crc32 IS NOT NULL "
                   "AND NOT EXISTS(SELECT 1 FROM variant WHERE session = s.id AND crc32 IS NULL) "
                   "AND NOT EXISTS(SELECT 1 FROM verdict WHERE session = s.id AND crc32 IS NULL) "
                   "FROM session s LEFT JOIN verdict v "
                   "ON v.id = (SELECT max(id) FROM verdict WHERE session = s.id) "
                   "WHERE ?1 IS NULL OR s.id = ?1 ORDER BY s.id");
  std::vector<SessionInfo> out;
  RETURN_IF_ERROR(CheckNoChecksumIsMissing(db, only));
  const auto add = [&](const Statement& row) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(out.emplace_back(), SessionAt(row, db.path()));
    return true;
  };
  RETURN_IF_ERROR(db.Each(sql, add, only));
  return out;
}

// The evidence to keep of a verdict: everything except its lists, which grow with the space.
std::string Evidence(const std::string& verdict_json) {
  const auto verdict = tune::ParseJson(verdict_json, "");
  tune::Json out = tune::Json::object();
  if (!verdict.ok() || !verdict->is_object()) return out.dump();
  for (const auto& [name, value] : verdict->items()) {
    if (!value.is_array() && name != "ratios" && name != "p_best") out[name] = value;
  }
  return tune::CanonicalJson(out);
}

// The decision of a session, and the devices that it holds on.
struct Decided {
  TunedEntry entry;
  int64_t session = 0;
  std::set<std::string> devices = {};  // empty: a single device, chosen by the harness
  bool is_divided = false;  // the devices are of several classes: it does not certainly hold on any
};

// For one key, in the order of recording: keeps each decision for those devices on which no later
// decision was made, except for a requested session. Drops decisions that hold on no device. If
// devices need separate decisions, each decision holds only for its own devices.
std::vector<Decided> ThatHold(std::vector<Decided> all, std::optional<int64_t> asked) {
  std::vector<Decided> kept;
  std::set<std::string> settled;
  bool is_divided = false;
  std::ranges::reverse(all);
  for (Decided& each : all) {
    const bool on_devices = !each.devices.empty();
    if (each.session != asked) {
      std::erase_if(each.devices, [&](const std::string& name) { return settled.contains(name); });
    }
    if (on_devices && each.devices.empty()) continue;
    if (each.is_divided) {
      is_divided = true;
      continue;
    }
    settled.insert(each.devices.begin(), each.devices.end());
    kept.push_back(std::move(each));
  }
  const auto on_devices = [](const Decided& each) { return !each.devices.empty(); };
  const auto first = std::ranges::find_if(kept, on_devices);
  const bool agree = std::ranges::all_of(kept, [&](const Decided& each) {
    return !on_devices(each) || each.entry.configuration.id == first->entry.configuration.id;
  });
  for (Decided& each : kept) {
    if (agree && !is_divided) continue;
    each.entry.devices.assign(each.devices.begin(), each.devices.end());
  }
  std::ranges::reverse(kept);
  return kept;
}

// The samples of a round. A workload whose sample is missing is skipped; then the checksum differs.
// It also differs if a variant belongs to another session.
absl::Status ReadSamples(const Database& db, int64_t session, int64_t round_id,
                         RoundRecord* round) {
  const auto add = [&](const Statement& row) {
    SampleRecord& of = round->samples.emplace_back();
    row.Read(&of.variant, &of.slot, &of.status, &of.t_ps, &of.energy_uj);
    return true;
  };
  RETURN_IF_ERROR(
      db.Each("SELECT v.variant, slot, status, t_ps, energy_uj FROM sample s "
              "LEFT JOIN variant v ON v.id = s.variant AND v.session = ? "
              "WHERE s.round = ? ORDER BY place",
              add, session, round_id));
  const auto add_workload = [&](const Statement& row) {
    size_t place = 0;
    WorkloadSample of;
    row.Read(&place, &of.workload, &of.status, &of.t_ps, &of.energy_uj);
    if (place < round->samples.size()) round->samples[place].workloads.push_back(std::move(of));
    return true;
  };
  return db.Each(
      "SELECT place, workload, status, t_ps, energy_uj FROM workload_sample WHERE round = ? "
      "ORDER BY place, part",
      add_workload, round_id);
}

// The rounds of a session in the order in which they were stored.
absl::StatusOr<std::vector<RoundRecord>> ReadKeptRounds(const Database& db, int64_t session) {
  std::vector<RoundRecord> out;
  const auto add = [&](const Statement& row) -> absl::StatusOr<bool> {
    RoundRecord& round = out.emplace_back();
    int64_t round_id = 0, checksum = 0;
    row.Read(&round_id, &round.batch, &round.round, &round.discarded, &round.notes_json, &checksum);
    RETURN_IF_ERROR(ReadSamples(db, session, round_id, &round));
    RETURN_IF_ERROR(CheckRow(db.path(), session,
                             absl::StrCat("round ", round.round, " of batch ", round.batch),
                             checksum, ChecksumsOf(session, round)));
    return true;
  };
  RETURN_IF_ERROR(
      db.Each("SELECT id, batch, round, discarded, notes_json, crc32 FROM round "
              "WHERE session = ? ORDER BY id",
              add, session));
  return out;
}

// Rows are only added. A missing round leaves its samples behind, and a verdict stores the number
// of rounds. O(samples of the store).
absl::Status CheckNoRoundIsMissing(const Database& db, std::optional<int64_t> only_session) {
  constexpr char kLost[] =
      "SELECT v.session FROM sample s JOIN variant v ON v.id = s.variant "
      "LEFT JOIN round r ON r.id = s.round AND r.session = v.session "
      "WHERE r.id IS NULL AND (?1 IS NULL OR v.session = ?1) "
      "UNION ALL SELECT d.session FROM verdict d WHERE (?1 IS NULL OR d.session = ?1) "
      "AND d.rounds > (SELECT count(*) FROM round r WHERE r.session = d.session) LIMIT 1";
  ASSIGN_OR_RETURN(const auto session, db.First<int64_t>(kLost, only_session));
  if (!session.has_value()) return absl::OkStatus();
  return DataLoss(db.path(), ": session ", *session,
                  ": rounds are missing; the file was damaged after it was written");
}

// Rows of sessions that do not exist belong to another one: their reference is damaged.
absl::Status CheckNoRowIsLost(const Database& db) {
  constexpr const char* kTables[] = {"variant", "round", "verdict"};
  for (const char* table : kTables) {
    ASSIGN_OR_RETURN(const auto session,
                     db.First<int64_t>(absl::StrCat("SELECT session FROM ", table,
                                                    " WHERE session NOT IN (SELECT id FROM session)"
                                                    " LIMIT 1")));
    if (!session.has_value()) continue;
    return DataLoss(db.path(), ": a row of the table ", table, " belongs to session ", *session,
                    ", which does not exist; the file was damaged after it was written");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<SessionInfo>> TuneStore::Sessions() const {
  return ReadSessions(*db_, std::nullopt);
}

absl::StatusOr<SessionInfo> TuneStore::Session(int64_t id) const {
  ASSIGN_OR_RETURN(std::vector<SessionInfo> found, ReadSessions(*db_, id));
  if (!found.empty()) return std::move(found[0]);
  return NotFound(path(), ": no session ", id, "; tune show lists the sessions");
}

absl::StatusOr<std::vector<RoundRecord>> TuneStore::ReadRounds(int64_t session) const {
  RETURN_IF_ERROR(CheckNoRowIsLost(*db_));
  RETURN_IF_ERROR(CheckNoRoundIsMissing(*db_, session));
  return ReadKeptRounds(*db_, session);
}

absl::StatusOr<std::vector<Configuration>> TuneStore::ReadVariants(int64_t session) const {
  std::vector<Configuration> out;
  const auto add = [&](const Statement& row) -> absl::StatusOr<bool> {
    Configuration& of = out.emplace_back();
    std::optional<int64_t> checksum;
    row.Read(&of.id, &of.params_json, &of.mem_bytes, &checksum);
    RETURN_IF_ERROR(CheckVariant(path(), session, of, checksum));
    return true;
  };
  RETURN_IF_ERROR(db_->Each(
      "SELECT variant, params_json, mem_bytes, crc32 FROM variant WHERE session = ? ORDER BY id",
      add, session));
  return out;
}

absl::StatusOr<TunedTable> TuneStore::Tuned(std::vector<Fallback> fallbacks,
                                            std::optional<int64_t> only_session) const {
  if (only_session.has_value()) RETURN_IF_ERROR(Session(*only_session).status());
  RETURN_IF_ERROR(CheckNoChecksumIsMissing(*db_, only_session));
  std::map<std::string, std::vector<Decided>> by_key;
  const auto add = [&](const Statement& row) -> absl::StatusOr<bool> {
    Decided decided;
    auto& [entry, session, devices, is_divided] = decided;
    Configuration& pick = entry.configuration;
    std::string verdict_json;
    std::optional<int64_t> of_variant, of_verdict;
    row.Read(PartsOf(entry.key), &pick.id, &pick.params_json, &pick.mem_bytes, &entry.claim,
             &verdict_json, &entry.recorded_unix_s, &session, &of_variant, &of_verdict);
    entry.evidence_json = Evidence(verdict_json);
    if (session == only_session.value_or(session)) {
      RETURN_IF_ERROR(CheckRow(path(), session, "the variant that it picked", of_variant,
                               ChecksumsOf(session, pick)));
      RETURN_IF_ERROR(CheckRow(
          path(), session, "its verdict", of_verdict,
          ChecksumsOf(session, pick.id, entry.claim, verdict_json, entry.recorded_unix_s)));
      RETURN_IF_ERROR(CheckVerdict(path(), session, pick.id, entry.claim, verdict_json));
      RETURN_IF_ERROR(CheckParams(path(), session, pick));
    }
    const auto result = ReadTuneResult(verdict_json);
    if (result.has_value() && result->devices.has_value()) {
      for (const auto& own : result->devices->classes) devices.insert(own.begin(), own.end());
      is_divided = result->devices->classes.size() > 1;
    }
    std::string key;
    for (const auto& [name, member] : kKeyParts) key += Framed(entry.key.*member);
    by_key[key].push_back(std::move(decided));
    return true;
  };
  // A session that was stopped or exhausted its budget decides nothing, so earlier decisions stay.
  RETURN_IF_ERROR(db_->Each(
      absl::StrCat("SELECT ", KeyColumns(),
                   ", v.variant, v.params_json, v.mem_bytes, claim, verdict_json, recorded_unix_s, "
                   "s.id, v.crc32, d.crc32 "
                   "FROM verdict d JOIN session s ON s.id = d.session "
                   "JOIN variant v ON v.session = s.id AND v.variant = d.pick "
                   "WHERE d.id = (SELECT max(id) FROM verdict "
                   "WHERE session = s.id AND (claim IN ('winner', 'pick', 'tie') OR "
                   "json_extract(verdict_json, '$.stop_reason') = 'device_classes')) "
                   "ORDER BY d.id"),
      add));
  std::vector<TunedEntry> entries;
  for (auto& [key, decided] : by_key) {
    const auto asked = std::ranges::find_if(decided, [&](const Decided& each) {
      return each.session == only_session && each.is_divided;
    });
    if (asked != decided.end()) {
      return FailedPrecondition(path(), ": session ", *only_session,
                                " found several classes of devices without a common answer; tune "
                                "each class separately, and export those sessions");
    }
    for (Decided& each : ThatHold(std::move(decided), only_session)) {
      if (each.session == only_session.value_or(each.session)) {
        entries.push_back(std::move(each.entry));
      }
    }
  }
  if (entries.empty() && only_session.has_value()) {
    return FailedPrecondition(
        path(), ": session ", *only_session,
        " has no decision; continue with tune --resume, or list the others with tune show");
  }
  return TunedTable(std::move(entries), std::move(fallbacks));
}

absl::Status TuneStore::CheckFile() const {
  ASSIGN_OR_RETURN(const auto found, db_->First<std::string>("PRAGMA integrity_check(1)"));
  if (found == "ok") return absl::OkStatus();
  return DataLoss(path(), ": the store is damaged: ", found.value_or(""),
                  "; recover the remaining data with .recover of sqlite3");
}

absl::Status TuneStore::CheckRows(std::optional<int64_t> only_session) const {
  if (only_session.has_value()) RETURN_IF_ERROR(Session(*only_session).status());
  ASSIGN_OR_RETURN(const auto sessions, ReadSessions(*db_, only_session));
  for (const SessionInfo& each : sessions) {
    RETURN_IF_ERROR(ReadVariants(each.id).status());
    RETURN_IF_ERROR(ReadKeptRounds(*db_, each.id).status());
  }
  RETURN_IF_ERROR(CheckNoRowIsLost(*db_));
  return CheckNoRoundIsMissing(*db_, only_session);
}

}  // namespace xplane_time
