#include "power/log_writer.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"

namespace xplane_time::power {
namespace {

using Json = nlohmann::ordered_json;

// Of every version.
constexpr char kSchemaPrefix[] = "xplane-time.power-log.";

void Append(std::string* line, int64_t value) {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  line->append(digits.data(), end);
}

template <typename Value>
Json OrNull(const std::optional<Value>& value) {
  return value.has_value() ? Json(*value) : Json();
}

Json DeviceJson(const PowerDevice& each) {
  return {{"id", each.id},
          {"name", each.name},
          {"source", each.source},
          {"index", OrNull(each.index)},
          {"ordinal", OrNull(each.ordinal)},
          {"pci_bus_id", each.pci_bus_id},
          {"driver", each.driver},
          {"mig", each.mig},
          {"shared", each.shared},
          {"note", each.note}};
}

Json ChannelJson(const PowerChannel& each) {
  return {{"source", each.source},
          {"device", each.device},
          {"domain", each.domain},
          {"quantity", each.quantity},
          {"kind", ReadingKindName(each.kind)},
          {"slow", each.slow},
          {"in_total", each.in_total},
          {"wrap_range", OrNull(each.wrap_range)},
          {"max_plausible_mw", OrNull(each.max_plausible_mw)},
          {"prior_period_ns", OrNull(each.prior_period_ns)},
          {"prior_window_ns", OrNull(each.prior_window_ns)},
          {"note", each.note}};
}

Json AbsenceJson(const PowerAbsence& each) {
  return {{"source", each.source},
          {"what", each.what},
          {"reason", PowerReasonName(each.reason)},
          {"message", each.message},
          {"fix", each.fix}};
}

Json ClocksJson(const Clocks& clocks) {
  return {{"monotonic_ns", clocks.monotonic_ns},
          {"realtime_ns", clocks.realtime_ns},
          {"boottime_ns", clocks.boottime_ns}};
}

// Names and messages come from files and devices: what is no UTF-8 is replaced.
std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<int> Unnamed() {
  const char* temporary = std::getenv("TMPDIR");
  const std::string folder = temporary != nullptr && *temporary != '\0' ? temporary : "/tmp";
  int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0) return file;
  std::string name = absl::StrCat(folder, "/xplane-time-power-XXXXXX");
  file = mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) {
    return absl::InternalError(
        absl::StrCat("a temporary file (TMPDIR): cannot write: ", strerror(errno)));
  }
  unlink(name.c_str());
  return file;
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
absl::StatusOr<int> OpenNamed(const std::string& path) {
  struct stat there = {};
  if (stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a power log is a regular file: give --log another name"));
  }
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) {
    return absl::InternalError(absl::StrCat(path, ": cannot write: ", strerror(errno)));
  }
  absl::Status status;
  if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {  // else: no locks there
    status = absl::InternalError(absl::StrCat(
        path, ": another recorder writes this power log: give --log another name, or end it"));
  } else if (!MayBeReplaced(file)) {
    status = absl::InvalidArgumentError(absl::StrCat(
        path, ": is no power log, and is left as it is: give --log another name, or remove it"));
  } else if (ftruncate(file, 0) != 0) {
    status = absl::InternalError(absl::StrCat(path, ": cannot write: ", strerror(errno)));
  }
  if (status.ok()) return file;
  close(file);
  return status;
}

}  // namespace

absl::StatusOr<LogWriter> LogWriter::Create(const std::string& path) {
  auto file = path.empty() ? Unnamed() : OpenNamed(path);
  if (!file.ok()) return file.status();
  return LogWriter(*file, path.empty() ? "a temporary file" : path);
}

std::string LogWriter::path() const { return absl::StrCat("/proc/self/fd/", file_); }

LogWriter::~LogWriter() {
  if (file_ >= 0) close(file_);
}

