#include "xplane_time/store.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tune/space_json.h"
#include "tune/store_impl.h"
#include "tune/store_schema.h"

namespace xplane_time {
namespace {

using tune::Database;
using tune::Statement;

std::array<const std::string*, 10> TextsOf(const SessionSpec& spec) {
  const TuneKey& key = spec.key;
  return {&key.workload,  &key.device_class,  &key.driver,    &key.framework,   &key.flags,
          &key.code_hash, &key.protocol_hash, &key.objective, &spec.space_hash, &spec.config_json};
}

std::string Identity(const SessionSpec& spec) {
  std::string out;
  for (const std::string* text : TextsOf(spec)) {
    absl::StrAppend(&out, text->size(), ":", *text);
  }
  absl::StrAppend(&out, spec.device.size(), ":", spec.device);
  return absl::StrCat("session:", tune::StableHash(absl::StrCat(out, spec.seed)));
}

std::string ThisProcess() {
  std::array<char, 256> host = {};
  gethostname(host.data(), host.size() - 1);
  return absl::StrCat("process ", getpid(), " on ", host.data());
}

// The parameters 1 to 12 of a statement.
void BindIdentity(const SessionSpec& spec, Statement* statement) {
  int i = 0;
  for (const std::string* text : TextsOf(spec)) statement->Bind(++i, *text);
  statement->Bind(++i, std::bit_cast<int64_t>(spec.seed));
  statement->Bind(++i, spec.device);
}

}  // namespace

TuneStore::TuneStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TuneStore::~TuneStore() = default;
TuneStore::TuneStore(TuneStore&&) noexcept = default;
TuneStore& TuneStore::operator=(TuneStore&&) noexcept = default;

const std::string& TuneStore::path() const { return impl_->db.path(); }

namespace {

// SQLite takes a file of a few bytes for an empty database, and would overwrite it.
absl::Status CheckHeader(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string head(16, '\0');
  file.read(head.data(), 16);
  if (!file.is_open() || file.gcount() == 0) return absl::OkStatus();
  if (file.gcount() == 16 && head == std::string("SQLite format 3\0", 16)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": not a tune store; give another path"));
}

// SQLite reports "no such file" where it may not make one.
absl::Status CannotCreate(const std::string& path, const absl::Status& status) {
  std::error_code ignored;
  const std::filesystem::path directory = std::filesystem::absolute(path, ignored).parent_path();
  if (!absl::IsNotFound(status) || !std::filesystem::exists(directory, ignored)) return status;
  return absl::PermissionDeniedError(absl::StrCat(
      path, ": cannot be made here; make the directory writable, or give another path"));
}

}  // namespace

absl::StatusOr<TuneStore> TuneStore::Open(const std::string& path, const StoreOptions& options) {
  if (auto s = CheckHeader(path); !s.ok()) return s;
  auto db = Database::Open(path, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  if (!db.ok()) return CannotCreate(path, db.status());
  sqlite3_busy_timeout(db->get(), options.busy_timeout_ms);
  if (sqlite3_db_readonly(db->get(), "main") == 1) return db->Error(SQLITE_READONLY);
  if (auto s = tune::PrepareSchema(*db); !s.ok()) return s;
  auto mode = db->Prepare("PRAGMA journal_mode = WAL");
  if (!mode.ok()) return mode.status();
  const auto row = mode->Step();
  if (!row.ok()) return row.status();
  if (mode->Text(0) != "wal") {
    return absl::FailedPreconditionError(
        absl::StrCat(path,
                     ": this file system has no shared memory, which the write-ahead log "
                     "needs; put the store on a local disk"));
  }
  mode->Reset();
  const bool power = options.durability == Durability::kPowerLoss;
  if (auto s = db->Execute(power ? "PRAGMA synchronous = FULL" : "PRAGMA synchronous = NORMAL");
      !s.ok()) {
    return s;
  }
  *mode = Statement(nullptr, nullptr);  // before its database moves
  return TuneStore(std::make_unique<Impl>(Impl{*std::move(db)}));
}

namespace {

absl::Status TooOld(const std::string& path, const absl::Status& why) {
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": written by an older version, and cannot be brought up to date (",
                   why.message(), "); copy it to where it can be written"));
}

}  // namespace

