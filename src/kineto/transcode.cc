#include "kineto/transcode.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "devices/gpu_runs/host_ranges.h"
#include "devices/power_counters.h"
#include "json/json_cursor.h"
#include "kineto/event_walk.h"
#include "kineto/microseconds.h"
#include "read_ahead.h"
#include "saturate.h"
#include "scratch.h"
#include "status.h"
#include "xplane_time/normalize.h"

namespace xplane_time::kineto {
namespace {

using gpu_runs::kInRangesStat, gpu_runs::kModuleStat, gpu_runs::kProcessRangeStat,
    gpu_runs::kThreadRangeStat;

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::string_view kCalls = "python_function";
constexpr uint32_t kMetadataId = 1, kOffsetPs = 2, kDurationPs = 3, kStats = 4;  // of an XEvent

enum class Group : uint8_t { kKernel, kCopy, kOnDevice, kLaunch, kHost };
bool IsExecution(Group group) { return group == Group::kKernel || group == Group::kCopy; }

// Capitals: as of 2021.
constexpr std::pair<std::string_view, Group> kGroups[] = {{"kernel", Group::kKernel},
                                                          {"gpu_memcpy", Group::kCopy},
                                                          {"gpu_memset", Group::kCopy},
                                                          {"Kernel", Group::kKernel},
                                                          {"Memcpy", Group::kCopy},
                                                          {"Memset", Group::kCopy},
                                                          {"gpu_user_annotation", Group::kOnDevice},
                                                          {"cuda_sync", Group::kOnDevice},
                                                          {"cuda_event", Group::kOnDevice},
                                                          {"graph_event_node", Group::kOnDevice},
                                                          {"graph_host_node", Group::kOnDevice},
                                                          {"Runtime", Group::kLaunch}};

Group GroupOf(std::string_view category) {
  const auto* const found =
      std::ranges::find(kGroups, category, &std::pair<std::string_view, Group>::first);
  if (found != std::end(kGroups)) return found->second;
  // cuda_runtime, cuda_driver, xpu_runtime, privateuse1_driver, ...
  const bool launches = category.ends_with("_runtime") || category.ends_with("_driver");
  return launches ? Group::kLaunch : Group::kHost;
}

template <typename Number>
std::optional<Number> Whole(std::string_view text) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end ? std::optional(number) : std::nullopt;
}

std::string Text(std::string_view raw) {
  return json::IsPlainText(raw) ? std::string(raw) : json::Unescaped(raw);
}

// Of a number or a text of any form. Nothing: it has a fraction, or is too large.
std::optional<int64_t> WholeOf(const JsonValue& value) {
  if (value.type != JsonType::kNumber && value.type != JsonType::kText) return std::nullopt;
  if (const auto plain = Whole<int64_t>(value.raw); plain.has_value()) return plain;
  constexpr int64_t kParts = 1'000'000;  // picoseconds of a microsecond: decimals are read so
  const absl::int128 parts = MicrosecondsToPs(value.raw).value_or(1);
  const bool is_whole = parts % kParts == 0 && parts < kFarPs && parts > -kFarPs;
  return is_whole ? std::optional(static_cast<int64_t>(parts / kParts)) : std::nullopt;
}

// As a stat of whatever `out` writes; null and NaN are none.
void PutStat(uint32_t field, uint64_t id, const JsonValue& value, WireWriter* out) {
  if (value.type == JsonType::kWord) {
    const bool is_true = value.raw == "true";
    if (is_true || value.raw == "false") AddIntegerStat(field, id, is_true ? 1 : 0, out);
  } else if (value.type != JsonType::kNumber) {
    if (json::IsPlainText(value.raw)) return AddTextStat(field, id, value.raw, out);
    AddTextStat(field, id, json::Unescaped(value.raw), out);
  } else if (const auto whole = Whole<int64_t>(value.raw); whole.has_value()) {
    AddIntegerStat(field, id, *whole, out);
  } else if (const auto large = Whole<uint64_t>(value.raw); large.has_value()) {
    AddUnsignedStat(field, id, *large, out);
  } else {
    const bool has_point = value.raw.find_first_of(".eE") != value.raw.npos;
    const auto number = has_point ? Whole<double>(value.raw) : std::nullopt;
    if (number.has_value()) return AddDoubleStat(field, id, *number, out);
    AddTextStat(field, id, value.raw, out);  // an integer of more than 64 bits
  }
}

// A whole number, whatever its form ("7", 7.0, 7e0): of ids that are compared.
JsonValue AsWhole(const JsonValue& value, std::string* text) {
  if (value.type == JsonType::kNumber && Whole<int64_t>(value.raw).has_value()) return value;
  const std::optional<int64_t> whole = WholeOf(value);
  if (!whole.has_value()) return value;
  *text = Cat(*whole);
  return {JsonType::kNumber, *text};
}

// A stat of a plane.
void Describe(std::string_view name, const JsonValue& value, PlaneWriter* plane) {
  PutStat(PlaneWriter::kStats, plane->StatId(name), value, &plane->stats());
}

bool ReadMembers(JsonCursor* cursor, Members* members) {
  members->clear();
  return cursor->ReadObject([&](std::string_view key) {
    return cursor->ReadValue(&members->emplace_back(key, JsonValue()).second);
  });
}

// Of an object that was read before.
Members MembersOf(std::string_view object) {
  JsonCursor cursor(object);
  cursor.set_careful(true);
  Members members;
  ReadMembers(&cursor, &members);
  return members;
}

// Of a time; nothing: it is none.
std::optional<absl::int128> PsOf(const JsonValue& value) {
  const bool may_be = value.type == JsonType::kNumber || value.type == JsonType::kText;
  return may_be ? MicrosecondsToPs(value.raw) : std::nullopt;
}

// "GPU 0 Counters", as the process of a counter.
std::optional<int64_t> DeviceOfCounters(std::string_view pid) {
  constexpr std::string_view kBegin = "GPU ", kEnd = " Counters";
  if (!pid.starts_with(kBegin) || !pid.ends_with(kEnd)) return std::nullopt;
  pid.remove_prefix(kBegin.size());
  const auto ordinal = Whole<int64_t>(pid.substr(0, pid.size() - kEnd.size()));
  return ordinal.value_or(-1) >= 0 ? ordinal : std::nullopt;
}

// What a range of host time is, the launches in which are a run of a function.
struct RangeName {
  std::string_view function = {};  // empty: it is none
  std::string_view module = {};    // of an nn.Module
  bool of_process = false;         // launches from all threads are in it
  std::optional<int64_t> step = {};
};

RangeName RangeOf(std::string_view category, std::string_view name) {
  constexpr std::string_view kStep = "ProfilerStep", kModule = "nn.Module: ";
  const bool annotates = category == "user_annotation";
  // As of 2021 the category of annotations is that of ops.
  if ((annotates || category == "Operator") && name.starts_with(kStep) &&
      name.substr(kStep.size()).starts_with('#')) {
    return {.function = kStep,
            .of_process = true,
            .step = Whole<int64_t>(name.substr(kStep.size() + 1))};
  }
  if (annotates) return {.function = name};
  if (category != kCalls || !name.starts_with(kModule)) return {};
  return {.function = name, .module = name.substr(kModule.size())};
}

// The events of one category on one plane: their names, and the names of their stats.
struct Kind {
  PlaneWriter* plane;
  std::string_view category;
  Group group;
  absl::flat_hash_map<absl::string_view, uint64_t> names = {};  // as in the file
  // Args as they are mostly: in the order of the event before.
  std::vector<std::pair<std::string_view, uint64_t>> args = {};

