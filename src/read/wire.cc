#include "read/wire.h"

#include <array>

namespace xplane_time {

bool WireCursor::ReadLongVarint(uint64_t* value) {
  const char* start = at_;
  uint64_t result = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (at_ == end_) return FailAt(start, "a number cut short");
    const auto byte = static_cast<uint8_t>(*at_++);
    // The tenth byte has room for one bit; the generated parser drops the others.
    if (shift < 64) result |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value = result;
      return true;
    }
  }
  return FailAt(start, "a number of more than 10 bytes");
}

bool WireCursor::ReadUnusualValue(WireField* field) {
  if (field->type == WireType::kStartGroup) return SkipGroup(field->number);
  if (field->type == WireType::kEndGroup) return Fail("a group end without its start");
  const ptrdiff_t size = field->type == WireType::kFixed64 ? 8 : 4;
  if (end_ - at_ < size) return Fail("a value cut short");
  if (size == 8) std::memcpy(&field->bits, at_, 8);  // little-endian, as all supported machines
  at_ += size;
  return true;
}

// Iterative, so that a bomb of nested groups costs no stack.
bool WireCursor::SkipGroup(uint32_t field) {
  std::array<uint32_t, kMaxDepth> open;
  size_t depth = 0;
  if (depth_ == open.size()) return Fail("more than 100 nested groups");
  open[depth++] = field;
  while (depth > 0) {
    const char* start = at_;
    WireField inner;
    if (!ReadTag(&inner.number, &inner.type)) return false;
    if (inner.type == WireType::kEndGroup) {
      if (open[--depth] != inner.number) {
        return FailAt(start, "a group that ends with another number");
      }
    } else if (inner.type == WireType::kStartGroup) {
      if (depth_ + depth == open.size()) return FailAt(start, "more than 100 nested groups");
      open[depth++] = inner.number;
    } else if (!ReadValue(&inner)) {
      return false;
    }
  }
  return true;
}

}  // namespace xplane_time
