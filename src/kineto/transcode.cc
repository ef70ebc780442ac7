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
#include "kineto/json_cursor.h"
#include "kineto/microseconds.h"
#include "saturate.h"
#include "status.h"
#include "xplane_time/normalize.h"

namespace xplane_time::kineto {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

enum class Group : uint8_t { kExecution, kOnDevice, kLaunch, kHost };

// Capitals: as of 2021.
constexpr std::pair<std::string_view, Group> kGroups[] = {{"kernel", Group::kExecution},
                                                          {"gpu_memcpy", Group::kExecution},
                                                          {"gpu_memset", Group::kExecution},
                                                          {"Kernel", Group::kExecution},
                                                          {"Memcpy", Group::kExecution},
                                                          {"Memset", Group::kExecution},
                                                          {"gpu_user_annotation", Group::kOnDevice},
                                                          {"cuda_sync", Group::kOnDevice},
                                                          {"cuda_event", Group::kOnDevice},
                                                          {"graph_event_node", Group::kOnDevice},
                                                          {"graph_host_node", Group::kOnDevice},
                                                          {"cuda_runtime", Group::kLaunch},
                                                          {"cuda_driver", Group::kLaunch},
                                                          {"Runtime", Group::kLaunch}};

Group GroupOf(std::string_view category) {
  const auto* const found =
      std::ranges::find(kGroups, category, &std::pair<std::string_view, Group>::first);
  return found == std::end(kGroups) ? Group::kHost : found->second;
}

template <typename Number>
std::optional<Number> Whole(std::string_view text) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end ? std::optional(number) : std::nullopt;
}

std::string Text(std::string_view raw) { return IsPlainText(raw) ? std::string(raw) : TextOf(raw); }

// As a stat of whatever `out` writes; null and NaN are none.
void PutStat(uint32_t field, uint64_t id, const JsonValue& value, WireBytes* out) {
  if (value.type == JsonType::kWord) {
    const bool is_true = value.raw == "true";
    if (is_true || value.raw == "false") out->IntegerStat(field, id, is_true ? 1 : 0);
  } else if (value.type != JsonType::kNumber) {
    if (IsPlainText(value.raw)) return out->TextStat(field, id, value.raw);
    out->TextStat(field, id, TextOf(value.raw));
  } else if (const auto whole = Whole<int64_t>(value.raw); whole.has_value()) {
    out->IntegerStat(field, id, *whole);
  } else if (const auto large = Whole<uint64_t>(value.raw); large.has_value()) {
    out->UnsignedStat(field, id, *large);
  } else {
    const bool has_point = value.raw.find_first_of(".eE") != value.raw.npos;
    const auto number = has_point ? Whole<double>(value.raw) : std::nullopt;
    if (number.has_value()) return out->DoubleStat(field, id, *number);
    out->TextStat(field, id, value.raw);  // an integer of more than 64 bits
  }
}

// A stat of a plane.
void Describe(std::string_view name, const JsonValue& value, PlaneWriter* plane) {
  PutStat(PlaneWriter::kStats, plane->StatId(name), value, &plane->stats());
}

using Members = std::vector<std::pair<std::string_view, JsonValue>>;

