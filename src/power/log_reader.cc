#include "power/log.h"

#include <fcntl.h>
#include <simdjson.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "io/gzip.h"
#include "io/whole_file.h"
#include "power/inventory.h"
#include "status.h"

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

  // A field of a row, by its type.
  void Read(const char* name, std::string* to) { *to = Text(name); }
  void Read(const char* name, bool* to) {
    if (const auto at = Find(name); at.has_value()) Check(at->get(*to));
  }
  void Read(const char* name, std::optional<int64_t>* to) { *to = Integer(name); }
  void Read(const char* name, uint64_t* to) {
    const int64_t value = Integer(name).value_or(0);
    if (value < 0) ok_ = false;
    *to = value < 0 ? 0 : static_cast<uint64_t>(value);
  }
  void Read(const char* name, std::optional<int32_t>* to) {
    const auto value = Integer(name);
    if (!value.has_value()) return;
    if (*value != static_cast<int32_t>(*value)) ok_ = false;
    *to = static_cast<int32_t>(*value);
  }
  // A kind that is not known is a gauge: nothing is integrated.
  void Read(const char* name, ReadingKind* to) {
    *to = ReadingKindOf(Text(name)).value_or(ReadingKind::kGauge);
  }
  void Read(const char* name, PowerReason* to) {
    *to = PowerReasonOf(Text(name)).value_or(PowerReason::kAbsent);
  }
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
    if (value <= -kLatestNs || value >= kLatestNs) ok_ = false;
    return value;
  }
  template <typename Row>
  std::vector<Row> Rows(std::string_view name) {
    std::vector<Row> rows;
    dom::array array;
    const auto at = Find(name);
    if (!at.has_value() || !Check(at->get(array))) return rows;
    for (const dom::element element : array) {
      dom::object object;
      if (!Check(element.get(object))) break;
      Fields fields(object);
      json::VisitFields(rows.emplace_back(),
                        [&](const char* field, auto& to) { fields.Read(field, &to); });
      ok_ &= fields.ok();
    }
    return rows;
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
  dom::object object_;
  bool ok_ = true;
};

std::optional<Clocks> ClocksOf(Fields* fields) {
  const auto object = fields->Object("clocks");
  if (!object.has_value()) return std::nullopt;
  Fields clocks(*object);
  Clocks found;
  bool fits = true;
  json::VisitFields(found, [&](const char* name, int64_t& to) {
    to = clocks.Integer(name).value_or(-1);
    fits &= to >= 0;
  });
  return fits && clocks.ok() ? std::optional(found) : std::nullopt;
}

class JsonLog {
 public:
  JsonLog(LogSink* sink, LogEnd* end) : sink_(sink), end_(end) {}

