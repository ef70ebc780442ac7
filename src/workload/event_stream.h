// Lines and server-sent events of a stream that comes in pieces, cut anywhere.
//
//   EventStream events(kMostBytes);
//   events.Push("data: {\"a\":1}\r", on_event);   // nothing yet
//   events.Push("\n\r\ndata: x", on_event);       // on_event({.data = "{\"a\":1}"})
//   events.HasCutEvent();                         // true: "x" may have been a part of it
//
// A line ends with CR, LF or CRLF; it is whole as soon as its CR is there. No more than
// `most_bytes` are held, of a line or of an event: what is longer is ResourceExhausted, and so is
// all after it.
//
// Not handled: what a browser does to connect again (`id`, `retry`), which is ignored.
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
  // Calls `on_line` with each line that is whole, without its end. Errors: its, ResourceExhausted.
  absl::Status Push(std::string_view bytes,
                    absl::FunctionRef<absl::Status(std::string_view)> on_line);
  // What has no end yet.
  const std::string& rest() const { return line_; }

 private:
  const size_t most_bytes_;
  std::string line_;
  bool after_cr_ = false;
};

struct ServerEvent {
  std::string type = {};  // empty: message
  std::string data = {};  // of several `data` lines, with LF between them
};

// As the HTML standard parses an event stream.
class EventStream {
 public:
  explicit EventStream(size_t most_bytes) : most_bytes_(most_bytes), lines_(most_bytes) {}
  // Calls `on_event` with each event that is whole. Errors: its, ResourceExhausted.
  absl::Status Push(std::string_view bytes,
                    absl::FunctionRef<absl::Status(const ServerEvent&)> on_event);
  // At the end of the stream: its last event has no end.
  bool HasCutEvent() const { return has_data_ || !lines_.rest().empty(); }

 private:
  absl::Status TakeField(std::string_view line);

  const size_t most_bytes_;
  LineSplitter lines_;
  ServerEvent event_;
  bool has_data_ = false, is_first_line_ = true;
};

}  // namespace xplane_time
