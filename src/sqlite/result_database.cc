// Writes a result to an SQLite database in memory, and returns its bytes.
//
// A table's columns come from its row of names and its first row. If a later row has a cell without
// a column, the table is dropped and filled again with the columns of all rows; this is rare, so
// the usual table is visited only once. ColumnSink and BindSink both derive from RowSink, which
// turns groups into columns with prefixes and nested values into JSON. Linear in the cells.
#include "sqlite/result_database.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_join.h"
#include "io/database_file.h"
#include "output/output.h"
#include "status.h"

namespace xplane_time::sqlite {
namespace {

using result::FieldType, result::FieldValue, result::Table;

constexpr int kVersion = 1;

template <auto kFunction>
struct With {
  template <typename T>
  void operator()(T* handle) const {
    kFunction(handle);
  }
};
using Connection = std::unique_ptr<sqlite3, With<sqlite3_close_v2>>;
using Statement = std::unique_ptr<sqlite3_stmt, With<sqlite3_finalize>>;

std::string Quoted(std::string_view name) {
  std::string quoted = "\"";
  for (const char c : name) quoted.append(c == '"' ? 2 : 1, c);
  return quoted + '"';
}

std::string_view TypeName(FieldType type) {
  switch (type) {
    case FieldType::kDouble:
      return "REAL";
    case FieldType::kText:
      return "TEXT";
    default:
      return "INTEGER";
  }
}

// The cells of a row; lists and objects become JSON texts. A group whose members differ between
// rows (the parameters of a variant) is one cell.
class RowSink : public result::FlatSink {
 public:
  void BeginGroup(std::string_view name, bool known) override {
    FlatSink::BeginGroup(name, known);
    group_ = name;
  }
  void EndGroup() override {
    FlatSink::EndGroup();
    if (!members_.empty()) AddObject();
    group_.clear();
    members_.clear();
  }
  void Texts(std::string_view name, std::span<const std::string> texts) override {
    Json(name, [&](FieldSink* sink) { sink->Texts(name, texts); });
  }
  void Numbers(std::string_view name, std::span<const std::optional<double>> numbers) override {
    Json(name, [&](FieldSink* sink) { sink->Numbers(name, numbers); });
  }
  void Rows(const Table& table) override {
    Json(table.name, [&](FieldSink* sink) { sink->Rows(table); });
  }
  void Raw(std::string_view name, std::string_view text) override {
    if (group_.empty()) return Json(name, [&](FieldSink* sink) { sink->Raw(name, text); });
    members_.emplace_back(name, text);
  }

 private:
  void Json(std::string_view name, const result::Members& member) {
    Field(name, output::JsonValue(member));
  }
  void AddObject() {
    Json(group_, [&](FieldSink* sink) {
      sink->BeginGroup(group_, true);
      for (const auto& [name, text] : members_) sink->Raw(name, text);
      sink->EndGroup();
    });
  }

  std::string group_;                                         // empty: not in a group
  std::vector<std::pair<std::string, std::string>> members_;  // names, JSON
};

struct Column {
  std::string name;
  FieldType type;
  bool IsCalled(std::string_view prefix, std::string_view rest) const {
    return name.size() == prefix.size() + rest.size() && name.starts_with(prefix) &&
           name.ends_with(rest);
  }
};
using Columns = std::vector<Column>;

// Adds the columns of a row that are not known yet.
class ColumnSink : public RowSink {
 public:
  explicit ColumnSink(Columns* columns) : columns_(columns) {}

 protected:
  void Cell(std::string_view prefix, std::string_view name, const FieldValue& value) override {
    const bool is_known = std::ranges::any_of(
        *columns_, [&](const Column& column) { return column.IsCalled(prefix, name); });
    if (!is_known) columns_->push_back({Cat(prefix, name), value.type()});
  }

 private:
  Columns* const columns_;
};

// Binds a row's cells to the columns.
class BindSink : public RowSink {
 public:
  BindSink(const Columns& columns, sqlite3_stmt* statement)
      : columns_(columns), statement_(statement) {}
  int code = SQLITE_OK;
  bool all_known = true;

 protected:
  void Cell(std::string_view prefix, std::string_view name, const FieldValue& value) override {
    // Usually the cells come in the order of the columns.
    size_t place = next_;
    if (place >= columns_.size() || !columns_[place].IsCalled(prefix, name)) {
      place = static_cast<size_t>(
          std::ranges::find_if(columns_,
                               [&](const Column& each) { return each.IsCalled(prefix, name); }) -
          columns_.begin());
    }
    all_known &= place < columns_.size();
    if (!all_known) return;
    next_ = place + 1;
    const int bound = std::visit(
        [this](const auto& known) { return Bind(known); },
        static_cast<
            const std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string_view>&>(
            value));
    if (code == SQLITE_OK) code = bound;
  }

 private:
  int Bind(std::monostate) { return sqlite3_bind_null(statement_, Place()); }
  int Bind(bool value) { return sqlite3_bind_int(statement_, Place(), value ? 1 : 0); }
  int Bind(int64_t value) { return sqlite3_bind_int64(statement_, Place(), value); }
  int Bind(uint64_t value) {
    if (value > std::numeric_limits<int64_t>::max()) return Bind(static_cast<double>(value));
    return Bind(static_cast<int64_t>(value));
  }
  int Bind(double value) { return sqlite3_bind_double(statement_, Place(), value); }
  int Bind(std::string_view text) {
    const std::string valid = output::ValidUtf8(text);
    return sqlite3_bind_text64(statement_, Place(), valid.data(), valid.size(), SQLITE_TRANSIENT,
                               SQLITE_UTF8);
  }

