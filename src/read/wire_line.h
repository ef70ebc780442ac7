// Lines and events on the wire.
//
// Events are decoded the fast way (FastEvent): fields in the usual encoding, wide
// loads, no error texts. Whatever it does not know or finds damaged goes the careful
// way, field by field with WireCursor, from the event's beginning; that one decides.
#ifndef XPLANE_TIME_SRC_READ_WIRE_LINE_H_
#define XPLANE_TIME_SRC_READ_WIRE_LINE_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "read/event_source.h"
#include "xplane_time/trace.h"

namespace xplane_time {

// The bytes of the file that a plane (by index) is from.
using WireFiles = absl::FunctionRef<std::string_view(uint32_t plane)>;

// Reads the headers of lines whose plane and bytes are set, and counts their events,
// hopping over them by length. Where an event ends is known only when its length has
// arrived from memory; so several lines are hopped through at once.
void IndexWireLines(const WireFiles& files, const Trace& trace, LineQueue queue);

enum class VarintWay : uint8_t { kBest, kPortable };

// `file` outlives the decoder.
std::unique_ptr<LineDecoder> MakeWireLineDecoder(std::string_view file, const Trace& trace,
                                                 uint32_t line, VarintWay way = VarintWay::kBest);

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_READ_WIRE_LINE_H_
