#include <unistd.h>
#include <zlib.h>

#include <array>
#include <bit>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tune/space_json.h"
#include "tune/store_impl.h"
#include "tune/store_sqlite.h"
#include "xplane_time/store.h"

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

// The reading half of TuneStore.

namespace {

using tune::Json;
using tune::Statement;

constexpr const char* kSessionColumns =
    "SELECT s.id, workload, device_class, driver, framework, flags, code_hash, protocol_hash, "
    "objective, space_hash, config_json, seed, device, started_unix_s, "
    "(SELECT count(*) FROM round r WHERE r.session = s.id AND r.samples > 0), "
    "(SELECT coalesce(sum(samples), 0) FROM round r WHERE r.session = s.id), "
    "s.crc32, v.pick, v.claim, v.verdict_json, v.recorded_unix_s, v.crc32 "
    "FROM session s LEFT JOIN verdict v "
    "ON v.id = (SELECT max(id) FROM verdict WHERE session = s.id) ";

TuneKey KeyAt(const Statement& row, int column) {
  return {row.Text(column),     row.Text(column + 1), row.Text(column + 2), row.Text(column + 3),
          row.Text(column + 4), row.Text(column + 5), row.Text(column + 6), row.Text(column + 7)};
}

// Damage to the file that SQLite cannot see. Rows of version 1 have no checksum.
absl::Status CheckRow(const std::string& path, int64_t session, absl::string_view what,
                      const std::optional<int64_t>& stored, uint32_t computed) {
  if (stored.value_or(computed) == int64_t{computed}) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": session ", session, ": ", what,
                                          " does not have its checksum; the file was damaged "
                                          "after it was written"));
}

absl::StatusOr<SessionInfo> SessionAt(const Statement& row, const std::string& path) {
  SessionInfo info;
  info.id = row.Int(0);
  info.key = KeyAt(row, 1);
  info.space_hash = row.Text(9);
  info.config_json = row.Text(10);
  info.seed = std::bit_cast<uint64_t>(row.Int(11));
  info.device = row.Text(12);
  info.started_unix_s = row.Int(13);
  info.rounds = static_cast<uint64_t>(row.Int(14));
  info.samples = static_cast<uint64_t>(row.Int(15));
  info.verdict_json = row.OptionalText(19);
  const uint32_t own = tune::SessionChecksum(info.key, info.space_hash, info.config_json, info.seed,
                                             info.device, info.started_unix_s);
  auto status = CheckRow(path, info.id, "its key or rule", row.OptionalInt(16), own);
  if (status.ok() && info.verdict_json.has_value()) {
    status = CheckRow(
        path, info.id, "its verdict", row.OptionalInt(21),
        tune::VerdictChecksum(row.Text(17), row.Text(18), *info.verdict_json, row.Int(20)));
  }
  if (!status.ok()) return status;
  return info;
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

}  // namespace

absl::StatusOr<std::vector<SessionInfo>> TuneStore::Sessions() const {
  auto rows = impl_->db.Prepare(absl::StrCat(kSessionColumns, "ORDER BY s.id").c_str());
  if (!rows.ok()) return rows.status();
  std::vector<SessionInfo> out;
  for (;;) {
    const auto row = rows->Step();
    if (!row.ok()) return row.status();
    if (!*row) return out;
    auto info = SessionAt(*rows, path());
    if (!info.ok()) return info.status();
    out.push_back(*std::move(info));
  }
}

absl::StatusOr<SessionInfo> TuneStore::Session(int64_t id) const {
  auto rows = impl_->db.Prepare(absl::StrCat(kSessionColumns, "WHERE s.id = ?").c_str());
  if (!rows.ok()) return rows.status();
  const auto row = rows->Bind(1, id).Step();
  if (!row.ok()) return row.status();
  if (*row) return SessionAt(*rows, path());
  return absl::NotFoundError(
      absl::StrCat(path(), ": no session ", id, "; tune show lists those that there are"));
}

namespace {

// One whose sample is missing is left out: then the checksum does not agree.
absl::Status ReadWorkloads(int64_t round_id, Statement* rows, RoundRecord* round) {
  rows->Reset();
  rows->Bind(1, round_id);
  for (;;) {
    const auto row = rows->Step();
    if (!row.ok()) return row.status();
    if (!*row) return absl::OkStatus();
    const int64_t place = rows->Int(0);
    if (place < 0 || place >= static_cast<int64_t>(round->samples.size())) continue;
    round->samples[static_cast<size_t>(place)].workloads.push_back(
        {rows->Text(1), rows->Text(2), rows->OptionalInt(3), rows->OptionalInt(4)});
  }
}

}  // namespace

