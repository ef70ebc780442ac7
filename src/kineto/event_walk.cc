#include "kineto/event_walk.h"

#include <algorithm>

#include "status.h"

namespace xplane_time::kineto {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr size_t kChunkEvents = 2048;

// Where a member of an event goes; null: nobody asks for it.
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
    return DataLoss(name_, ": JSON without \"traceEvents\" (byte ", cursor_.offset(),
                    "), so no trace of Kineto (PyTorch); give what torch.profiler wrote, or the ",
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
    state_ = State::kEnd;
    return cursor_.ReadEnd();
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
    return next == ',' || next == '}' || cursor_.Fail("a comma or } is expected");
  });
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
  if (phase == "M" && event.name.raw == "thread_name") NameThread(event, chunk->ArgsOf(event));
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
      if (!is_read) return cursor_.SkipRestOfObject();
    } else if (key == "args" && cursor_.Peek() == '{') {
      event->first_arg = chunk->args.size();
      if (!ReadArgs(event->cat.raw, &chunk->args)) return false;
      event->arg_count = chunk->args.size() - event->first_arg;
    } else {
      JsonValue* const part = PartOf(event, key);
      if (!cursor_.ReadValue(part == nullptr ? &ignored : part)) return false;
    }
  }
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

// There are few; of any more, one.
JsonShape* EventWalk::ShapeOf(std::string_view category) {
  constexpr size_t kMostCategories = 16;
  auto found = std::ranges::find(shapes_of_args_, category, &ArgsShape::first);
  if (found != shapes_of_args_.end()) return &found->second;
  if (shapes_of_args_.size() == kMostCategories) return &shapes_of_args_.back().second;
  return &shapes_of_args_.emplace_back(category, JsonShape()).second;
}

void EventWalk::NameThread(const Event& event, std::span<const Member> args) {
  const JsonValue name = Find(args, "name");
  if (name.type != JsonType::kText || name.raw.empty()) return;
  thread_names_[{event.pid.raw, event.tid.raw}] = name.raw;
}

}  // namespace xplane_time::kineto
