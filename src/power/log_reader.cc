#include "power/log_reader.h"

#include <fcntl.h>
#include <simdjson.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "power/gzip_stream.h"
#include "power/log_writer.h"
#include "power/read_ahead.h"

namespace xplane_time::power {
namespace {

namespace dom = simdjson::dom;

constexpr std::string_view kSchema = "xplane-time.power-log.v1";
constexpr std::string_view kSchemaFamily = "xplane-time.power-log.";
constexpr std::string_view kWayOut =
    "; `xplane-time power record` writes logs, nvidia-smi's need --format=csv with timestamp";

// What is asked of a line's fields; a wrong type spoils the line.
class Fields {
 public:
  explicit Fields(const dom::object& object) : object_(object) {}
  bool ok() const { return ok_; }

  std::string Text(std::string_view name) {
    std::string_view text;
    if (const auto at = Find(name); at.has_value()) Check(at->get(text));
    return std::string(text);
  }
  std::optional<int64_t> Integer(std::string_view name) {
    const auto at = Find(name);
    if (!at.has_value()) return std::nullopt;
    int64_t value = 0;
    Check(at->get(value));
    return InRange(value);
  }
  int64_t IntegerOr(std::string_view name, int64_t otherwise) {
    return Integer(name).value_or(otherwise);
  }
  uint64_t Count(std::string_view name) {
    const int64_t value = IntegerOr(name, 0);
    if (value < 0) ok_ = false;
    return value < 0 ? 0 : static_cast<uint64_t>(value);
  }
  std::optional<int32_t> Small(std::string_view name) {
    const auto value = Integer(name);
    if (!value.has_value()) return std::nullopt;
    if (*value != static_cast<int32_t>(*value)) ok_ = false;
    return static_cast<int32_t>(*value);
  }
  bool Flag(std::string_view name) {
    bool value = false;
    if (const auto at = Find(name); at.has_value()) Check(at->get(value));
    return value;
  }
  // `use(fields)` for each object of the array.
  template <typename Use>
  void Each(std::string_view name, Use use) {
    const auto at = Find(name);
    if (!at.has_value()) return;
    dom::array array;
    if (!Check(at->get(array))) return;
    for (const dom::element element : array) {
      dom::object object;
      if (!Check(element.get(object))) return;
      Fields fields(object);
      use(&fields);
      if (!fields.ok()) ok_ = false;
    }
  }
  // Absent and null are the same.
  std::optional<dom::element> Find(std::string_view name) {
    dom::element element;
    if (object_[name].get(element) != simdjson::SUCCESS || element.is_null()) return std::nullopt;
    return element;
  }
  std::optional<dom::object> Object(std::string_view name) {
    const auto at = Find(name);
    dom::object object;
    if (!at.has_value() || !Check(at->get(object))) return std::nullopt;
    return object;
  }

 private:
  bool Check(simdjson::error_code error) {
    if (error != simdjson::SUCCESS) ok_ = false;
    return error == simdjson::SUCCESS;
  }
  int64_t InRange(int64_t value) {
    if (value <= -kLatestNs || value >= kLatestNs) ok_ = false;
    return value;
  }

  dom::object object_;
  bool ok_ = true;
};

PowerDevice DeviceOf(Fields* fields) {
  PowerDevice device;
  device.id = fields->Text("id");
  device.name = fields->Text("name");
  device.source = fields->Text("source");
  device.index = fields->Small("index");
  device.ordinal = fields->Small("ordinal");
  device.pci_bus_id = fields->Text("pci_bus_id");
  device.driver = fields->Text("driver");
  device.mig = fields->Flag("mig");
  device.shared = fields->Flag("shared");
  device.note = fields->Text("note");
  return device;
}

PowerChannel ChannelOf(Fields* fields) {
  PowerChannel channel;
  channel.source = fields->Text("source");
  channel.device = fields->Text("device");
  channel.domain = fields->Text("domain");
  channel.quantity = fields->Text("quantity");
  // A kind that is not known is a gauge: nothing is integrated.
  channel.kind = ReadingKindOf(fields->Text("kind")).value_or(ReadingKind::kGauge);
  channel.slow = fields->Flag("slow");
  channel.in_total = fields->Flag("in_total");
  channel.wrap_range = fields->Integer("wrap_range");
  channel.max_plausible_mw = fields->Integer("max_plausible_mw");
  channel.prior_period_ns = fields->Integer("prior_period_ns");
  channel.prior_window_ns = fields->Integer("prior_window_ns");
  channel.note = fields->Text("note");
  return channel;
}

PowerAbsence AbsenceOf(Fields* fields) {
  PowerAbsence absence;
  absence.source = fields->Text("source");
  absence.what = fields->Text("what");
  absence.reason = PowerReasonOf(fields->Text("reason")).value_or(PowerReason::kAbsent);
  absence.message = fields->Text("message");
  absence.fix = fields->Text("fix");
  return absence;
}

std::optional<Clocks> ClocksOf(Fields* fields) {
  const auto object = fields->Object("clocks");
  if (!object.has_value()) return std::nullopt;
  Fields clocks(*object);
  const auto monotonic = clocks.Integer("monotonic_ns");
  const auto realtime = clocks.Integer("realtime_ns");
  const auto boottime = clocks.Integer("boottime_ns");
  if (!clocks.ok() || !monotonic || !realtime || !boottime) return std::nullopt;
  if (*monotonic < 0 || *realtime < 0 || *boottime < 0) return std::nullopt;
  return Clocks{*monotonic, *realtime, *boottime};
}

class JsonLog {
 public:
  JsonLog(LogSink* sink, LogEnd* end) : sink_(sink), end_(end) {}

