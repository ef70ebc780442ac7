#include "tune/store_schema.h"

#include <iterator>

#include "absl/strings/str_cat.h"

namespace xplane_time::tune {
namespace {

// Step i leads from version i to i + 1. A released step never changes.
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
    // Budgets are no part of what a session is: a larger one goes on with it.
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
    // Rows of earlier versions have none, and are believed.
    R"sql(
ALTER TABLE session ADD COLUMN crc32 INTEGER;
ALTER TABLE variant ADD COLUMN crc32 INTEGER;
ALTER TABLE verdict ADD COLUMN crc32 INTEGER;
)sql"};
static_assert(std::size(kSteps) == kStoreVersion);

struct Version {
  int64_t application_id = 0, version = 0, tables = 0;
};

absl::StatusOr<Version> ReadVersion(const Database& db) {
  const auto application_id = db.Number("PRAGMA application_id");
  const auto version = db.Number("PRAGMA user_version");
  const auto tables = db.Number("SELECT count(*) FROM sqlite_schema");
  if (!application_id.ok()) return application_id.status();
  if (!version.ok()) return version.status();
  if (!tables.ok()) return tables.status();
  return Version{*application_id, *version, *tables};
}

absl::Status Judge(const Database& db, const Version& found) {
  if (found.application_id != kStoreApplicationId) {
    return absl::FailedPreconditionError(absl::StrCat(
        db.path(), ": an SQLite database of another program, not a tune store; give another path"));
  }
  if (found.version > kStoreVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(db.path(), ": written in version ", found.version,
                     " of the store; this program reads up to ", kStoreVersion,
                     "; use a newer xplane-time, or another file"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PrepareSchema(const Database& db) {
  // Looking comes first: what is no store must not be written to.
  auto found = ReadVersion(db);
  if (!found.ok()) return found.status();
  const auto is_new = [](const Version& v) {
    return v.application_id == 0 && v.version == 0 && v.tables == 0;
  };
  if (!is_new(*found)) {
    if (auto s = Judge(db, *found); !s.ok()) return s;
    if (found->version == kStoreVersion) return absl::OkStatus();
  }
  return db.Transaction([&]() -> absl::Status {
    found = ReadVersion(db);  // another process may have been faster
    if (!found.ok()) return found.status();
    for (int64_t step = found->version; step < kStoreVersion; ++step) {
      if (auto s = db.Execute(kSteps[step]); !s.ok()) return s;
    }
    return db.Execute(absl::StrCat("PRAGMA application_id = ", kStoreApplicationId,
                                   "; PRAGMA user_version = ", kStoreVersion)
                          .c_str());
  });
}

absl::StatusOr<bool> IsCurrentSchema(const Database& db) {
  const auto found = ReadVersion(db);
  if (!found.ok()) return found.status();
  if (auto s = Judge(db, *found); !s.ok()) return s;
  return found->version == kStoreVersion;
}

}  // namespace xplane_time::tune
