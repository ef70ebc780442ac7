// Checks that a new file does not replace an SQLite database by mistake.
//
//   CheckReplacesNoDatabase("run.sqlite")   // Internal: run.sqlite: cannot write: it is an SQLite
//   ...
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace xplane_time::io {

// The first bytes of every database that is not empty.
inline constexpr std::string_view kDatabaseBegin("SQLite format 3\0", 16);

// The application id of our results: "XPLT". file(1) and sqlite3 show it.
inline constexpr int32_t kResultDatabaseId = 0x58504c54;

// Refuses a path if a new file there would destroy data. An existing database may be replaced only
// if it is one of our results. A journal beside the path is refused, because SQLite would apply it
// to the new file. Errors: Internal (cannot write).
absl::Status CheckReplacesNoDatabase(const std::string& path);

}  // namespace xplane_time::io
