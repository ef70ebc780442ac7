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

// Reads the header of a line whose plane and bytes are set, and counts its events,
// hopping over them by length.
absl::Status IndexWireLine(std::string_view file, const Trace& trace, Line* line);

enum class VarintWay : uint8_t { kBest, kPortable };

// `file` outlives the decoder.
std::unique_ptr<LineDecoder> MakeWireLineDecoder(std::string_view file, const Trace& trace,
                                                 uint32_t line, VarintWay way = VarintWay::kBest);

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_READ_WIRE_LINE_H_
