// Reads power logs: JSON Lines of this project, and nvidia-smi's CSV (nvidia_smi_log.cc).
//
// 1. LogLines splits the bytes of a file into lines in bounded memory. For gzip files, the next
//    chunk is inflated in another thread while the lines of the previous one are parsed.
// 2. A LogParser reads the header and then each line. JsonLog finds the members t, s and r of
//    a line of readings with a cursor, without building a document; they are nearly all lines of a
//    log. Other lines are parsed as JSON documents.
// 3. A line is validated completely before the sink sees it. Damaged lines are counted, and the
//    first one is located.
// 4. ReplayReader loads a log and returns its readings again with the original distances in time.
//
// Linear in the bytes of the log.
#include "power/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <future>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "io/gzip.h"
#include "io/whole_file.h"
#include "json/field.h"
#include "json/json_cursor.h"
#include "power/inventory.h"
#include "status.h"
#include "xplane_time/read.h"

namespace xplane_time::power {
namespace {

using json::Field, json::Json, json::JsonCursor, json::JsonType, json::JsonValue, json::kNeeded;

constexpr size_t kMostLevels = 1024;

constexpr std::string_view kSchema = "xplane-time.power-log.v1";
constexpr std::string_view kSchemaFamily = "xplane-time.power-log.";
constexpr char kReplay[] = "replay";  // a log used as a source
constexpr std::string_view kWayOut =
    "; expected a log of `xplane-time power record`, or output of nvidia-smi with --format=csv and "
    "timestamp";

bool InRange(int64_t value) { return value > -kLatestNs && value < kLatestNs; }

// Reads the members that are present. An unknown word belongs to a later version; its field keeps
// its default.
template <typename Row>
void ReadRows(const Field& owner, const char* name, std::vector<Row>* rows) {
  if (!owner.Has(name)) return;
  owner.At(name).Each([rows](const Field& row) {
    json::VisitFields(rows->emplace_back(), [&row](const char* member, auto& into) {
      const Field field = row.At(member);
      const Json& value = field.value();
      const bool is_word = std::is_enum_v<std::decay_t<decltype(into)>> && value.is_string();
      if (!is_word) row.Read(member, &into);
      if (is_word) json::FromJson(value, &into);
      if (!value.is_number()) return;
      field.Expect(InRange(json::ValueOf<int64_t>(value).value_or(kLatestNs)),
                   "between -2^62 and 2^62");
    });
  });
}

std::optional<Clocks> ClocksIn(const Json& object) {
  Clocks found;
  bool fits = json::FromJson(object, &found);
  json::VisitFields(found, [&](const char*, int64_t ns) { fits &= ns >= 0 && InRange(ns); });
  return fits ? std::optional(found) : std::nullopt;
}

class JsonLog : public LogParser {
 public:
  JsonLog(LogSink* sink, LogEnd* end) : sink_(sink), end_(end) {}

  absl::Status ReadHeader(const LogLine& line) override {
    const Json object = json::Parse(line.text, kMostLevels);
    if (!object.is_object()) {
      return DataLoss(PlaceOf(line), ": not the header of a power log: not a JSON object", kWayOut);
    }
    std::string wrong;
    const Field fields(object, &wrong);
    const std::string schema = json::TextOf(object, "schema").value_or("");
    if (schema != kSchema) {
      const bool ours = schema.starts_with(kSchemaFamily);
      return DataLoss(PlaceOf(line), ": not the header of a power log: schema \"",
                      schema.substr(0, 64), "\" is not ", kSchema,
                      ours ? "; read it with the version of xplane-time that wrote it" : kWayOut);
    }
    LogHeader header;
    fields.Read("t", &header.t_ns);
    fields.At("t").Expect(InRange(header.t_ns.value_or(0)), "between -2^62 and 2^62");
    if (const Json& clocks = fields.Object("clocks"); !clocks.empty()) {
      header.clocks = ClocksIn(clocks);
    }
    fields.Read("command", &header.command);
    const Json& machine = fields.Object("machine");
    header.machine_json = json::Dump(machine);
    header.host = json::TextOf(machine, "host").value_or("");
    for (const auto& [source, element] : fields.Object("periods_ns").items()) {
      const int64_t period_ns = json::ValueOf<int64_t>(element).value_or(0);
      header.periods_ns.emplace_back(source, std::clamp<int64_t>(period_ns, 0, kLatestNs));
    }
    ReadRows(fields, "devices", &header.inventory.devices);
    ReadRows(fields, "channels", &header.inventory.channels);
    ReadRows(fields, "absent", &header.inventory.absences);
    if (!fields.ok()) {
      return DataLoss(PlaceOf(line), ": the header has a field of the wrong type: ", wrong,
                      "; record again, or repair the line");
    }
    channels_ = header.inventory.channels.size();
    sources_ = header.periods_ns.size();
    if (channels_ > kMostChannels) {
      return DataLoss(PlaceOf(line), ": ", channels_, " channels, more than ", kMostChannels,
                      "; record fewer sources");
    }
    for (const auto& [source, period_ns] : header.periods_ns) source_names_.push_back(source);
    for (const PowerChannel& each : header.inventory.channels) {
      const auto at = std::ranges::find(source_names_, each.source);
      channel_sources_.push_back(static_cast<size_t>(at - source_names_.begin()));
    }
    sink_->Header(std::move(header));
    return absl::OkStatus();
  }

