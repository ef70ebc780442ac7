// A result as an SQLite database.
//
//   xplane-time trace.xplane.pb -o run.sqlite
//   sqlite3 run.sqlite 'SELECT kernel, total_ps / 1e9 AS total_ms FROM kernels LIMIT 5'
//
// Each table of the JSON is a table with the same name and the same order of rows (rowid). Columns
// are those of the CSV: the fields of a group are GROUP_FIELD, the ends of an interval FIELD_lo and
// FIELD_hi. Other members of a row, lists and objects, are JSON texts. Unknown values are NULL.
// Times are integers in picoseconds. Counts beyond an int64 become the nearest REAL. Invalid UTF-8
// is shown as \xNN. Members that are not in a table are in `document`: one row, with the schema's
// name and the JSON.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "result/result.h"

namespace xplane_time::sqlite {

// The bytes of the file. Errors: ResourceExhausted if SQLite cannot store it (a text over 1 GB).
absl::StatusOr<std::string> DatabaseOf(const result::Result& result);

}  // namespace xplane_time::sqlite