  int Place() const { return static_cast<int>(next_); }

  const Columns& columns_;
  sqlite3_stmt* const statement_;
  size_t next_ = 0;  // index after the bound column, which is also the 1-based index that SQLite
                     // uses for it
};

class Writer {
 public:
  absl::Status Open() {
    sqlite3* db = nullptr;
    const int code = sqlite3_open_v2(
        ":memory:", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nullptr);
    db_.reset(db);
    RETURN_IF_ERROR(Check(code));
    return Execute(Cat("PRAGMA application_id = ", io::kResultDatabaseId,
                       "; PRAGMA user_version = ", kVersion));
  }

  absl::Status Add(const Table& table) {
    Columns columns;
    ColumnSink sink(&columns);
    table.visit(table.rows, &sink);
    if (table.rows > 0) table.visit(0, &sink);
    ASSIGN_OR_RETURN(bool is_complete, Fill(table, columns));
    if (is_complete) return absl::OkStatus();
    // Some row has more columns than the first (the parameters of a variant).
    for (size_t row = 0; row < table.rows; ++row) table.visit(row, &sink);
    RETURN_IF_ERROR(Execute(Cat("DROP TABLE ", Quoted(table.name))));
    ASSIGN_OR_RETURN(is_complete, Fill(table, columns));
    return is_complete ? absl::OkStatus() : Internal("rows of ", table.name, " change");
  }

  absl::Status Execute(const std::string& sql) {
    return Check(sqlite3_exec(db_.get(), sql.c_str(), nullptr, nullptr, nullptr));
  }

  absl::StatusOr<std::string> Bytes() {
    sqlite3_int64 size = 0;
    const std::unique_ptr<unsigned char, With<sqlite3_free>> bytes(
        sqlite3_serialize(db_.get(), "main", &size, 0));
    if (bytes == nullptr) throw std::bad_alloc();
    return std::string(reinterpret_cast<const char*>(bytes.get()), static_cast<size_t>(size));
  }

 private:
  // Returns false if a row has a cell without a column.
  absl::StatusOr<bool> Fill(const Table& table, const Columns& columns) {
    if (columns.empty()) return true;
    const std::string name = Quoted(table.name);
    const auto declare = [](std::string* out, const Column& column) {
      absl::StrAppend(out, Quoted(column.name), " ", Absl(TypeName(column.type)));
    };
    RETURN_IF_ERROR(
        Execute(Cat("CREATE TABLE ", name, " (", absl::StrJoin(columns, ", ", declare), ")")));
    const std::vector<const char*> places(columns.size(), "?");
    ASSIGN_OR_RETURN(const Statement insert, Prepare(Cat("INSERT INTO ", name, " VALUES (",
                                                         absl::StrJoin(places, ","), ")")));
    for (size_t row = 0; row < table.rows; ++row) {
      sqlite3_clear_bindings(insert.get());
      BindSink cells(columns, insert.get());
      table.visit(row, &cells);
      if (!cells.all_known) return false;
      RETURN_IF_ERROR(Check(cells.code));
      const int code = sqlite3_step(insert.get());
      if (code != SQLITE_DONE) return Check(code);
      sqlite3_reset(insert.get());
    }
    return true;
  }

  absl::Status Check(int code) const {
    if (code == SQLITE_OK) return absl::OkStatus();
    if (code == SQLITE_NOMEM || db_ == nullptr) throw std::bad_alloc();
    const bool too_large = code == SQLITE_TOOBIG || code == SQLITE_FULL;
    const std::string message = Cat("SQLite: ", sqlite3_errmsg(db_.get()),
                                    "; use another format, such as JSON, for this result");
    return too_large ? absl::ResourceExhaustedError(message) : absl::InternalError(message);
  }

  absl::StatusOr<Statement> Prepare(const std::string& sql) {
    sqlite3_stmt* statement = nullptr;
    RETURN_IF_ERROR(Check(sqlite3_prepare_v3(db_.get(), sql.data(), static_cast<int>(sql.size()),
                                             SQLITE_PREPARE_PERSISTENT, &statement, nullptr)));
    return Statement(statement);
  }

  Connection db_;
};

// The members that are not in a table.
std::string DocumentOf(const result::Result& result) {
  result::Result members(result.schema);
  for (const auto& part : result.parts) {
    if (const auto* each = std::get_if<result::Members>(&part)) members.Say(*each);
  }
  return output::JsonText(members);
}

}  // namespace

absl::StatusOr<std::string> DatabaseOf(const result::Result& result) {
  Writer writer;
  RETURN_IF_ERROR(writer.Open());
  RETURN_IF_ERROR(writer.Execute("BEGIN"));
  const std::vector<std::string> document = {DocumentOf(result)};
  RETURN_IF_ERROR(writer.Add(result::TableOf("document", std::span(document),
                                             [&](const std::string& json, result::FieldSink* sink) {
                                               sink->Field("schema", result.schema);
                                               sink->Field("json", json);
                                             })));
  for (const auto& part : result.parts) {
    if (const auto* table = std::get_if<Table>(&part)) RETURN_IF_ERROR(writer.Add(*table));
  }
  RETURN_IF_ERROR(writer.Execute("COMMIT"));
  return writer.Bytes();
}

}  // namespace xplane_time::sqlite