  std::string_view Read(const LogLine& line) override {
    if (line.too_long) return "the line is longer than 4 MiB";
    JsonValue t, source, readings;
    if (!ReadParts(line.text, &t, &source, &readings)) return "not a JSON object";
    int64_t t_ns = 0;
    if (!ReadWhole(t, &t_ns) || t_ns < 0 || t_ns >= kLatestNs) {
      return "the time `t` in nanoseconds is missing or invalid";
    }
    if (readings.type != JsonType::kNothing && !IsNull(readings)) {
      return ReadReadings(t_ns, source, readings);
    }
    const Json other = json::Parse(line.text, kMostLevels);
    if (!other.is_object()) return "not a JSON object";
    wrong_.clear();
    ReadOther(t_ns, Field(other, &wrong_));
    return wrong_;
  }

 private:
  // The first of several equal members counts. Returns false if the line is not a JSON object.
  static bool ReadParts(std::string_view line, JsonValue* t, JsonValue* source,
                        JsonValue* readings) {
    JsonCursor cursor(line);
    const bool is_object = cursor.ReadObject([&](std::string_view key) {
      JsonValue* const part = key == "t"   ? t
                              : key == "s" ? source
                              : key == "r" ? readings
                                           : nullptr;
      JsonValue ignored;
      const bool asked = part != nullptr && part->type == JsonType::kNothing;
      return cursor.ReadValue(asked ? part : &ignored);
    });
    return is_object && cursor.ReadEnd() && !cursor.irregular() &&
           (!cursor.any_not_ascii() || json::IsUtf8(line));
  }

  static bool IsNull(const JsonValue& value) {
    return value.type == JsonType::kWord && value.raw == "null";
  }

  static bool ReadWhole(const JsonValue& value, int64_t* number) {
    if (value.type != JsonType::kNumber) return false;
    const char* const end = value.raw.data() + value.raw.size();
    const auto [rest, error] = std::from_chars(value.raw.data(), end, *number);
    return error == std::errc() && rest == end;
  }

  // Returns what is wrong with the readings; empty if nothing is.
  std::string_view ReadReadings(int64_t t_ns, const JsonValue& source, const JsonValue& readings) {
    constexpr std::string_view kNone = "invalid readings";
    int64_t s = 0;
    if (!ReadWhole(source, &s) || s < 0 || static_cast<size_t>(s) >= sources_) return kNone;
    readings_.clear();
    JsonCursor cursor(readings.raw);
    if (!cursor.ReadArray([&] { return ReadReading(t_ns, &cursor); })) return kNone;
    const auto place = static_cast<size_t>(s);
    // A channel whose source has no period is accepted, because the header does not assign it.
    const auto is_of_source = [&](const Reading& each) {
      if (each.channel >= channel_sources_.size()) return false;  // a gauge of the caller
      const size_t own = channel_sources_[each.channel];
      return own == place || own == sources_;
    };
    // The source "replay" has the channels of the replayed log, which keep their sources.
    if (source_names_[place] != kReplay && !std::ranges::all_of(readings_, is_of_source)) {
      return "a reading with a channel of another source than the line's";
    }
    sink_->Readings(place, t_ns, readings_);
    return "";
  }

