// SQLite behind Status: a connection and prepared statements. Results are copied out.
#pragma once

#include <sqlite3.h>

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace xplane_time::tune {

class Database;

// Bound from 1, read from 0, as in SQLite. The Database outlives it.
class Statement {
 public:
  Statement(const Database* db, sqlite3_stmt* statement) : db_(db), statement_(statement) {}

  void Bind(int index, std::string_view text);  // alive until the next Reset
  void Bind(int index, const std::optional<int64_t>& value);
  template <std::integral Integer>  // a uint64_t by its bits
  void Bind(int index, Integer value) {
    Bind(index, std::optional(static_cast<int64_t>(value)));
  }

  absl::StatusOr<bool> Step();  // whether there is a row
  void Reset();

  // The columns from `first` on, one into each.
  template <typename... Values>
  void Read(int first, Values*... into) const {
    (Get(first++, into), ...);
  }
  int64_t Int(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  std::string Text(int column) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };

  template <std::integral Integer>
  void Get(int column, Integer* into) const {
    *into = static_cast<Integer>(Int(column));
  }
  void Get(int column, std::string* into) const { *into = Text(column); }
  template <typename Value>
  void Get(int column, std::optional<Value>* into) const {
    const bool is_null = sqlite3_column_type(statement_.get(), column) == SQLITE_NULL;
    is_null ? into->reset() : Get(column, &into->emplace());
  }

  const Database* db_;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bind_error_ = SQLITE_OK;  // shows at the next Step
};

// Statements are prepared when they are first run, and kept.
class Database {
 public:
  // `flags` of sqlite3_open_v2; `name` is a path or, with SQLITE_OPEN_URI, a URI. Errors
  // name `path`. The time-out holds from the first statement on: whoever opens a file that
  // another is just closing has to wait for it too.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& name,
                                                        const std::string& path, int flags,
                                                        int busy_timeout_ms = 10'000);

  const std::string& path() const { return path_; }
  sqlite3* get() const { return db_.get(); }

  absl::Status Execute(const char* sql) const;  // several statements, no results

  // Runs a statement with its parameters; `each` is told of the rows, and says whether to go on.
  using EachRow = absl::FunctionRef<absl::StatusOr<bool>(const Statement&)>;
  template <typename... Values>
  absl::Status Each(std::string_view sql, EachRow each, const Values&... values) const {
    auto statement = Take(sql);
    if (!statement.ok()) return statement.status();
    int index = 0;
    (statement->Bind(++index, values), ...);
    return Finish(sql, *std::move(statement), each);
  }
  template <typename... Values>
  absl::Status Run(std::string_view sql, const Values&... values) const {
    return Each(
        sql, [](const Statement&) { return true; }, values...);
  }
  // The first column of the first row, where there is one.
  template <typename... Values>
  absl::StatusOr<std::optional<int64_t>> Number(std::string_view sql,
                                                const Values&... values) const {
    std::optional<int64_t> number;
    const auto take = [&](const Statement& row) { return number = row.Int(0), false; };
    if (absl::Status status = Each(sql, take, values...); !status.ok()) return status;
    return number;
  }

  // BEGIN IMMEDIATE, `body`, COMMIT; ROLLBACK where one of them fails.
  absl::Status Transaction(absl::FunctionRef<absl::Status()> body) const;

  // The last error of the connection as a Status, with path and way out.
  absl::Status Error(int code) const;

 private:
  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
  };
  absl::StatusOr<Statement> Take(std::string_view sql) const;
  absl::Status Finish(std::string_view sql, Statement statement, EachRow each) const;

  std::string path_;
  std::unique_ptr<sqlite3, Close> db_;
  mutable std::map<std::string, Statement, std::less<>> prepared_;  // not running
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
