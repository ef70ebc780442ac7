// SQLite with Status, and the schema of stores as a list of upgrade steps.
//
// Errors of SQLite are converted in one place (Database::Error), with the errno of the failed file
// operation and advice. PrepareSchema first checks, without writing, that the file is a store or
// empty. The upgrade itself is one transaction that checks the version again, because another
// process may have upgraded the file in between.
#include "tune/store_sqlite.h"

#include <cerrno>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "status.h"

namespace xplane_time::tune {

namespace {

constexpr int kBusyTimeoutMs = 10'000;  // waits for another process's transaction

// The reason of an I/O error. The clean-up has often overwritten sqlite3_system_errno; the database
// file and its log remember their own.
int LastErrno(sqlite3* db) {
  int error = 0;
  sqlite3_file* log = nullptr;
  sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, static_cast<void*>(&log));
  if (log != nullptr && log->pMethods != nullptr) {
    log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &error);
  }
  if (error == 0) sqlite3_file_control(db, "main", SQLITE_FCNTL_LAST_ERRNO, &error);
  return error != 0 ? error : sqlite3_system_errno(db);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Database>> Database::Open(const std::string& name,
                                                         const std::string& path, int flags) {
  auto out = std::make_unique<Database>();
  out->path_ = path;
  sqlite3* db = nullptr;
  // NOMUTEX: a connection is used by one thread at a time.
  const int code = sqlite3_open_v2(name.c_str(), &db, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  out->db_.reset(db);
  if (db == nullptr) return ResourceExhausted(path, ": out of memory");
  if (code != SQLITE_OK) return out->Error(code);
  sqlite3_extended_result_codes(db, 1);
  sqlite3_busy_timeout(db, kBusyTimeoutMs);
  return out;
}

absl::Status Database::Execute(const char* sql) const {
  const int code = sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr);
  return code == SQLITE_OK ? absl::OkStatus() : Error(code);
}

absl::StatusOr<Statement> Database::Take(std::string_view sql) const {
  if (const auto found = prepared_.find(sql); found != prepared_.end()) {
    return std::move(prepared_.extract(found).mapped());
  }
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(db_.get(), sql.data(), static_cast<int>(sql.size()),
                                      SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return Error(code);
  return Statement(statement);
}

absl::Status Database::Finish(std::string_view sql, Statement statement, EachRow each) const {
  absl::StatusOr<bool> goes_on = true;
  while (goes_on.ok() && *goes_on) {
    int code = statement.bind_error_;
    if (code == SQLITE_OK) code = sqlite3_step(statement.handle_.get());
    if (code == SQLITE_ROW) {
      goes_on = each(statement);
    } else if (code == SQLITE_DONE) {
      goes_on = false;
    } else {
      goes_on = Error(code);
    }
  }
  sqlite3_reset(statement.handle_.get());
  statement.bound_ = 0;
  statement.bind_error_ = SQLITE_OK;
  prepared_.emplace(sql, std::move(statement));
  return goes_on.status();
}

absl::Status Database::Transaction(absl::FunctionRef<absl::Status()> body) const {
  RETURN_IF_ERROR(Execute("BEGIN IMMEDIATE"));
  absl::Status status = body();
  if (status.ok()) status = Execute("COMMIT");
  // Some errors have already ended the transaction.
  if (!status.ok() && sqlite3_get_autocommit(db_.get()) == 0) Execute("ROLLBACK").IgnoreError();
  return status;
}

absl::Status Database::Error(int code) const {
  const int system_error = LastErrno(db_.get());
  const auto message = [&](const char* what) {
    return absl::StrCat(path_, ": ", what, " (SQLite: ", sqlite3_errmsg(db_.get()), ")");
  };
  const bool no_space = system_error == ENOSPC || system_error == EFBIG || system_error == EDQUOT;
  switch (code & 0xff) {
    case SQLITE_FULL:
    case SQLITE_IOERR:
      if (no_space || (code & 0xff) == SQLITE_FULL) {
        return absl::ResourceExhaustedError(
            message("no space left; finished rounds are stored: free some space, and continue with "
                    "--resume"));
      }
      return Unavailable(message("input or output failed"), ": ", std::strerror(system_error));
    case SQLITE_CORRUPT:
      return absl::DataLossError(
          message("the store is damaged; use a backup, or .recover of sqlite3 into a new file"));
    case SQLITE_NOTADB:
      return absl::DataLossError(message("not a tune store; give another path"));
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return absl::PermissionDeniedError(
          message("read-only; make the file and its directory writable, or give another path"));
    case SQLITE_CANTOPEN:
      return system_error == ENOENT
                 ? absl::NotFoundError(message("no such file or directory; create the directory"))
                 : absl::PermissionDeniedError(message("cannot be opened; check the path and its "
                                                       "permissions"));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return absl::UnavailableError(message("another process is writing; try again"));
    case SQLITE_NOMEM:
    case SQLITE_TOOBIG:
      return absl::ResourceExhaustedError(message("too large"));
    case SQLITE_ERROR:  // the statements are correct, so the schema is wrong
    case SQLITE_CONSTRAINT:
      return absl::DataLossError(
          message("the store is damaged, or was changed by another program; use a backup, or "
                  ".recover of sqlite3 into a new file"));
    default:
      return absl::InternalError(message("unexpected"));
  }
}

absl::Status Database::CheckWritable() const {
  const bool read_only = sqlite3_db_readonly(db_.get(), "main") == 1;
  return read_only ? Error(SQLITE_READONLY) : absl::OkStatus();
}

void Statement::Bind(std::string_view text) {
  // An empty view may have a null address, which would bind NULL.
  const char* const bytes = text.empty() ? "" : text.data();
  const int code =
      sqlite3_bind_text64(handle_.get(), ++bound_, bytes, text.size(), SQLITE_STATIC, SQLITE_UTF8);
  if (code != SQLITE_OK) bind_error_ = code;
}

void Statement::Bind(const std::optional<int64_t>& value) {
  const int code = value.has_value() ? sqlite3_bind_int64(handle_.get(), ++bound_, *value)
                                     : sqlite3_bind_null(handle_.get(), ++bound_);
  if (code != SQLITE_OK) bind_error_ = code;
}

void Statement::Get(int* column, std::string* into) const {
  const auto* const text =
      reinterpret_cast<const char*>(sqlite3_column_text(handle_.get(), *column));
  const auto bytes = static_cast<size_t>(sqlite3_column_bytes(handle_.get(), (*column)++));
  into->assign(text == nullptr ? "" : text, text == nullptr ? 0 : bytes);
}

namespace {

// Step i upgrades version i to i + 1. A released step never changes.
constexpr const char* kSteps[] = {
    R"sql(
CREATE TABLE session(
  id INTEGER PRIMARY KEY,
  workload TEXT NOT NULL, device_class TEXT NOT NULL, driver TEXT NOT NULL,
  framework TEXT NOT NULL, flags TEXT NOT NULL, code_hash TEXT NOT NULL,
  protocol_hash TEXT NOT NULL, space_hash TEXT NOT NULL, config_json TEXT NOT NULL,
  seed INTEGER NOT NULL, device TEXT NOT NULL, started_unix_s INTEGER NOT NULL);
CREATE INDEX session_identity ON session(workload, device_class, space_hash);
CREATE TABLE variant(
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES session(id),
  variant TEXT NOT NULL, params_json TEXT NOT NULL, mem_bytes INTEGER,
  UNIQUE(session, variant));
CREATE TABLE round(
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES session(id),
  batch INTEGER NOT NULL, round INTEGER NOT NULL, discarded INTEGER NOT NULL,
  notes_json TEXT NOT NULL, samples INTEGER NOT NULL, crc32 INTEGER NOT NULL,
  UNIQUE(session, batch, round));
CREATE TABLE sample(
  round INTEGER NOT NULL REFERENCES round(id),
  place INTEGER NOT NULL,
  variant INTEGER NOT NULL REFERENCES variant(id),
  slot INTEGER NOT NULL, status TEXT NOT NULL, t_ps INTEGER, energy_uj INTEGER,
  PRIMARY KEY(round, place)) WITHOUT ROWID;
CREATE TABLE verdict(
  id INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES session(id),
  pick TEXT, claim TEXT NOT NULL, verdict_json TEXT NOT NULL,
  recorded_unix_s INTEGER NOT NULL);
CREATE INDEX verdict_of_session ON verdict(session, id);
CREATE TABLE lease(name TEXT PRIMARY KEY, holder TEXT NOT NULL) WITHOUT ROWID;
CREATE TRIGGER round_stays BEFORE UPDATE ON round BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER round_kept BEFORE DELETE ON round BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER sample_stays BEFORE UPDATE ON sample BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER sample_kept BEFORE DELETE ON sample BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER verdict_stays BEFORE UPDATE ON verdict BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER verdict_kept BEFORE DELETE ON verdict BEGIN SELECT RAISE(ABORT, 'append-only'); END;
)sql",
    // Budgets are not part of a session's identity: a larger one continues the session.
    R"sql(
ALTER TABLE session ADD COLUMN objective TEXT NOT NULL DEFAULT 'time';
UPDATE session SET objective = coalesce(json_extract(config_json, '$.objective'), 'time'),
                   config_json = json_remove(config_json, '$.budget')
  WHERE json_valid(config_json);
ALTER TABLE verdict ADD COLUMN rounds INTEGER;
CREATE TABLE workload_sample(
  round INTEGER NOT NULL, place INTEGER NOT NULL, part INTEGER NOT NULL,
  workload TEXT NOT NULL, status TEXT NOT NULL, t_ps INTEGER, energy_uj INTEGER,
  PRIMARY KEY(round, place, part),
  FOREIGN KEY(round, place) REFERENCES sample(round, place)) WITHOUT ROWID;
CREATE TRIGGER workload_sample_stays BEFORE UPDATE ON workload_sample
  BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER workload_sample_kept BEFORE DELETE ON workload_sample
  BEGIN SELECT RAISE(ABORT, 'append-only'); END;
)sql",
    // Rows of earlier versions have no checksum and are trusted.
    R"sql(
ALTER TABLE session ADD COLUMN crc32 INTEGER;
ALTER TABLE variant ADD COLUMN crc32 INTEGER;
ALTER TABLE verdict ADD COLUMN crc32 INTEGER;
)sql",
    // Checksums of new rows contain the session. Earlier rows keep theirs.
    ""};
