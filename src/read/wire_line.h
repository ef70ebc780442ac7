// The events of a line on the wire.
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

#endif  // XPLANE_TIME_SRC_READ_WIRE_LINE_H_
