// The index of lines on the wire: their headers and numbers of events. Events are hopped
// over by length.
//
//   |header|event|event| ... |event|event| ... |event|trailer|
//   |        piece 0         |     piece 1     |   piece 2   |
//
// Where an event ends is known only when its length has arrived from memory. So long lines
// are cut into pieces, at places that look like the beginning of an event, and each thread
// hops through several pieces at once. A guess may be wrong: a piece counts only if the
// events before it end exactly where it begins; else the line is hopped through from there
// once more, one event after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "read/event_source.h"
#include "xplane_time/trace.h"

namespace xplane_time {

// The bytes of the file that a plane (by index) is from.
using WireFiles = absl::FunctionRef<std::string_view(uint32_t plane)>;

struct IndexOptions {
  int threads = 1;
  size_t piece_bytes = size_t{1} << 20;
};

// Fills the rest of `lines`, whose plane and bytes are set; `status` gets each line's own.
// What is found depends neither on the threads nor on the pieces.
void IndexWireLines(const WireFiles& files, const Trace& trace, const IndexOptions& options,
                    std::span<Line> lines, std::span<absl::Status> status);

// The events of a line on the wire.
//
// Events are decoded the fast way (FastEvent): fields in the usual encoding, wide
// loads, no error texts. Whatever it does not know or finds damaged goes the careful
// way, field by field with WireCursor, from the event's beginning; that one decides.

// XLine.events
inline constexpr uint32_t kEventsField = 4;
inline constexpr char kEventsTag = 0x22;
// Far enough ahead for memory to answer in time.
inline constexpr size_t kPrefetchBytes = 2048;

enum class VarintWay : uint8_t { kBest, kPortable };

// `file` outlives the decoder.
std::unique_ptr<LineDecoder> MakeWireLineDecoder(std::string_view file, const Trace& trace,
                                                 uint32_t line, VarintWay way = VarintWay::kBest);

}  // namespace xplane_time
