// A bounds-checked reader of the protobuf wire format: varints, tags and skipping. It accepts what
// the generated parser accepts: varints of at most 10 bytes, tags and lengths of at most 5 bytes,
// at most 100 nested messages and groups. Field number 0 is refused, and a group must end with its
// own number.
//
// On damage, every function returns false and leaves the cursor at the damage; error() has the
// reason.
//
//   Damage damage;
//   const bool ok = ReadMessage(bytes, offset, depth, &damage, [&](const WireField& field) {
//     if (field.key() == Length(2)) name = field.bytes;
//     return field.key() != Length(4) || ReadMessage(field, depth + 1, &damage, ...);
//   });
//   if (!ok) return DamageError(damage.why, {.byte_offset = damage.byte_offset});
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "xplane_time/trace.h"

namespace xplane_time {

enum class WireType : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kLength = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

// Field number and wire type in one integer, as in a tag.
constexpr uint32_t Varint(uint32_t number) { return number << 3; }
constexpr uint32_t Fixed64(uint32_t number) { return number << 3 | 1; }
constexpr uint32_t Length(uint32_t number) { return number << 3 | 2; }

// A field of a message, with its value if that is a 64-bit number or bytes.
struct WireField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t bits = 0;
  std::string_view bytes = {};
  uint64_t offset = 0;  // offset of `bytes` in the file

  uint32_t key() const { return number << 3 | static_cast<uint32_t>(type); }
  int64_t whole() const { return static_cast<int64_t>(bits); }
};

class WireCursor {
 public:
  // `file_offset`: offset of `bytes` in the file. `depth`: number of enclosing messages.
  WireCursor(std::string_view bytes, uint64_t file_offset, size_t depth = 0)
      : begin_(bytes.data()),
        at_(bytes.data()),
        end_(bytes.data() + bytes.size()),
        file_offset_(file_offset),
        depth_(depth) {}

  bool done() const { return at_ == end_; }
  uint64_t offset() const { return file_offset_ + static_cast<uint64_t>(at_ - begin_); }
  const char* error() const { return error_; }

  bool ReadTag(uint32_t* field, WireType* type) {
    uint64_t tag;
    const char* start = at_;
    if (!ReadVarint(&tag)) return false;
    *field = static_cast<uint32_t>(tag) >> 3;
    *type = static_cast<WireType>(tag & 7);
    if (at_ - start > kMaxTagBytes) return FailAt(start, "a tag of more than 5 bytes");
    if (*field == 0) return FailAt(start, "a field number of 0");
    if ((tag & 7) > 5) return FailAt(start, "an unknown wire type");
    return true;
  }

  bool ReadVarint(uint64_t* value) {
    if (at_ != end_ && static_cast<uint8_t>(*at_) < 0x80) {  // most varints are one byte
      *value = static_cast<uint8_t>(*at_++);
      return true;
    }
    return ReadLongVarint(value);
  }

  // Reads a length-delimited value. `*at` (optional) receives its offset in the file.
  bool ReadBytes(std::string_view* value, uint64_t* at = nullptr) {
    const char* start = at_;
    uint64_t size;
    if (!ReadVarint(&size)) return false;
    if (at_ - start > kMaxTagBytes) return FailAt(start, "a length of more than 5 bytes");
    if (size > static_cast<uint64_t>(end_ - at_)) {
      return FailAt(start, "a length that reaches past the end");
    }
    if (at != nullptr) *at = offset();
    *value = std::string_view(at_, static_cast<size_t>(size));
    at_ += size;
    return true;
  }

  // Reads the next field. Groups are skipped.
  bool ReadField(WireField* field) {
    return ReadTag(&field->number, &field->type) && ReadValue(field);
  }
  // Reads the value of a field whose tag was just read.
  bool ReadValue(WireField* field) {
    if (field->type == WireType::kVarint) return ReadVarint(&field->bits);
    if (field->type == WireType::kLength) return ReadBytes(&field->bytes, &field->offset);
    return ReadUnusualValue(field);
  }

 private:
  static constexpr size_t kMaxDepth = 100;
  static constexpr ptrdiff_t kMaxTagBytes = 5;

  bool ReadLongVarint(uint64_t* value);
  bool ReadUnusualValue(WireField* field);  // any type except varint and length-delimited
  bool SkipGroup(uint32_t field);
  bool Fail(const char* error) { return FailAt(at_, error); }
  bool FailAt(const char* at, const char* error) {
    at_ = at;
    error_ = error;
    return false;
  }

  const char* begin_;
  const char* at_;
  const char* end_;
  uint64_t file_offset_;
  size_t depth_;
  const char* error_ = nullptr;
};

// The place and the reason of damage in a message.
struct Damage {
  uint64_t byte_offset = 0;
  const char* why = nullptr;
  bool From(const WireCursor& cursor) {
    byte_offset = cursor.offset();
    why = cursor.error();
    return false;
  }
};

// Calls `on_field(field) -> bool` for each field of a message, until it returns false. Returns
// false in that case, and on damage.
template <typename OnField>
bool ReadMessage(std::string_view bytes, uint64_t offset, size_t depth, Damage* damage,
                 OnField on_field) {
  WireCursor cursor(bytes, offset, depth);
  while (!cursor.done()) {
    WireField field;
    if (!cursor.ReadField(&field)) return damage->From(cursor);
    if (!on_field(field)) return false;
  }
  return true;
}
template <typename OnField>
bool ReadMessage(const WireField& message, size_t depth, Damage* damage, OnField on_field) {
  return ReadMessage(message.bytes, message.offset, depth, damage, on_field);
}

// The type of a stat by the key of its XStat field, which is one byte. kAbsent: not a value.
inline constexpr std::array<StatType, 256> kStatTypes = [] {
  std::array<StatType, 256> types = {};
  types[Fixed64(2)] = StatType::kDouble;
  types[Varint(3)] = StatType::kUint64;
  types[Varint(4)] = StatType::kInt64;
  types[Length(5)] = StatType::kString;
  types[Length(6)] = StatType::kBytes;
  types[Varint(7)] = StatType::kRef;
  types[Length(8)] = StatType::kCompressedString;
  return types;
}();

inline bool DecodeStat(const WireField& message, size_t depth, Stat* stat, Damage* damage) {
  return ReadMessage(message, depth, damage, [&](const WireField& field) {
    if (field.key() == Varint(1)) stat->metadata_id = field.whole();
    const auto type = field.key() < kStatTypes.size() ? kStatTypes[field.key()] : StatType::kAbsent;
    if (type != StatType::kAbsent) stat->value = {type, field.bits, field.bytes};
    return true;
  });
}

}  // namespace xplane_time