// Of an object; the last of equal ones counts.
JsonValue Find(const Members& members, std::string_view key) {
  const auto found = std::find_if(members.rbegin(), members.rend(),
                                  [key](const auto& member) { return member.first == key; });
  return found == members.rend() ? JsonValue() : found->second;
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

struct Event {
  JsonValue ph, cat, name, pid, tid, ts, dur;
  Members args;

  void Clear() {
    ph = cat = name = pid = tid = ts = dur = {};
    args.clear();
  }
  JsonValue* Find(std::string_view key) {
    switch (key.size()) {
      case 2:
        return key == "ph" ? &ph : key == "ts" ? &ts : nullptr;
      case 3:
        return key == "cat"   ? &cat
               : key == "pid" ? &pid
               : key == "tid" ? &tid
               : key == "dur" ? &dur
                              : nullptr;
      case 4:
        return key == "name" ? &name : nullptr;
      default:
        return nullptr;
    }
  }
};

// Of a time; nothing: it is none.
std::optional<absl::int128> PsOf(const JsonValue& value) {
  const bool may_be = value.type == JsonType::kNumber || value.type == JsonType::kText;
  return may_be ? MicrosecondsToPs(value.raw) : std::nullopt;
}

// The events of one category on one plane: their names, and the names of their stats.
struct Kind {
  PlaneWriter* plane;
  std::string_view category;
  absl::flat_hash_map<absl::string_view, uint64_t> names = {};  // as in the file
  // Args as they are mostly: in the order of the event before.
  std::vector<std::pair<std::string_view, uint64_t>> args = {};

  uint64_t NameId(std::string_view raw) {
    const auto [found, is_new] = names.try_emplace(Absl(raw), 0);
    if (is_new) found->second = plane->AddEventMetadata(Text(raw), "category", Text(category));
    return found->second;
  }
  uint64_t StatId(size_t place, std::string_view key) {
    if (place >= args.size()) args.resize(place + 1);
    auto& [name, id] = args[place];
    if (id != 0 && name == key) return id;
    const Group group = GroupOf(category);
    const bool joins = group == Group::kExecution || group == Group::kLaunch;
    id = plane->StatId(joins && key == "correlation" ? "correlation_id" : Text(key));
    name = key;
    return id;
  }
};

// What the events of one category, process and thread have in common.
struct Track {
  LineWriter* line;
  Kind* kind;
};

class Transcoder {
 public:
  Transcoder(std::string_view json, std::string name, Diagnostics* diagnostics)
      : json_(json), name_(std::move(name)), cursor_(json), diagnostics_(diagnostics) {}

  absl::Status Read();
  // The file ends in the middle.
  bool ran_out() const { return cursor_.ran_out(); }
  Space Write();

 private:
  // Once more, carefully, where it is no JSON; notes what is irregular. False at damage.
  template <typename ReadPart>
  bool ReadTolerantly(ReadPart read);
  bool ReadRootMember(std::string_view key);
  bool ReadEvents();
  bool ReadEvent();

  void AddEvent(uint64_t byte_offset);
  // On the lines; nothing: off the axis.
  std::optional<int64_t> OffsetPs(absl::int128 start_ps);
  const Track& TrackOfEvent();
  Track MakeTrack();
  LineWriter* LineOf(PlaneWriter* plane, std::string_view group, std::string_view tid);
  void NameThread();

  void DescribeDevices();
  void DescribeRun();
  void NameHostLines();

  const std::string_view json_;
  const std::string name_;
  JsonCursor cursor_;
  Diagnostics* const diagnostics_;
  bool any_trace_events_ = false;
  uint64_t events_ = 0;

  Event event_;
  WireBytes bytes_;
  std::optional<int64_t> begin_us_;  // of all lines, without the base

  Spill spill_;
  PlaneWriter host_{"/host:CPU", &spill_};
  std::map<int64_t, PlaneWriter> devices_;  // by ordinal
  std::map<std::pair<PlaneWriter*, std::string_view>, Kind> kinds_;
  std::map<std::tuple<PlaneWriter*, std::string_view, std::string_view>, LineWriter*> lines_;
  using TrackKey = std::tuple<absl::string_view, absl::string_view, absl::string_view>;
  absl::flat_hash_map<TrackKey, Track> tracks_;                  // by category, process and thread
  using Thread = std::pair<std::string_view, std::string_view>;  // pid, tid
  std::map<Thread, std::string_view> thread_names_;
  Members root_;  // but the events
};

template <typename ReadPart>
bool Transcoder::ReadTolerantly(ReadPart read) {
  cursor_.Peek();
  const uint64_t begin = cursor_.offset();
  cursor_.ForgetIrregular();
  if (!read()) {
    const JsonCursor damaged = cursor_;
    cursor_.ReturnTo(begin);
    cursor_.set_careful(true);
    const bool ok = !damaged.ran_out() && read();
    cursor_.set_careful(false);
    if (!ok) cursor_ = damaged;
    if (!ok) return false;
  }
  const std::string_view bytes = json_.substr(begin, cursor_.offset() - begin);
  if (cursor_.irregular() || (cursor_.any_not_ascii() && !IsUtf8(bytes))) {
    diagnostics_->Count(DiagnosticCode::kIrregularJson, {.byte_offset = begin});
  }
  return true;
}

absl::Status Transcoder::Read() {
  if (json_.starts_with(kByteOrderMark)) cursor_.ReturnTo(kByteOrderMark.size());
  const bool is_array = cursor_.Peek() == '[';
  const bool read =
      is_array ? ReadEvents()
               : cursor_.ReadObject([&](std::string_view key) { return ReadRootMember(key); });
  if (!read || !cursor_.ReadEnd()) {
    return DataLoss(name_, ": damaged Kineto trace: ", cursor_.error(), " (byte ", cursor_.offset(),
                    "); record it again, or copy it again without conversion");
  }
  if (!any_trace_events_) {
    return DataLoss(name_, ": JSON without \"traceEvents\" (byte ", cursor_.offset(),
                    "), so no trace of Kineto (PyTorch); give what torch.profiler wrote, or the ",
                    ".xplane.pb beside it");
  }
  if (events_ == 0) {
    return DataLoss(name_, ": a trace in JSON without any event that has a beginning and a ",
                    "duration (byte ", cursor_.offset(), "); was anything profiled?");
  }
  return absl::OkStatus();
}

bool Transcoder::ReadRootMember(std::string_view key) {
  if (key == "traceEvents") return ReadEvents();
  JsonValue& value = root_.emplace_back(key, JsonValue()).second;
  return ReadTolerantly([&] {
    if (!cursor_.ReadValue(&value)) return false;
    const char next = cursor_.Peek();
    return next == ',' || next == '}' || cursor_.Fail("a comma or } is expected");
  });
}

bool Transcoder::ReadEvents() {
  any_trace_events_ = true;
  return cursor_.ReadArray([&] {
    cursor_.Peek();
    const uint64_t begin = cursor_.offset();
    if (!ReadTolerantly([&] { return ReadEvent(); })) return false;
    if (event_.ph.raw == "X") AddEvent(begin);
    if (event_.ph.raw == "M" && event_.name.raw == "thread_name") NameThread();
    return true;
  });
}

bool Transcoder::ReadEvent() {
  event_.Clear();
  JsonValue ignored;
  if (cursor_.Peek() != '{') return cursor_.ReadValue(&ignored);
  return cursor_.ReadObject([&](std::string_view key) {
    if (key == "args" && cursor_.Peek() == '{') return ReadMembers(&cursor_, &event_.args);
    JsonValue* const part = event_.Find(key);
    return cursor_.ReadValue(part == nullptr ? &ignored : part);
  });
}

void Transcoder::AddEvent(uint64_t byte_offset) {
  const auto skip = [&](DiagnosticCode code) {
    diagnostics_->Count(code, {.byte_offset = byte_offset});
  };
  const auto start_ps = PsOf(event_.ts), duration_ps = PsOf(event_.dur);
  if (event_.name.type != JsonType::kText || !start_ps.has_value() || !duration_ps.has_value()) {
    return skip(DiagnosticCode::kIncompleteEvent);
  }
  if (*duration_ps < 0) return skip(DiagnosticCode::kNegativeDuration);
  const std::optional<int64_t> offset_ps = OffsetPs(*start_ps);
  if (!offset_ps.has_value() || *duration_ps > kAxisLimitPs) {
    return skip(DiagnosticCode::kTimeOverflow);
  }
  constexpr uint32_t kMetadataId = 1, kOffsetPs = 2, kDurationPs = 3, kStats = 4;
  const Track& track = TrackOfEvent();
  bytes_.Clear();
  bytes_.Number(kMetadataId, track.kind->NameId(event_.name.raw));
  bytes_.Number(kOffsetPs, static_cast<uint64_t>(*offset_ps));
  bytes_.Number(kDurationPs, static_cast<uint64_t>(*duration_ps));
  size_t place = 0;
  for (const auto& [key, value] : event_.args) {
    PutStat(kStats, track.kind->StatId(place++, key), value, &bytes_);
  }
  track.line->Add(bytes_.bytes());
  ++events_;
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

const Track& Transcoder::TrackOfEvent() {
  const TrackKey key = {Absl(event_.cat.raw), Absl(event_.pid.raw), Absl(event_.tid.raw)};
  const auto found = tracks_.find(key);
  return found != tracks_.end() ? found->second : tracks_.emplace(key, MakeTrack()).first->second;
}

Track Transcoder::MakeTrack() {
  const std::string_view category = event_.cat.raw;
  const Group group = GroupOf(category);
  const bool is_execution = group == Group::kExecution;
  const auto ordinal = Whole<int64_t>(event_.pid.raw);
  const bool on_device = (is_execution || group == Group::kOnDevice) && ordinal.value_or(-1) >= 0;
  PlaneWriter* plane = &host_;
  if (on_device) {
    const std::string name = Cat("/device:GPU:", *ordinal);
    plane = &devices_.try_emplace(*ordinal, name, &spill_).first->second;
  }
  LineWriter* line = nullptr;
  if (on_device) {
    std::string_view stream = event_.tid.raw;
    constexpr std::string_view kStream2021 = "stream ";
    if (stream.starts_with(kStream2021)) stream.remove_prefix(kStream2021.size());
    line = LineOf(plane, is_execution ? "" : category, stream);
    line->SetName(Cat(is_execution ? "Stream" : Text(category), " #", Text(stream)));
  } else {
    line = LineOf(plane, event_.pid.raw, event_.tid.raw);
  }
  Kind& kind = kinds_.try_emplace({plane, category}, Kind{plane, category}).first->second;
  return {line, &kind};
}

LineWriter* Transcoder::LineOf(PlaneWriter* plane, std::string_view group, std::string_view tid) {
  LineWriter*& line = lines_[{plane, group, tid}];
  if (line != nullptr) return line;
  line = plane->AddLine();
  if (const auto number = Whole<int64_t>(tid); number.has_value()) line->SetNumber(*number);
  return line;
}

void Transcoder::NameThread() {
  const JsonValue name = Find(event_.args, "name");
  if (name.type != JsonType::kText || name.raw.empty()) return;
  thread_names_[{event_.pid.raw, event_.tid.raw}] = name.raw;
}

void Transcoder::NameHostLines() {
  for (const auto& [key, line] : lines_) {
    const auto& [plane, pid, tid] = key;
    if (plane != &host_) continue;
    const auto named = thread_names_.find({pid, tid});
    line->SetName(named != thread_names_.end() ? Text(named->second)
                                               : Cat("pid ", Text(pid), " tid ", Text(tid)));
  }
}

// What the profiler says of a device, under the names by which XPlane knows it, too.
void Transcoder::DescribeDevices() {
  using Renamed = std::pair<std::string_view, std::string_view>;
  constexpr Renamed kKnown[] = {{"name", "device_type_string"},
                                {"computeMajor", "compute_cap_major"},
                                {"computeMinor", "compute_cap_minor"},
                                {"numSms", "core_count"},
                                {"totalGlobalMem", "memory_size"}};
  constexpr Renamed kVendors[] = {{"NVIDIA", "Nvidia"}, {"AMD", "AMD"}};
  JsonCursor cursor(Find(root_, "deviceProperties").raw);
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

void Transcoder::DescribeRun() {
  for (const auto& [key, value] : root_) {
    if (key != "deviceProperties" && key != "distributedInfo") Describe(Text(key), value, &host_);
  }
  for (const auto& [key, value] : MembersOf(Find(root_, "distributedInfo").raw)) {
    Describe(Text(key), value, &host_);
    if (key != "rank" && key != "world_size") continue;
    for (auto& [ordinal, plane] : devices_) Describe(key, value, &plane);
  }
}

Space Transcoder::Write() {
  NameHostLines();
  DescribeDevices();
  DescribeRun();
  const auto base_ns = Whole<int64_t>(Find(root_, "baseTimeNanoseconds").raw);
  std::vector<PlaneWriter*> planes;
  for (auto& [ordinal, plane] : devices_) planes.push_back(&plane);
  planes.push_back(&host_);
  const JsonValue host = Find(root_, "host_name");
  return WriteSpace(planes, spill_, SaturatingAdd(*begin_us_ * 1000, base_ns.value_or(0)),
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
  return LooksLikeJson(head) && head.find("\"traceEvents\"") != head.npos;
}

absl::StatusOr<Space> Transcode(std::string_view json, const std::string& name,
                                Diagnostics* diagnostics) {
  Transcoder transcoder(json, name, diagnostics);
  RETURN_IF_ERROR(transcoder.Read());
  return transcoder.Write();
}

absl::Status CheckHead(std::string_view head, const std::string& name) {
  Diagnostics untold;
  Transcoder transcoder(head, name, &untold);
  const absl::Status status = transcoder.Read();
  return transcoder.ran_out() ? absl::OkStatus() : status;
}

}  // namespace xplane_time::kineto
