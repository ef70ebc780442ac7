// EventSource: what stands behind a Trace. A reader fills the index of planes and
// lines when a trace is opened, and decodes events later, line by line.
//
// Two readers: wire_reader (our own) and reference_reader (the generated parser).
#ifndef XPLANE_TIME_SRC_READ_EVENT_SOURCE_H_
#define XPLANE_TIME_SRC_READ_EVENT_SOURCE_H_

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "read/batch_builder.h"
#include "read/source.h"
#include "xplane_time/trace.h"

namespace xplane_time {

// Decodes the events of one line, some at a time.
class LineDecoder {
 public:
  virtual ~LineDecoder() = default;
  // Adds events until the builder is full or the line ends.
  virtual absl::Status Fill(BatchBuilder* builder) = 0;
};

// As many lines a thread of EventSource::IndexLines begins with.
inline constexpr size_t kLinesAtOnce = 4;

// Hands out lines to whoever has time, each once. Thread-safe; a copy is the same queue.
class LineQueue {
 public:
  struct Entry {
    uint32_t index;
    Line* line;
    absl::Status* status;  // where its error goes
  };
  LineQueue(std::span<const uint32_t> order, std::span<Line> lines, std::span<absl::Status> status,
            std::atomic<size_t>* next)
      : order_(order), lines_(lines), status_(status), next_(next) {}

  bool Next(Entry* entry) {
    const size_t i = (*next_)++;
    if (i >= order_.size()) return false;
    *entry = {order_[i], &lines_[order_[i]], &status_[order_[i]]};
    return true;
  }

 private:
  std::span<const uint32_t> order_;
  std::span<Line> lines_;
  std::span<absl::Status> status_;
  std::atomic<size_t>* next_;
};

class EventSource {
 public:
  virtual ~EventSource() = default;

  // Called once a file, before its planes are indexed.
  virtual absl::Status AddFile(std::unique_ptr<Source> source, const std::string& path) = 0;
  // Fills metadata, stats and lines (appended to trace->lines, `bytes` set) of the plane
  // whose message is at plane->bytes. `message` counts the XPlane messages of the file.
  virtual absl::Status IndexPlane(uint32_t file, size_t message, Plane* plane, Trace* trace) = 0;
  // Fills the rest of the lines that the queue hands out, after all planes. May run on
  // several threads.
  virtual void IndexLines(const Trace& trace, LineQueue queue) const = 0;
  virtual std::unique_ptr<LineDecoder> Decode(const Trace& trace, uint32_t line) const = 0;

  std::string_view FileBytes(uint32_t file) const { return sources_[file]->bytes(); }

 protected:
  void Keep(std::unique_ptr<Source> source) { sources_.push_back(std::move(source)); }

 private:
  std::vector<std::unique_ptr<Source>> sources_;
};

std::unique_ptr<EventSource> MakeWireReader();
std::unique_ptr<EventSource> MakeReferenceReader();

// "FILE: WHAT (plane P, line L, event E, byte B)".
struct ErrorPlace {
  std::string_view file = {}, plane = {}, line = {};
  uint64_t event = Location::kNowhere, byte_offset = Location::kNowhere;
};
absl::Status DamageError(std::string_view what, const ErrorPlace& place);

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_READ_EVENT_SOURCE_H_
