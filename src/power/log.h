// The power log. The reader: lines in, what they say out, one pass.
//
//   class Print : public LogSink { ... };
//   auto end = ReadPowerLog("p.jsonl", &sink);
//   if (!end.ok()) ...       // DataLoss: p.jsonl: line 1, byte 0: no header: ...
//   end->damaged_lines       // counted and left out, the first one located
//
// Enters: JSON Lines as docs/power-log.md has them, or nvidia-smi's CSV
// (--query-gpu=timestamp,index,uuid,power.draw,... --format=csv), plain or gzip. Leaves: calls
// of a LogSink in the order of the lines. A line is used as a whole or not at all; what a line
// of JSON says twice counts once, the last time. Memory is bounded by the longest line
// (4 MiB; longer ones count as damaged). Linear. Not thread-safe.
//
// Not handled: times that go backwards; the sink sees them as they are.
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

// LogLines: the lines of a file, one after the other, gzip or plain, in bounded memory.
//
// Enters: a path ("-" is standard input) or bytes. Leaves: each line without its line feed,
// with its number and place. A line longer than kLongest is skipped and leaves as empty text with
// `too_long`; one longer than kMostSkipped, as of /dev/zero through a pipe, ends the lines. A gzip
// stream that ends early, is damaged or inflates to too much ends them too; `damage` says so. Not
// thread-safe.

struct LogLine {
  std::string_view text;  // until the next call of Next
  uint64_t number = 0;    // from 1
  uint64_t byte = 0;      // where it begins, in the inflated text
  bool whole = false;     // it ended with a line feed
  bool too_long = false;
};

class LogLines : private std::streambuf {
 public:
  static constexpr size_t kLongest = size_t{1} << 22, kMostSkipped = size_t{1} << 26;

  // The next bytes; none: the end. `damage`: why it is early.
  struct Chunk {
    std::string bytes = {}, damage = {};
  };
  explicit LogLines(std::function<Chunk()> next);

  // Waits for a pipe's writer. Errors: NotFound, PermissionDenied, InvalidArgument (a directory or
  // a device, but a terminal), Unavailable.
  static absl::StatusOr<std::unique_ptr<LogLines>> Open(const std::string& path);
  // False at the end.
  bool Next(LogLine* line);
  // Why the bytes ended early; empty: they did not.
  const std::string& damage() const { return damage_; }

 private:
  int_type underflow() override;

  const std::function<Chunk()> next_;
  std::istream stream_{this};
  Chunk now_;
  std::unique_ptr<char[]> text_;  // of the last line
  uint64_t number_ = 0, byte_ = 0;
  std::string damage_;
};

// Every time and every value's magnitude in a log is below.
inline constexpr int64_t kLatestNs = int64_t{1} << 62;
// Channels of one log, the caller's gauges among them.
inline constexpr size_t kMostChannels = 4096;

struct LogHeader {
  std::string machine_json = "{}", host, command;
  std::optional<int64_t> t_ns;  // empty: with the first reading
  std::optional<Clocks> clocks;
  std::vector<std::pair<std::string, int64_t>> periods_ns;  // in the order of `s`
  PowerInventory inventory;
};

struct LogEnd {
  bool complete = false;  // the `end` line was there, and nothing that could not be written
  std::vector<ReaderQuality> readers;  // those of its fields that the recorder tells
  uint64_t dropped = 0;
  std::string write_error;  // why the recorder lost lines: "No space left on device"
  uint64_t lines = 0, damaged_lines = 0, used_lines = 0;  // used: below the header
  std::string first_damage;                               // "line 5, byte 812: ..."
  std::string cut;  // why it ended early, with the place; empty: it did not
};

class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void Header(LogHeader header) = 0;  // once, first
  // A channel that the header does not have; its index is the number of those before.
  // NOLINTNEXTLINE: those that override it keep them
  virtual void Channel(PowerChannel /*channel*/, PowerDevice /*device*/) {}
  // Of one pass over source `s`, the place in periods_ns; channels are valid indices.
  virtual void Readings(size_t s, int64_t t_ns, std::span<const Reading> readings) = 0;
  virtual void ClocksAt(int64_t /*t_ns*/, const Clocks& /*clocks*/) {}
  virtual void Mark(int64_t /*t_ns*/, std::string_view /*window*/, bool /*end*/) {}
  virtual void Finding(int64_t /*t_ns*/, std::string_view /*code*/, std::string_view /*source*/,
                       std::string_view /*message*/) {}
  virtual void End(int64_t /*t_ns*/) {}
};

// Errors: of opening; DataLoss (no header, or of another version; all lines below it damaged).
absl::StatusOr<LogEnd> ReadPowerLog(const std::string& path, LogSink* sink);
// The same of bytes in memory, not inflated.
absl::StatusOr<LogEnd> ReadPowerLogText(std::string_view text, const std::string& name,
                                        LogSink* sink);

// One kind of log: what its lines say goes to a sink.
class LogParser {
 public:
  virtual ~LogParser() = default;
  virtual absl::Status ReadHeader(const LogLine& line) = 0;
  // What is wrong with the line; empty: nothing.
  virtual std::string_view Read(const LogLine& line) = 0;
};
// Of nvidia-smi's CSV; null: `first`, the first line, is not of such.
std::unique_ptr<LogParser> NewNvidiaSmiParser(std::string_view first, LogSink* sink);

// "line 5, byte 812".
std::string PlaceOf(const LogLine& line);

// The writer: by whole lines, so that what is there is parseable whenever it ends, and whatever
// ends it. Not thread-safe.

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
  void Readings(size_t s, int64_t t_ns, std::span<const Reading> readings);
  void ClocksAt(int64_t t_ns, const Clocks& clocks);
  void Mark(int64_t t_ns, std::string_view window, bool end);
  void Finding(int64_t t_ns, std::string_view code, std::string_view source,
               std::string_view message);
  void Gauge(int64_t t_ns, std::string_view quantity, std::optional<int64_t> value);
  // Where there is no room for it the last lines make some.
  void Finish(int64_t t_ns, const std::vector<ReaderQuality>& readers);

  // The first write that failed; what failed is counted and not in the log.
  const absl::Status& status() const { return status_; }

 private:
  LogWriter(Descriptor file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  bool Put();                        // line_; false: it is not there
  void WriteLine(std::string line);  // or it counts as dropped
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
