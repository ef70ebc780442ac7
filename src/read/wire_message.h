// Messages of the wire format: their fields, and the stats that are in several of them.
#ifndef XPLANE_TIME_SRC_READ_WIRE_MESSAGE_H_
#define XPLANE_TIME_SRC_READ_WIRE_MESSAGE_H_

#include <cstdint>
#include <string_view>

#include "read/wire.h"
#include "xplane_time/trace.h"

namespace xplane_time {

// Fields of a message, handed to `on_field(field, type, cursor) -> bool`, which reads
// or skips the value. False at damage; the cursor tells where and why.
template <typename OnField>
bool ForEachField(WireCursor* cursor, OnField on_field) {
  while (!cursor->done()) {
    uint32_t field;
    WireType type;
    if (!cursor->ReadTag(&field, &type) || !on_field(field, type)) return false;
  }
  return true;
}

// A damaged sub-message: its own cursor tells where and why.
struct Damage {
  uint64_t byte_offset = 0;
  const char* why = nullptr;
  bool From(const WireCursor& cursor) {
    byte_offset = cursor.offset();
    why = cursor.error();
    return false;
  }
};

inline bool DecodeStat(std::string_view bytes, uint64_t offset, size_t depth, Stat* stat,
                       Damage* damage) {
  WireCursor cursor(bytes, offset, depth);
  auto text = [&](StatType type) {
    stat->value = {type, 0, {}};
    return cursor.ReadBytes(&stat->value.text);
  };
  auto number = [&](StatType type) {
    stat->value = {type, 0, {}};
    return cursor.ReadVarint(&stat->value.bits);
  };
  const bool ok = ForEachField(&cursor, [&](uint32_t field, WireType type) {
    if (type == WireType::kVarint) {
      if (field == 1) return cursor.ReadInt64(&stat->metadata_id);
      if (field == 3) return number(StatType::kUint64);
      if (field == 4) return number(StatType::kInt64);
      if (field == 7) return number(StatType::kRef);
    } else if (type == WireType::kLength) {
      if (field == 5) return text(StatType::kString);
      if (field == 6) return text(StatType::kBytes);
      if (field == 8) return text(StatType::kCompressedString);
    } else if (type == WireType::kFixed64 && field == 2) {
      stat->value = {StatType::kDouble, 0, {}};
      return cursor.ReadFixed64(&stat->value.bits);
    }
    return cursor.Skip(field, type);
  });
  return ok || damage->From(cursor);
}

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_READ_WIRE_MESSAGE_H_
