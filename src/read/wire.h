// The protobuf wire format, read with bounds checks and nothing else: varints, tags,
// skipping. Acceptance follows the generated parser: varints of at most 10 bytes, tags
// and lengths of at most 5, field number 0 refused, at most 100 nested messages and
// groups, a group ends with its own number.
//
// Every function returns false at damage and leaves the cursor where it was seen; the
// reason is in error().
#ifndef XPLANE_TIME_SRC_READ_WIRE_H_
#define XPLANE_TIME_SRC_READ_WIRE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace xplane_time {

enum class WireType : uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kLength = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

class WireCursor {
 public:
  // `file_offset` is where `bytes` begins in the file; `depth` counts the messages around.
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
    if (at_ != end_ && static_cast<uint8_t>(*at_) < 0x80) {  // most are one byte
      *value = static_cast<uint8_t>(*at_++);
      return true;
    }
    return ReadLongVarint(value);
  }

  bool ReadInt64(int64_t* value) {
    uint64_t bits;
    if (!ReadVarint(&bits)) return false;
    *value = static_cast<int64_t>(bits);
    return true;
  }

  bool ReadFixed64(uint64_t* value) {
    if (end_ - at_ < 8) return Fail("a value cut short");
    std::memcpy(value, at_, 8);  // little-endian, as all supported machines
    at_ += 8;
    return true;
  }

  // A length-delimited value; `*at` (optional) gets its offset in the file.
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

  // Skips the value of a field whose tag was just read.
  bool Skip(uint32_t field, WireType type);

 private:
  static constexpr size_t kMaxDepth = 100;
  static constexpr ptrdiff_t kMaxTagBytes = 5;

  bool ReadLongVarint(uint64_t* value);
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

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_READ_WIRE_H_
