// RawMessage: protobuf bytes, field by field, in any order and with any damage. It can express
// messages that the generated serializer, and therefore TraceBuilder (tests/support), never writes.
//
//   std::string stat = RawMessage().Varint(4, 17).Varint(1, 3).bytes();  // value before id
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace xplane_time::testing {

// The shortest varint, padded to `length` bytes if it is shorter.
inline std::string VarintBytes(uint64_t value, size_t length = 1) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  bytes += static_cast<char>(value);
  while (bytes.size() < length) {
    bytes.back() = static_cast<char>(static_cast<uint8_t>(bytes.back()) | 0x80);
    bytes += '\0';
  }
  return bytes;
}

class RawMessage {
 public:
  RawMessage& Raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  RawMessage& Tag(uint32_t field, uint32_t wire_type) {
    return Raw(VarintBytes(uint64_t{field} << 3 | wire_type));
  }
  RawMessage& Varint(uint32_t field, uint64_t value) {
    return Tag(field, 0).Raw(VarintBytes(value));
  }
  RawMessage& Int(uint32_t field, int64_t value) {
    return Varint(field, static_cast<uint64_t>(value));
  }
  RawMessage& Bytes(uint32_t field, std::string_view value) {
    return Tag(field, 2).Raw(VarintBytes(value.size())).Raw(value);
  }
  RawMessage& Message(uint32_t field, const RawMessage& value) {
    return Bytes(field, value.bytes());
  }
  RawMessage& Fixed64(uint32_t field, uint64_t bits) { return Fixed(field, 1, &bits, 8); }
  RawMessage& Fixed32(uint32_t field, uint32_t bits) { return Fixed(field, 5, &bits, 4); }
  RawMessage& Double(uint32_t field, double value) { return Fixed(field, 1, &value, 8); }
  RawMessage& StartGroup(uint32_t field) { return Tag(field, 3); }
  RawMessage& EndGroup(uint32_t field) { return Tag(field, 4); }

  const std::string& bytes() const { return bytes_; }

 private:
  RawMessage& Fixed(uint32_t field, uint32_t wire_type, const void* value, size_t size) {
    Tag(field, wire_type);
    bytes_.append(static_cast<const char*>(value), size);
    return *this;
  }

  std::string bytes_;
};

// `depth` nested groups with field number 15.
inline RawMessage NestedGroups(int depth) {
  RawMessage groups;
  for (int i = 0; i < depth; ++i) groups.StartGroup(15);
  for (int i = 0; i < depth; ++i) groups.EndGroup(15);
  return groups;
}

// Metadata with a name; an entry of a map; a space with one plane.
inline RawMessage Named(std::string_view name) { return RawMessage().Bytes(2, name); }
inline RawMessage Entry(int64_t id, const RawMessage& value) {
  return RawMessage().Int(1, id).Message(2, value);
}
inline std::string Space(const RawMessage& plane) { return RawMessage().Message(1, plane).bytes(); }

}  // namespace xplane_time::testing
