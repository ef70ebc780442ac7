// Transcodes a Kineto trace to an XSpace (transcode.h has the mapping).
//
// 1. EventWalk reads the events in chunks, on its own thread if there are several.
// 2. AddEvent() finds the track of an event by its category, pid and tid: the line, the kind (names
//    and stat ids of a category on a plane) and the process or device. If the pid does not identify
//    a device, the args `device` and `stream` do. The event is encoded and appended to its line
//    (space_writer.h), which spills to a scratch file.
// 3. If several processes of a rank use overlapping ranges of correlation ids (FindRanks), the file
//    is read a second time to find the owners of devices (launch_owners.h).
// 4. Write() groups planes by host, names them, adds the properties of devices and the run, and
//    writes the space.
//
// Time: O(bytes), twice for merged files. Memory: names, tracks and about 20 MiB of buffers.
#include "kineto/transcode.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "devices/gpu_runs/host_ranges.h"
#include "devices/power_counters.h"
#include "json/json_cursor.h"
#include "kineto/event_walk.h"
#include "kineto/launch_owners.h"
#include "kineto/microseconds.h"
#include "kineto/process_id.h"
#include "read_ahead.h"
#include "saturate.h"
#include "scratch.h"
#include "status.h"
#include "xplane_time/normalize.h"

