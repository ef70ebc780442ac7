// A writer of the protobuf wire format, the counterpart of wire.h.
//
//   WireWriter out;
//   out.AddMessage(1, [&] { out.AddVarint(8, 12); });   // 0a 02 40 0c
//
// It is written by hand, because builds without the reference reader have no protobuf, and because
// it writes nested messages in place: the length is inserted before a message once it is known.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "read/wire.h"

namespace xplane_time {

class WireWriter {
 public:
  // Adds a varint. For a signed field, pass its bits as int64.
  void AddVarint(uint32_t number, uint64_t value) {
    char* at = Room(2 * kMostVarint);
    at = PutVarint(at, Varint(number));
    Took(PutVarint(at, value));
  }
  void AddDouble(uint32_t number, double value) {
    char* at = PutVarint(Room(kMostVarint + sizeof(value)), Fixed64(number));
    uint64_t bits = std::bit_cast<uint64_t>(value);
    for (size_t i = 0; i < sizeof(bits); ++i, bits >>= 8) *at++ = static_cast<char>(bits);
    Took(at);
  }
  void AddText(uint32_t number, std::string_view text) {
    AddHeader(number, text.size());
    AddFields(text);
  }
  // Adds a message; `fill` adds its fields.
  template <typename Fill>
  void AddMessage(uint32_t number, Fill fill) {
    Took(PutVarint(Room(kMostVarint + 1), Length(number)) + 1);
    const size_t begin = size_;
    fill();
    const size_t size = size_ - begin;
    if (size < 0x80) {
      buffer_[begin - 1] = static_cast<char>(size);
    } else {
      InsertLength(begin - 1, size);
    }
  }
  // Adds the header of a message whose bytes are elsewhere.
  void AddHeader(uint32_t number, uint64_t size) {
    char* at = PutVarint(Room(2 * kMostVarint), Length(number));
    Took(PutVarint(at, size));
  }
  // Adds fields that are already encoded.
  void AddFields(std::string_view fields) {
    if (fields.empty()) return;
    std::memcpy(Room(fields.size()), fields.data(), fields.size());
    size_ += fields.size();
  }

  std::string_view bytes() const { return {buffer_.data(), size_}; }
  void Clear() { size_ = 0; }

 private:
  static constexpr size_t kMostVarint = 10;

  char* Room(size_t size) {
    if (buffer_.size() - size_ < size) buffer_.resize(2 * (size_ + size));
    return buffer_.data() + size_;
  }
  void Took(const char* end) { size_ = static_cast<size_t>(end - buffer_.data()); }
  static char* PutVarint(char* at, uint64_t value) {
    for (; value >= 0x80; value >>= 7) *at++ = static_cast<char>(value | 0x80);
    *at++ = static_cast<char>(value);
    return at;
  }
  // Replaces the byte at `at` by the length.
  void InsertLength(size_t at, size_t size) {
    char length[kMostVarint];
    const auto length_size = static_cast<size_t>(PutVarint(length, size) - length);
    Room(length_size);
    std::memmove(buffer_.data() + at + length_size, buffer_.data() + at + 1, size);
    std::memcpy(buffer_.data() + at, length, length_size);
    size_ += length_size - 1;
  }

  std::vector<char> buffer_;
  size_t size_ = 0;
};

}  // namespace xplane_time
