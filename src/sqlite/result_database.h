// A result as an SQLite database, ready for SQL.
//
//   xplane-time trace.xplane.pb -o run.sqlite
//   sqlite3 run.sqlite 'SELECT kernel, total_ps / 1e9 AS total_ms FROM kernels LIMIT 5'
//
// Each table of the JSON is a table of that name, its rows in order (rowid). Columns are those of
// the CSV: the fields of a group are GROUP_FIELD, the ends of an interval FIELD_lo and FIELD_hi.
// What else a row has, lists and objects, are JSON texts. Unknown is NULL; times are integers in
// picoseconds; counts beyond an int64 are the nearest REAL; invalid UTF-8 is shown as \xNN.
// What is in no table is in `document`: one row, with the schema's name and the JSON.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "result/result.h"

namespace xplane_time::sqlite {

// The bytes of the file. Errors: ResourceExhausted, where SQLite cannot hold it (a text over 1 GB).
absl::StatusOr<std::string> DatabaseOf(const result::Result& result);

}  // namespace xplane_time::sqlite