  absl::Status ReadHeader(const LogLine& line) {
    dom::object object;
    if (!Parse(line, &object)) {
      return DataLoss(PlaceOf(line), ": no header of a power log: no JSON object", kWayOut);
    }
    Fields fields(object);
    const std::string schema = fields.Text("schema");
    if (schema != kSchema) {
      const bool ours = schema.starts_with(kSchemaFamily);
      return DataLoss(PlaceOf(line), ": no header of a power log: schema \"", schema.substr(0, 64),
                      "\" is not ", kSchema,
                      ours ? "; read it with the version of xplane-time that wrote it" : kWayOut);
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
    header.inventory.devices = fields.Rows<PowerDevice>("devices");
    header.inventory.channels = fields.Rows<PowerChannel>("channels");
    header.inventory.absences = fields.Rows<PowerAbsence>("absent");
    if (!fields.ok()) {
      return DataLoss(PlaceOf(line),
                      ": a header with a field of a wrong type; record again, or mend the line");
    }
    channels_ = header.inventory.channels.size();
    sources_ = header.periods_ns.size();
    if (channels_ > kMostChannels) {
      return DataLoss(PlaceOf(line), ": ", channels_, " channels, more than ", kMostChannels,
                      "; record fewer sources");
    }
    sink_->Header(std::move(header));
    return absl::OkStatus();
  }

  // What is wrong with the line; empty: nothing.
  std::string_view Read(const LogLine& line) {
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

 private:
  bool Parse(const LogLine& line, dom::object* object) {
    // What follows the line in the buffer is the padding that the parser may read.
    return parser_.parse(line.text.data(), line.text.size(), /*realloc_if_needed=*/false)
               .get(*object) == simdjson::SUCCESS;
  }

  bool ReadReadings(int64_t t_ns, const dom::object& object, dom::element readings) {
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
  bool ReadReading(int64_t t_ns, dom::element element) {
    enum Place : size_t { kChannel, kStart, kDuration, kValue, kReason, kSampled, kPlaces };
    dom::array array;
    if (element.get(array) != simdjson::SUCCESS) return false;
    std::array<int64_t, kPlaces> numbers = {};
    std::array<bool, kPlaces> known = {};
    std::string_view reason;
    size_t count = 0;
    for (const dom::element each : array) {
      const size_t at = count++;
      if (at >= kPlaces || (at >= kValue && each.is_null())) continue;
      known[at] = (at == kReason ? each.get(reason) : each.get(numbers[at])) == simdjson::SUCCESS;
      if (!known[at]) return false;
    }
    const auto in_range = [](int64_t ns) { return ns > -kLatestNs && ns < kLatestNs; };
    if (count <= kValue || !std::all_of(numbers.begin(), numbers.end(), in_range)) return false;
    const int64_t before_ns = t_ns + numbers[kStart], after_ns = before_ns + numbers[kDuration];
    const int64_t sampled_ns = t_ns + numbers[kSampled];
    if (numbers[kChannel] < 0 || static_cast<size_t>(numbers[kChannel]) >= channels_ ||
        before_ns < 0 || !in_range(before_ns) || numbers[kDuration] < 0 || !in_range(after_ns) ||
        sampled_ns < 0 || !in_range(sampled_ns)) {
      return false;
    }
    Reading& reading = readings_.emplace_back();
    reading.channel = static_cast<uint32_t>(numbers[kChannel]);
    reading.before_ns = before_ns;
    reading.after_ns = after_ns;
    if (known[kSampled]) reading.sampled_ns = sampled_ns;
    if (known[kReason]) {  // one that this version does not know is still one
      reading.reason = PowerReasonOf(reason).value_or(PowerReason::kUnsupported);
    }
    if (reading.reason != PowerReason::kKnown) return true;
    if (known[kValue]) reading.value = numbers[kValue];
    if (!known[kValue]) reading.reason = PowerReason::kNoSamples;
    return true;
  }

  std::string_view ReadOther(int64_t t_ns, Fields* fields) {
    if (fields->Find("schema").has_value()) return "a second header";
    if (fields->Find("clocks").has_value()) {
      const auto clocks = ClocksOf(fields);
      if (!clocks.has_value()) return "clocks that are none";
      sink_->ClocksAt(t_ns, *clocks);
    } else if (const bool begins = fields->Find("begin").has_value();
               begins || fields->Find("end").has_value()) {
      if (!begins && fields->Find("end")->is_object()) {
        ReadEnd(t_ns, fields);
        return "";
      }
      const std::string window = fields->Text(begins ? "begin" : "end");
      if (!fields->ok()) return "a window whose name is no text";
      sink_->Mark(t_ns, window, !begins);
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

  void ReadGauge(int64_t t_ns, const std::string& name, int64_t value) {
    auto at = gauges_.find(name);
    if (at == gauges_.end()) {
      if (channels_ == kMostChannels) {
        sink_->Finding(t_ns,
                       {.code = "gauges_dropped", .message = "too many gauges; first: " + name});
        return;
      }
      at = gauges_.emplace(name, static_cast<uint32_t>(channels_++)).first;
      sink_->Channel({.source = "caller", .device = "", .domain = "", .quantity = name}, {});
    }
    const Reading reading = {at->second, t_ns, t_ns, value};
    sink_->Readings(sources_, t_ns, std::span(&reading, 1));
  }

  void ReadEnd(int64_t t_ns, Fields* fields) {
    const auto object = fields->Object("end");
    if (!object.has_value()) return;
    Fields end(*object);
    end_->complete = end.Text("reason") != kCannotWrite;
    end.Read("dropped", &end_->dropped);
    end_->write_error = end.Text("message");
    end_->readers = end.Rows<LogReader>("readers");
    sink_->End(t_ns);
  }

  LogSink* const sink_;
  LogEnd* const end_;
  dom::parser parser_{LogLines::kLongest};
  size_t channels_ = 0, sources_ = 0;
  absl::flat_hash_map<std::string, uint32_t> gauges_;  // the caller's, and their channels
  std::vector<Reading> readings_;
};

absl::StatusOr<LogEnd> ReadLines(LogLines* lines, LogSink* sink) {
  LogLine first;
  if (!lines->Next(&first)) {
    return DataLoss("line 1, byte 0: no header: the log is empty",
                    lines->damage().empty() ? "" : " (", lines->damage(),
                    lines->damage().empty() ? "" : ")", kWayOut);
  }
  auto end = LooksLikeNvidiaSmi(first.text) ? ReadNvidiaSmi(first, lines, sink)
                                            : ReadJsonLog(first, lines, sink);
  if (!end.ok()) return end;
  if (!lines->damage().empty()) end->cut = lines->damage();
  if (end->damaged_lines > 0 && end->used_lines == 0) {
    return DataLoss(end->first_damage, "; of ", end->lines,
                    " lines none below the header can be read");
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
  RETURN_IF_ERROR(log->ReadHeader(first));
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
  ASSIGN_OR_RETURN(const std::unique_ptr<LogLines> lines, LogLines::Open(path));
  return Named(path == "-" ? "standard input" : path, ReadLines(lines.get(), sink));
}

absl::StatusOr<LogEnd> ReadPowerLogText(std::string_view text, const std::string& name,
                                        LogSink* sink) {
  return Named(name, ReadLines(LogLines::FromMemory(text).get(), sink));
}

namespace {

constexpr size_t kChunk = size_t{1} << 18;

// The bytes of a gzip file, the next of them inflated while what came before is read: that takes
// as long as all the rest.
class ReadAhead {
 public:
  explicit ReadAhead(std::shared_ptr<GzipStream> stream) : stream_(std::move(stream)) { Fetch(); }

  size_t Fill(char* to, size_t size, std::string* damage) {
    if (given_ == now_.bytes.size() && next_.valid()) {
      now_ = next_.get();
      given_ = 0;
      if (!now_.bytes.empty()) Fetch();
    }
    if (!now_.damage.empty()) *damage = now_.damage;
    const size_t some = now_.bytes.copy(to, size, given_);
    given_ += some;
    return some;
  }

 private:
  struct Chunk {
    std::string bytes = {}, damage = {};  // no bytes: the end
  };
  void Fetch() {
    // Without another thread it is done when it is asked for.
    next_ = std::async([stream = stream_.get()] {
      Chunk chunk = {.bytes = std::string(2 * kChunk, '\0')};
      chunk.bytes.resize(stream->Fill(chunk.bytes.data(), chunk.bytes.size(), &chunk.damage));
      return chunk;
    });
  }

  const std::shared_ptr<GzipStream> stream_;
  Chunk now_;
  size_t given_ = 0;  // of now_
  std::future<Chunk> next_;
};

}  // namespace

LogLines::LogLines(Fill fill) : fill_(std::move(fill)), buffer_(2 * kChunk + kPadding) {}

absl::StatusOr<std::unique_ptr<LogLines>> LogLines::Open(const std::string& path) {
  const int fd = path == "-" ? dup(STDIN_FILENO) : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return io::IoError(path, "cannot open");
  struct stat info = {};
  const bool known = fstat(fd, &info) == 0;
  const bool device = S_ISBLK(info.st_mode) || (S_ISCHR(info.st_mode) && isatty(fd) == 0);
  if (known && (S_ISDIR(info.st_mode) || device)) {  // some devices have no end
    close(fd);
    return InvalidArgument(path, device ? ": is a device" : ": is a directory", "; give a log");
  }
  auto stream = std::make_shared<GzipStream>(fd);
  // A pipe is not read ahead: waiting for it has no end.
  if (S_ISREG(info.st_mode) && stream->is_gzip()) {
    return std::unique_ptr<LogLines>(new LogLines(
        [ahead = std::make_shared<ReadAhead>(std::move(stream))](
            char* to, size_t size, std::string* damage) { return ahead->Fill(to, size, damage); }));
  }
  return std::unique_ptr<LogLines>(
      new LogLines([stream](char* to, size_t size, std::string* damage) {
        return stream->Fill(to, size, damage);
      }));
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