  // [channel, start - t, duration, value, reason, sampled - t]
  bool ReadReading(int64_t t_ns, JsonCursor* cursor) {
    enum Place : size_t { kChannel, kStart, kDuration, kValue, kReason, kSampled, kPlaces };
    std::array<int64_t, kPlaces> numbers = {};
    std::array<bool, kPlaces> known = {};
    std::string reason;
    size_t count = 0;
    const bool is_array = cursor->ReadArray([&] {
      const size_t at = count++;
      JsonValue value;
      if (!cursor->ReadValue(&value)) return false;
      if (at >= kPlaces || (at >= kValue && IsNull(value))) return true;
      if (at == kReason && value.type == JsonType::kText) reason = json::Unescaped(value.raw);
      known[at] = at == kReason ? value.type == JsonType::kText : ReadWhole(value, &numbers[at]);
      return known[at];
    });
    if (!is_array) return false;
    if (count <= kValue || !std::ranges::all_of(numbers, InRange)) return false;
    const int64_t before_ns = t_ns + numbers[kStart], after_ns = before_ns + numbers[kDuration];
    const int64_t sampled_ns = t_ns + numbers[kSampled];
    if (numbers[kChannel] < 0 || static_cast<size_t>(numbers[kChannel]) >= channels_ ||
        before_ns < 0 || !InRange(before_ns) || numbers[kDuration] < 0 || !InRange(after_ns) ||
        sampled_ns < 0 || !InRange(sampled_ns)) {
      return false;
    }
    Reading& reading = readings_.emplace_back();
    reading.channel = static_cast<uint32_t>(numbers[kChannel]);
    reading.before_ns = before_ns;
    reading.after_ns = after_ns;
    if (known[kSampled]) reading.sampled_ns = sampled_ns;
    if (known[kReason] && !json::FromJson(Json(reason), &reading.reason)) {
      reading.reason = PowerReason::kUnsupported;  // a reason of a later version
    }
    if (reading.reason != PowerReason::kKnown) return true;
    if (known[kValue]) reading.value = numbers[kValue];
    if (!known[kValue]) reading.reason = PowerReason::kNoSamples;
    return true;
  }

  // Reads the other kinds of lines, which are rare.
  void ReadOther(int64_t t_ns, const Field& line) {
    std::string name, message;
    if (line.Has("schema")) {
      line.At("schema").Error("a second header");
    } else if (line.Has("clocks")) {
      const auto clocks = ClocksIn(line.Object("clocks"));
      if (!clocks.has_value()) return line.At("clocks").Fail("clocks");
      sink_->ClocksAt(t_ns, *clocks);
    } else if (!line.Has("begin") && line.At("end")->is_object()) {
      ReadEnd(t_ns, line.At("end").value());
    } else if (line.Has("begin") || line.Has("end")) {
      const bool ends = !line.Has("begin");
      line.Read(ends ? "end" : "begin", &name);
      if (line.ok()) sink_->Mark(t_ns, name, ends);
    } else if (line.Has("gauge")) {
      Reading reading = {.before_ns = t_ns, .after_ns = t_ns};
      line.Read("gauge", &name);
      line.Read("value", &reading.value, line.Has("reason") ? json::kOptional : kNeeded);
      line.At("value").Expect(InRange(reading.value.value_or(0)), "between -2^62 and 2^62");
      if (!reading.value) reading.reason = PowerReason::kNoSamples;
      if (line.ok()) ReadGauge(t_ns, name, reading);
    } else if (line.Has("finding")) {
      line.Read("finding", &name);
      line.Read("message", &message);
      const auto source = json::TextOf(line.value(), "source");
      if (line.ok()) sink_->Finding(t_ns, name, source.value_or(""), message);
    }  // otherwise a kind of line that this version does not know
  }

  void ReadGauge(int64_t t_ns, const std::string& name, Reading reading) {
    auto at = gauges_.find(name);
    if (at == gauges_.end()) {
      if (channels_ == kMostChannels) {
        sink_->Finding(t_ns, "gauges_dropped", "", "too many gauges; first: " + name);
        return;
      }
      at = gauges_.emplace(name, static_cast<uint32_t>(channels_++)).first;
      sink_->Channel({.source = "caller", .device = "", .domain = "", .quantity = name}, {});
    }
    reading.channel = at->second;
    sink_->Readings(sources_, t_ns, std::span(&reading, 1));
  }

  void ReadEnd(int64_t t_ns, const Json& object) {
    std::string ignored;
    ReadRows(Field(object, &ignored), "readers", &end_->readers);
    end_->complete = json::TextOf(object, "reason") != kCannotWrite;
    const int64_t dropped = json::WholeOf(object, "dropped").value_or(0);
    end_->dropped = static_cast<uint64_t>(std::clamp<int64_t>(dropped, 0, kLatestNs));
    end_->write_error = json::TextOf(object, "message").value_or("");
    sink_->End(t_ns);
  }

