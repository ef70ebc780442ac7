// EventSource: what stands behind a Trace. A reader fills the index of planes and
// lines when a trace is opened, and decodes events later, line by line.
//
// Two readers: wire_reader (our own) and reference_reader (the generated parser).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "read/batch_builder.h"
#include "read/source.h"
#include "read/wire.h"
#include "xplane_time/trace.h"

namespace xplane_time {

// Decodes the events of one line, some at a time.
class LineDecoder {
 public:
  virtual ~LineDecoder() = default;
  // Adds events until the builder is full or the line ends.
  virtual absl::Status Fill(BatchBuilder* builder) = 0;
};

class EventSource {
 public:
  virtual ~EventSource() = default;

  // Called once a file, before its planes are indexed.
  virtual absl::Status AddFile(std::shared_ptr<const Source> source, const std::string& path) = 0;
  // Fills metadata, stats and lines (appended to trace->lines, `bytes` set) of the plane
  // whose message is at plane->bytes. `message` counts the XPlane messages of the file.
  virtual absl::Status IndexPlane(uint32_t file, size_t message, Plane* plane, Trace* trace) = 0;
  // Fills the rest of `lines`, which are the trace's, after all planes; `status` gets each
  // line's own.
  virtual void IndexLines(const Trace& trace, int threads, std::span<Line> lines,
                          std::span<absl::Status> status) const = 0;
  virtual std::unique_ptr<LineDecoder> Decode(const Trace& trace, uint32_t line) const = 0;

  std::string_view FileBytes(uint32_t file) const { return sources_[file]->bytes(); }

 protected:
  void Keep(std::shared_ptr<const Source> source) { sources_.push_back(std::move(source)); }

 private:
  std::vector<std::shared_ptr<const Source>> sources_;
};

std::unique_ptr<EventSource> MakeWireReader();
std::unique_ptr<EventSource> MakeReferenceReader();

// "FILE: WHAT (plane P, line L, event E, byte B)".
struct ErrorPlace {
  std::string_view file = {}, plane = {}, line = {};
  uint64_t event = Location::kNowhere, byte_offset = Location::kNowhere;
};
absl::Status DamageError(std::string_view what, const ErrorPlace& place);
absl::Status LineDamage(const Trace& trace, const Line& line, const Damage& damage,
                        uint64_t event = Location::kNowhere);

}  // namespace xplane_time