  uint64_t NameId(std::string_view raw) {
    const auto [found, is_new] = names.try_emplace(Absl(raw), 0);
    if (!is_new) return found->second;
    const std::string name = Text(raw);
    WireWriter stats;
    const auto put_text = [&](std::string_view stat, std::string_view text) {
      if (!text.empty()) {
        AddTextStat(PlaneWriter::kMetadataStats, plane->StatId(stat), text, &stats);
      }
    };
    put_text("category", Text(category));
    const RangeName range = RangeOf(category, name);
    put_text(range.of_process ? kProcessRangeStat : kThreadRangeStat, range.function);
    put_text(kModuleStat, range.module);
    if (range.step.has_value()) {
      AddIntegerStat(PlaneWriter::kMetadataStats, plane->StatId("step_num"), *range.step, &stats);
    }
    found->second = plane->AddEventMetadata(name, stats);
    return found->second;
  }
  bool joins() const { return IsExecution(group) || group == Group::kLaunch; }
  uint64_t StatId(size_t place, std::string_view key) {
    if (place >= args.size()) args.resize(place + 1);
    auto& [name, id] = args[place];
    if (id != 0 && name == key) return id;
    id = plane->StatId(joins() && key == "correlation" ? "correlation_id" : Text(key));
    name = key;
    return id;
  }
};

// What the events of one category, process and thread have in common.
struct Track {
  LineWriter* line;
  Kind* kind;
  uint64_t* events_of_process;  // null: on a device
};

class Transcoder {
 public:
  explicit Transcoder(Diagnostics* diagnostics) : diagnostics_(diagnostics) {}

