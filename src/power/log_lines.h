// LogLines: the lines of a file, one after the other, gzip or plain, in bounded memory.
//
// Enters: a path ("-" is standard input) or bytes. Leaves: each line without its line feed,
// with its number and place. At least kPadding bytes after a line may be read. A line longer
// than kLongest is skipped and leaves as empty text with `too_long`; one longer than kMostSkipped,
// as of /dev/zero through a pipe, ends the lines. A gzip stream that ends early or is damaged ends
// them too; `damage` says so. Not thread-safe.
#ifndef XPLANE_TIME_SRC_POWER_LOG_LINES_H_
#define XPLANE_TIME_SRC_POWER_LOG_LINES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace xplane_time::power {

struct LogLine {
  std::string_view text;  // until the next call of Next
  uint64_t number = 0;    // from 1
  uint64_t byte = 0;      // where it begins, in the inflated text
  bool whole = false;     // it ended with a line feed
  bool too_long = false;
};

class LogLines {
 public:
  static constexpr size_t kPadding = 64;
  static constexpr size_t kLongest = size_t{1} << 22, kMostSkipped = size_t{1} << 26;

  // Waits for a pipe's writer. Errors: NotFound, PermissionDenied, InvalidArgument (a directory or
  // a device, but a terminal), Unavailable.
  static absl::StatusOr<std::unique_ptr<LogLines>> Open(const std::string& path);
  // `bytes` must outlive it; not inflated.
  static std::unique_ptr<LogLines> FromMemory(std::string_view bytes);

  // False at the end.
  bool Next(LogLine* line);
  // Why the bytes ended early; empty: they did not.
  const std::string& damage() const { return damage_; }

 private:
  // Fills at most `size` bytes; 0: the end.
  using Fill = std::function<size_t(char* to, size_t size, std::string* damage)>;
  explicit LogLines(Fill fill);
  bool More();

  Fill fill_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // what is not given out yet
  bool at_end_ = false;
  uint64_t number_ = 0, byte_ = 0;
  std::string damage_;
};

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_LOG_LINES_H_
