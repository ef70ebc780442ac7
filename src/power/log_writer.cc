// Writes power logs so that they stay parseable after a kill or on a full disk.
//
// Each line is written at once, so a kill leaves at most one incomplete line. If a write fails, the
// file is truncated to its last good line, and the next line is tried again; dropped lines are
// counted. The last line matters most: if it does not fit, MakeRoom goes back over the last lines,
// and the last line is written in their place, which needs no new disk blocks. Values are written
// by hand in the frequent lines of readings, and through the JSON library in all others.
#include "power/log.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "io/whole_file.h"
#include "json/json.h"
#include "power/inventory.h"
#include "scratch.h"
#include "status.h"

namespace xplane_time::power {
namespace {

using json::Json, json::ToJson;

// Common to all versions.
constexpr char kSchemaPrefix[] = "xplane-time.power-log.";

// True for an empty file or an earlier log, which begins with the text that Header writes.
bool MayBeReplaced(int file) {
  const std::string begin = absl::StrCat("{\"schema\":\"", kSchemaPrefix);
  std::string there(begin.size(), '\0');
  const ssize_t got = pread(file, there.data(), there.size(), 0);
  return got == 0 || there == begin;
}

// Opens and locks the file until the log ends. The file is only emptied after the lock and the
// check of its content, so a log of another recorder and any other file stay unchanged.
absl::StatusOr<Descriptor> OpenNamed(const std::string& path) {
  struct stat there = {};
  if (stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return InvalidArgument(path, ": not a regular file; use another file for --log");
  }
  Descriptor file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  const auto cannot_write = [&] { return Internal(path, ": cannot write: ", strerror(errno)); };
  if (!file.open()) return cannot_write();
  // other errors: the file system has no locks
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Internal(
        path, ": another recorder writes this power log; use another file for --log, or stop it");
  }
  if (!MayBeReplaced(file.get())) {
    return InvalidArgument(path,
                           ": the existing file is not a power log and is not overwritten; use "
                           "another file for --log, or remove it");
  }
  if (ftruncate(file.get(), 0) != 0) return cannot_write();
  return file;
}

}  // namespace

std::string MachineJson(const std::string& procfs) {
  utsname name = {};
  const bool named = uname(&name) == 0;
  constexpr size_t kMostBytes = 1 << 16;
  const std::string processors = ReadText(procfs + "/cpuinfo", kMostBytes).value.value_or("");
  const auto cpu = LineOf(processors, "model name");
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  return json::Dump(
      {{"host", named ? Json(name.nodename) : Json()},
       {"kernel", named ? Json(absl::StrCat(name.sysname, " ", name.release)) : Json()},
       {"cpu", cpu ? Json(Trimmed(*cpu)) : Json()},
       {"cpus", sysconf(_SC_NPROCESSORS_ONLN)},
       {"memory_bytes", pages > 0 && page_bytes > 0 ? Json(pages * page_bytes) : Json()},
       {"boot_id", json::TextOrNull(TextIn(procfs + "/sys/kernel/random/boot_id"))}});
}

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

// Writes line_. A line that does not fit is removed again, so that the next one may fit.
bool LogWriter::Put() {
  line_ += '\n';
  if (io::WriteAll(file_.get(), line_)) {
    good_bytes_ += static_cast<int64_t>(line_.size());
    return true;
  }
  if (status_.ok()) {
    write_error_ = strerror(errno);
    status_ = Internal(path_, ": cannot write the power log: ", write_error_, " (byte ",
                       good_bytes_, "); free some space, or write --log to another file system");
  }
  if (ftruncate(file_.get(), good_bytes_) == 0) lseek(file_.get(), good_bytes_, SEEK_SET);
  return false;
}

void LogWriter::WriteLine(std::string line) {
  line_ = std::move(line);
  if (!Put()) ++dropped_lines_;
}

// Makes the next line overwrite the last lines (at least `bytes`), which needs no space on the
// disk.
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
  WriteLine(json::Dump({{"schema", absl::StrCat(kSchemaPrefix, "v1")},
                        {"t", json::OrNull(header.t_ns)},
                        {"clocks", ToJson(header.clocks.value_or(Clocks()))},
                        {"machine", json::Parse(header.machine_json)},
                        {"command", header.command},
                        {"periods_ns", periods},
                        {"devices", ToJson(header.inventory.devices)},
                        {"channels", ToJson(header.inventory.channels)},
                        {"absent", ToJson(header.inventory.absences)}}));
  header_bytes_ = good_bytes_;
}