  LogSink* const sink_;
  LogEnd* const end_;
  size_t channels_ = 0, sources_ = 0;
  std::vector<std::string> source_names_;  // in the header
  std::vector<size_t> channel_sources_;  // by channel: index of its source; sources_ if it has none
  absl::flat_hash_map<std::string, uint32_t> gauges_;  // the caller's gauges, and their channels
  std::vector<Reading> readings_;
  std::string wrong_;  // describes the error of the last line
};

absl::StatusOr<LogEnd> ReadLines(LogLines* lines, LogSink* sink) {
  LogLine line;
  if (!lines->Next(&line)) {
    return DataLoss("line 1, byte 0: no header; the log is empty",
                    lines->damage().empty() ? "" : " (", lines->damage(),
                    lines->damage().empty() ? "" : ")", kWayOut);
  }
  LogEnd end;
  std::unique_ptr<LogParser> log = NewNvidiaSmiParser(line.text, sink);
  const bool is_csv = log != nullptr;
  if (!is_csv) log = std::make_unique<JsonLog>(sink, &end);
  RETURN_IF_ERROR(log->ReadHeader(line));
  end.lines = 1;
  while (lines->Next(&line)) {
    ++end.lines;
    if (is_csv && !line.too_long && Trimmed(line.text).empty()) continue;
    const std::string_view wrong = log->Read(line);
    if (wrong.empty()) {
      ++end.used_lines;
    } else if (!line.whole) {
      end.cut = Cat("the last line is truncated (", PlaceOf(line), ")");
    } else if (end.damaged_lines++ == 0) {
      end.first_damage = Cat(PlaceOf(line), ": ", wrong);
    }
  }
  if (!lines->damage().empty()) end.cut = lines->damage();
  if (is_csv) end.complete = end.cut.empty();  // CSV has no line that marks the end
  if (end.damaged_lines > 0 && end.used_lines == 0) {
    return DataLoss(end.first_damage, "; none of the ", end.lines,
                    " lines below the header can be read", lines->damage().empty() ? "" : "; ",
                    lines->damage());
  }
  return end;
}

absl::StatusOr<LogEnd> ReadLines(LogLines* lines, const std::string& name, LogSink* sink) {
  auto end = ReadLines(lines, sink);
  if (end.ok()) return end;
  return absl::Status(end.status().code(), Cat(name, ": ", end.status().message()));
}

// A recorded log as a source: its readings come again, with the original distances in time.

constexpr size_t kMostReadings = 20'000'000;
constexpr int64_t kUsualPeriodNs = 50'000'000;

class ReplayReader : public Reader, private LogSink {
 public:
  ReplayReader() : Reader(kReplay, /*default_period_ns=*/0) {}

  // Loads the whole log into memory.
  absl::Status Load(const std::string& log_path) {
    RETURN_IF_ERROR(ReadPowerLog(log_path, this).status());
    if (too_many_) {
      return ResourceExhausted(log_path, ": more than ", kMostReadings,
                               " readings; use a shorter log as a source");
    }
    if (default_period_ns_ <= 0) default_period_ns_ = kUsualPeriodNs;
    std::ranges::stable_sort(recorded_, {}, &Reading::before_ns);
    return absl::OkStatus();
  }

  PowerInventory Discover() override { return inventory_; }

  void Read(bool, std::vector<Reading>* readings) override {
    if (recorded_.empty()) return;
    const int64_t now_ns = MonotonicNow();
    if (!shift_ns_.has_value()) shift_ns_ = now_ns - recorded_.front().after_ns;
    for (; next_ < recorded_.size(); ++next_) {
      Reading reading = recorded_[next_];
      reading.before_ns += *shift_ns_;
      reading.after_ns += *shift_ns_;
      if (reading.sampled_ns.has_value()) *reading.sampled_ns += *shift_ns_;
      if (reading.after_ns > now_ns) return;
      readings->push_back(reading);
    }
  }

 private:
  void Header(LogHeader header) override {
    inventory_ = std::move(header.inventory);
    for (const auto& [source, period_ns] : header.periods_ns) {
      default_period_ns_ =
          default_period_ns_ == 0 ? period_ns : std::min(default_period_ns_, period_ns);
    }
  }
  void Channel(PowerChannel channel, PowerDevice device) override {
    inventory_.channels.push_back(std::move(channel));
    if (!device.id.empty()) inventory_.devices.push_back(std::move(device));
  }
  void Readings(size_t, int64_t, std::span<const Reading> pass) override {
    too_many_ = too_many_ || recorded_.size() + pass.size() > kMostReadings;
    if (!too_many_) recorded_.insert(recorded_.end(), pass.begin(), pass.end());
  }