absl::Status TuneStore::VisitRounds(int64_t session,
                                    absl::FunctionRef<bool(const RoundRecord&)> visit) const {
  auto rounds = impl_->db.Prepare(
      "SELECT id, batch, round, discarded, notes_json, samples, crc32 FROM round "
      "WHERE session = ? ORDER BY id");
  if (!rounds.ok()) return rounds.status();
  auto samples = impl_->db.Prepare(
      "SELECT v.variant, slot, status, t_ps, energy_uj FROM sample s "
      "LEFT JOIN variant v ON v.id = s.variant WHERE s.round = ? ORDER BY place");
  if (!samples.ok()) return samples.status();
  auto workloads = impl_->db.Prepare(
      "SELECT place, workload, status, t_ps, energy_uj FROM workload_sample WHERE round = ? "
      "ORDER BY place, part");
  if (!workloads.ok()) return workloads.status();
  rounds->Bind(1, session);
  for (;;) {
    const auto row = rounds->Step();
    if (!row.ok()) return row.status();
    if (!*row) return absl::OkStatus();
    RoundRecord round = {rounds->Int(1), rounds->Int(2), rounds->Int(3) != 0, rounds->Text(4), {}};
    samples->Reset();
    samples->Bind(1, rounds->Int(0));
    for (;;) {
      const auto sample = samples->Step();
      if (!sample.ok()) return sample.status();
      if (!*sample) break;
      round.samples.push_back({samples->Text(0),
                               static_cast<int32_t>(samples->Int(1)),
                               samples->Text(2),
                               samples->OptionalInt(3),
                               samples->OptionalInt(4),
                               {}});
    }
    if (auto s = ReadWorkloads(rounds->Int(0), &*workloads, &round); !s.ok()) return s;
    if (int64_t{tune::RoundChecksum(round)} != rounds->Int(6)) {
      return absl::DataLossError(absl::StrCat(
          path(), ": session ", session, ": round ", round.round, " of batch ", round.batch,
          " does not have its checksum; the file was damaged after it was written"));
    }
    if (!visit(round)) return absl::OkStatus();
  }
}

absl::StatusOr<std::vector<RoundRecord>> TuneStore::ReadRounds(int64_t session) const {
  std::vector<RoundRecord> out;
  const absl::Status status =
      VisitRounds(session, [&](const RoundRecord& round) { return out.push_back(round), true; });
  if (!status.ok()) return status;
  return out;
}

absl::StatusOr<std::vector<Configuration>> TuneStore::ReadVariants(int64_t session) const {
  auto rows = impl_->db.Prepare(
      "SELECT variant, params_json, mem_bytes, crc32 FROM variant WHERE session = ? ORDER BY id");
  if (!rows.ok()) return rows.status();
  rows->Bind(1, session);
  std::vector<Configuration> out;
  for (;;) {
    const auto row = rows->Step();
    if (!row.ok()) return row.status();
    if (!*row) return out;
    out.push_back({rows->Text(0), rows->Text(1), rows->OptionalInt(2)});
    auto status = CheckRow(path(), session, absl::StrCat("the variant \"", out.back().id, "\""),
                           rows->OptionalInt(3), tune::VariantChecksum(out.back()));
    if (!status.ok()) return status;
  }
}

absl::StatusOr<TunedTable> TuneStore::Tuned(std::vector<Fallback> fallbacks,
                                            std::optional<int64_t> only_session) const {
  if (only_session.has_value()) {
    if (auto info = Session(*only_session); !info.ok()) return info.status();
  }
  // One that was stopped, or ran out of its budget, says nothing: what was decided stays.
  auto rows = impl_->db.Prepare(
      "SELECT workload, device_class, driver, framework, flags, code_hash, protocol_hash, "
      "objective, v.variant, v.params_json, v.mem_bytes, claim, verdict_json, recorded_unix_s, "
      "s.id, v.crc32, d.crc32 "
      "FROM verdict d JOIN session s ON s.id = d.session "
      "JOIN variant v ON v.session = s.id AND v.variant = d.pick "
      "WHERE (?1 IS NULL OR s.id = ?1) AND d.id = (SELECT max(id) FROM verdict "
      "WHERE session = s.id AND claim IN ('winner', 'pick', 'tie')) ORDER BY d.id");
  if (!rows.ok()) return rows.status();
  rows->Bind(1, only_session);
  std::vector<TunedEntry> entries;
  for (;;) {
    const auto row = rows->Step();
    if (!row.ok()) return row.status();
    if (!*row) break;
    entries.push_back({KeyAt(*rows, 0),
                       {rows->Text(8), rows->Text(9), rows->OptionalInt(10)},
                       rows->Text(11),
                       Evidence(rows->Text(12)),
                       rows->Int(13)});
    const TunedEntry& entry = entries.back();
    auto status = CheckRow(path(), rows->Int(14), "the variant that it picked",
                           rows->OptionalInt(15), tune::VariantChecksum(entry.configuration));
    if (status.ok()) {
      status = CheckRow(path(), rows->Int(14), "its verdict", rows->OptionalInt(16),
                        tune::VerdictChecksum(entry.configuration.id, entry.claim, rows->Text(12),
                                              entry.recorded_unix_s));
    }
    if (!status.ok()) return status;
  }
  if (entries.empty() && only_session.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path(), ": session ", *only_session,
                     " has decided nothing; tune --resume goes on, tune show lists the others"));
  }
  return TunedTable(std::move(entries), std::move(fallbacks));
}