  void Add(const EventChunk& chunk) {
    for (const Event& event : chunk.rows) {
      event.is_counter ? AddCounter(event, chunk.ArgsOf(event))
                       : AddEvent(event, chunk.ArgsOf(event));
    }
  }
  uint64_t events() const { return events_; }
  // With what the file says of all of them.
  Space Write(const EventWalk& file, int64_t base_ns);

 private:
  struct Process {
    PlaneWriter plane;
    uint64_t events = 0;
  };

  void AddEvent(const Event& event, std::span<const Member> args);
  // Of a device's power, on the line that XPlane has for it; others are left out.
  void AddCounter(const Event& event, std::span<const Member> args);
  // On the lines; nothing: off the axis.
  std::optional<int64_t> OffsetPs(absl::int128 start_ps);
  const Track& TrackOf(const Event& event);
  Track MakeTrack(const Event& event);
  Process& ProcessOf(std::string_view pid) {
    return processes_.try_emplace(pid, Process{PlaneWriter("", &spill_)}).first->second;
  }
  PlaneWriter* PlaneOf(int64_t ordinal) {
    return &devices_.try_emplace(ordinal, Cat("/device:GPU:", ordinal), &spill_).first->second;
  }
  LineWriter* LineOf(PlaneWriter* plane, std::string_view group, std::string_view tid);

  void DescribeDevices(const Members& root);
  void DescribeRun(const Members& root);
  void NameHosts(const EventWalk& file);

  Diagnostics* const diagnostics_;
  uint64_t events_ = 0;
  bool any_launch_ = false;
  WireWriter bytes_;
  std::string id_text_;
  std::optional<int64_t> begin_us_;  // of all lines, without the base

