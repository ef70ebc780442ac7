// The protobuf wire format, written: what read/wire.h reads.
//
//   WireWriter out;
//   out.AddMessage(1, [&] { out.AddVarint(8, 12); });   // 0a 02 08 0c
//
// By hand, because a build without the reference reader has no protobuf, and because a message is
// written where it stays: the length comes in front once it is known.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "read/wire.h"

namespace xplane_time::perfetto {

class WireWriter {
 public:
  // Of a signed field: its bits as int64.
  void AddVarint(uint32_t number, uint64_t value) {
    Put(Varint(number));
    Put(value);
  }
  void AddDouble(uint32_t number, double value) {
    Put(Fixed64(number));
    uint64_t bits = std::bit_cast<uint64_t>(value);
    for (size_t i = 0; i < sizeof bits; ++i, bits >>= 8) bytes_.push_back(static_cast<char>(bits));
  }
  void AddText(uint32_t number, std::string_view text) {
    Put(Length(number));
    Put(text.size());
    bytes_.append(text);
  }
  // `fill` adds the fields.
  template <typename Fill>
  void AddMessage(uint32_t number, Fill fill) {
    Put(Length(number));
    bytes_.push_back(0);
    const size_t begin = bytes_.size();
    fill();
    const size_t size = bytes_.size() - begin;
    if (size < 0x80) {
      bytes_[begin - 1] = static_cast<char>(size);
    } else {
      InsertLength(begin - 1, size);
    }
  }

  std::string_view bytes() const { return bytes_; }
  void Clear() { bytes_.clear(); }

 private:
  void Put(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  // In place of the byte at `at`.
  void InsertLength(size_t at, size_t size) {
    const std::string message = bytes_.substr(at + 1);
    bytes_.resize(at);
    Put(size);
    bytes_.append(message);
  }

  std::string bytes_;
};

}  // namespace xplane_time::perfetto