  absl::Status ReadHeader(const LogLine& line);
  // What is wrong with the line; empty: nothing.
  std::string_view Read(const LogLine& line);

 private:
  bool Parse(const LogLine& line, dom::object* object);
  bool ReadReadings(int64_t t_ns, const dom::object& object, dom::element readings);
  bool ReadReading(int64_t t_ns, dom::element element);
  std::string_view ReadOther(int64_t t_ns, Fields* fields);
  void ReadGauge(int64_t t_ns, const std::string& name, int64_t value);
  void ReadEnd(int64_t t_ns, Fields* fields);

  LogSink* const sink_;
  LogEnd* const end_;
  dom::parser parser_{LogLines::kLongest};
  size_t channels_ = 0, sources_ = 0;
  absl::flat_hash_map<std::string, uint32_t> gauges_;  // the caller's, and their channels
  std::vector<Reading> readings_;
};

bool JsonLog::Parse(const LogLine& line, dom::object* object) {
  // What follows the line in the buffer is the padding that the parser may read.
  return parser_.parse(line.text.data(), line.text.size(), /*realloc_if_needed=*/false)
             .get(*object) == simdjson::SUCCESS;
}

absl::Status JsonLog::ReadHeader(const LogLine& line) {
  dom::object object;
  if (!Parse(line, &object)) {
    return absl::DataLossError(absl::StrCat(
        PlaceOf(line), ": no header of a power log: no JSON object", std::string(kWayOut)));
  }
  Fields fields(object);
  const std::string schema = fields.Text("schema");
  if (schema != kSchema) {
    const bool ours = schema.starts_with(kSchemaFamily);
    return absl::DataLossError(absl::StrCat(
        PlaceOf(line), ": no header of a power log: schema \"", schema.substr(0, 64), "\" is not ",
        std::string(kSchema),
        ours ? "; read it with the version of xplane-time that wrote it" : std::string(kWayOut)));
  }
  LogHeader header;
  header.t_ns = fields.Integer("t");
  header.clocks = ClocksOf(&fields);
  header.command = fields.Text("command");
  if (const auto machine = fields.Object("machine"); machine.has_value()) {
    header.machine_json = simdjson::minify(*machine);
    header.host = Fields(*machine).Text("host");
  }
  if (const auto periods = fields.Object("periods_ns"); periods.has_value()) {
    for (const auto& [source, element] : *periods) {
      int64_t period_ns = 0;
      if (element.get(period_ns) != simdjson::SUCCESS || period_ns < 0) period_ns = 0;
      header.periods_ns.emplace_back(source, std::min(period_ns, kLatestNs));
    }
  }
  auto& inventory = header.inventory;
  fields.Each("devices", [&](Fields* each) { inventory.devices.push_back(DeviceOf(each)); });
  fields.Each("channels", [&](Fields* each) { inventory.channels.push_back(ChannelOf(each)); });
  fields.Each("absent", [&](Fields* each) { inventory.absences.push_back(AbsenceOf(each)); });
  if (!fields.ok()) {
    return absl::DataLossError(absl::StrCat(
        PlaceOf(line), ": a header with a field of a wrong type; record again, or mend the line"));
  }
  channels_ = inventory.channels.size();
  sources_ = header.periods_ns.size();
  if (channels_ > kMostChannels) {
    return absl::DataLossError(absl::StrCat(PlaceOf(line), ": ", channels_, " channels, more than ",
                                            kMostChannels, "; record fewer sources"));
  }
  sink_->Header(std::move(header));
  return absl::OkStatus();
}

std::string_view JsonLog::Read(const LogLine& line) {
  if (line.too_long) return "longer than 4 MiB";
  dom::object object;
  if (!Parse(line, &object)) return "no JSON object";
  Fields fields(object);
  const auto t_ns = fields.Integer("t");
  if (!fields.ok() || !t_ns.has_value() || *t_ns < 0) return "no time `t` in nanoseconds";
  if (const auto readings = fields.Find("r"); readings.has_value()) {
    return ReadReadings(*t_ns, object, *readings) ? "" : "readings that are none";
  }
  return ReadOther(*t_ns, &fields);
}

bool JsonLog::ReadReadings(int64_t t_ns, const dom::object& object, dom::element readings) {
  int64_t s = 0;
  dom::array array;
  if (object["s"].get(s) != simdjson::SUCCESS || s < 0 || static_cast<size_t>(s) >= sources_ ||
      readings.get(array) != simdjson::SUCCESS) {
    return false;
  }
  readings_.clear();
  for (const dom::element element : array) {
    if (!ReadReading(t_ns, element)) return false;
  }
  sink_->Readings(static_cast<size_t>(s), t_ns, readings_);
  return true;
}

// [channel, start - t, duration, value, reason, sampled - t]
bool JsonLog::ReadReading(int64_t t_ns, dom::element element) {
  dom::array array;
  if (element.get(array) != simdjson::SUCCESS) return false;
  uint64_t channel = 0;
  int64_t start = 0, duration = 0, value = 0, sampled = 0;
  Reading& reading = readings_.emplace_back();
  size_t at = 0;
  const auto in_range = [](int64_t ns) { return ns > -kLatestNs && ns < kLatestNs; };
  for (const dom::element each : array) {
    simdjson::error_code error = simdjson::SUCCESS;
    switch (at++) {
      case 0:
        error = each.get(channel);
        if (channel >= channels_) return false;
        reading.channel = static_cast<uint32_t>(channel);
        break;
      case 1:
        error = each.get(start);
        if (!in_range(start) || !in_range(t_ns + start) || t_ns + start < 0) return false;
        reading.before_ns = t_ns + start;
        break;
      case 2:
        error = each.get(duration);
        if (duration < 0 || !in_range(duration)) return false;
        reading.after_ns = reading.before_ns + duration;
        if (!in_range(reading.after_ns)) return false;
        break;
      case 3:
        if (each.is_null()) break;
        error = each.get(value);
        if (!in_range(value)) return false;
        reading.value = value;
        break;
      case 4: {
        if (each.is_null()) break;
        std::string_view name;
        error = each.get(name);
        // A reason that this version does not know is still one.
        reading.reason = PowerReasonOf(name).value_or(PowerReason::kUnsupported);
        break;
      }
      case 5:
        if (each.is_null()) break;
        error = each.get(sampled);
        if (!in_range(sampled) || t_ns + sampled < 0 || !in_range(t_ns + sampled)) return false;
        reading.sampled_ns = t_ns + sampled;
        break;
      default:
        break;
    }
    if (error != simdjson::SUCCESS) return false;
  }
  if (at < 4) return false;
  if (reading.reason != PowerReason::kKnown) reading.value.reset();
  if (!reading.value.has_value() && reading.reason == PowerReason::kKnown) {
    reading.reason = PowerReason::kNoSamples;
  }
  return true;
}

std::string_view JsonLog::ReadOther(int64_t t_ns, Fields* fields) {
  if (fields->Find("schema").has_value()) return "a second header";
  if (fields->Find("clocks").has_value()) {
    const auto clocks = ClocksOf(fields);
    if (!clocks.has_value()) return "clocks that are none";
    sink_->ClocksAt(t_ns, *clocks);
  } else if (fields->Find("begin").has_value()) {
    const std::string window = fields->Text("begin");
    if (!fields->ok()) return "a window whose name is no text";
    sink_->Mark(t_ns, window, /*end=*/false);
  } else if (fields->Find("end").has_value()) {
    if (fields->Find("end")->is_object()) {
      ReadEnd(t_ns, fields);
    } else {
      const std::string window = fields->Text("end");
      if (!fields->ok()) return "a window whose name is no text";
      sink_->Mark(t_ns, window, /*end=*/true);
    }
  } else if (fields->Find("gauge").has_value()) {
    const std::string name = fields->Text("gauge");
    const auto value = fields->Integer("value");
    if (!fields->ok() || !value.has_value()) return "a gauge without a name or an integer";
    ReadGauge(t_ns, name, *value);
  } else if (fields->Find("finding").has_value()) {
    PowerFinding finding;
    finding.code = fields->Text("finding");
    finding.message = fields->Text("message");
    if (!fields->ok()) return "a finding that is no text";
    if (const std::string source = fields->Text("source"); !source.empty()) {
      finding.message = absl::StrCat(source, ": ", finding.message);
    }
    sink_->Finding(t_ns, std::move(finding));
  }
  return "";  // also a kind of line that this version does not know
}

void JsonLog::ReadGauge(int64_t t_ns, const std::string& name, int64_t value) {
  auto at = gauges_.find(name);
  if (at == gauges_.end()) {
    if (channels_ == kMostChannels) {
      sink_->Finding(t_ns,
                     {.code = "gauges_dropped", .message = "too many gauges; first: " + name});
      return;
    }
    at = gauges_.emplace(name, static_cast<uint32_t>(channels_++)).first;
    PowerChannel channel;
    channel.source = "caller";
    channel.quantity = name;
    sink_->Channel(std::move(channel), {});
  }
  Reading reading;
  reading.channel = at->second;
  reading.before_ns = reading.after_ns = t_ns;
  reading.value = value;
  sink_->Readings(sources_, t_ns, std::span(&reading, 1));
}

void JsonLog::ReadEnd(int64_t t_ns, Fields* fields) {
  const auto object = fields->Object("end");
  if (!object.has_value()) return;
  Fields end(*object);
  end_->complete = end.Text("reason") != kCannotWrite;
  end_->dropped = end.Count("dropped");
  end_->write_error = end.Text("message");
  end_->readers.clear();
  end.Each("readers", [&](Fields* each) {
    LogReader reader;
    reader.source = each->Text("source");
    reader.reads = each->Count("reads");
    reader.missed = each->Count("missed");
    reader.own_cpu_ns = each->Integer("own_cpu_ns");
    reader.hung = each->Flag("hung");
    end_->readers.push_back(std::move(reader));
  });
  sink_->End(t_ns);
}

absl::StatusOr<LogEnd> ReadLines(LogLines* lines, LogSink* sink) {
  LogLine first;
  if (!lines->Next(&first)) {
    return absl::DataLossError(absl::StrCat(
        "line 1, byte 0: no header: the log is empty", lines->damage().empty() ? "" : " (",
        lines->damage(), lines->damage().empty() ? "" : ")", std::string(kWayOut)));
  }
  auto end = LooksLikeNvidiaSmi(first.text) ? ReadNvidiaSmi(first, lines, sink)
                                            : ReadJsonLog(first, lines, sink);
  if (!end.ok()) return end;
  if (!lines->damage().empty()) end->cut = lines->damage();
  if (end->damaged_lines > 0 && end->used_lines == 0) {
    return absl::DataLossError(absl::StrCat(end->first_damage, "; of ", end->lines,
                                            " lines none below the header can be read"));
  }
  return end;
}

absl::StatusOr<LogEnd> Named(const std::string& name, absl::StatusOr<LogEnd> end) {
  if (end.ok()) return end;
  return absl::Status(end.status().code(), absl::StrCat(name, ": ", end.status().message()));
}

}  // namespace

std::string PlaceOf(const LogLine& line) {
  return absl::StrCat("line ", line.number, ", byte ", line.byte);
}

void Count(const LogLine& line, std::string_view wrong, LogEnd* end) {
  if (wrong.empty()) {
    ++end->used_lines;
  } else if (end->damaged_lines++ == 0) {
    end->first_damage = absl::StrCat(PlaceOf(line), ": ", std::string(wrong));
  }
}

absl::StatusOr<LogEnd> ReadJsonLog(const LogLine& first, LogLines* lines, LogSink* sink) {
  LogEnd end;
  const auto log = std::make_unique<JsonLog>(sink, &end);
  if (absl::Status status = log->ReadHeader(first); !status.ok()) return status;
  LogLine line = first;
  end.lines = 1;
  while (!sink->Full() && lines->Next(&line)) {
    ++end.lines;
    const std::string_view wrong = log->Read(line);
    if (wrong.empty() || line.whole) {
      Count(line, wrong, &end);
    } else {
      end.cut = absl::StrCat("the last line is cut (", PlaceOf(line), ")");
    }
  }
  return end;
}

absl::StatusOr<LogEnd> ReadPowerLog(const std::string& path, LogSink* sink) {
  auto lines = LogLines::Open(path);
  if (!lines.ok()) return lines.status();
  return Named(path == "-" ? "standard input" : path, ReadLines(lines->get(), sink));
}

absl::StatusOr<LogEnd> ReadPowerLogText(std::string_view text, const std::string& name,
                                        LogSink* sink) {
  return Named(name, ReadLines(LogLines::FromMemory(text).get(), sink));
}

namespace {

constexpr size_t kChunk = size_t{1} << 18;

absl::Status OpenError(const std::string& path) {
  const std::string message = absl::StrCat(path, ": cannot open: ", std::strerror(errno));
  switch (errno) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

}  // namespace

LogLines::LogLines(Fill fill) : fill_(std::move(fill)), buffer_(2 * kChunk + kPadding) {}

absl::StatusOr<std::unique_ptr<LogLines>> LogLines::Open(const std::string& path) {
  const int fd = path == "-" ? dup(STDIN_FILENO) : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return OpenError(path);
  struct stat info = {};
  const bool known = fstat(fd, &info) == 0;
  const bool device = S_ISBLK(info.st_mode) || (S_ISCHR(info.st_mode) && isatty(fd) == 0);
  if (known && (S_ISDIR(info.st_mode) || device)) {  // some devices have no end
    close(fd);
    return absl::InvalidArgumentError(
        absl::StrCat(path, device ? ": is a device" : ": is a directory", "; give a log"));
  }
  auto stream = std::make_shared<GzipStream>(fd);
  Fill fill = [stream](char* to, size_t size, std::string* damage) {
    return stream->Fill(to, size, damage);
  };
  // Inflating takes as long as all the rest. A pipe is not read ahead: waiting for it has no end.
  if (S_ISREG(info.st_mode) && stream->is_gzip()) {
    try {
      fill = [ahead = std::make_shared<ReadAhead>(fill)](char* to, size_t size,
                                                         std::string* damage) {
        return ahead->Fill(to, size, damage);
      };
    } catch (const std::system_error&) {  // no more threads
    }
  }
  return std::unique_ptr<LogLines>(new LogLines(std::move(fill)));
}

std::unique_ptr<LogLines> LogLines::FromMemory(std::string_view bytes) {
  return std::unique_ptr<LogLines>(
      new LogLines([bytes](char* to, size_t size, std::string*) mutable {
        const size_t some = std::min(size, bytes.size());
        std::copy_n(bytes.data(), some, to);
        bytes.remove_prefix(some);
        return some;
      }));
}

// Appends to the buffer; what was given out is forgotten.
bool LogLines::More() {
  if (at_end_) return false;
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() < end_ + kChunk + kPadding) buffer_.resize(2 * buffer_.size());
  const size_t got = fill_(buffer_.data() + end_, kChunk, &damage_);
  end_ += got;
  at_end_ = got == 0;
  return got > 0;
}

bool LogLines::Next(LogLine* line) {
  size_t searched = 0;
  uint64_t skipped = 0;  // of a line that is too long
  for (;;) {
    const void* feed =
        std::memchr(buffer_.data() + begin_ + searched, '\n', end_ - begin_ - searched);
    if (feed == nullptr) {
      searched = end_ - begin_;
      if (searched > kLongest) {
        skipped += searched;
        begin_ = end_ = searched = 0;
        if (skipped > kMostSkipped) {
          at_end_ = true;
          damage_ = "a line has over 64 MiB: it and what follows are not read";
        }
      }
      if (More()) continue;
      if (searched == 0 && skipped == 0) return false;
    }
    const char* const from = buffer_.data() + begin_;
    const size_t length =
        feed == nullptr ? searched : static_cast<size_t>(static_cast<const char*>(feed) - from);
    *line = {.text = skipped > 0 ? std::string_view() : std::string_view(from, length),
             .number = ++number_,
             .byte = byte_,
             .whole = feed != nullptr,
             .too_long = skipped > 0};
    const size_t used = length + (feed != nullptr ? 1 : 0);
    begin_ += used;
    byte_ += skipped + used;
    return true;
  }
}

}  // namespace xplane_time::power
