// EventWalk: the events of a Kineto trace, in the order of the file, some hundreds at a time.
//
//   {"deviceProperties": [...], "traceEvents": [{"ph": "X", "cat": "kernel", ...}, ...], ...}
//
// Events are the complete ones (ph X), and readings of counters (ph C). Values are views of the
// JSON, not converted yet. All other events are skipped, but read by the same rules, so that damage
// inside one of them cannot hide the events behind it.
//
// Proton (Triton) writes several such documents into one file, a line and a stream each. They are
// read as one if they have no members but "traceEvents" and "displayTimeUnit".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "json/json_cursor.h"
#include "xplane_time/diagnostics.h"

namespace xplane_time::kineto {

using json::JsonCursor, json::JsonShape, json::JsonType, json::JsonValue;

using Member = std::pair<std::string_view, JsonValue>;
using Members = std::vector<Member>;

// Of an object; the last of equal ones counts.
JsonValue Find(std::span<const Member> members, std::string_view key);

struct Event {
  Event() {}  // not filled with zeros before, as an aggregate is

  JsonValue cat, name, pid, tid, ts, dur;
  uint64_t byte_offset = 0;
  bool is_counter = false;  // no duration; what it counts is in its args
  size_t first_arg = 0, arg_count = 0;
};

struct EventChunk {
  std::vector<Event> rows;
  Members args;  // of all of them

  std::span<const Member> ArgsOf(const Event& event) const {
    return std::span(args).subspan(event.first_arg, event.arg_count);
  }
};

class EventWalk {
 public:
  // `json` outlives it, and what it gives.
  EventWalk(std::string_view json, std::string name)
      : json_(json), name_(std::move(name)), cursor_(json) {}

  // The next events; none at the end. Errors: DataLoss with the byte offset.
  absl::Status Next(EventChunk* chunk);
  // The file ends in the middle.
  bool ran_out() const { return cursor_.ran_out(); }

  // After the end.
  uint64_t size() const { return cursor_.offset(); }
  const Members& root() const { return root_; }  // but the events
  // Names are of a pid, or of a pid and a tid; views of the JSON as are all texts here.
  struct TrackName {
    JsonValue pid, tid;
    std::string_view name;
  };
  const std::vector<TrackName>& thread_names() const { return thread_names_; }
  const std::vector<TrackName>& process_names() const { return process_names_; }
  const Diagnostics& diagnostics() const { return diagnostics_; }

 private:
  enum class State : uint8_t { kBegin, kRoot, kEvents, kEnd };

  // False at damage.
  bool Step(EventChunk* chunk);
  bool Begin();
  bool StepInRoot();
  bool StepInEvents(EventChunk* chunk);
  bool ReadEvent(EventChunk* chunk, Event* event, std::string_view* phase);
  // The members of an event from the `place`-th on.
  bool SkipMembers(size_t place);
  bool ReadName(bool pid_follows, JsonValue* name);
  // Once more, carefully, where it is no JSON; notes what is irregular.
  template <typename ReadPart>
  bool ReadTolerantly(ReadPart read);
  bool ReadArgs(std::string_view category, Members* args);
  JsonShape* ShapeOf(std::string_view category);
  void NameTrack(const Event& event, std::span<const Member> args);
  // Another document of the same kind follows.
  bool ContinuesInNextDocument();

  const std::string_view json_;
  const std::string name_;
  JsonCursor cursor_;
  Diagnostics diagnostics_;
  State state_ = State::kBegin;
  bool is_continued_ = false;  // a document before this one
  bool is_array_ = false, first_member_ = true, first_event_ = true, any_trace_events_ = false;
  JsonShape shape_, skipped_shape_;                          // of events
  using ArgsShape = std::pair<std::string_view, JsonShape>;  // of those of a category
  std::vector<ArgsShape> shapes_of_args_;
  size_t most_args_ = 0;  // of a chunk so far
  Members root_;
  std::vector<TrackName> thread_names_, process_names_;
};

}  // namespace xplane_time::kineto
