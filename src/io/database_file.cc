#include "io/database_file.h"

#include <sys/stat.h>

#include <optional>

#include "io/whole_file.h"
#include "status.h"

namespace xplane_time::io {
namespace {

// The application id in the header (big-endian); nullopt: not a database.
std::optional<int32_t> ReadApplicationId(const std::string& path) {
  constexpr size_t kIdAt = 68, kIdBytes = 4;
  const std::string head = ReadFile(path, kIdAt + kIdBytes).value_or("");
  if (!head.starts_with(kDatabaseBegin) || head.size() < kIdAt + kIdBytes) return std::nullopt;
  uint32_t id = 0;
  for (size_t i = 0; i < kIdBytes; ++i) id = id << 8 | static_cast<uint8_t>(head[kIdAt + i]);
  return static_cast<int32_t>(id);
}

}  // namespace

absl::Status CheckReplacesNoDatabase(const std::string& path) {
  struct stat info = {};
  for (const char* suffix : {"-wal", "-journal"}) {
    const std::string journal = path + suffix;
    if (stat(journal.c_str(), &info) != 0 || info.st_size == 0) continue;
    return Internal(path, ": cannot write: ", journal,
                    " is a journal that SQLite would apply to the new file; close the database "
                    "in every program that uses it, or choose another path");
  }
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return absl::OkStatus();
  const auto id = ReadApplicationId(path);
  if (!id.has_value() || *id == kResultDatabaseId) return absl::OkStatus();
  return Internal(path,
                  ": cannot write: it is an SQLite database that was not written by xplane-time; "
                  "move it away, or choose another path");
}

}  // namespace xplane_time::io
