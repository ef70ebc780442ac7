#include "power/log_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/whole_file.h"
#include "json/json.h"
#include "power/inventory.h"
#include "scratch.h"
#include "status.h"

namespace xplane_time::power {
namespace {

using json::Json;

// Of every version.
constexpr char kSchemaPrefix[] = "xplane-time.power-log.";

void Append(std::string* line, int64_t value) {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  line->append(digits.data(), end);
}

template <typename Value>
Json JsonOf(const Value& value) {
  if constexpr (std::is_same_v<Value, ReadingKind>) {
    return ReadingKindName(value);
  } else if constexpr (std::is_same_v<Value, PowerReason>) {
    return PowerReasonName(value);
  } else {
    return value;
  }
}
template <typename Value>
Json JsonOf(const std::optional<Value>& value) {
  return json::OrNull(value);
}

template <typename Row>
Json RowsJson(const std::vector<Row>& rows) {
  Json all = Json::array();
  for (const Row& row : rows) {
    Json& json = all.emplace_back();
    VisitFields(row,
                [&](const char* name, const auto& value, Told) { json[name] = JsonOf(value); });
  }
  return all;
}

Json ClocksJson(const Clocks& clocks) {
  return {{"monotonic_ns", clocks.monotonic_ns},
          {"realtime_ns", clocks.realtime_ns},
          {"boottime_ns", clocks.boottime_ns}};
}

// Empty, or an earlier log: what begins as Header writes it.
bool MayBeReplaced(int file) {
  const std::string begin = absl::StrCat("{\"schema\":\"", kSchemaPrefix);
  std::string there(begin.size(), '\0');
  const ssize_t got = pread(file, there.data(), there.size(), 0);
  return got == 0 || there == begin;
}

// Emptied only once it is known to be ours alone: what another recorder writes, or anybody
// else has written, stays as it is. The file is locked until the log ends.
absl::StatusOr<Descriptor> OpenNamed(const std::string& path) {
  struct stat there = {};
  if (stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return InvalidArgument(path, ": a power log is a regular file: give --log another name");
  }
  Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  const auto cannot_write = [&] { return Internal(path, ": cannot write: ", strerror(errno)); };
  if (!file.open()) return cannot_write();
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {  // else: no locks there
    return Internal(path,
                    ": another recorder writes this power log: give --log another name, or end it");
  }
  if (!MayBeReplaced(file.get())) {
    return InvalidArgument(
        path, ": is no power log, and is left as it is: give --log another name, or remove it");
  }
  if (ftruncate(file.get(), 0) != 0) return cannot_write();
  return file;
}

}  // namespace

absl::StatusOr<LogWriter> LogWriter::Create(const std::string& path) {
  if (!path.empty()) {
    ASSIGN_OR_RETURN(Descriptor file, OpenNamed(path));
    return LogWriter(std::move(file), path);
  }
  Descriptor file(OpenScratchFile());
  if (file.open()) return LogWriter(std::move(file), "a temporary file");
  return Internal("a temporary file (TMPDIR): cannot write: ", strerror(errno));
}

std::string LogWriter::path() const { return absl::StrCat("/proc/self/fd/", file_.get()); }

// A line that does not fit is taken back, so that the next one may.
bool LogWriter::Put() {
  line_ += '\n';
  if (io::WriteAll(file_.get(), line_)) {
    good_bytes_ += static_cast<int64_t>(line_.size());
    return true;
  }
  if (status_.ok()) {
    write_error_ = strerror(errno);
    status_ = Internal(path_, ": cannot write the power log: ", write_error_, " (byte ",
                       good_bytes_, "); make room, or give --log a place with room");
  }
  if (ftruncate(file_.get(), good_bytes_) == 0) lseek(file_.get(), good_bytes_, SEEK_SET);
  return false;
}

void LogWriter::WriteLine() {
  if (!Put()) ++dropped_lines_;
}

// The next line overwrites the last ones, `bytes` of them or more: that needs no room on the disk.
bool LogWriter::MakeRoom(size_t bytes) {
  constexpr int64_t kLongestLine = 1 << 16;
  const int64_t wanted = static_cast<int64_t>(bytes) + kLongestLine;
  std::string tail(static_cast<size_t>(std::min(good_bytes_ - header_bytes_, wanted)), '\0');
  const int64_t from = good_bytes_ - static_cast<int64_t>(tail.size());
  if (tail.size() <= bytes ||
      pread(file_.get(), tail.data(), tail.size(), from) != static_cast<ssize_t>(tail.size())) {
    return false;
  }
  const size_t feed = tail.rfind('\n', tail.size() - bytes - 1);
  if (feed == std::string::npos) return false;
  dropped_lines_ += static_cast<uint64_t>(
      std::count(tail.begin() + static_cast<ptrdiff_t>(feed) + 1, tail.end(), '\n'));
  good_bytes_ = from + static_cast<int64_t>(feed) + 1;
  return lseek(file_.get(), good_bytes_, SEEK_SET) == good_bytes_;
}

void LogWriter::Header(const LogHeader& header) {
  Json periods = Json::object();
  for (const auto& [source, period_ns] : header.periods_ns) periods[source] = period_ns;
  line_ = json::Dump({{"schema", absl::StrCat(kSchemaPrefix, "v1")},
                      {"t", json::OrNull(header.t_ns)},
                      {"clocks", ClocksJson(header.clocks.value_or(Clocks()))},
                      {"machine", json::Parse(header.machine_json)},
                      {"command", header.command},
                      {"periods_ns", periods},
                      {"devices", RowsJson(header.inventory.devices)},
                      {"channels", RowsJson(header.inventory.channels)},
                      {"absent", RowsJson(header.inventory.absences)}});
  WriteLine();
  header_bytes_ = good_bytes_;
}

void LogWriter::Readings(int64_t pass_ns, size_t source, std::span<const Reading> readings) {
  line_ = "{\"t\":";
  Append(&line_, pass_ns);
  line_ += ",\"s\":";
  Append(&line_, static_cast<int64_t>(source));
  line_ += ",\"r\":[";
  for (const Reading& reading : readings) {
    line_ += &reading == readings.data() ? "[" : ",[";
    Append(&line_, reading.channel);
    line_ += ',';
    Append(&line_, reading.before_ns - pass_ns);
    line_ += ',';
    Append(&line_, reading.after_ns - reading.before_ns);
    line_ += ',';
    if (reading.value.has_value()) {
      Append(&line_, *reading.value);
      if (reading.sampled_ns.has_value()) {
        line_ += ",null,";
        Append(&line_, *reading.sampled_ns - pass_ns);
      }
    } else {
      line_ += "null,\"";
      line_ += PowerReasonName(reading.reason);
      line_ += '"';
    }
    line_ += ']';
  }
  line_ += "]}";
  WriteLine();
}

void LogWriter::ClocksNow(const Clocks& clocks) {
  line_ = json::Dump({{"t", clocks.monotonic_ns}, {"clocks", ClocksJson(clocks)}});
  WriteLine();
}

void LogWriter::Mark(int64_t at_ns, bool begin, std::string_view window) {
  line_ = json::Dump({{"t", at_ns}, {begin ? "begin" : "end", window}});
  WriteLine();
}

void LogWriter::Gauge(int64_t at_ns, std::string_view quantity, int64_t value) {
  line_ = json::Dump({{"t", at_ns}, {"gauge", quantity}, {"value", value}});
  WriteLine();
}

void LogWriter::Finding(int64_t at_ns, std::string_view code, std::string_view source,
                        std::string_view message) {
  line_ = json::Dump({{"t", at_ns}, {"finding", code}, {"source", source}, {"message", message}});
  WriteLine();
}

void LogWriter::End(int64_t at_ns, std::span<const LogReader> readers) {
  Json ends = Json::array();
  for (const LogReader& each : readers) {
    ends.push_back({{"source", each.source},
                    {"reads", each.reads},
                    {"missed", each.missed},
                    {"own_cpu_ns", json::OrNull(each.own_cpu_ns)},
                    {"hung", each.hung}});
  }
  const auto line = [&](std::string_view reason) {
    Json end = {{"reason", reason}, {"readers", ends}, {"dropped", dropped_lines_}};
    if (!write_error_.empty()) end["message"] = write_error_;
    return json::Dump({{"t", at_ns}, {"end", end}});
  };
  line_ = line("stopped");
  if (Put()) return;
  constexpr size_t kLongerCount = 20;  // of dropped lines, and the end of the line
  if (!MakeRoom(line(kCannotWrite).size() + kLongerCount)) return;
  line_ = line(kCannotWrite);
  const int ignored = Put() ? ftruncate(file_.get(), good_bytes_) : 0;
  static_cast<void>(ignored);
}

}  // namespace xplane_time::power
