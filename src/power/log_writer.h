// Writes a power log (docs/power-log.md) by whole lines: what is there is parseable whenever the
// writer ends, and whatever ends it. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "power/log_reader.h"
#include "power/machine.h"
#include "power/reader.h"
#include "power/sysfs.h"

namespace xplane_time::power {

// The reason of an end without all of the lines before it.
inline constexpr char kCannotWrite[] = "cannot_write";

class LogWriter {
 public:
  // An empty path: a file without a name. An earlier log is replaced. Errors, with the file's
  // name, which is left as it is: InvalidArgument (no regular file, or one that is no power log),
  // Internal (cannot be written, or another recorder writes it).
  static absl::StatusOr<LogWriter> Create(const std::string& path);

  // Where it is read from, whatever has become of its name; as long as this lives. The lock, too.
  std::string path() const;

  void Header(const LogHeader& header);
  // Of one pass; channels are the log's.
  void Readings(int64_t pass_ns, size_t source, std::span<const Reading> readings);
  void ClocksNow(const Clocks& clocks);
  void Mark(int64_t at_ns, bool begin, std::string_view window);
  void Gauge(int64_t at_ns, std::string_view quantity, int64_t value);
  void Finding(int64_t at_ns, std::string_view code, std::string_view source,
               std::string_view message);
  // Where there is no room for it the last lines make some.
  void End(int64_t at_ns, std::span<const LogReader> readers);

  // The first write that failed; what failed is counted and not in the log.
  const absl::Status& status() const { return status_; }

 private:
  LogWriter(Descriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  bool Put();        // line_; false: it is not there
  void WriteLine();  // line_, or it counts as dropped
  bool MakeRoom(size_t bytes);

  Descriptor file_;
  std::string path_;
  std::string line_;
  int64_t header_bytes_ = 0, good_bytes_ = 0;
  uint64_t dropped_lines_ = 0;
  std::string write_error_;  // that of status_, without the file
  absl::Status status_;
};

}  // namespace xplane_time::power
