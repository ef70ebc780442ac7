// SQLite behind Status: a connection and prepared statements. Results are copied out.
#ifndef XPLANE_TIME_SRC_TUNE_STORE_SQLITE_H_
#define XPLANE_TIME_SRC_TUNE_STORE_SQLITE_H_

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace xplane_time::tune {

class Statement;

class Database {
 public:
  // `flags` of sqlite3_open_v2; `name` is a path or, with SQLITE_OPEN_URI, a URI. Errors
  // name `path`.
  static absl::StatusOr<Database> Open(const std::string& name, const std::string& path, int flags);

  const std::string& path() const { return path_; }
  sqlite3* get() const { return db_.get(); }

  absl::Status Execute(const char* sql) const;            // several statements, no results
  absl::StatusOr<int64_t> Number(const char* sql) const;  // first column of the first row
  absl::StatusOr<Statement> Prepare(const char* sql) const;

  // BEGIN IMMEDIATE, `body`, COMMIT; ROLLBACK where one of them fails.
  absl::Status Transaction(absl::FunctionRef<absl::Status()> body) const;

  // The last error of the connection as a Status, with path and way out.
  absl::Status Error(int code) const;

 private:
  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
  };
  std::string path_;
  std::unique_ptr<sqlite3, Close> db_;
};

// Bound from 1, read from 0, as in SQLite. The Database outlives it.
class Statement {
 public:
  Statement(const Database* db, sqlite3_stmt* statement) : db_(db), statement_(statement) {}

  Statement& Bind(int index, int64_t value);
  Statement& Bind(int index, std::string_view text);  // alive until the next Reset
  Statement& Bind(int index, const std::optional<int64_t>& value);

  absl::StatusOr<bool> Step();  // whether there is a row
  absl::Status Run();           // steps to the end, and resets
  void Reset();

  int64_t Int(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  std::string Text(int column) const;
  bool IsNull(int column) const {
    return sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
  }
  std::optional<int64_t> OptionalInt(int column) const;
  std::optional<std::string> OptionalText(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  const Database* db_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bind_error_ = SQLITE_OK;  // shows at the next Step
};

// The tables of a store, as steps from one version to the next. docs/store.md explains them.

inline constexpr int64_t kStoreVersion = 3;
inline constexpr int64_t kStoreApplicationId = 0x5850544d;  // "XPTM"

// Brings a new or older database to kStoreVersion, in one transaction. Errors:
// FailedPrecondition (newer, or another program's), those of Database.
absl::Status PrepareSchema(const Database& db);

// Without writing; false: an older store. Errors: as above.
absl::StatusOr<bool> IsCurrentSchema(const Database& db);

}  // namespace xplane_time::tune

#endif  // XPLANE_TIME_SRC_TUNE_STORE_SQLITE_H_
