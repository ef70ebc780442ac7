#include <unistd.h>
#include <zlib.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "status.h"
#include "tune/space_json.h"
#include "tune/store_sqlite.h"
#include "xplane_time/store.h"

namespace xplane_time {

struct TuneStore::Impl {
  std::unique_ptr<tune::Database> db;
  bool writable = true;
};

TuneStore::TuneStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TuneStore::~TuneStore() = default;
TuneStore::TuneStore(TuneStore&&) noexcept = default;
TuneStore& TuneStore::operator=(TuneStore&&) noexcept = default;

const std::string& TuneStore::path() const { return impl_->db->path(); }

namespace {

using tune::Database;
using tune::Json;
using tune::Statement;

// --- Checksums: of what is written of a row, so that its change shows.

std::string OrDash(const std::optional<int64_t>& value) {
  return value.has_value() ? absl::StrCat(*value) : std::string("-");
}

int64_t Crc32(std::string_view bytes) {
  return static_cast<int64_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

std::string Framed(const std::string& text) { return absl::StrCat(text.size(), ":", text); }

// Numbers as text; BYTES:TEXT and a comma each.
template <typename... Parts>
int64_t ChecksumOf(const Parts&... parts) {
  return Crc32((... + (Framed(absl::StrCat(parts)) + ",")));
}

int64_t ChecksumOf(const RoundRecord& round) {
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
  return Crc32(bytes);
}

int64_t ChecksumOf(const Configuration& variant) {
  return ChecksumOf(variant.id, variant.params_json, OrDash(variant.mem_bytes));
}

constexpr const char* kIdentityColumns[] = {
    "workload",      "device_class", "driver",     "framework",   "flags", "code_hash",
    "protocol_hash", "objective",    "space_hash", "config_json", "seed",  "device"};

// Of a session that is asked for or stored, in the order of these columns.
template <typename Session>
auto IdentityOf(Session& of) {
  auto& key = of.key;
  return std::tie(key.workload, key.device_class, key.driver, key.framework, key.flags,
                  key.code_hash, key.protocol_hash, key.objective, of.space_hash, of.config_json,
                  of.seed, of.device);
}

template <typename Session>
int64_t SessionChecksum(const Session& of, int64_t started_unix_s) {
  return std::apply([&](const auto&... part) { return ChecksumOf(part..., started_unix_s); },
                    IdentityOf(of));
}

// Damage to the file that SQLite cannot see. Rows of version 1 have no checksum.
absl::Status CheckRow(const std::string& path, int64_t session, absl::string_view what,
                      const std::optional<int64_t>& stored, int64_t computed) {
  if (stored.value_or(computed) == computed) return absl::OkStatus();
  return DataLoss(path, ": session ", session, ": ", what,
                  " does not have its checksum; the file was damaged "
                  "after it was written");
}

// --- Opening.

// SQLite takes a file of a few bytes for an empty database, and would overwrite it.
absl::Status CheckHeader(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(16, '\0');
  file.read(head.data(), 16);
  if (!file.is_open() || file.gcount() == 0) return absl::OkStatus();
  if (file.gcount() == 16 && head == std::string("SQLite format 3\0", 16)) return absl::OkStatus();
  return DataLoss(path, ": not a tune store; give another path");
}

// SQLite reports "no such file" where it may not make one.
absl::Status CannotCreate(const std::string& path, const absl::Status& status) {
  std::error_code ignored;
  const std::filesystem::path directory = std::filesystem::absolute(path, ignored).parent_path();
  if (!absl::IsNotFound(status) || !std::filesystem::exists(directory, ignored)) return status;
  return PermissionDenied(
      path, ": cannot be made here; make the directory writable, or give another path");
}

absl::Status TooOld(const std::string& path, const absl::Status& why) {
  return FailedPrecondition(path,
                            ": written by an older version, and cannot be brought up to date (",
                            why.message(), "); copy it to where it can be written");
}

}  // namespace

absl::StatusOr<TuneStore> TuneStore::Open(const std::string& path, const StoreOptions& options) {
  RETURN_IF_ERROR(CheckHeader(path));
  auto db = Database::Open(path, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE,
                           options.busy_timeout_ms);
  if (!db.ok()) return CannotCreate(path, db.status());
  const Database& of = **db;
  if (sqlite3_db_readonly(of.get(), "main") == 1) return of.Error(SQLITE_READONLY);
  RETURN_IF_ERROR(tune::PrepareSchema(of));
  std::string mode;
  RETURN_IF_ERROR(of.Each("PRAGMA journal_mode = WAL",
                          [&](const Statement& row) { return mode = row.Text(0), false; }));
  if (mode != "wal") {
    return FailedPrecondition(path,
                              ": this file system has no shared memory, which the write-ahead log "
                              "needs; put the store on a local disk");
  }
  const bool power = options.durability == Durability::kPowerLoss;
  RETURN_IF_ERROR(of.Execute(power ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL"));
  return TuneStore(std::make_unique<Impl>(Impl{*std::move(db)}));
}

absl::StatusOr<TuneStore> TuneStore::OpenReadOnly(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return NotFound(path, ": no such store; tune makes it, --store names another");
  }
  ASSIGN_OR_RETURN(auto db, Database::Open(path, path, SQLITE_OPEN_READONLY));
  auto current = tune::IsCurrentSchema(*db);
  const bool has_log = std::filesystem::exists(path + "-wal", ignored);
  if (absl::IsPermissionDenied(current.status()) && !has_log) {
    // A log cannot be made here, and there is none: nobody can be writing.
    std::string uri = "file:";
    for (char c : std::filesystem::absolute(path, ignored).string()) {
      const bool escaped = c == '%' || c == '?' || c == '#';
      uri.append(escaped ? absl::StrCat("%", absl::Hex(c, absl::kZeroPad2)) : std::string(1, c));
    }
    ASSIGN_OR_RETURN(
        db, Database::Open(uri + "?immutable=1", path, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI));
    current = tune::IsCurrentSchema(*db);
  }
  if (!current.ok()) return current.status();
  if (!*current) {
    if (auto updated = Open(path, {}); !updated.ok()) return TooOld(path, updated.status());
  }
  return TuneStore(std::make_unique<Impl>(Impl{std::move(db), /*writable=*/false}));
}

// --- Sessions.

namespace {

// Of a session.
std::string LockName(const SessionSpec& spec) {
  const auto text = [](const auto& part) {
    if constexpr (std::is_convertible_v<decltype(part), std::string>) return Framed(part);
    return std::string();
  };
  const std::string texts = std::apply(
      [&](const auto&... part) { return absl::StrCat(text(part)...); }, IdentityOf(spec));
  return absl::StrCat("session:", tune::StableHash(absl::StrCat(texts, spec.seed)));
}

absl::StatusOr<FileLock> Lock(const Database& db, const std::string& name,
                              const std::string& what) {
  auto lock = FileLock::Acquire(db.path() + "-lock", name);
  if (lock.ok() || !absl::IsFailedPrecondition(lock.status())) return lock;
  std::string holder = "another process";
  db.Each(
        "SELECT holder FROM lease WHERE name = ?",
        [&](const Statement& row) { return holder = row.Text(0), false; }, name)
      .IgnoreError();
  return FailedPrecondition(db.path(), ": ", what, " is in use by ", holder,
                            "; wait for it, stop it, or use another store");
}

absl::Status NoteLease(const Database& db, const std::string& name) {
  std::array<char, 256> host = {};
  gethostname(host.data(), host.size() - 1);
  return db.Run("INSERT OR REPLACE INTO lease(name, holder) VALUES(?, ?)", name,
                absl::StrCat("process ", getpid(), " on ", host.data()));
}

absl::StatusOr<std::optional<int64_t>> FindSession(const Database& db, const SessionSpec& spec) {
  const std::string sql =
      absl::StrCat("SELECT id FROM session WHERE ", absl::StrJoin(kIdentityColumns, " = ? AND "),
                   " = ? ORDER BY id DESC LIMIT 1");
  return std::apply([&](const auto&... part) { return db.Number(sql, part...); }, IdentityOf(spec));
}

absl::StatusOr<int64_t> InsertSession(const Database& db, const SessionSpec& spec) {
  const std::string sql =
      absl::StrCat("INSERT INTO session(", absl::StrJoin(kIdentityColumns, ", "),
                   ", started_unix_s, crc32) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  RETURN_IF_ERROR(std::apply(
      [&](const auto&... part) {
        return db.Run(sql, part..., spec.now_unix_s, SessionChecksum(spec, spec.now_unix_s));
      },
      IdentityOf(spec)));
  return sqlite3_last_insert_rowid(db.get());
}

}  // namespace

absl::StatusOr<TuneSession> TuneStore::Begin(const SessionSpec& spec) {
  const Database& db = *impl_->db;
  if (!impl_->writable) return db.Error(SQLITE_READONLY);
  TuneSession session;
  const std::string identity = LockName(spec);
  const std::string device = "device:" + spec.device;
  ASSIGN_OR_RETURN(session.session_lock, Lock(db, identity, "this session"));
  if (!spec.device.empty()) {
    ASSIGN_OR_RETURN(session.device_lock,
                     Lock(db, device, absl::StrCat("the device \"", spec.device, "\"")));
  }
  RETURN_IF_ERROR(db.Transaction([&]() -> absl::Status {
    RETURN_IF_ERROR(NoteLease(db, identity));
    if (!spec.device.empty()) RETURN_IF_ERROR(NoteLease(db, device));
    if (spec.resume != Resume::kNever) {
      ASSIGN_OR_RETURN(const auto found, FindSession(db, spec));
      session.resumed = found.has_value();
      if (session.resumed) return session.id = *found, absl::OkStatus();
      if (spec.resume == Resume::kRequired) {
        return NotFound(path(),
                        ": no session of this workload, device, code, space and configuration; run "
                        "without --resume, or see which there are");
      }
    }
    ASSIGN_OR_RETURN(session.id, InsertSession(db, spec));
    return absl::OkStatus();
  }));
  if (session.resumed) {
    ASSIGN_OR_RETURN(SessionInfo info, Session(session.id));
    session.verdict_json = std::move(info.verdict_json);
  }
  return session;
}

absl::Status TuneStore::RegisterVariants(const TuneSession& session,
                                         std::span<const Configuration> variants) {
  const Database& db = *impl_->db;
  const auto add = [&](const Configuration& v) -> absl::Status {
    RETURN_IF_ERROR(
        db.Run("INSERT INTO variant(session, variant, params_json, mem_bytes, crc32) "
               "VALUES(?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
               session.id, v.id, v.params_json, v.mem_bytes, ChecksumOf(v)));
    if (sqlite3_changes(db.get()) > 0) return absl::OkStatus();
    std::string stored;
    RETURN_IF_ERROR(db.Each(
        "SELECT params_json FROM variant WHERE session = ? AND variant = ?",
        [&](const Statement& row) { return stored = row.Text(0), false; }, session.id, v.id));
    if (stored == v.params_json) return absl::OkStatus();
    return InvalidArgument(path(), ": session ", session.id, ": the variant \"", v.id,
                           "\" is stored as ", stored, ", now it is ", v.params_json,
                           "; give it another id");
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
                   db.Number("SELECT id FROM variant WHERE session = ? AND variant = ?", session,
                             sample.variant));
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
  const int64_t checksum = ChecksumOf(round);
  RETURN_IF_ERROR(
      db.Run("INSERT INTO round(session, batch, round, discarded, notes_json, samples, crc32) "
             "VALUES(?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
             session, round.batch, round.round, round.discarded, round.notes_json,
             round.samples.size(), checksum));
  if (sqlite3_changes(db.get()) > 0) {
    const int64_t round_id = sqlite3_last_insert_rowid(db.get());
    for (size_t place = 0; place < round.samples.size(); ++place) {
      RETURN_IF_ERROR(InsertSample(db, session, round_id, place, round.samples[place]));
    }
    return Appended::kStored;
  }
  ASSIGN_OR_RETURN(
      const auto stored,
      db.Number("SELECT crc32 FROM round WHERE session = ? AND batch = ? AND round = ?", session,
                round.batch, round.round));
  if (stored == checksum) return Appended::kAlreadyStored;
  return absl::AlreadyExistsError(
      absl::StrCat(db.path(), ": session ", session, ": round ", round.round, " of batch ",
                   round.batch, " is stored with other samples; the stored ones stay"));
}

}  // namespace

absl::StatusOr<Appended> TuneStore::Append(const TuneSession& session, const RoundRecord& round) {
  RETURN_IF_ERROR(tune::ParseJson(round.notes_json, "notes").status());
  if (round.batch < 0 || round.round < 0) {
    return InvalidArgument(path(), ": batch ", round.batch, ", round ", round.round,
                           ": numbers begin at 0");
  }
  Appended appended = Appended::kStored;
  RETURN_IF_ERROR(impl_->db->Transaction([&]() -> absl::Status {
    ASSIGN_OR_RETURN(appended, InsertRound(*impl_->db, session.id, round));
    return absl::OkStatus();
  }));
  return appended;
}

absl::Status TuneStore::RecordVerdict(const TuneSession& session, std::string_view verdict_json,
                                      int64_t now_unix_s) {
  ASSIGN_OR_RETURN(const Json verdict, tune::ParseJson(verdict_json, "verdict"));
  if (!verdict.is_object()) {
    return InvalidArgument(path(), ": the verdict is not a JSON object");
  }
  const auto text = [&](const char* name) {
    const auto found = verdict.find(name);
    const bool there = found != verdict.end() && found->is_string();
    return there ? found->get<std::string>() : std::string();
  };
  const std::string pick = text("pick"), claim = text("claim");
  return impl_->db->Transaction([&] {
    return impl_->db->Run(
        "WITH rounds(n) AS (SELECT count(*) FROM round WHERE session = ?1), "
        "latest AS (SELECT * FROM verdict WHERE session = ?1 ORDER BY id DESC LIMIT 1) "
        "INSERT INTO verdict(session, pick, claim, verdict_json, recorded_unix_s, rounds, crc32) "
        "SELECT ?1, nullif(?2, ''), ?3, ?4, ?5, n, ?6 FROM rounds WHERE NOT EXISTS(SELECT 1 FROM "
        "latest WHERE latest.rounds = n AND claim = ?3 AND coalesce(pick, '') = ?2)",
        session.id, pick, claim, verdict_json, now_unix_s,
        ChecksumOf(pick, claim, std::string(verdict_json), now_unix_s));
  });
}

// --- Reading.

namespace {

absl::StatusOr<SessionInfo> SessionAt(const Statement& row, const std::string& path) {
  SessionInfo info;
  std::optional<int64_t> own, of_verdict;
  std::string pick, claim;
  int64_t recorded_unix_s = 0;
  std::apply(
      [&](auto&... part) {
        row.Read(0, &part..., &info.id, &info.started_unix_s, &info.rounds, &info.samples, &own,
                 &pick, &claim, &info.verdict_json, &recorded_unix_s, &of_verdict);
      },
      IdentityOf(info));
  RETURN_IF_ERROR(
      CheckRow(path, info.id, "its key or rule", own, SessionChecksum(info, info.started_unix_s)));
  if (!info.verdict_json.has_value()) return info;
  RETURN_IF_ERROR(CheckRow(path, info.id, "its verdict", of_verdict,
                           ChecksumOf(pick, claim, *info.verdict_json, recorded_unix_s)));
  if (!pick.empty()) info.pick = std::move(pick);
  if (!claim.empty()) info.claim = std::move(claim);
  return info;
}

// Of one session, or of all.
absl::StatusOr<std::vector<SessionInfo>> ReadSessions(const Database& db,
                                                      std::optional<int64_t> only) {
  const std::string sql =
      absl::StrCat("SELECT ", absl::StrJoin(kIdentityColumns, ", "),
                   ", s.id, started_unix_s, "
                   "(SELECT count(*) FROM round r WHERE r.session = s.id AND r.samples > 0), "
                   "(SELECT coalesce(sum(samples), 0) FROM round r WHERE r.session = s.id), "
                   "s.crc32, v.pick, v.claim, v.verdict_json, v.recorded_unix_s, v.crc32 "
                   "FROM session s LEFT JOIN verdict v "
                   "ON v.id = (SELECT max(id) FROM verdict WHERE session = s.id) "
                   "WHERE ?1 IS NULL OR s.id = ?1 ORDER BY s.id");
  std::vector<SessionInfo> out;
  const auto add = [&](const Statement& row) -> absl::StatusOr<bool> {
    ASSIGN_OR_RETURN(out.emplace_back(), SessionAt(row, db.path()));
    return true;
  };
  RETURN_IF_ERROR(db.Each(sql, add, only));
  return out;
}

// What evidence remains of a verdict: all but its lists, which grow with the space.
std::string Evidence(const std::string& verdict_json) {
  const auto verdict = tune::ParseJson(verdict_json, "");
  Json out = Json::object();
  if (!verdict.ok() || !verdict->is_object()) return out.dump();
  for (const auto& [name, value] : verdict->items()) {
    if (!value.is_array() && name != "ratios" && name != "p_best") out[name] = value;
  }
  return tune::CanonicalJson(out);
}

// The samples of a round. One of a workload whose sample is missing is left out: then the
// checksum does not agree.
absl::Status ReadSamples(const Database& db, int64_t round_id, RoundRecord* round) {
  const auto add = [&](const Statement& row) {
    SampleRecord& of = round->samples.emplace_back();
    row.Read(0, &of.variant, &of.slot, &of.status, &of.t_ps, &of.energy_uj);
    return true;
  };
  RETURN_IF_ERROR(
      db.Each("SELECT v.variant, slot, status, t_ps, energy_uj FROM sample s "
              "LEFT JOIN variant v ON v.id = s.variant WHERE s.round = ? ORDER BY place",
              add, round_id));
  const auto add_workload = [&](const Statement& row) {
    const auto place = static_cast<size_t>(row.Int(0));
    if (place >= round->samples.size()) return true;
    WorkloadSample& of = round->samples[place].workloads.emplace_back();
    row.Read(1, &of.workload, &of.status, &of.t_ps, &of.energy_uj);
    return true;
  };
  return db.Each(
      "SELECT place, workload, status, t_ps, energy_uj FROM workload_sample WHERE round = ? "
      "ORDER BY place, part",
      add_workload, round_id);
}

}  // namespace

absl::StatusOr<std::vector<SessionInfo>> TuneStore::Sessions() const {
  return ReadSessions(*impl_->db, std::nullopt);
}

absl::StatusOr<SessionInfo> TuneStore::Session(int64_t id) const {
  ASSIGN_OR_RETURN(std::vector<SessionInfo> found, ReadSessions(*impl_->db, id));
  if (!found.empty()) return std::move(found[0]);
  return NotFound(path(), ": no session ", id, "; tune show lists those that there are");
}

absl::Status TuneStore::VisitRounds(int64_t session,
                                    absl::FunctionRef<bool(const RoundRecord&)> visit) const {
  const auto take = [&](const Statement& row) -> absl::StatusOr<bool> {
    RoundRecord round;
    int64_t round_id = 0, checksum = 0;
    row.Read(0, &round_id, &round.batch, &round.round, &round.discarded, &round.notes_json,
             &checksum);
    RETURN_IF_ERROR(ReadSamples(*impl_->db, round_id, &round));
    RETURN_IF_ERROR(CheckRow(path(), session,
                             absl::StrCat("round ", round.round, " of batch ", round.batch),
                             checksum, ChecksumOf(round)));
    return visit(round);
  };
  return impl_->db->Each(
      "SELECT id, batch, round, discarded, notes_json, crc32 FROM round "
      "WHERE session = ? ORDER BY id",
      take, session);
}

absl::StatusOr<std::vector<RoundRecord>> TuneStore::ReadRounds(int64_t session) const {
  std::vector<RoundRecord> out;
  RETURN_IF_ERROR(
      VisitRounds(session, [&](const RoundRecord& round) { return out.push_back(round), true; }));
  return out;
}

absl::StatusOr<std::vector<Configuration>> TuneStore::ReadVariants(int64_t session) const {
  std::vector<Configuration> out;
  const auto add = [&](const Statement& row) -> absl::StatusOr<bool> {
    Configuration& of = out.emplace_back();
    std::optional<int64_t> checksum;
    row.Read(0, &of.id, &of.params_json, &of.mem_bytes, &checksum);
    RETURN_IF_ERROR(CheckRow(path(), session, absl::StrCat("the variant \"", of.id, "\""), checksum,
                             ChecksumOf(of)));
    return true;
  };
  RETURN_IF_ERROR(impl_->db->Each(
      "SELECT variant, params_json, mem_bytes, crc32 FROM variant WHERE session = ? ORDER BY id",
      add, session));
  return out;
}

absl::StatusOr<TunedTable> TuneStore::Tuned(std::vector<Fallback> fallbacks,
                                            std::optional<int64_t> only_session) const {
  if (only_session.has_value()) RETURN_IF_ERROR(Session(*only_session).status());
  std::vector<TunedEntry> entries;
  const auto add = [&](const Statement& row) -> absl::StatusOr<bool> {
    TunedEntry& entry = entries.emplace_back();
    TuneKey& key = entry.key;
    Configuration& pick = entry.configuration;
    std::string verdict_json;
    int64_t session = 0;
    std::optional<int64_t> of_variant, of_verdict;
    row.Read(0, &key.workload, &key.device_class, &key.driver, &key.framework, &key.flags,
             &key.code_hash, &key.protocol_hash, &key.objective, &pick.id, &pick.params_json,
             &pick.mem_bytes, &entry.claim, &verdict_json, &entry.recorded_unix_s, &session,
             &of_variant, &of_verdict);
    entry.evidence_json = Evidence(verdict_json);
    RETURN_IF_ERROR(
        CheckRow(path(), session, "the variant that it picked", of_variant, ChecksumOf(pick)));
    RETURN_IF_ERROR(
        CheckRow(path(), session, "its verdict", of_verdict,
                 ChecksumOf(pick.id, entry.claim, verdict_json, entry.recorded_unix_s)));
    return true;
  };
  // One that was stopped, or ran out of its budget, says nothing: what was decided stays.
  RETURN_IF_ERROR(impl_->db->Each(
      "SELECT workload, device_class, driver, framework, flags, code_hash, protocol_hash, "
      "objective, v.variant, v.params_json, v.mem_bytes, claim, verdict_json, recorded_unix_s, "
      "s.id, v.crc32, d.crc32 "
      "FROM verdict d JOIN session s ON s.id = d.session "
      "JOIN variant v ON v.session = s.id AND v.variant = d.pick "
      "WHERE (?1 IS NULL OR s.id = ?1) AND d.id = (SELECT max(id) FROM verdict "
      "WHERE session = s.id AND claim IN ('winner', 'pick', 'tie')) ORDER BY d.id",
      add, only_session));
  if (entries.empty() && only_session.has_value()) {
    return FailedPrecondition(
        path(), ": session ", *only_session,
        " has decided nothing; tune --resume goes on, tune show lists the others");
  }
  return TunedTable(std::move(entries), std::move(fallbacks));
}

absl::Status TuneStore::CheckFile() const {
  std::string found;
  RETURN_IF_ERROR(impl_->db->Each("PRAGMA integrity_check(1)", [&](const Statement& row) {
    return found = row.Text(0), false;
  }));
  if (found == "ok") return absl::OkStatus();
  return DataLoss(path(), ": the store is damaged: ", found,
                  "; sqlite3's .recover saves what is left");
}

absl::Status TuneStore::CheckRows(std::optional<int64_t> only_session) const {
  ASSIGN_OR_RETURN(const auto sessions, ReadSessions(*impl_->db, only_session));
  if (only_session.has_value()) RETURN_IF_ERROR(Session(*only_session).status());
  for (const SessionInfo& each : sessions) {
    RETURN_IF_ERROR(ReadVariants(each.id).status());
    RETURN_IF_ERROR(VisitRounds(each.id, [](const RoundRecord&) { return true; }));
  }
  return absl::OkStatus();
}

absl::Status TuneStore::Check() const {
  RETURN_IF_ERROR(CheckFile());
  return CheckRows();
}

}  // namespace xplane_time