void LogWriter::Readings(size_t s, int64_t t_ns, std::span<const Reading> readings) {
  line_ = absl::StrCat("{\"t\":", t_ns, ",\"s\":", s, ",\"r\":[");
  for (const Reading& each : readings) {
    absl::StrAppend(&line_, &each == readings.data() ? "[" : ",[", each.channel, ",",
                    each.before_ns - t_ns, ",", each.after_ns - each.before_ns, ",");
    if (!each.value.has_value()) {
      line_.append("null,\"").append(PowerReasonName(each.reason)).append("\"");
    } else {
      absl::StrAppend(&line_, *each.value);
      if (each.sampled_ns) absl::StrAppend(&line_, ",null,", *each.sampled_ns - t_ns);
    }
    line_ += ']';
  }
  line_ += "]}";
  WriteLine(std::move(line_));
}

void LogWriter::ClocksAt(int64_t t_ns, const Clocks& clocks) {
  WriteLine(json::Dump({{"t", t_ns}, {"clocks", ToJson(clocks)}}));
}

void LogWriter::Mark(int64_t t_ns, std::string_view window, bool end) {
  WriteLine(json::Dump({{"t", t_ns}, {end ? "end" : "begin", window}}));
}

void LogWriter::Gauge(int64_t t_ns, std::string_view quantity, std::optional<int64_t> value) {
  Json line = {{"t", t_ns}, {"gauge", quantity}, {"value", value ? Json(*value) : Json()}};
  if (!value) line["reason"] = PowerReasonName(PowerReason::kNoSamples);
  WriteLine(json::Dump(line));
}

void LogWriter::Finding(int64_t t_ns, std::string_view code, std::string_view source,
                        std::string_view message) {
  WriteLine(json::Dump({{"t", t_ns}, {"finding", code}, {"source", source}, {"message", message}}));
}

void LogWriter::Finish(int64_t t_ns, const std::vector<ReaderQuality>& readers) {
  const auto line = [&](std::string_view reason) {
    Json end = {{"reason", reason}, {"readers", ToJson(readers)}, {"dropped", dropped_lines_}};
    if (!write_error_.empty()) end["message"] = write_error_;
    return json::Dump({{"t", t_ns}, {"end", end}});
  };
  line_ = line("stopped");
  if (Put()) return;
  constexpr size_t kLongerCount = 20;  // longer count of dropped lines, and the end of the line
  if (!MakeRoom(line(kCannotWrite).size() + kLongerCount)) return;
  line_ = line(kCannotWrite);
  const int ignored = Put() ? ftruncate(file_.get(), good_bytes_) : 0;
  static_cast<void>(ignored);
}

}  // namespace xplane_time::power

// ---- The names of values in logs and summaries

namespace xplane_time {
namespace {

// In the order of the enumerations.
constexpr std::string_view kReasons[] = {
    "known",  "permission_denied", "unsupported",     "no_samples",     "reset",
    "gap",    "device_lost",       "driver_mismatch", "reset_required", "hung",
    "absent", "suspended",         "implausible",     "shared_window",  "not_asked"};
constexpr std::string_view kKinds[] = {"cumulative", "instant", "average", "gauge"};
constexpr std::string_view kEstimators[] = {"best", "counter", "held", "trapezoid",
                                            "endpoint-mean"};
constexpr std::string_view kUnbounded[] = {"between_readings", "broken_counter", "few_updates",
                                           "counter_covers_part"};
static_assert(std::size(kReasons) == size_t{1} + static_cast<size_t>(PowerReason::kNotAsked) &&
              std::size(kKinds) == size_t{1} + static_cast<size_t>(ReadingKind::kGauge));

}  // namespace

std::span<const std::string_view> NamesOf(PowerReason) { return kReasons; }
std::span<const std::string_view> NamesOf(ReadingKind) { return kKinds; }
std::span<const std::string_view> NamesOf(EnergyEstimator) { return kEstimators; }

std::string_view PowerReasonName(PowerReason reason) {
  return kReasons[static_cast<size_t>(reason)];
}
std::string_view ReadingKindName(ReadingKind kind) { return kKinds[static_cast<size_t>(kind)]; }
std::string_view EnergyEstimatorName(EnergyEstimator estimator) {
  return kEstimators[static_cast<size_t>(estimator)];
}
std::optional<EnergyEstimator> EnergyEstimatorOf(std::string_view name) {
  EnergyEstimator named{};
  return json::FromJson(json::Json(name), &named) ? std::optional(named) : std::nullopt;
}
std::string_view UnboundedReasonName(EnergyLimits limits) {
  return kUnbounded[static_cast<size_t>(limits) -
                    static_cast<size_t>(EnergyLimits::kBetweenReadings)];
}

}  // namespace xplane_time