LogWriter::LogWriter(LogWriter&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      path_(std::move(other.path_)),
      line_(std::move(other.line_)),
      header_bytes_(other.header_bytes_),
      good_bytes_(other.good_bytes_),
      dropped_lines_(other.dropped_lines_),
      write_error_(std::move(other.write_error_)),
      status_(std::move(other.status_)) {}

// A line that does not fit is taken back, so that the next one may.
bool LogWriter::Put() {
  line_ += '\n';
  size_t written = 0;
  while (written < line_.size()) {
    const ssize_t now = write(file_, line_.data() + written, line_.size() - written);
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) {
      if (status_.ok()) {
        write_error_ = strerror(errno);
        status_ = absl::InternalError(
            absl::StrCat(path_, ": cannot write the power log: ", write_error_, " (byte ",
                         good_bytes_, "); make room, or give --log a place with room"));
      }
      if (ftruncate(file_, good_bytes_) == 0) lseek(file_, good_bytes_, SEEK_SET);
      return false;
    }
    written += static_cast<size_t>(now);
  }
  good_bytes_ += static_cast<int64_t>(line_.size());
  return true;
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
      pread(file_, tail.data(), tail.size(), from) != static_cast<ssize_t>(tail.size())) {
    return false;
  }
  const size_t feed = tail.rfind('\n', tail.size() - bytes - 1);
  if (feed == std::string::npos) return false;
  dropped_lines_ += static_cast<uint64_t>(
      std::count(tail.begin() + static_cast<ptrdiff_t>(feed) + 1, tail.end(), '\n'));
  good_bytes_ = from + static_cast<int64_t>(feed) + 1;
  return lseek(file_, good_bytes_, SEEK_SET) == good_bytes_;
}

void LogWriter::Header(const Start& start) {
  Json json = {{"schema", absl::StrCat(kSchemaPrefix, "v1")},
               {"t", start.clocks.monotonic_ns},
               {"clocks", ClocksJson(start.clocks)},
               {"machine", Json::parse(start.machine_json, nullptr, /*allow_exceptions=*/false)},
               {"command", start.command},
               {"periods_ns", start.periods_ns},
               {"devices", Json::array()},
               {"channels", Json::array()},
               {"absent", Json::array()}};
  for (const PowerDevice& each : start.inventory->devices) {
    json["devices"].push_back(DeviceJson(each));
  }
  for (const PowerChannel& each : start.inventory->channels) {
    json["channels"].push_back(ChannelJson(each));
  }
  for (const PowerAbsence& each : start.inventory->absences) {
    json["absent"].push_back(AbsenceJson(each));
  }
  line_ = Text(json);
  WriteLine();
  header_bytes_ = good_bytes_;
}

void LogWriter::Readings(int64_t pass_ns, size_t source, uint32_t first_channel,
                         std::span<const Reading> readings) {
  line_ = "{\"t\":";
  Append(&line_, pass_ns);
  line_ += ",\"s\":";
  Append(&line_, static_cast<int64_t>(source));
  line_ += ",\"r\":[";
  for (const Reading& reading : readings) {
    line_ += &reading == readings.data() ? "[" : ",[";
    Append(&line_, int64_t{first_channel} + reading.channel);
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
  line_ = Text({{"t", clocks.monotonic_ns}, {"clocks", ClocksJson(clocks)}});
  WriteLine();
}

void LogWriter::Mark(int64_t at_ns, bool begin, std::string_view window) {
  line_ = Text({{"t", at_ns}, {begin ? "begin" : "end", window}});
  WriteLine();
}

void LogWriter::Gauge(int64_t at_ns, std::string_view quantity, int64_t value) {
  line_ = Text({{"t", at_ns}, {"gauge", quantity}, {"value", value}});
  WriteLine();
}

void LogWriter::Finding(int64_t at_ns, std::string_view code, std::string_view source,
                        std::string_view message) {
  line_ = Text({{"t", at_ns}, {"finding", code}, {"source", source}, {"message", message}});
  WriteLine();
}

void LogWriter::End(int64_t at_ns, std::span<const ReaderEnd> readers) {
  Json ends = Json::array();
  for (const ReaderEnd& each : readers) {
    ends.push_back({{"source", each.source},
                    {"reads", each.reads},
                    {"missed", each.missed},
                    {"own_cpu_ns", each.own_cpu_ns},
                    {"hung", each.hung}});
  }
  const auto line = [&](std::string_view reason) {
    Json end = {{"reason", reason}, {"readers", ends}, {"dropped", dropped_lines_}};
    if (!write_error_.empty()) end["message"] = write_error_;
    return Text({{"t", at_ns}, {"end", end}});
  };
  line_ = line("stopped");
  if (Put()) return;
  constexpr size_t kLongerCount = 20;  // of dropped lines, and the end of the line
  if (!MakeRoom(line(kCannotWrite).size() + kLongerCount)) return;
  line_ = line(kCannotWrite);
  const int ignored = Put() ? ftruncate(file_, good_bytes_) : 0;
  static_cast<void>(ignored);
}

}  // namespace xplane_time::power
