// EventWalk: visits the events of a Kineto trace in file order, in chunks of up to some thousand.
//
//   {"deviceProperties": [...], "traceEvents": [{"ph": "X", "cat": "kernel", ...}, ...], ...}
//
// It returns complete events (ph X) and counter readings (ph C). Values are unconverted views of
// the JSON. It skips all other events, but parses them by the same rules, so that damage inside one
// of them cannot hide the events after it.
//
// Proton (Triton) writes several such documents into one file, one line per stream. They are read
// as one document if they have no members except "traceEvents" and "displayTimeUnit".
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

inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

using Member = std::pair<std::string_view, JsonValue>;
using Members = std::vector<Member>;

// The member of an object with this key; if there are several, the last one counts.
JsonValue Find(std::span<const Member> members, std::string_view key);

struct Event {
  Event() {}  // members are not zeroed first, unlike in an aggregate

  JsonValue cat, name, pid, tid, ts, dur;
  uint64_t byte_offset = 0;
  bool is_counter = false;  // a counter reading: no duration; its value is in its args
  size_t first_arg = 0, arg_count = 0;
};

struct EventChunk {
  std::vector<Event> rows;
  Members args;  // args of all rows

  std::span<const Member> ArgsOf(const Event& event) const {
    return std::span(args).subspan(event.first_arg, event.arg_count);
  }
};

class EventWalk {
 public:
  // `json` must outlive the EventWalk and the events that it returns.
  EventWalk(std::string_view json, std::string name)
      : json_(json), name_(std::move(name)), cursor_(json) {}

  // Returns the next events; no rows at the end. Errors: DataLoss with the byte offset.
  absl::Status Next(EventChunk* chunk);
  // Whether the error is that the file ends too early.
  bool ran_out() const { return cursor_.ran_out(); }

  // Size of the file; valid after the end.
  uint64_t size() const { return cursor_.offset(); }
  const Members& root() const { return root_; }  // all members except the events
  // The name of a process (pid) or of a thread (pid and tid). Views of the JSON, like all texts
  // here.
  struct TrackName {
    JsonValue pid, tid;
    std::string_view name;
  };
  const std::vector<TrackName>& thread_names() const { return thread_names_; }
  const std::vector<TrackName>& process_names() const { return process_names_; }
  const Diagnostics& diagnostics() const { return diagnostics_; }

 private:
  enum class State : uint8_t { kBegin, kRoot, kEvents, kEnd };

  // The functions below return false at damage.
  bool Step(EventChunk* chunk);
  bool Begin();
  bool StepInRoot();
  bool StepInEvents(EventChunk* chunk);
  bool ReadEvent(EventChunk* chunk, Event* event, std::string_view* phase);
  // Skips the remaining members of an event, from position `place` on.
  bool SkipMembers(size_t place);
  bool ReadName(bool pid_follows, JsonValue* name);
  // Calls `read`, and calls it again in careful mode if the JSON is invalid. Notes irregular JSON.
  template <typename ReadPart>
  bool ReadTolerantly(ReadPart read);
  bool ReadArgs(std::string_view category, Members* args);
  JsonShape* ShapeOf(std::string_view category);
  void NameTrack(const Event& event, std::span<const Member> args);
  // Whether another document of the same kind follows.
  bool ContinuesInNextDocument();

  const std::string_view json_;
  const std::string name_;
  JsonCursor cursor_;
  Diagnostics diagnostics_;
  State state_ = State::kBegin;
  bool is_continued_ = false;  // another document precedes this one
  bool is_array_ = false, first_member_ = true, first_event_ = true, any_trace_events_ = false;
  JsonShape shape_, skipped_shape_;                          // shapes of events
  using ArgsShape = std::pair<std::string_view, JsonShape>;  // category, and the shape of its args
  std::vector<ArgsShape> shapes_of_args_;
  size_t most_args_ = 0;  // maximum number of args in a chunk so far
  Members root_;
  std::vector<TrackName> thread_names_, process_names_;
};

}  // namespace xplane_time::kineto
