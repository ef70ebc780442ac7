// The power log. The reader turns lines into calls of a sink, in one pass.
//
//   class Print : public LogSink { ... };
//   auto end = ReadPowerLog("p.jsonl", &sink);
//   if (!end.ok()) ...       // DataLoss: p.jsonl: line 1, byte 0: no header: ...
//   end->damaged_lines       // counted and skipped; the first one is located
//
// Input: JSON Lines as defined in docs/power-log.md, or nvidia-smi's CSV
// (--query-gpu=timestamp,index,uuid,power.draw,... --format=csv), plain or gzip. Output: calls of a
// LogSink in the order of the lines. A line is used as a whole or skipped. A repeated member of a
// JSON line counts once: the first `t`, `s` or `r`, otherwise the last one. Memory is bounded by
// the longest line (4 MiB; longer lines count as damaged). Linear. Not thread-safe.
//
// Not handled: times that go backwards; the sink receives them unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <istream>
#include <memory>
#include <optional>
#include <span>
#include <streambuf>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "power/machine.h"
#include "power/reader.h"
#include "power/sysfs.h"
#include "xplane_time/power.h"

namespace xplane_time::power {

// LogLines: the lines of a file, gzip or plain, in bounded memory.
//
// Input: a path ("-" is standard input) or bytes. Output: each line without its line feed, with its
// number and position. A line longer than kLongest yields an empty text with `too_long`. A line
// longer than kMostSkipped (as from a pipe that never ends) ends the lines. A gzip stream that ends
// early, is damaged or inflates to too much also ends them; `damage` has the reason. Not
// thread-safe.

struct LogLine {
  std::string_view text;  // valid until the next call of Next
  uint64_t number = 0;    // from 1
  uint64_t byte = 0;      // its offset in the inflated text
  bool whole = false;     // it ended with a line feed
  bool too_long = false;
};

class LogLines : private std::streambuf {
 public:
  static constexpr size_t kLongest = size_t{1} << 22, kMostSkipped = size_t{1} << 26;

  // The next bytes; empty at the end. `damage` is the reason of an early end.
  struct Chunk {
    std::string bytes = {}, damage = {};
  };
  explicit LogLines(std::function<Chunk()> next);

  // Waits for a pipe's writer. Errors: NotFound, PermissionDenied, InvalidArgument (a directory, or
  // a device other than a terminal), Unavailable.
  static absl::StatusOr<std::unique_ptr<LogLines>> Open(const std::string& path);
  // Returns false at the end.
  bool Next(LogLine* line);
  // Why the bytes ended early; empty if they did not.
  const std::string& damage() const { return damage_; }

 private:
  int_type underflow() override;

  const std::function<Chunk()> next_;
  std::istream stream_{this};
  Chunk now_;
  std::unique_ptr<char[]> text_;  // text of the last line
  uint64_t number_ = 0, byte_ = 0;
  std::string damage_;
};

// Upper bound of every time, and of the magnitude of every value, in a log.
inline constexpr int64_t kLatestNs = int64_t{1} << 62;
// Limit of channels in one log, including the caller's gauges.
inline constexpr size_t kMostChannels = 4096;

struct LogHeader {
  std::string machine_json = "{}", host, command;
  std::optional<int64_t> t_ns;  // empty: the time of the first reading
  std::optional<Clocks> clocks;
  std::vector<std::pair<std::string, int64_t>> periods_ns;  // in the order of `s`
  PowerInventory inventory;
};

struct LogEnd {
  bool complete = false;               // the `end` line was present, and it reports no write error
  std::vector<ReaderQuality> readers;  // fields that the recorder writes
  uint64_t dropped = 0;
  std::string write_error;  // why the recorder lost lines, such as "No space left on device"
  uint64_t lines = 0, damaged_lines = 0, used_lines = 0;  // used: lines below the header
  std::string first_damage;                               // "line 5, byte 812: ..."
  std::string cut;  // why it ended early, with the position; empty if it did not
};

class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void Header(LogHeader header) = 0;  // called once, first
  // A channel that is not in the header; its index is the number of earlier channels.
  // NOLINTNEXTLINE: those that override it keep them
  virtual void Channel(PowerChannel /*channel*/, PowerDevice /*device*/) {}
  // Readings of one pass over source `s`, the index in periods_ns; channels are valid indices.
  virtual void Readings(size_t s, int64_t t_ns, std::span<const Reading> readings) = 0;
  virtual void ClocksAt(int64_t /*t_ns*/, const Clocks& /*clocks*/) {}
  virtual void Mark(int64_t /*t_ns*/, std::string_view /*window*/, bool /*end*/) {}
  virtual void Finding(int64_t /*t_ns*/, std::string_view /*code*/, std::string_view /*source*/,
                       std::string_view /*message*/) {}
  virtual void End(int64_t /*t_ns*/) {}
};

// Errors: those of opening; DataLoss (no header, a header of another version, or all lines below it
// are damaged).
absl::StatusOr<LogEnd> ReadPowerLog(const std::string& path, LogSink* sink);
// The same for bytes in memory, which are not inflated.
absl::StatusOr<LogEnd> ReadPowerLogText(std::string_view text, const std::string& name,
                                        LogSink* sink);

// A parser for one log format; it passes the content of lines to a sink.
class LogParser {
 public:
  virtual ~LogParser() = default;
  virtual absl::Status ReadHeader(const LogLine& line) = 0;
  // Returns the error in the line; empty if there is none.
  virtual std::string_view Read(const LogLine& line) = 0;
};
// A parser for nvidia-smi's CSV; null if `first`, the first line, has another format.
std::unique_ptr<LogParser> NewNvidiaSmiParser(std::string_view first, LogSink* sink);

// "line 5, byte 812".
std::string PlaceOf(const LogLine& line);

// The writer. It writes whole lines, so the log is parseable whenever and however the process ends.
// Not thread-safe.

// The reason of an end whose log lacks lines.
inline constexpr char kCannotWrite[] = "cannot_write";

class LogWriter {
 public:
  // An empty path creates a file without a name. An earlier log is replaced. Errors, with the
  // file's name; the file stays unchanged: InvalidArgument (not a regular file, or not a power
  // log), Internal (cannot be written, or another recorder writes it).
  static absl::StatusOr<LogWriter> Create(const std::string& path);

  // A path that opens this file even if it was renamed or removed. The path and the lock are valid
  // as long as this object.
  std::string path() const;

  void Header(const LogHeader& header);
  void Readings(size_t s, int64_t t_ns, std::span<const Reading> readings);
  void ClocksAt(int64_t t_ns, const Clocks& clocks);
  void Mark(int64_t t_ns, std::string_view window, bool end);
  void Finding(int64_t t_ns, std::string_view code, std::string_view source,
               std::string_view message);
  void Gauge(int64_t t_ns, std::string_view quantity, std::optional<int64_t> value);
  // If the disk is full, the last lines are overwritten to make room.
  void Finish(int64_t t_ns, const std::vector<ReaderQuality>& readers);

  // The first write that failed. Lines that failed are counted and missing from the log.
  const absl::Status& status() const { return status_; }

 private:
  LogWriter(Descriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  bool Put();                        // writes line_; false if it is not in the log
  void WriteLine(std::string line);  // counts the line as dropped if it cannot be written
  bool MakeRoom(size_t bytes);

  Descriptor file_;
  std::string path_;
  std::string line_;
  int64_t header_bytes_ = 0, good_bytes_ = 0;
  uint64_t dropped_lines_ = 0;
  std::string write_error_;  // the error of status_, without the file
  absl::Status status_;
};

}  // namespace xplane_time::power