static_assert(std::size(kSteps) == kStoreVersion);

constexpr int64_t kApplicationId = 0x5850544d;  // "XPTM"

}  // namespace

absl::StatusOr<int64_t> VersionOf(const Database& db, bool may_be_empty) {
  ASSIGN_OR_RETURN(const auto application, db.First<int64_t>("PRAGMA application_id"));
  ASSIGN_OR_RETURN(const auto version, db.First<int64_t>("PRAGMA user_version"));
  ASSIGN_OR_RETURN(const auto tables, db.First<int64_t>("SELECT count(*) FROM sqlite_schema"));
  if (application == 0 && version == 0 && tables == 0) {
    if (may_be_empty) return 0;
    return FailedPrecondition(db.path(), ": is empty, without a session; tune creates one");
  }
  if (application != kApplicationId) {
    return FailedPrecondition(
        db.path(), ": an SQLite database of another program, not a tune store; give another path");
  }
  // The version is an index in kSteps.
  if (version.value_or(0) < 0) {
    return DataLoss(
        db.path(), ": its version (PRAGMA user_version) is ", version.value_or(0),
        ", which is invalid; the store was damaged; use a backup, or give another path");
  }
  if (version.value_or(0) > kStoreVersion) {
    return FailedPrecondition(db.path(), ": written with version ", version.value_or(0),
                              " of the store; this program supports up to ", kStoreVersion,
                              "; use a newer xplane-time, or another file");
  }
  return version.value_or(0);
}

absl::Status PrepareSchema(const Database& db) {
  // Look first, because a file that is not a store must not be written to.
  const auto seen = VersionOf(db, /*may_be_empty=*/true);
  if (seen.ok() && *seen == kStoreVersion) return absl::OkStatus();
  // Leave a database alone that is certainly not a store. One that another process is creating now
  // looks like one without a schema.
  ASSIGN_OR_RETURN(const auto application, db.First<int64_t>("PRAGMA application_id"));
  if (!seen.ok() && application != kApplicationId) return seen.status();
  return db.Transaction([&]() -> absl::Status {
    // Another process may have been faster.
    int64_t version = 0;
    ASSIGN_OR_RETURN(version, VersionOf(db, /*may_be_empty=*/true));
    for (; version < kStoreVersion; ++version) RETURN_IF_ERROR(db.Execute(kSteps[version]));
    return db.Execute(absl::StrCat("PRAGMA application_id = ", kApplicationId,
                                   "; PRAGMA user_version = ", kStoreVersion)
                          .c_str());
  });
}

}  // namespace xplane_time::tune