  Spill spill_;
  std::map<std::string_view, Process> processes_;  // by pid
  PlaneWriter* host_ = nullptr;                    // of one of them, at the end
  std::map<int64_t, PlaneWriter> devices_;         // by ordinal
  std::map<std::pair<PlaneWriter*, std::string_view>, Kind> kinds_;
  std::map<std::tuple<PlaneWriter*, std::string_view, std::string_view>, LineWriter*> lines_;
  std::map<std::pair<PlaneWriter*, std::string_view>, uint64_t> counters_;  // entries, by name
  using TrackKey = std::tuple<absl::string_view, absl::string_view, absl::string_view>;
  absl::flat_hash_map<TrackKey, Track> tracks_;  // by category, process and thread
};

void Transcoder::AddEvent(const Event& event, std::span<const Member> args) {
  const auto skip = [&](DiagnosticCode code) {
    diagnostics_->Count(code, {.byte_offset = event.byte_offset});
  };
  const auto start_ps = PsOf(event.ts), duration_ps = PsOf(event.dur);
  if (event.name.type != JsonType::kText || !start_ps.has_value() || !duration_ps.has_value()) {
    return skip(DiagnosticCode::kIncompleteEvent);
  }
  if (*duration_ps < 0) return skip(DiagnosticCode::kNegativeDuration);
  const std::optional<int64_t> offset_ps = OffsetPs(*start_ps);
  if (!offset_ps.has_value() || *duration_ps > kAxisLimitPs) {
    return skip(DiagnosticCode::kTimeOverflow);
  }
  const Track& track = TrackOf(event);
  bytes_.Clear();
  bytes_.AddVarint(kMetadataId, track.kind->NameId(event.name.raw));
  bytes_.AddVarint(kOffsetPs, static_cast<uint64_t>(*offset_ps));
  bytes_.AddVarint(kDurationPs, static_cast<uint64_t>(*duration_ps));
  size_t place = 0;
  for (const auto& [key, value] : args) {
    const uint64_t id = track.kind->StatId(place++, key);
    const bool joins = key == "correlation" && track.kind->joins();
    PutStat(kStats, id, joins ? AsWhole(value, &id_text_) : value, &bytes_);
  }
  if (track.kind->group == Group::kCopy) {
    const uint64_t id = track.kind->plane->StatId("memcpy_details");
    AddTextStat(kStats, id, Cat("size:", Find(args, "bytes").raw), &bytes_);
  }
  track.line->Add(bytes_.bytes());
  if (track.events_of_process != nullptr) ++*track.events_of_process;
  ++events_;
}

void Transcoder::AddCounter(const Event& event, std::span<const Member> args) {
  const std::string_view name = event.name.raw;
  const auto ordinal = DeviceOfCounters(event.pid.raw);
  if (!ordinal.has_value() || !IsPowerCounter(name)) return;
  const auto value = std::ranges::find(args, JsonType::kNumber,
                                       [](const Member& member) { return member.second.type; });
  const auto start_ps = PsOf(event.ts);
  const auto offset_ps = start_ps.has_value() ? OffsetPs(*start_ps) : std::nullopt;
  if (value == args.end() || !offset_ps.has_value()) {
    return diagnostics_->Count(DiagnosticCode::kIncompleteEvent,
                               {.byte_offset = event.byte_offset});
  }
  PlaneWriter* const plane = PlaneOf(*ordinal);
  LineWriter* const line = LineOf(plane, kCountersLine, "");
  line->SetName(kCountersLine);
  uint64_t& id = counters_[{plane, name}];
  if (id == 0) id = plane->AddEventMetadata(name, WireWriter());
  bytes_.Clear();
  bytes_.AddVarint(kMetadataId, id);
  bytes_.AddVarint(kOffsetPs, static_cast<uint64_t>(*offset_ps));
  PutStat(kStats, plane->StatId(name), value->second, &bytes_);
  line->Add(bytes_.bytes());
}

std::optional<int64_t> Transcoder::OffsetPs(absl::int128 start_ps) {
  constexpr int64_t kUsPerS = 1'000'000, kPsPerUs = 1'000'000;
  constexpr int64_t kMostUs = std::numeric_limits<int64_t>::max() / 1000 - 2 * kUsPerS;
  if (!begin_us_.has_value()) {
    const absl::int128 start_us = start_ps / kPsPerUs;
    if (start_us > kMostUs || start_us < -kMostUs) return std::nullopt;
    const auto us = static_cast<int64_t>(start_us);
    // Lines of a thread, a stream come one after the other: the first event need not be the
    // earliest, and offsets below 0 are slow to read.
    const int64_t begin_us = us - us % kUsPerS - kUsPerS;
    begin_us_ = us >= 0 ? std::max<int64_t>(begin_us, 0) : begin_us - kUsPerS;
  }
  const absl::int128 offset_ps = start_ps - absl::int128(*begin_us_) * kPsPerUs;
  if (offset_ps > kAxisLimitPs || offset_ps < -kAxisLimitPs) return std::nullopt;
  return static_cast<int64_t>(offset_ps);
}

const Track& Transcoder::TrackOf(const Event& event) {
  const TrackKey key = {Absl(event.cat.raw), Absl(event.pid.raw), Absl(event.tid.raw)};
  const auto found = tracks_.find(key);
  return found != tracks_.end() ? found->second
                                : tracks_.emplace(key, MakeTrack(event)).first->second;
}

Track Transcoder::MakeTrack(const Event& event) {
  const std::string_view category = event.cat.raw;
  const Group group = GroupOf(category);
  const bool is_execution = IsExecution(group);
  const auto ordinal = Whole<int64_t>(event.pid.raw);
  const bool on_device = (is_execution || group == Group::kOnDevice) && ordinal.value_or(-1) >= 0;
  PlaneWriter* plane = nullptr;
  LineWriter* line = nullptr;
  uint64_t* events_of_process = nullptr;
  if (on_device) {
    plane = PlaneOf(*ordinal);
    std::string_view stream = event.tid.raw;
    constexpr std::string_view kStream2021 = "stream ";
    if (stream.starts_with(kStream2021)) stream.remove_prefix(kStream2021.size());
    line = LineOf(plane, is_execution ? "" : category, stream);
    line->SetName(Cat(is_execution ? "Stream" : Text(category), " #", Text(stream)));
  } else {
    Process& process = ProcessOf(event.pid.raw);
    plane = &process.plane;
    // Annotations straddle the calls of Python that open and close them: these nest by themselves.
    const bool calls = category == kCalls && Whole<int64_t>(event.tid.raw).value_or(0) != 0;
    line = LineOf(plane, calls ? kCalls : "", event.tid.raw);
    events_of_process = &process.events;
  }
  any_launch_ |= group == Group::kLaunch;
  Kind& kind = kinds_.try_emplace({plane, category}, Kind{plane, category, group}).first->second;
  return {line, &kind, events_of_process};
}

LineWriter* Transcoder::LineOf(PlaneWriter* plane, std::string_view group, std::string_view tid) {
  LineWriter*& line = lines_[{plane, group, tid}];
  if (line != nullptr) return line;
  line = plane->AddLine();
  if (const auto number = Whole<int64_t>(tid); number.has_value()) line->SetNumber(*number);
  return line;
}

// The process with the most events is the host.
void Transcoder::NameHosts(const EventWalk& file) {
  if (processes_.empty()) ProcessOf("");
  const auto main = std::ranges::max_element(
      processes_, {}, [](const auto& process) { return process.second.events; });
  for (auto& [pid, process] : processes_) {
    const bool is_main = pid == main->first;
    process.plane.SetName(is_main ? "/host:CPU" : Cat("/host:CPU [", Text(pid), "]"));
    if (is_main) host_ = &process.plane;
    const auto first = lines_.lower_bound({&process.plane, "", ""});
    for (auto at = first; at != lines_.end() && std::get<0>(at->first) == &process.plane; ++at) {
      const auto& [plane, group, tid] = at->first;
      const auto named = file.thread_names().find({pid, tid});
      const std::string name = named != file.thread_names().end()
                                   ? Text(named->second)
                                   : Cat("pid ", Text(pid), " tid ", Text(tid));
      at->second->SetName(group == kCalls ? Cat(name, " (python)") : name);
    }
  }
}

// What the profiler says of a device, under the names by which XPlane knows it, too.
void Transcoder::DescribeDevices(const Members& root) {
  using Renamed = std::pair<std::string_view, std::string_view>;
  constexpr Renamed kKnown[] = {{"name", "device_type_string"},
                                {"computeMajor", "compute_cap_major"},
                                {"computeMinor", "compute_cap_minor"},
                                {"numSms", "core_count"},
                                {"totalGlobalMem", "memory_size"}};
  constexpr Renamed kVendors[] = {{"NVIDIA", "Nvidia"}, {"AMD", "AMD"}};
  JsonCursor cursor(Find(root, "deviceProperties").raw);
  cursor.set_careful(true);
  Members properties;
  cursor.ReadArray([&] {
    if (!ReadMembers(&cursor, &properties)) return false;
    const auto device = devices_.find(Whole<int64_t>(Find(properties, "id").raw).value_or(-1));
    if (device == devices_.end()) return true;
    PlaneWriter& plane = device->second;
    for (const auto& [key, value] : properties) {
      const auto known = std::ranges::find(kKnown, key, &Renamed::first);
      Describe(known == std::end(kKnown) ? Text(key) : std::string(known->second), value, &plane);
    }
    for (const auto& [begin, vendor] : kVendors) {
      const bool is_its = Find(properties, "name").raw.starts_with(begin);
      if (is_its) Describe("device_vendor", {JsonType::kText, vendor}, &plane);
    }
    return true;
  });
}

void Transcoder::DescribeRun(const Members& root) {
  for (const auto& [key, value] : root) {
    if (key != "deviceProperties" && key != "distributedInfo") Describe(Text(key), value, host_);
  }
  for (const auto& [key, value] : MembersOf(Find(root, "distributedInfo").raw)) {
    Describe(Text(key), value, host_);
    if (key != "rank" && key != "world_size") continue;
    for (auto& [ordinal, plane] : devices_) Describe(key, value, &plane);
  }
}

Space Transcoder::Write(const EventWalk& file, int64_t base_ns) {
  const Members& root = file.root();
  NameHosts(file);
  DescribeDevices(root);
  DescribeRun(root);
  std::vector<PlaneWriter*> planes;
  const bool any_range = std::ranges::any_of(processes_, [](const auto& process) {
    const PlaneWriter& plane = process.second.plane;
    return plane.HasStat(kThreadRangeStat) || plane.HasStat(kProcessRangeStat);
  });
  for (auto& [ordinal, plane] : devices_) {
    if (any_range || any_launch_) plane.StatId(kInRangesStat);
    planes.push_back(&plane);
  }
  planes.push_back(host_);
  for (auto& [pid, process] : processes_) {
    if (&process.plane != host_) planes.push_back(&process.plane);
  }
  const JsonValue host = Find(root, "host_name");
  return WriteSpace(planes, &spill_, SaturatingAdd(*begin_us_ * 1000, base_ns),
                    host.type == JsonType::kText ? Text(host.raw) : "");
}

}  // namespace

