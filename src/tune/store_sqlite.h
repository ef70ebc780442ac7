// SQLite with Status: a connection, statements, and the schema of a store. Results are copied.
#pragma once

#include <sqlite3.h>

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace xplane_time::tune {

class Statement {
 public:
  // Reads the row's columns, from the first one on; a tuple of references takes several columns.
  template <typename... Values>
  void Read(Values&&... into) const {
    int column = 0;
    (Get(&column, into), ...);
  }

 private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };

  explicit Statement(sqlite3_stmt* statement) : handle_(statement) {}

  void Bind(std::string_view text);  // must live until the statement has run
  void Bind(const std::optional<int64_t>& value);
  template <std::integral Integer>  // a uint64_t is stored by its bits
  void Bind(Integer value) {
    Bind(std::optional(static_cast<int64_t>(value)));
  }
  template <typename... Values>
  void Bind(const std::tuple<Values&...>& values) {
    std::apply([this](const auto&... value) { (Bind(value), ...); }, values);
  }

  template <std::integral Integer>
  void Get(int* column, Integer* into) const {
    *into = static_cast<Integer>(sqlite3_column_int64(handle_.get(), (*column)++));
  }
  void Get(int* column, std::string* into) const;
  template <typename Value>
  void Get(int* column, std::optional<Value>* into) const {
    Get(column, &into->emplace());
    if (sqlite3_column_type(handle_.get(), *column - 1) == SQLITE_NULL) into->reset();
  }
  template <typename... Values>
  void Get(int* column, const std::tuple<Values&...>& into) const {
    std::apply([&](auto&... value) { (Get(column, &value), ...); }, into);
  }

  std::unique_ptr<sqlite3_stmt, Finalize> handle_;
  int bound_ = 0;               // bound parameters
  int bind_error_ = SQLITE_OK;  // reported when the statement runs
};

// Statements are prepared on first use and kept.
class Database {
 public:
  // `flags` are those of sqlite3_open_v2; `name` is a path or, with SQLITE_OPEN_URI, a URI. Errors
  // name `path`. A time-out of ten seconds applies from the first statement on, because opening a
  // file may have to wait for another process that is closing it.
  static absl::StatusOr<std::unique_ptr<Database>> Open(const std::string& name,
                                                        const std::string& path, int flags);

  const std::string& path() const { return path_; }
  sqlite3* get() const { return db_.get(); }

  absl::Status Execute(const char* sql) const;  // one or more statements, without results

  // Runs a statement with its parameters. Calls `each` for every row until it returns false.
  using EachRow = absl::FunctionRef<absl::StatusOr<bool>(const Statement&)>;
  template <typename... Values>
  absl::Status Each(std::string_view sql, EachRow each, const Values&... values) const {
    auto statement = Take(sql);
    if (!statement.ok()) return statement.status();
    (statement->Bind(values), ...);
    return Finish(sql, *std::move(statement), each);
  }
  template <typename... Values>
  absl::Status Run(std::string_view sql, const Values&... values) const {
    return Each(
        sql, [](const Statement&) { return true; }, values...);
  }
  // The first column of the first row; empty if there is no row.
  template <typename Value, typename... Values>
  absl::StatusOr<std::optional<Value>> First(std::string_view sql, const Values&... values) const {
    std::optional<Value> first;
    const auto take = [&](const Statement& row) { return row.Read(&first.emplace()), false; };
    if (absl::Status status = Each(sql, take, values...); !status.ok()) return status;
    return first;
  }

  // BEGIN IMMEDIATE, `body`, COMMIT; ROLLBACK on failure.
  absl::Status Transaction(absl::FunctionRef<absl::Status()> body) const;

  // PermissionDenied if it was opened for reading or must not be written.
  absl::Status CheckWritable() const;
  // The last error of the connection as a Status, with path and advice.
  absl::Status Error(int code) const;

 private:
  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
  };
  absl::StatusOr<Statement> Take(std::string_view sql) const;
  absl::Status Finish(std::string_view sql, Statement statement, EachRow each) const;

  std::string path_;
  std::unique_ptr<sqlite3, Close> db_;
  mutable std::map<std::string, Statement, std::less<>> prepared_;  // those that are not running
};

// The tables of a store, as steps between versions. docs/store.md explains them.

inline constexpr int64_t kStoreVersion = 4;

// Returns 0 for an empty database, if `may_be_empty`. Errors: FailedPrecondition (newer than
// kStoreVersion, or created by another program), DataLoss (a negative version), those of Database.
absl::StatusOr<int64_t> VersionOf(const Database& db, bool may_be_empty);

// Upgrades an empty or older database to kStoreVersion, in one transaction. Errors: as above.
absl::Status PrepareSchema(const Database& db);

}  // namespace xplane_time::tune
