// Lines and server-sent events of a stream that arrives in pieces, cut anywhere.
//
//   EventStream events(kMostBytes);
//   events.Push("data: {\"a\":1}\r", on_event);   // no event yet
//   events.Push("\n\r\ndata: x", on_event);       // on_event({.data = "{\"a\":1}"})
//   events.HasCutEvent();                         // true: "x" may be the begin of a longer text
//
// A line ends with CR, LF or CRLF; it is complete as soon as its CR has arrived. At most
// `most_bytes` of a line or an event are stored. Longer ones are ResourceExhausted, and so is
// everything after them.
//
// Not handled: the fields that browsers use to reconnect (`id`, `retry`); they are ignored.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace xplane_time {

class LineSplitter {
 public:
  explicit LineSplitter(size_t most_bytes) : most_bytes_(most_bytes) {}
  // Calls `on_line` with each complete line, without its end. Errors: those of `on_line`,
  // ResourceExhausted.
  absl::Status Push(std::string_view bytes,
                    absl::FunctionRef<absl::Status(std::string_view)> on_line);
  // The last, incomplete line.
  const std::string& rest() const { return line_; }

 private:
  const size_t most_bytes_;
  std::string line_;
  bool after_cr_ = false;
};

struct ServerEvent {
  std::string type = {};  // empty: message
  std::string data = {};  // several `data` lines are joined with LF
};

// Parses event streams as defined in the HTML standard.
class EventStream {
 public:
  explicit EventStream(size_t most_bytes) : most_bytes_(most_bytes), lines_(most_bytes) {}
  // Calls `on_event` with each complete event. Errors: those of `on_event`, ResourceExhausted.
  absl::Status Push(std::string_view bytes,
                    absl::FunctionRef<absl::Status(const ServerEvent&)> on_event);
  // At the end of the stream: whether the last event is incomplete.
  bool HasCutEvent() const { return has_data_ || !lines_.rest().empty(); }

 private:
  absl::Status TakeField(std::string_view line);

  const size_t most_bytes_;
  LineSplitter lines_;
  ServerEvent event_;
  bool has_data_ = false, is_first_line_ = true;
};

}  // namespace xplane_time
