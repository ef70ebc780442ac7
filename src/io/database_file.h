// SQLite databases, as far as they concern a file that takes the place of another.
//
//   CheckReplacesNoDatabase("run.sqlite")   // Internal: run.sqlite: is an SQLite database of ...
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace xplane_time::io {

// The first bytes of every database that is not empty.
inline constexpr std::string_view kDatabaseBegin("SQLite format 3\0", 16);

// The application id of results: "XPLT". file(1) and sqlite3 show it.
inline constexpr int32_t kResultDatabaseId = 0x58504c54;

// Refuses a path where a new file would destroy data: an existing database is replaced only if it
// is a result; and SQLite would apply a journal that lies beside the path to the new file. Errors:
// Internal (cannot write).
absl::Status CheckReplacesNoDatabase(const std::string& path);

}  // namespace xplane_time::io
