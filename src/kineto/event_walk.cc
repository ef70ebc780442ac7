// Walks over the JSON of a Kineto trace with a JsonCursor, as a state machine:
//
//   kBegin -> kRoot (members of the document) <-> kEvents (elements of "traceEvents") -> kEnd
//
// A document that is an array has only the state kEvents. Each event is read member by member;
// objects of one category are usually written alike, so a JsonShape predicts the bytes between
// their values. If an event is invalid JSON, it is read again in careful mode (ReadTolerantly),
// which repairs unescaped quotes inside names (FindNameEnd). Time: O(bytes); memory: one chunk.
#include "kineto/event_walk.h"

#include <algorithm>

#include "status.h"

namespace xplane_time::kineto {
namespace {

constexpr std::string_view kTimeUnit = "displayTimeUnit";
constexpr size_t kChunkEvents = 2048;

// The destination of a member of an event; null: the member is not needed.
JsonValue* PartOf(Event* event, std::string_view key) {
  switch (key.size()) {
    case 2:
      return key == "ts" ? &event->ts : nullptr;
    case 3:
      return key == "cat"   ? &event->cat
             : key == "pid" ? &event->pid
             : key == "tid" ? &event->tid
             : key == "dur" ? &event->dur
                            : nullptr;
    case 4:
      return key == "name" ? &event->name : nullptr;
    default:
      return nullptr;
  }
}

// Names with unescaped quotes: "name": "a "b", c(1): f", "pid": 1. Such a text ends before the rest
// of an event. In Kineto's own order of members, the rest begins with the pid.

// The key at the beginning of `text`, if `text` begins with `, "key":`.
std::string_view KeyAfterComma(std::string_view text) {
  JsonCursor cursor(text);
  std::string_view key;
  bool more = true;
  const bool is_key = cursor.Peek() == ',' && cursor.NextMember(false, &key, &more);
  return is_key ? key : std::string_view();
}

bool IsEventKey(std::string_view key) {
  constexpr std::string_view kKeys[] = {"ph",  "cat", "name", "pid", "tid", "ts",
                                        "dur", "id",  "args", "bp",  "s"};
  return std::ranges::find(kKeys, key) != std::end(kKeys);
}

// Whether `text` begins with "}" and the beginning of the next event or the end of all events.
bool EndsEvent(std::string_view text) {
  JsonCursor cursor(text);
  std::string_view key;
  bool more = true;
  if (!cursor.Pass('}')) return false;
  if (cursor.Pass(',')) {
    return cursor.Pass('{') && cursor.NextMember(true, &key, &more) && (!more || IsEventKey(key));
  }
  if (!cursor.Pass(']')) return cursor.Peek() == '\0';
  const char next = cursor.Peek();
  return next == ',' || next == '}' || next == '\0';
}

// Removes `c` and the spaces after it from the end of the text. False: the text does not end with
// them.
bool DropFromEnd(char c, std::string_view* text) {
  const size_t last = text->find_last_not_of(" \n\r\t");
  if (last == text->npos || (*text)[last] != c) return false;
  text->remove_suffix(text->size() - last);
  return true;
}

// Whether the quote at `at` opens the first key of an object; and of the next event.
bool IsFirstKey(std::string_view text, size_t at) {
  std::string_view before = text.substr(0, at);
  return DropFromEnd('{', &before);
}
bool IsFirstKeyOfNextEvent(std::string_view text, size_t at) {
  std::string_view before = text.substr(0, at), key;
  JsonCursor cursor(text.substr(at));
  bool more = true;
  return DropFromEnd('{', &before) && DropFromEnd(',', &before) && DropFromEnd('}', &before) &&
         cursor.NextMember(true, &key, &more) && IsEventKey(key);
}

// Returns the position of the quote that closes a name, or npos. `text` begins after the opening
// quote. If a pid follows the name, the name ends before the pid, whatever is in between.
// Otherwise, or if the event has no pid, it ends before the first other key of an event.
size_t FindNameEnd(std::string_view text, bool pid_follows) {
  constexpr size_t kMaxNameBytes = size_t{1} << 16;
  text = text.substr(0, kMaxNameBytes);
  size_t found = text.npos;
  for (size_t at = text.find_first_of("\"\\"); at != text.npos;
       at = text.find_first_of("\"\\", at)) {
    if (text[at] == '\\') {
      at += 2;
      continue;
    }
    // The event has ended.
    if (found != text.npos ? IsFirstKey(text, at) : IsFirstKeyOfNextEvent(text, at)) return found;
    const std::string_view rest = text.substr(at + 1);
    const std::string_view key = KeyAfterComma(rest);
    const bool ends_event = EndsEvent(rest);
    if (key == "pid") return at;
    if (found == text.npos && (ends_event || IsEventKey(key))) found = at;
    if (found != text.npos && (ends_event || !pid_follows)) return found;
    ++at;
  }
  return found;
}

}  // namespace

JsonValue Find(std::span<const Member> members, std::string_view key) {
  const auto found = std::find_if(members.rbegin(), members.rend(),
                                  [key](const Member& member) { return member.first == key; });
  return found == members.rend() ? JsonValue() : found->second;
}

template <typename ReadPart>
bool EventWalk::ReadTolerantly(ReadPart read) {
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
  if (cursor_.irregular() || (cursor_.any_not_ascii() && !json::IsUtf8(bytes))) {
    diagnostics_.Count(DiagnosticCode::kIrregularJson, {.byte_offset = begin});
  }
  return true;
}

absl::Status EventWalk::Next(EventChunk* chunk) {
  chunk->rows.clear();
  chunk->rows.reserve(kChunkEvents);
  chunk->args.clear();
  chunk->args.reserve(most_args_);
  while (state_ != State::kEnd && chunk->rows.size() < kChunkEvents) {
    if (Step(chunk)) continue;
    return DataLoss(name_, ": damaged Kineto trace: ", cursor_.error(), " (byte ", cursor_.offset(),
                    "); record it again, or copy it again without conversion");
  }
  if (!any_trace_events_) {
    return DataLoss(
        name_, ": JSON without \"traceEvents\" (byte ", cursor_.offset(),
        "), so not a Kineto trace (PyTorch); give the file written by torch.profiler, or the ",
        ".xplane.pb beside it");
  }
  most_args_ = std::max(most_args_, chunk->args.size());
  return absl::OkStatus();
}

bool EventWalk::Step(EventChunk* chunk) {
  if (state_ == State::kBegin) return Begin();
  return state_ == State::kRoot ? StepInRoot() : StepInEvents(chunk);
}

bool EventWalk::Begin() {
  if (json_.starts_with(kByteOrderMark)) cursor_.ReturnTo(kByteOrderMark.size());
  is_array_ = any_trace_events_ = cursor_.Peek() == '[';
  state_ = is_array_ ? State::kEvents : State::kRoot;
  return cursor_.Enter(is_array_ ? '[' : '{');
}

bool EventWalk::StepInRoot() {
  std::string_view key;
  bool more = true;
  if (!cursor_.NextMember(std::exchange(first_member_, false), &key, &more)) return false;
  if (!more) {
    if (ContinuesInNextDocument()) return cursor_.Enter('{');
    state_ = State::kEnd;
    return cursor_.ReadEnd();
  }
  if (is_continued_ && key != "traceEvents" && key != kTimeUnit) {
    return cursor_.Fail("more than one document");
  }
  if (key == "traceEvents") {
    any_trace_events_ = first_event_ = true;
    state_ = State::kEvents;
    return cursor_.Enter('[');
  }
  JsonValue& value = root_.emplace_back(key, JsonValue()).second;
  return ReadTolerantly([&] {
    if (!cursor_.ReadValue(&value)) return false;
    const char next = cursor_.Peek();
    return next == ',' || next == '}' || cursor_.Fail("expected a comma or }");
  });
}

bool EventWalk::ContinuesInNextDocument() {
  const bool is_alike = any_trace_events_ && std::ranges::all_of(root_, [](const Member& member) {
                          return member.first == kTimeUnit;
                        });
  is_continued_ = first_member_ = is_alike && cursor_.Peek() == '{';
  return is_continued_;
}

bool EventWalk::StepInEvents(EventChunk* chunk) {
  bool more = true;
  if (!cursor_.NextElement(std::exchange(first_event_, false), &more)) return false;
  if (!more) {
    state_ = is_array_ ? State::kEnd : State::kRoot;
    return !is_array_ || cursor_.ReadEnd();
  }
  cursor_.Peek();
  Event& event = chunk->rows.emplace_back();
  const uint64_t begin = cursor_.offset();
  const size_t first_arg = chunk->args.size();
  std::string_view phase;
  bool again = false;
  const auto read = [&] {
    if (std::exchange(again, true)) {
      event = Event();
      chunk->args.resize(first_arg);
    }
    return ReadEvent(chunk, &event, &phase);
  };
  if (!ReadTolerantly(read)) return false;
  event.byte_offset = begin;
  event.is_counter = phase == "C";
  if (phase == "X" || event.is_counter) return true;
  if (phase == "M") NameTrack(event, chunk->ArgsOf(event));
  chunk->args.resize(first_arg);
  chunk->rows.pop_back();
  return true;
}

bool EventWalk::ReadEvent(EventChunk* chunk, Event* event, std::string_view* phase) {
  JsonValue ignored, ph;
  if (cursor_.Peek() != '{') return cursor_.ReadValue(&ignored);
  if (!cursor_.Enter('{')) return false;
  std::string_view key;
  bool more = true;
  for (size_t place = 0;; ++place) {
    if (!cursor_.NextMemberLike(place, &shape_, &key, &more)) return false;
    if (!more) return true;
    if (key == "ph") {
      if (!cursor_.ReadValue(&ph)) return false;
      *phase = ph.raw;
      const bool is_read = ph.raw == "X" || ph.raw == "M" || ph.raw == "C";
      if (!is_read) return SkipMembers(place + 1);
    } else if (key == "args" && cursor_.Peek() == '{') {
      event->first_arg = chunk->args.size();
      if (!ReadArgs(event->cat.raw, &chunk->args)) return false;
      event->arg_count = chunk->args.size() - event->first_arg;
    } else if (JsonValue* const part = PartOf(event, key); part == &event->name) {
      if (!ReadName(event->pid.type == JsonType::kNothing, part)) return false;
    } else {
      if (!cursor_.ReadValue(part == nullptr ? &ignored : part)) return false;
    }
  }
}

bool EventWalk::SkipMembers(size_t place) {
  JsonValue ignored;
  std::string_view key;
  bool more = true, has_pid = false;
  // Up to its phase, a skipped event looks like any other event.
  auto& gaps = skipped_shape_.gaps;
  if (gaps.empty()) gaps = shape_.gaps;
  for (; cursor_.NextMemberLike(place, &skipped_shape_, &key, &more); ++place) {
    if (!more) return true;
    has_pid |= key == "pid";
    if (!(key == "name" ? ReadName(!has_pid, &ignored) : cursor_.ReadValue(&ignored))) return false;
  }
  return false;
}

bool EventWalk::ReadName(bool pid_follows, JsonValue* name) {
  if (!cursor_.careful() || cursor_.Peek() != '"') return cursor_.ReadValue(name);
  const size_t size = FindNameEnd(cursor_.rest().substr(1), pid_follows);
  if (size == std::string_view::npos) return cursor_.ReadValue(name);
  name->type = JsonType::kText;
  cursor_.ReadSizedText(size, &name->raw);
  return true;
}

bool EventWalk::ReadArgs(std::string_view category, Members* args) {
  JsonShape* const shape = ShapeOf(category);
  if (!cursor_.Enter('{')) return false;
  std::string_view key;
  bool more = true;
  for (size_t place = 0; cursor_.NextMemberLike(place, shape, &key, &more); ++place) {
    if (!more) return true;
    if (!cursor_.ReadValue(&args->emplace_back(key, JsonValue()).second)) return false;
  }
  return false;
}

// There are few categories; all further ones share one shape.
JsonShape* EventWalk::ShapeOf(std::string_view category) {
  constexpr size_t kMostCategories = 16;
  auto found = std::ranges::find(shapes_of_args_, category, &ArgsShape::first);
  if (found != shapes_of_args_.end()) return &found->second;
  if (shapes_of_args_.size() == kMostCategories) return &shapes_of_args_.back().second;
  return &shapes_of_args_.emplace_back(category, JsonShape()).second;
}

void EventWalk::NameTrack(const Event& event, std::span<const Member> args) {
  const bool is_thread = event.name.raw == "thread_name";
  if (!is_thread && event.name.raw != "process_name") return;
  const JsonValue name = Find(args, "name");
  if (name.type != JsonType::kText || name.raw.empty()) return;
  (is_thread ? thread_names_ : process_names_).push_back({event.pid, event.tid, name.raw});
}

}  // namespace xplane_time::kineto
