// Varints by one wide load: eight bytes at once, where as many (and two more) may be read.
//
//   byte    7  ..  2  1  0      the lowest clear top bit ends the number; what is below
//   top bit ?  ..  0  1  1      it is kept, and its groups of 7 bits are moved together
//
// Two ways to gather the groups: PEXT (BMI2), and shifts, for machines without it.
#ifndef XPLANE_TIME_SRC_READ_WIDE_VARINT_H_
#define XPLANE_TIME_SRC_READ_WIDE_VARINT_H_

#include <bit>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace xplane_time {

static_assert(std::endian::native == std::endian::little);

inline constexpr uint64_t kVarintBits = 0x7f7f7f7f7f7f7f7f;

struct GatherByShifts {
  static uint64_t Gather(uint64_t groups) {
    groups &= kVarintBits;
    groups = ((groups & 0x7f007f007f007f00) >> 1) | (groups & 0x007f007f007f007f);
    groups = ((groups & 0x3fff00003fff0000) >> 2) | (groups & 0x00003fff00003fff);
    return ((groups & 0x0fffffff00000000) >> 4) | (groups & 0x000000000fffffff);
  }
};

#if defined(__x86_64__)
// Callers are compiled for the same target.
#define XPLANE_TIME_TARGET_BMI2 __attribute__((target("bmi,bmi2")))
struct GatherByPext {
  XPLANE_TIME_TARGET_BMI2 static uint64_t Gather(uint64_t groups) {
    return _pext_u64(groups, kVarintBits);
  }
};
#endif

// The ninth and tenth byte of a varint, after eight that go on. The tenth has room for one
// bit; the generated parser drops the others. False at an eleventh.
inline bool ReadVarintTail(const char** at, uint64_t* value) {
  const auto ninth = static_cast<uint8_t>((*at)[8]), tenth = static_cast<uint8_t>((*at)[9]);
  *value |= static_cast<uint64_t>(ninth & 0x7f) << 56;
  if (ninth < 0x80) {
    *at += 9;
    return true;
  }
  *value |= static_cast<uint64_t>(tenth) << 63;
  *at += 10;
  return tenth < 0x80;
}

// Reads a varint and moves `*at` past it; 10 bytes from `*at` on must be readable. False
// at one of more than 10.
template <typename How>
__attribute__((always_inline)) inline bool ReadWideVarint(const char** at, uint64_t* value) {
  uint64_t bytes;
  std::memcpy(&bytes, *at, sizeof bytes);
  if ((bytes & 0x80) == 0) {
    *value = bytes & 0x7f;
    ++*at;
    return true;
  }
  const uint64_t ends = ~bytes & ~kVarintBits;
  if (ends == 0) {
    *value = How::Gather(bytes);
    return ReadVarintTail(at, value);
  }
  *value = How::Gather(bytes & (ends ^ (ends - 1)));
  *at += (std::countr_zero(ends) + 1) / 8;
  return true;
}

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_READ_WIDE_VARINT_H_