absl::StatusOr<TuneStore> TuneStore::OpenReadOnly(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return absl::NotFoundError(
        absl::StrCat(path, ": no such store; tune makes it, --store names another"));
  }
  auto db = Database::Open(path, path, SQLITE_OPEN_READONLY);
  if (!db.ok()) return db.status();
  auto current = tune::IsCurrentSchema(*db);
  const bool has_log = std::filesystem::exists(path + "-wal", ignored);
  if (absl::IsPermissionDenied(current.status()) && !has_log) {
    // A log cannot be made here, and there is none: nobody can be writing.
    std::string uri = "file:";
    for (char c : std::filesystem::absolute(path, ignored).string()) {
      const bool escaped = c == '%' || c == '?' || c == '#';
      uri.append(escaped ? absl::StrCat("%", absl::Hex(c, absl::kZeroPad2)) : std::string(1, c));
    }
    db = Database::Open(uri + "?immutable=1", path, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
    if (!db.ok()) return db.status();
    current = tune::IsCurrentSchema(*db);
  }
  if (!current.ok()) return current.status();
  if (!*current) {
    if (auto updated = Open(path, {}); !updated.ok()) return TooOld(path, updated.status());
  }
  sqlite3_busy_timeout(db->get(), StoreOptions().busy_timeout_ms);
  return TuneStore(std::make_unique<Impl>(Impl{*std::move(db), /*writable=*/false}));
}

// --- Sessions.

absl::StatusOr<FileLock> TuneStore::Impl::Lock(const std::string& name,
                                               const std::string& what) const {
  auto lock = FileLock::Acquire(db.path() + "-lock", name);
  if (lock.ok() || !absl::IsFailedPrecondition(lock.status())) return lock;
  std::string holder = "another process";
  if (auto find = db.Prepare("SELECT holder FROM lease WHERE name = ?"); find.ok()) {
    find->Bind(1, name);
    const auto row = find->Step();
    if (row.ok() && *row) holder = find->Text(0);
  }
  return absl::FailedPreconditionError(
      absl::StrCat(db.path(), ": ", what, " is in use by ", holder,
                   "; wait for it, stop it, or use another store"));
}

absl::Status TuneStore::Impl::NoteLease(const std::string& name) const {
  auto note = db.Prepare("INSERT OR REPLACE INTO lease(name, holder) VALUES(?, ?)");
  if (!note.ok()) return note.status();
  const std::string holder = ThisProcess();
  return note->Bind(1, name).Bind(2, holder).Run();
}

absl::StatusOr<std::optional<int64_t>> TuneStore::Impl::FindSession(const SessionSpec& spec) const {
  auto find = db.Prepare(
      "SELECT id FROM session WHERE workload = ? AND device_class = ? AND driver = ? AND "
      "framework = ? AND flags = ? AND code_hash = ? AND protocol_hash = ? AND objective = ? "
      "AND space_hash = ? AND config_json = ? AND seed = ? AND device = ? "
      "ORDER BY id DESC LIMIT 1");
  if (!find.ok()) return find.status();
  BindIdentity(spec, &*find);
  const auto row = find->Step();
  if (!row.ok()) return row.status();
  return *row ? std::optional(find->Int(0)) : std::nullopt;
}