bool LooksLikeJson(std::string_view bytes) {
  if (bytes.starts_with(kByteOrderMark)) bytes.remove_prefix(kByteOrderMark.size());
  JsonCursor cursor(bytes);
  const char first = cursor.Peek();
  if (first != '{' && first != '[') return false;
  // An XSpace may begin with a line feed and a bracket, too, but has the tags of fields soon.
  constexpr size_t kHeadBytes = 32;
  const auto is_tag = [](char c) {
    return c >= 0 && c < ' ' && c != '\n' && c != '\r' && c != '\t';
  };
  if (std::ranges::any_of(bytes.substr(0, kHeadBytes), is_tag)) return false;
  // A bracket is the tag of a group, and then another follows.
  cursor.ReturnTo(cursor.offset() + 1);
  const char next = cursor.Peek();
  const std::string_view begins = first == '{' ? "\"}" : "{[]\"-0123456789tfnNI";
  return next == '\0' || begins.find(next) != begins.npos;
}

bool LooksLikeTrace(std::string_view head) {
  // What comes before the events may be long.
  const auto has = [head](std::string_view key) { return head.find(key) != head.npos; };
  return LooksLikeJson(head) && (has("\"traceEvents\"") || has("\"deviceProperties\""));
}

absl::StatusOr<Space> Transcode(std::string_view json, const std::string& name, int threads,
                                Diagnostics* diagnostics) {
  EventWalk file(json, name);
  Transcoder transcoder(diagnostics);
  const auto read = [&](EventChunk* chunk) { return file.Next(chunk); };
  const auto leave = [](EventChunk*) { return absl::OkStatus(); };
  {
    ReadAhead<EventChunk> chunks(read, leave, /*ahead=*/threads > 1);
    EventChunk chunk;
    do {
      RETURN_IF_ERROR(chunks.Next(&chunk));
      transcoder.Add(chunk);
    } while (!chunk.rows.empty());
  }
  if (transcoder.events() == 0) {
    return DataLoss(name, ": a trace in JSON without any event that has a beginning and a ",
                    "duration (byte ", file.size(), "); was anything profiled?");
  }
  const JsonValue base = Find(file.root(), "baseTimeNanoseconds");
  const bool has_base = base.type != JsonType::kNothing && base.raw != "null";
  const std::optional<int64_t> base_ns = has_base ? WholeOf(base) : 0;
  if (!base_ns.has_value()) {
    return DataLoss(name, ": baseTimeNanoseconds is ", base.raw.substr(0, 64), " (byte ",
                    base.raw.data() - json.data(), "), no whole number of nanoseconds: nobody ",
                    "knows when this was; mend it, or leave it out");
  }
  diagnostics->Merge(file.diagnostics());
  Space space = transcoder.Write(file, *base_ns);
  if (space.owner != nullptr) return space;
  return Unavailable(name, ": a temporary file in ", ScratchFolder(),
                     " cannot be read back; set TMPDIR to another place");
}

absl::Status CheckHead(std::string_view head, const std::string& name) {
  EventWalk file(head, name);
  EventChunk chunk;
  do {
    const absl::Status status = file.Next(&chunk);
    if (!status.ok()) return file.ran_out() ? absl::OkStatus() : status;
  } while (!chunk.rows.empty());
  return absl::OkStatus();
}

}  // namespace xplane_time::kineto