namespace xplane_time::kineto {
namespace {

using gpu_runs::kInRangesStat, gpu_runs::kModuleStat, gpu_runs::kProcessRangeStat,
    gpu_runs::kThreadRangeStat;

constexpr std::string_view kCalls = "python_function";
// Members of the file with messages of the profiler.
constexpr std::string_view kWarningsMember = "WARNING", kErrorsMember = "ERROR";
constexpr uint32_t kMetadataId = 1, kOffsetPs = 2, kDurationPs = 3, kStats = 4;  // fields of XEvent

enum class Group : uint8_t { kKernel, kCopy, kOnDevice, kLaunch, kHost };
bool IsExecution(Group group) { return group == Group::kKernel || group == Group::kCopy; }

// Categories by name. Capitalized names are from 2021.
constexpr std::pair<std::string_view, Group> kGroups[] = {{"kernel", Group::kKernel},
                                                          {"Kernel", Group::kKernel},
                                                          {"mtia_ccp_events", Group::kKernel},
                                                          {"Memcpy", Group::kCopy},
                                                          {"Memset", Group::kCopy},
                                                          {"cuda_event", Group::kOnDevice},
                                                          {"graph_event_node", Group::kOnDevice},
                                                          {"graph_host_node", Group::kOnDevice},
                                                          {"user_annotation", Group::kHost},
                                                          {"hpu_op", Group::kLaunch},
                                                          {"Runtime", Group::kLaunch}};
// Categories by suffix, of any vendor: gpu_memcpy, cuda_sync, xpu_runtime, GCU_MEMSET,
// privateuse1_driver, ...
constexpr std::pair<std::string_view, Group> kGroupsByEnd[] = {
    {"_memcpy", Group::kCopy},    {"_memset", Group::kCopy},
    {"_sync", Group::kOnDevice},  {"_user_annotation", Group::kOnDevice},
    {"_runtime", Group::kLaunch}, {"_driver", Group::kLaunch}};

Group GroupOf(std::string_view category) {
  using Entry = std::pair<std::string_view, Group>;
  const auto* const found = std::ranges::find(kGroups, category, &Entry::first);
  if (found != std::end(kGroups)) return found->second;
  const auto* const by_end = std::ranges::find_if(kGroupsByEnd, [&](const Entry& entry) {
    return absl::EndsWithIgnoreCase(Absl(category), Absl(entry.first));
  });
  return by_end == std::end(kGroupsByEnd) ? Group::kHost : by_end->second;
}

// Whether torch.profiler uses this category.
bool IsOfKineto(std::string_view category) {
  constexpr std::string_view kOnHost[] = {
      "cpu_op", "user_annotation", "python_function", "cpu_instant_event", "overhead", "Operator",
      "Trace"};
  return GroupOf(category) != Group::kHost || std::ranges::count(kOnHost, category) > 0;
}

// The family in the plane names of its devices.
std::string_view FindFamily(std::string_view category) {
  return category.starts_with("mtia_") ? "MTIA" : "GPU";
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

// Adds a value as a stat to `out`. null and NaN are omitted.
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

// Adds a stat to a plane.
void Describe(std::string_view name, const JsonValue& value, PlaneWriter* plane) {
  PutStat(PlaneWriter::kStats, plane->StatId(name), value, &plane->stats());
}

bool ReadMembers(JsonCursor* cursor, Members* members) {
  members->clear();
  return cursor->ReadObject([&](std::string_view key) {
    return cursor->ReadValue(&members->emplace_back(key, JsonValue()).second);
  });
}

// The members of an object that was parsed before.
Members MembersOf(std::string_view object) {
  JsonCursor cursor(object);
  cursor.set_careful(true);
  Members members;
  ReadMembers(&cursor, &members);
  return members;
}

// The texts in an array.
std::vector<std::string> ReadTexts(const JsonValue& array) {
  std::vector<std::string> texts;
  if (array.type != JsonType::kArray) return texts;
  JsonCursor cursor(array.raw);
  cursor.set_careful(true);
  JsonValue value;
  cursor.ReadArray([&] {
    if (!cursor.ReadValue(&value)) return false;
    if (value.type == JsonType::kText) texts.push_back(Text(value.raw));
    return true;
  });
  return texts;
}

// A time in picoseconds; nullopt: the value is not a time.
std::optional<absl::int128> PsOf(const JsonValue& value) {
  const bool may_be = value.type == JsonType::kNumber || value.type == JsonType::kText;
  return may_be ? MicrosecondsToPs(value.raw) : std::nullopt;
}

// The ordinal of "GPU 0 Counters", the process name of a counter.
std::optional<int64_t> DeviceOfCounters(std::string_view pid) {
  constexpr std::string_view kBegin = "GPU ", kEnd = " Counters";
  if (!pid.starts_with(kBegin) || !pid.ends_with(kEnd)) return std::nullopt;
  pid.remove_prefix(kBegin.size());
  const auto ordinal = Whole<int64_t>(pid.substr(0, pid.size() - kEnd.size()));
  return ordinal.value_or(-1) >= 0 ? ordinal : std::nullopt;
}

// A range of host time whose launches form a run of a function.
struct RangeName {
  std::string_view function = {};  // empty: not such a range
  std::string_view module = {};    // name of an nn.Module
  bool of_process = false;         // it includes the launches of all threads
  std::optional<int64_t> step = {};
};

RangeName RangeOf(std::string_view category, std::string_view name) {
  constexpr std::string_view kStep = "ProfilerStep", kModule = "nn.Module: ";
  const bool annotates = category == "user_annotation";
  // In 2021, annotations had the category of ops.
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

// The events of one category on one plane: ids of their names, and of the names of their stats.
struct Kind {
  PlaneWriter* plane;
  std::string_view category;
  Group group;
  absl::flat_hash_map<absl::string_view, uint64_t> names = {};  // by the raw text in the file
  // Keys and ids of args in the order of the previous event, which most events share.
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

// The identity of a device according to its events.
struct DeviceId {
  std::string_view family = "GPU";
  std::string rank = {};  // empty: no rank
  int64_t ordinal = 0;
  std::string label = {};  // identifies the device if there is no ordinal and no rank

  friend auto operator<=>(const DeviceId&, const DeviceId&) = default;
};

// Identifies a device by its pid or, if that is not a number, by the argument `device`.
DeviceId IdentifyDevice(const Event& event, const ProcessId& pid, const JsonValue& device) {
  DeviceId id{.family = FindFamily(event.cat.raw), .rank = pid.rank};
  const std::optional<int64_t> own = WholeOf(device);
  const bool has_own = own.value_or(-1) >= 0;
  if (pid.number.has_value() || has_own) {
    id.ordinal = pid.number.has_value() ? *pid.number : *own;
  } else if (id.rank.empty() && !pid.stream.has_value() && event.pid.type != JsonType::kNothing &&
             event.pid.type != JsonType::kWord) {
    id.label = pid.text;
  }
  return id;
}

// The text of a tid, equal for all forms of one number.
std::string ThreadText(const JsonValue& tid) {
  const std::optional<int64_t> whole = WholeOf(tid);
  return whole.has_value() ? Cat(*whole) : std::string(tid.raw);
}

// A process of the host.
struct Process {
  PlaneWriter plane;
  std::string text, rank;
  uint32_t index = 0;
  uint64_t events = 0;
  // range of the ids of its launches, if any
  int64_t least_id = std::numeric_limits<int64_t>::max(), most_id = 0;
};

struct Device {
  PlaneWriter plane;
  std::string rank;
  uint32_t index = 0;
  bool described = false;
};

// The common properties of the events of one category, process and thread.
struct Track {
  LineWriter* line;
  Kind* kind;
  Process* process;  // null: on a device
  Device* device;    // null: on a process
  bool asks_args;    // the args also determine the process or the thread
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
  bool any_execution() const { return any_execution_; }
  bool any_of_kineto() const { return any_of_kineto_; }  // some event has a category of Kineto
  // Call it after all events were added. Returns whether several processes of a rank may have
  // launches with the same id. If so, all events must be passed to AddToOwners().
  bool FindRanks();
  void AddToOwners(const EventChunk& chunk);
  // Writes the space, with the members of the document.
  Space Write(const EventWalk& file, int64_t base_ns);

 private:
  struct Times {
    int64_t offset_ps, duration_ps;
  };
  // nullopt: the event is incomplete or invalid, which is counted in `diagnostics`.
  std::optional<Times> ReadTimes(const Event& event, Diagnostics* diagnostics);
  void AddEvent(const Event& event, std::span<const Member> args);
  // Adds a reading of a device's power to the line that XPlane has for it. Other counters are
  // skipped.
  void AddCounter(const Event& event, std::span<const Member> args);
  // The offset on the lines; nullopt: beyond the axis.
  std::optional<int64_t> OffsetPs(absl::int128 start_ps);
  const Track& TrackOf(const Event& event, std::span<const Member> args);
  Track MakeTrack(const Event& event, std::span<const Member> args);
  std::string_view FindRankKey(std::string_view rank) const { return by_rank_ ? rank : ""; }
  Process* ProcessOf(const ProcessId& pid);
  Device* DeviceFor(const DeviceId& id);
  LineWriter* LineOf(PlaneWriter* plane, std::string_view group, const std::string& tid);

  void DescribeDevices(const Members& root);
  // In a file into which several ranks were merged, the rank in the document is ambiguous.
  void DescribeRun(const Members& root, bool is_one_rank, PlaneWriter* plane);
  struct Host {
    std::string name = {};  // empty: the only host
    std::vector<Device*> devices = {};
    std::vector<Process*> processes = {};
  };
  std::vector<Host> FindHosts();
  void NameProcesses(const EventWalk& file, const Host& host);
  void NoteCountersNotRead();

  Diagnostics* const diagnostics_;
  uint64_t events_ = 0;
  bool any_execution_ = false, any_launch_ = false, any_of_kineto_ = false;
  WireWriter bytes_;
  std::optional<int64_t> begin_us_;  // start of all lines, without the base

  Spill spill_;
  std::map<std::string, Process> processes_;  // by text
  std::map<DeviceId, Device> devices_;
  std::map<std::pair<PlaneWriter*, std::string_view>, Kind> kinds_;
  std::map<std::tuple<PlaneWriter*, std::string_view, std::string>, LineWriter*> lines_;
  std::map<std::pair<PlaneWriter*, std::string_view>, uint64_t> counters_;  // metadata ids, by name
  // numbers of readings, by name
  std::map<std::string_view, uint64_t> counters_not_read_;
  using TrackKey = std::tuple<absl::string_view, absl::string_view, absl::string_view>;
  absl::flat_hash_map<TrackKey, Track> tracks_;  // by category, process and thread
  // Tracks that depend on args: also by `device` and `stream`.
  std::map<std::tuple<TrackKey, std::string_view, std::string_view>, Track> tracks_by_args_;
  bool by_rank_ = false;                             // the pids name several ranks
  std::map<std::string_view, LaunchOwners> owners_;  // by rank
  uint64_t place_ = 0;                               // position of the next event, for owners_
};

std::optional<Transcoder::Times> Transcoder::ReadTimes(const Event& event,
                                                       Diagnostics* diagnostics) {
  const auto skip = [&](DiagnosticCode code) {
    if (diagnostics != nullptr) diagnostics->Count(code, {.byte_offset = event.byte_offset});
    return std::nullopt;
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
  return Times{*offset_ps, static_cast<int64_t>(*duration_ps)};
}

void Transcoder::AddEvent(const Event& event, std::span<const Member> args) {
  const std::optional<Times> times = ReadTimes(event, diagnostics_);
  if (!times.has_value()) return;
  const Track& track = TrackOf(event, args);
  bytes_.Clear();
  bytes_.AddVarint(kMetadataId, track.kind->NameId(event.name.raw));
  bytes_.AddVarint(kOffsetPs, static_cast<uint64_t>(times->offset_ps));
  bytes_.AddVarint(kDurationPs, static_cast<uint64_t>(times->duration_ps));
  size_t place = 0;
  for (const auto& [key, value] : args) {
    const uint64_t id = track.kind->StatId(place++, key);
    const bool joins = key == "correlation" && track.kind->joins();
    const std::optional<int64_t> whole = joins ? WholeOf(value) : std::nullopt;
    if (!whole.has_value()) {
      PutStat(kStats, id, value, &bytes_);
      continue;
    }
    AddIntegerStat(kStats, id, *whole, &bytes_);
    if (track.process == nullptr || *whole == 0) continue;
    track.process->least_id = std::min(track.process->least_id, *whole);
    track.process->most_id = std::max(track.process->most_id, *whole);
  }
  if (track.kind->group == Group::kCopy) {
    const uint64_t id = track.kind->plane->StatId("memcpy_details");
    AddTextStat(kStats, id, Cat("size:", Find(args, "bytes").raw), &bytes_);
  }
  track.line->Add(bytes_.bytes());
  if (track.process != nullptr) ++track.process->events;
  ++events_;
}

void Transcoder::AddCounter(const Event& event, std::span<const Member> args) {
  const std::string_view name = event.name.raw;
  const auto ordinal = DeviceOfCounters(event.pid.raw);
  if (!ordinal.has_value() || !IsPowerCounter(name)) {
    ++counters_not_read_[name];
    return;
  }
  const auto value = std::ranges::find(args, JsonType::kNumber,
                                       [](const Member& member) { return member.second.type; });
  const auto start_ps = PsOf(event.ts);
  const auto offset_ps = start_ps.has_value() ? OffsetPs(*start_ps) : std::nullopt;
  if (value == args.end() || !offset_ps.has_value()) {
    return diagnostics_->Count(DiagnosticCode::kIncompleteEvent,
                               {.byte_offset = event.byte_offset});
  }
  PlaneWriter* const plane = &DeviceFor({.ordinal = *ordinal})->plane;
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
  constexpr int64_t kUsPerS = 1'000'000;
  constexpr int64_t kMostUs = std::numeric_limits<int64_t>::max() / 1000 - 2 * kUsPerS;
  if (!begin_us_.has_value()) {
    const absl::int128 start_us = start_ps / kPsPerUs;
    if (start_us > kMostUs || start_us < -kMostUs) return std::nullopt;
    const auto us = static_cast<int64_t>(start_us);
    // Events are grouped by thread or stream, so the first event need not be the earliest. The
    // lines begin earlier, because negative offsets are slow to read.
    const int64_t begin_us = us - us % kUsPerS - kUsPerS;
    begin_us_ = us >= 0 ? std::max<int64_t>(begin_us, 0) : begin_us - kUsPerS;
  }
  const absl::int128 offset_ps = start_ps - absl::int128(*begin_us_) * kPsPerUs;
  if (offset_ps > kAxisLimitPs || offset_ps < -kAxisLimitPs) return std::nullopt;
  return static_cast<int64_t>(offset_ps);
}

const Track& Transcoder::TrackOf(const Event& event, std::span<const Member> args) {
  const TrackKey key = {Absl(event.cat.raw), Absl(event.pid.raw), Absl(event.tid.raw)};
  auto found = tracks_.find(key);
  if (found == tracks_.end()) found = tracks_.emplace(key, MakeTrack(event, args)).first;
  if (!found->second.asks_args) return found->second;
  const std::tuple whole_key = {key, Find(args, "device").raw, Find(args, "stream").raw};
  const auto by_args = tracks_by_args_.find(whole_key);
  if (by_args != tracks_by_args_.end()) return by_args->second;
  return tracks_by_args_.emplace(whole_key, MakeTrack(event, args)).first->second;
}

Track Transcoder::MakeTrack(const Event& event, std::span<const Member> args) {
  const std::string_view category = event.cat.raw;
  any_of_kineto_ |= IsOfKineto(category);
  const Group group = GroupOf(category);
  const bool is_execution = IsExecution(group);
  any_execution_ |= is_execution;
  const ProcessId pid = ParseProcessId(event.pid);
  const JsonValue device_arg = Find(args, "device");
  const bool on_device =
      is_execution || (group == Group::kOnDevice &&
                       (pid.number.has_value() || WholeOf(device_arg).value_or(-1) >= 0));
  const std::optional<int64_t> whole_tid = WholeOf(event.tid);
  std::string tid = ThreadText(event.tid);
  Track track{};
  PlaneWriter* plane = nullptr;
  if (on_device) {
    const bool no_tid = event.tid.type == JsonType::kNothing || event.tid.raw == "null";
    track.asks_args = !pid.number.has_value() || no_tid;
    track.device = DeviceFor(IdentifyDevice(event, pid, device_arg));
    plane = &track.device->plane;
    constexpr std::string_view kStream2021 = "stream ";
    if (tid.starts_with(kStream2021)) tid.erase(0, kStream2021.size());
    if (pid.stream.has_value() && !whole_tid.has_value()) tid = Cat(*pid.stream);
    if (no_tid && !pid.stream.has_value()) tid = Find(args, "stream").raw;
    track.line = LineOf(plane, is_execution ? "" : category, tid);
    track.line->SetName(Cat(is_execution ? "Stream" : Text(category), " #", Text(tid)));
  } else {
    track.asks_args = group == Group::kOnDevice;
    track.process = ProcessOf(pid);
    plane = &track.process->plane;
    // Annotations overlap the Python calls that open and close them. On a separate line, calls
    // nest.
    const bool calls = category == kCalls && whole_tid.value_or(0) != 0;
    track.line = LineOf(plane, calls ? kCalls : "", tid);
  }
  any_launch_ |= group == Group::kLaunch;
  track.kind = &kinds_.try_emplace({plane, category}, Kind{plane, category, group}).first->second;
  return track;
}

Process* Transcoder::ProcessOf(const ProcessId& pid) {
  const auto index = static_cast<uint32_t>(processes_.size());
  return &processes_
              .try_emplace(pid.text, Process{.plane = PlaneWriter("", &spill_),
                                             .text = pid.text,
                                             .rank = pid.rank,
                                             .index = index})
              .first->second;
}

Device* Transcoder::DeviceFor(const DeviceId& id) {
  const auto index = static_cast<uint32_t>(devices_.size());
  return &devices_
              .try_emplace(
                  id, Device{.plane = PlaneWriter("", &spill_), .rank = id.rank, .index = index})
              .first->second;
}

LineWriter* Transcoder::LineOf(PlaneWriter* plane, std::string_view group, const std::string& tid) {
  LineWriter*& line = lines_[{plane, group, tid}];
  if (line != nullptr) return line;
  line = plane->AddLine();
  if (const auto number = Whole<int64_t>(tid); number.has_value()) line->SetNumber(*number);
  return line;
}

bool Transcoder::FindRanks() {
  std::set<std::string_view> ranks;
  for (const auto& [id, device] : devices_) ranks.insert(id.rank);
  ranks.erase("");
  by_rank_ = ranks.size() > 1;
  // The smallest and largest id of each process, by rank.
  std::map<std::string_view, std::vector<std::pair<int64_t, int64_t>>> ids;
  for (const auto& [text, process] : processes_) {
    if (process.least_id <= process.most_id) {
      ids[FindRankKey(process.rank)].emplace_back(process.least_id, process.most_id);
    }
  }
  return std::ranges::any_of(ids, [](auto& of_rank) {
    std::ranges::sort(of_rank.second);
    return std::ranges::adjacent_find(of_rank.second, [](const auto& a, const auto& b) {
             return b.first <= a.second;
           }) != of_rank.second.end();
  });
}

void Transcoder::AddToOwners(const EventChunk& chunk) {
  for (const Event& event : chunk.rows) {
    if (event.is_counter) continue;
    const std::optional<Times> times = ReadTimes(event, /*diagnostics=*/nullptr);
    if (!times.has_value()) continue;
    const std::span<const Member> args = chunk.ArgsOf(event);
    const Track& track = TrackOf(event, args);
    const uint64_t place = place_++;
    LaunchOwners& owners =
        owners_[FindRankKey(track.process != nullptr ? track.process->rank : track.device->rank)];
    if (track.process != nullptr) owners.AddEvent(track.process->index, place);
    if (!track.kind->joins()) continue;
    const int64_t id = WholeOf(Find(args, "correlation")).value_or(0);
    if (id == 0) continue;
    if (track.process != nullptr) {
      owners.AddLaunch(track.process->index, id, times->offset_ps, place);
    } else {
      owners.AddExecution(track.device->index, id, times->offset_ps, place);
    }
  }
}

// A file into which several ranks were merged gets one host per rank, so that launches are looked
// up in the processes of the same rank. Other files get one host.
std::vector<Transcoder::Host> Transcoder::FindHosts() {
  std::map<std::string_view, std::vector<LaunchOwners::Owner>> owners;
  for (auto& [rank, of_rank] : owners_) owners[rank] = of_rank.Decide();
  std::map<uint32_t, Process*> by_index;
  for (auto& [text, process] : processes_) by_index[process.index] = &process;
  std::map<std::pair<std::string, std::string>, Host> hosts;  // by rank and process
  std::set<uint32_t> owning;
  uint64_t undecided = 0;
  std::string undecided_devices;
  for (auto& [id, device] : devices_) {
    const std::string_view rank = FindRankKey(id.rank);
    const std::vector<LaunchOwners::Owner>& of_rank = owners[rank];
    const LaunchOwners::Owner owner =
        device.index < of_rank.size() ? of_rank[device.index] : LaunchOwners::Owner();
    std::string process;
    if (owner.process.has_value()) {
      const uint32_t first = owners_[rank].FindFirst(*owner.process);
      owning.insert(first);
      process = Cat("pid ", by_index.at(first)->text);
    } else if (owner.undecided > 0) {
      process = "unknown process";
      undecided += owner.undecided;
      Append(&undecided_devices, undecided_devices.empty() ? "" : ", ", id.family, ":", id.ordinal);
    }
    device.plane.SetName(Cat("/device:", id.family, ":", id.ordinal));
    const std::string& label = by_rank_ || id.rank.empty() ? id.label : id.rank;
    if (!label.empty()) {
      device.plane.SetName(Cat("/device:", id.family, ":", id.ordinal, " [", label, "]"));
    }
    hosts[{std::string(rank), process}].devices.push_back(&device);
  }
  for (auto& [index, process] : by_index) {
    const std::string_view rank = FindRankKey(process->rank);
    const auto of_rank = owners_.find(rank);
    const uint32_t first = of_rank == owners_.end() ? index : of_rank->second.FindFirst(index);
    const bool owns = owning.contains(first);
    hosts[{std::string(rank), owns ? Cat("pid ", by_index.at(first)->text) : ""}]
        .processes.push_back(process);
  }
  if (undecided > 0) {
    diagnostics_->Note(DiagnosticCode::kSharedCorrelation, undecided_devices, {}, undecided);
  }
  std::vector<Host> found;
  for (auto& [name, host] : hosts) {
    const auto& [rank, process] = name;
    host.name = Cat(rank, rank.empty() || process.empty() ? "" : " ", process);
    if (host.name.empty() && hosts.size() > 1) host.name = "other processes";
    // The process with the most events comes first.
    std::ranges::stable_sort(host.processes, std::ranges::greater(), &Process::events);
    found.push_back(std::move(host));
  }
  return found;
}

void Transcoder::NameProcesses(const EventWalk& file, const Host& host) {
  std::map<std::pair<std::string, std::string>, std::string_view> thread_names;
  for (const EventWalk::TrackName& each : file.thread_names()) {
    thread_names[{ParseProcessId(each.pid).text, ThreadText(each.tid)}] = each.name;
  }
  for (Process* const process : host.processes) {
    const bool is_main = process == host.processes.front();
    process->plane.SetName(is_main ? "/host:CPU" : Cat("/host:CPU [", process->text, "]"));
    const auto first = lines_.lower_bound({&process->plane, "", ""});
    for (auto at = first; at != lines_.end() && std::get<0>(at->first) == &process->plane; ++at) {
      const auto& [plane, group, tid] = at->first;
      const auto named = thread_names.find({process->text, tid});
      const std::string name = named != thread_names.end()
                                   ? Text(named->second)
                                   : Cat("pid ", process->text, " tid ", Text(tid));
      at->second->SetName(group == kCalls ? Cat(name, " (python)") : name);
    }
  }
}

// Adds the profiler's properties of the devices, under the names that XPlane uses.
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
    const int64_t ordinal = Whole<int64_t>(Find(properties, "id").raw).value_or(-1);
    for (auto& [id, device] : devices_) {
      // Merged files have the properties of each rank's devices, which are alike.
      if (id.ordinal != ordinal || std::exchange(device.described, true)) continue;
      for (const auto& [key, value] : properties) {
        const auto known = std::ranges::find(kKnown, key, &Renamed::first);
        Describe(known == std::end(kKnown) ? Text(key) : std::string(known->second), value,
                 &device.plane);
      }
      for (const auto& [begin, vendor] : kVendors) {
        const bool is_its = Find(properties, "name").raw.starts_with(begin);
        if (is_its) Describe("device_vendor", {JsonType::kText, vendor}, &device.plane);
      }
    }
    return true;
  });
}

void Transcoder::DescribeRun(const Members& root, bool is_one_rank, PlaneWriter* plane) {
  constexpr std::string_view kElsewhere[] = {"deviceProperties", "distributedInfo", kWarningsMember,
                                             kErrorsMember};
  for (const auto& [key, value] : root) {
    if (std::ranges::count(kElsewhere, key) == 0) Describe(Text(key), value, plane);
  }
  if (!is_one_rank) return;
  for (const auto& [key, value] : MembersOf(Find(root, "distributedInfo").raw)) {
    Describe(Text(key), value, plane);
    if (key != "rank" && key != "world_size") continue;
    for (auto& [id, device] : devices_) Describe(key, value, &device.plane);
  }
}

void Transcoder::NoteCountersNotRead() {
  constexpr size_t kMaxNamed = 8;
  uint64_t readings = 0;
  std::vector<std::string> names;
  for (const auto& [name, count] : counters_not_read_) {
    readings += count;
    if (names.size() < kMaxNamed) names.push_back(Text(name));
  }
  if (readings == 0) return;
  const size_t more = counters_not_read_.size() - names.size();
  diagnostics_->Note(DiagnosticCode::kCountersNotRead,
                     Cat(absl::StrJoin(names, ", "), more > 0 ? Cat(" and ", more, " more") : ""),
                     {}, readings);
}

Space Transcoder::Write(const EventWalk& file, int64_t base_ns) {
  const Members& root = file.root();
  if (processes_.empty()) ProcessOf({.text = ""});
  const std::vector<Host> hosts = FindHosts();
  DescribeDevices(root);
  NoteCountersNotRead();
  const bool any_range = std::ranges::any_of(processes_, [](const auto& process) {
    const PlaneWriter& plane = process.second.plane;
    return plane.HasStat(kThreadRangeStat) || plane.HasStat(kProcessRangeStat);
  });
  const JsonValue host_name = Find(root, "host_name");
  SpaceParts space{.timestamp_ns = SaturatingAdd(*begin_us_ * 1000, base_ns),
                   .errors = ReadTexts(Find(root, kErrorsMember)),
                   .warnings = ReadTexts(Find(root, kWarningsMember))};
  bool described = false;
  for (const Host& host : hosts) {
    NameProcesses(file, host);
    SpaceParts::Host& planes = space.hosts.emplace_back();
    if (host_name.type == JsonType::kText) planes.name = Text(host_name.raw);
    Append(&planes.name, planes.name.empty() || host.name.empty() ? "" : " ", host.name);
    for (Device* const device : host.devices) {
      if (any_range || any_launch_) device->plane.StatId(kInRangesStat);
      planes.planes.push_back(&device->plane);
    }
    for (Process* const process : host.processes) planes.planes.push_back(&process->plane);
    if (host.processes.empty() || std::exchange(described, true)) continue;
    DescribeRun(root, hosts.size() == 1, &host.processes.front()->plane);
  }
  return WriteSpace(space, &spill_);
}

// Other profilers write JSON of the same form that has no executions in our sense. The names of
// their processes identify them.
absl::Status CheckWriter(const EventWalk& file, bool any_of_kineto, const std::string& name) {
  for (const auto& [pid, tid, process] : file.process_names()) {
    const bool is_xprof = process.find("/device:") != process.npos ||
                          process.starts_with("/host:") || process.find(" /host:") != process.npos;
    if (is_xprof && !any_of_kineto) {
      return DataLoss(name, ": it is the Chrome JSON that JAX, TensorFlow or XProf writes for ",
                      "viewers (its process ", pid.raw, " is ", Text(process),
                      "), which lacks events and ids; give the .xplane.pb beside it");
    }
    constexpr std::string_view kAscend[] = {"Ascend Hardware", "CANN", "AscendCL"};
    if (std::ranges::count(kAscend, process) > 0) {
      return DataLoss(name, ": it is a trace of an Ascend NPU by msprof or torch_npu (its process ",
                      pid.raw, " is ", process,
                      "), whose device events are not supported; use MindStudio ", "Insight");
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool LooksLikeJson(std::string_view bytes) {
  if (bytes.starts_with(kByteOrderMark)) bytes.remove_prefix(kByteOrderMark.size());
  JsonCursor cursor(bytes);
  const char first = cursor.Peek();
  if (first != '{' && first != '[') return false;
  // An XSpace may also begin with a line feed and a bracket, but tags of fields follow soon.
  constexpr size_t kHeadBytes = 32;
  const auto is_tag = [](char c) {
    return c >= 0 && c < ' ' && c != '\n' && c != '\r' && c != '\t';
  };
  if (std::ranges::any_of(bytes.substr(0, kHeadBytes), is_tag)) return false;
  // A bracket can be the tag of a group; then another character follows.
  cursor.ReturnTo(cursor.offset() + 1);
  const char next = cursor.Peek();
  const std::string_view begins = first == '{' ? "\"}" : "{[]\"-0123456789tfnNI";
  return next == '\0' || begins.find(next) != begins.npos;
}

bool LooksLikeTrace(std::string_view head) {
  // The members before the events may be long.
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
  if (!transcoder.any_execution()) {
    RETURN_IF_ERROR(CheckWriter(file, transcoder.any_of_kineto(), name));
  }
  if (transcoder.events() == 0) {
    return DataLoss(name, ": a JSON trace without events that have a start and a ",
                    "duration (byte ", file.size(), "); was anything profiled?");
  }
  const JsonValue base = Find(file.root(), "baseTimeNanoseconds");
  const bool has_base = base.type != JsonType::kNothing && base.raw != "null";
  const std::optional<int64_t> base_ns = has_base ? WholeOf(base) : 0;
  if (!base_ns.has_value()) {
    return DataLoss(name, ": baseTimeNanoseconds is ", base.raw.substr(0, 64), " (byte ",
                    base.raw.data() - json.data(), "), not a whole number of nanoseconds; ",
                    "correct or remove the field");
  }
  diagnostics->Merge(file.diagnostics());
  if (transcoder.FindRanks()) {
    EventWalk again(json, name);
    EventChunk chunk;
    do {
      RETURN_IF_ERROR(again.Next(&chunk));
      transcoder.AddToOwners(chunk);
    } while (!chunk.rows.empty());
  }
  Space space = transcoder.Write(file, *base_ns);
  if (space.owner != nullptr) return space;
  return Unavailable(name, ": a temporary file in ", ScratchFolder(),
                     " cannot be read back; set TMPDIR to another directory");
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