absl::StatusOr<int64_t> TuneStore::Impl::InsertSession(const SessionSpec& spec) const {
  auto insert = db.Prepare(
      "INSERT INTO session(workload, device_class, driver, framework, flags, code_hash, "
      "protocol_hash, objective, space_hash, config_json, seed, device, started_unix_s, crc32) "
      "VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  if (!insert.ok()) return insert.status();
  BindIdentity(spec, &*insert);
  insert->Bind(13, spec.now_unix_s);
  insert->Bind(14, int64_t{tune::SessionChecksum(spec.key, spec.space_hash, spec.config_json,
                                                 spec.seed, spec.device, spec.now_unix_s)});
  if (auto s = insert->Run(); !s.ok()) return s;
  return sqlite3_last_insert_rowid(db.get());
}

absl::StatusOr<TuneSession> TuneStore::Begin(const SessionSpec& spec) {
  if (!impl_->writable) return impl_->db.Error(SQLITE_READONLY);
  TuneSession session;
  const std::string identity = Identity(spec), device = "device:" + spec.device;
  auto session_lock = impl_->Lock(identity, "this session");
  if (!session_lock.ok()) return session_lock.status();
  session.session_lock = *std::move(session_lock);
  if (!spec.device.empty()) {
    auto device_lock = impl_->Lock(device, absl::StrCat("the device \"", spec.device, "\""));
    if (!device_lock.ok()) return device_lock.status();
    session.device_lock = *std::move(device_lock);
  }
  const absl::Status status = impl_->db.Transaction([&]() -> absl::Status {
    if (auto s = impl_->NoteLease(identity); !s.ok()) return s;
    if (!spec.device.empty()) {
      if (auto s = impl_->NoteLease(device); !s.ok()) return s;
    }
    if (spec.resume != Resume::kNever) {
      const auto found = impl_->FindSession(spec);
      if (!found.ok()) return found.status();
      session.resumed = found->has_value();
      if (session.resumed) return session.id = **found, absl::OkStatus();
      if (spec.resume == Resume::kRequired) {
        return absl::NotFoundError(absl::StrCat(
            path(),
            ": no session of this workload, device, code, space and configuration; run "
            "without --resume, or see which there are"));
      }
    }
    const auto inserted = impl_->InsertSession(spec);
    if (!inserted.ok()) return inserted.status();
    session.id = *inserted;
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  if (session.resumed) {
    auto info = Session(session.id);
    if (!info.ok()) return info.status();
    session.verdict_json = std::move(info->verdict_json);
  }
  return session;
}

absl::Status TuneStore::RegisterVariants(const TuneSession& session,
                                         std::span<const Configuration> variants) {
  auto insert = impl_->db.Prepare(
      "INSERT INTO variant(session, variant, params_json, mem_bytes, crc32) VALUES(?, ?, ?, ?, ?) "
      "ON CONFLICT DO NOTHING");
  if (!insert.ok()) return insert.status();
  auto find =
      impl_->db.Prepare("SELECT params_json FROM variant WHERE session = ? AND variant = ?");
  if (!find.ok()) return find.status();
  return impl_->db.Transaction([&]() -> absl::Status {
    for (const Configuration& v : variants) {
      insert->Bind(1, session.id).Bind(2, v.id).Bind(3, v.params_json).Bind(4, v.mem_bytes);
      insert->Bind(5, int64_t{tune::VariantChecksum(v)});
      if (auto s = insert->Run(); !s.ok()) return s;
      if (sqlite3_changes(impl_->db.get()) > 0) continue;
      find->Bind(1, session.id).Bind(2, v.id);
      const auto row = find->Step();
      if (!row.ok()) return row.status();
      const std::string stored = find->Text(0);
      find->Reset();
      if (stored == v.params_json) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          path(), ": session ", session.id, ": the variant \"", v.id, "\" is stored as ", stored,
          ", now it is ", v.params_json, "; give it another id"));
    }
    return absl::OkStatus();
  });
}

// --- Rounds.

absl::StatusOr<int64_t> TuneStore::Impl::VariantRow(const TuneSession& session,
                                                    const std::string& id) {
  auto find = Prepared(&find_variant, "SELECT id FROM variant WHERE session = ? AND variant = ?");
  if (!find.ok()) return find.status();
  const auto row = (*find)->Bind(1, session.id).Bind(2, id).Step();
  if (!row.ok()) return row.status();
  if (*row) {
    const int64_t found = (*find)->Int(0);
    (*find)->Reset();
    return found;
  }
  return absl::InvalidArgumentError(absl::StrCat(db.path(), ": session ", session.id,
                                                 ": no variant \"", id, "\"; register it first"));
}

absl::Status TuneStore::Impl::InsertSamples(const TuneSession& session, int64_t round_id,
                                            const RoundRecord& round) {
  auto insert = Prepared(&insert_sample, "INSERT INTO sample VALUES(?, ?, ?, ?, ?, ?, ?)");
  if (!insert.ok()) return insert.status();
  for (size_t place = 0; place < round.samples.size(); ++place) {
    const SampleRecord& sample = round.samples[place];
    const auto variant = VariantRow(session, sample.variant);
    if (!variant.ok()) return variant.status();
    (*insert)->Bind(1, round_id).Bind(2, static_cast<int64_t>(place)).Bind(3, *variant);
    (*insert)->Bind(4, int64_t{sample.slot}).Bind(5, sample.status);
    (*insert)->Bind(6, sample.t_ps).Bind(7, sample.energy_uj);
    if (auto s = (*insert)->Run(); !s.ok()) return s;
    if (auto s = InsertWorkloads(round_id, static_cast<int64_t>(place), sample); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status TuneStore::Impl::InsertWorkloads(int64_t round_id, int64_t place,
                                              const SampleRecord& sample) {
  if (sample.workloads.empty()) return absl::OkStatus();
  auto insert =
      Prepared(&insert_workload, "INSERT INTO workload_sample VALUES(?, ?, ?, ?, ?, ?, ?)");
  if (!insert.ok()) return insert.status();
  for (size_t part = 0; part < sample.workloads.size(); ++part) {
    const WorkloadSample& own = sample.workloads[part];
    (*insert)->Bind(1, round_id).Bind(2, place).Bind(3, static_cast<int64_t>(part));
    (*insert)->Bind(4, own.workload).Bind(5, own.status).Bind(6, own.t_ps).Bind(7, own.energy_uj);
    if (auto s = (*insert)->Run(); !s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::StatusOr<Appended> TuneStore::Impl::Repeated(const TuneSession& session,
                                                   const RoundRecord& round) {
  auto find = Prepared(&find_round,
                       "SELECT crc32 FROM round WHERE session = ? AND batch = ? AND round = ?");
  if (!find.ok()) return find.status();
  const auto row = (*find)->Bind(1, session.id).Bind(2, round.batch).Bind(3, round.round).Step();
  if (!row.ok()) return row.status();
  const bool same = *row && (*find)->Int(0) == int64_t{tune::RoundChecksum(round)};
  (*find)->Reset();
  if (same) return Appended::kAlreadyStored;
  return absl::AlreadyExistsError(
      absl::StrCat(db.path(), ": session ", session.id, ": round ", round.round, " of batch ",
                   round.batch, " is stored with other samples; the stored ones stay"));
}

absl::Status TuneStore::Impl::Insert(const TuneSession& session, const RoundRecord& round,
                                     Appended* appended) {
  auto insert = Prepared(&insert_round,
                         "INSERT INTO round(session, batch, round, discarded, notes_json, "
                         "samples, crc32) VALUES(?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING");
  if (!insert.ok()) return insert.status();
  (*insert)->Bind(1, session.id).Bind(2, round.batch).Bind(3, round.round);
  (*insert)->Bind(4, int64_t{round.discarded}).Bind(5, round.notes_json);
  (*insert)->Bind(6, static_cast<int64_t>(round.samples.size()));
  (*insert)->Bind(7, int64_t{tune::RoundChecksum(round)});
  if (auto s = (*insert)->Run(); !s.ok()) return s;
  if (sqlite3_changes(db.get()) == 0) {
    const auto repeated = Repeated(session, round);
    if (repeated.ok()) *appended = *repeated;
    return repeated.status();
  }
  *appended = Appended::kStored;
  return InsertSamples(session, sqlite3_last_insert_rowid(db.get()), round);
}

absl::StatusOr<Appended> TuneStore::Append(const TuneSession& session, const RoundRecord& round) {
  if (auto notes = tune::ParseJson(round.notes_json, "notes"); !notes.ok()) return notes.status();
  if (round.batch < 0 || round.round < 0) {
    return absl::InvalidArgumentError(absl::StrCat(path(), ": batch ", round.batch, ", round ",
                                                   round.round, ": numbers begin at 0"));
  }
  Appended appended = Appended::kStored;
  const absl::Status status =
      impl_->db.Transaction([&] { return impl_->Insert(session, round, &appended); });
  if (!status.ok()) return status;
  return appended;
}

absl::Status TuneStore::RecordVerdict(const TuneSession& session, std::string_view verdict_json,
                                      int64_t now_unix_s) {
  const auto verdict = tune::ParseJson(verdict_json, "verdict");
  if (!verdict.ok()) return verdict.status();
  if (!verdict->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path(), ": the verdict is not a JSON object"));
  }
  const auto text = [&](const char* name) {
    const auto found = verdict->find(name);
    const bool there = found != verdict->end() && found->is_string();
    return there ? found->get<std::string>() : std::string();
  };
  const std::string pick = text("pick"), claim = text("claim");
  auto insert = impl_->db.Prepare(
      "WITH rounds(n) AS (SELECT count(*) FROM round WHERE session = ?1), "
      "latest AS (SELECT * FROM verdict WHERE session = ?1 ORDER BY id DESC LIMIT 1) "
      "INSERT INTO verdict(session, pick, claim, verdict_json, recorded_unix_s, rounds, crc32) "
      "SELECT ?1, nullif(?2, ''), ?3, ?4, ?5, n, ?6 FROM rounds WHERE NOT EXISTS(SELECT 1 FROM "
      "latest WHERE latest.rounds = n AND claim = ?3 AND coalesce(pick, '') = ?2)");
  if (!insert.ok()) return insert.status();
  insert->Bind(1, session.id).Bind(2, pick).Bind(3, claim);
  insert->Bind(4, verdict_json).Bind(5, now_unix_s);
  insert->Bind(6, int64_t{tune::VerdictChecksum(pick, claim, verdict_json, now_unix_s)});
  return impl_->db.Transaction([&] { return insert->Run(); });
}

}  // namespace xplane_time