  PowerInventory inventory_;
  std::vector<Reading> recorded_;
  bool too_many_ = false;
  std::optional<int64_t> shift_ns_;  // from the recorded time to the current time
  size_t next_ = 0;
};

}  // namespace

std::string PlaceOf(const LogLine& line) {
  return absl::StrCat("line ", line.number, ", byte ", line.byte);
}

absl::StatusOr<LogEnd> ReadPowerLog(const std::string& path, LogSink* sink) {
  ASSIGN_OR_RETURN(const auto lines, LogLines::Open(path));
  return ReadLines(lines.get(), path == "-" ? "standard input" : path, sink);
}

absl::StatusOr<LogEnd> ReadPowerLogText(std::string_view text, const std::string& name,
                                        LogSink* sink) {
  LogLines lines(
      [text]() mutable { return LogLines::Chunk{std::string(std::exchange(text, {}))}; });
  return ReadLines(&lines, name, sink);
}

LogLines::LogLines(std::function<Chunk()> next)
    : next_(std::move(next)), text_(std::make_unique_for_overwrite<char[]>(kLongest + 1)) {}

absl::StatusOr<std::unique_ptr<LogLines>> LogLines::Open(const std::string& path) {
  io::Descriptor file(path == "-" ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info = {};
  if (!file.open() || fstat(file.get(), &info) != 0) return io::IoError(path, "cannot open");
  const bool device = S_ISBLK(info.st_mode) || (S_ISCHR(info.st_mode) && isatty(file.get()) == 0);
  if (S_ISDIR(info.st_mode) || device) {  // some devices have no end
    return InvalidArgument(path, device ? ": this is a device" : ": this is a directory",
                           "; expected a log");
  }
  const auto stream = std::make_shared<GzipStream>(std::move(file));
  const auto next = [stream] {
    constexpr size_t kBytes = size_t{1} << 19;
    const uint64_t ratio = ReadOptions().max_gzip_ratio;
    Chunk chunk = {.bytes = std::string(kBytes, '\0')};
    chunk.bytes.resize(stream->Fill(chunk.bytes.data(), kBytes, &chunk.damage));
    if (stream->made() > std::max(kAlwaysInflated, stream->used() * ratio)) {
      return Chunk{.damage = Cat("it decompresses to more than ", ratio,
                                 " times its size; if it is a valid log, decompress it first")};
    }
    return chunk;
  };
  // Pipes are not read ahead: waiting for a pipe may never end.
  if (!S_ISREG(info.st_mode) || !stream->is_gzip()) return std::make_unique<LogLines>(next);
  // The next chunk is inflated while the previous one is parsed, because inflating takes as long as
  // the rest. Without another thread, it is inflated on demand.
  return std::make_unique<LogLines>([next, ahead = std::async(next).share()]() mutable {
    Chunk now = ahead.get();
    if (!now.bytes.empty()) ahead = std::async(next).share();
    return now;
  });
}

LogLines::int_type LogLines::underflow() {
  now_ = next_();
  if (!now_.damage.empty()) damage_ = now_.damage;
  char* const begin = now_.bytes.data();
  setg(begin, begin, begin + now_.bytes.size());
  return now_.bytes.empty() ? traits_type::eof() : traits_type::to_int_type(*begin);
}

bool LogLines::Next(LogLine* line) {
  if (!stream_.good()) return false;
  stream_.getline(text_.get(), kLongest + 1);
  auto used = static_cast<size_t>(stream_.gcount());  // including its line feed
  if (used == 0) return false;
  const bool too_long = stream_.fail();
  if (too_long) {
    stream_.clear();
    stream_.ignore(kMostSkipped, '\n');
    used += static_cast<size_t>(stream_.gcount());
    if (stream_.gcount() == kMostSkipped) {
      stream_.setstate(std::ios::eofbit);
      damage_ = "a line is longer than 64 MiB; it and all following lines are skipped";
    }
  }
  const bool whole = !stream_.eof();
  const size_t length = too_long ? 0 : used - (whole ? 1 : 0);
  *line = {{text_.get(), length}, ++number_, byte_, whole, too_long};
  byte_ += used;
  return true;
}

absl::StatusOr<std::unique_ptr<Reader>> NewReplayReader(const std::string& log_path) {
  // The whole log is read before recording begins, and a pipe may never end.
  struct stat info = {};
  const bool there =
      (log_path == "-" ? fstat(STDIN_FILENO, &info) : stat(log_path.c_str(), &info)) == 0;
  if (there && !S_ISREG(info.st_mode)) {
    return InvalidArgument("replay:", log_path,
                           ": not a regular file; write the log of a pipe to a file first");
  }
  auto reader = std::make_unique<ReplayReader>();
  RETURN_IF_ERROR(reader->Load(log_path));
  return reader;
}

}  // namespace xplane_time::power