absl::Status TuneStore::CheckFile() const {
  auto check = impl_->db.Prepare("PRAGMA integrity_check(1)");
  if (!check.ok()) return check.status();
  const auto row = check->Step();
  if (!row.ok()) return row.status();
  if (const std::string found = check->Text(0); found != "ok") {
    return absl::DataLossError(absl::StrCat(path(), ": the store is damaged: ", found,
                                            "; sqlite3's .recover saves what is left"));
  }
  return absl::OkStatus();
}

absl::Status TuneStore::CheckRows(std::optional<int64_t> only_session) const {
  std::vector<int64_t> ids;
  if (only_session.has_value()) {
    if (const auto info = Session(*only_session); !info.ok()) return info.status();
    ids.push_back(*only_session);
  } else {
    const auto sessions = Sessions();
    if (!sessions.ok()) return sessions.status();
    for (const SessionInfo& each : *sessions) ids.push_back(each.id);
  }
  for (const int64_t id : ids) {
    if (const auto variants = ReadVariants(id); !variants.ok()) return variants.status();
    const absl::Status status = VisitRounds(id, [](const RoundRecord&) { return true; });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status TuneStore::Check() const {
  if (auto s = CheckFile(); !s.ok()) return s;
  return CheckRows();
}

namespace tune {

namespace {

std::string OrDash(const std::optional<int64_t>& value) {
  return value.has_value() ? absl::StrCat(*value) : std::string("-");
}

uint32_t Crc32(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// BYTES:TEXT and a comma each.
std::string Framed(std::initializer_list<std::string_view> texts) {
  std::string out;
  for (const std::string_view text : texts) {
    absl::StrAppend(&out, text.size(), ":", std::string(text), ",");
  }
  return out;
}

}  // namespace

// What is written of a row, so that its change shows: numbers as text, texts with their lengths.
uint32_t RoundChecksum(const RoundRecord& round) {
  std::string bytes = absl::StrCat(round.batch, ",", round.round, ",", round.discarded ? 1 : 0, ",",
                                   round.notes_json.size(), ":", round.notes_json);
  for (const SampleRecord& s : round.samples) {
    absl::StrAppend(&bytes, ";", s.variant.size(), ":", s.variant, ",", s.slot, ",",
                    s.status.size(), ":", s.status, ",", OrDash(s.t_ps), ",", OrDash(s.energy_uj));
    for (const WorkloadSample& own : s.workloads) {
      absl::StrAppend(&bytes, "/", own.workload.size(), ":", own.workload, ",", own.status.size(),
                      ":", own.status, ",", OrDash(own.t_ps), ",", OrDash(own.energy_uj));
    }
  }
  return Crc32(bytes);
}

uint32_t VariantChecksum(const Configuration& variant) {
  return Crc32(Framed({variant.id, variant.params_json, OrDash(variant.mem_bytes)}));
}

uint32_t SessionChecksum(const TuneKey& key, std::string_view space_hash,
                         std::string_view config_json, uint64_t seed, std::string_view device,
                         int64_t started_unix_s) {
  return Crc32(Framed({key.workload, key.device_class, key.driver, key.framework, key.flags,
                       key.code_hash, key.protocol_hash, key.objective, space_hash, config_json,
                       absl::StrCat(seed), device, absl::StrCat(started_unix_s)}));
}

uint32_t VerdictChecksum(std::string_view pick, std::string_view claim,
                         std::string_view verdict_json, int64_t recorded_unix_s) {
  return Crc32(Framed({pick, claim, verdict_json, absl::StrCat(recorded_unix_s)}));
}

}  // namespace tune
}  // namespace xplane_time
