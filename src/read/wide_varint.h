// Varints by one wide load: eight bytes at once, where as many may be read.
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
struct GatherByPext {
  // By name, so that the code around needs no other target than the rest.
  static uint64_t Gather(uint64_t groups) {
    uint64_t value;
    asm("pextq %2, %1, %0" : "=r"(value) : "r"(groups), "r"(kVarintBits));
    return value;
  }
};
#endif

// Reads a varint of up to 8 bytes and moves `*at` past it; 8 bytes from `*at` on must be
// readable. False at a longer one.
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
  if (ends == 0) return false;
  *value = How::Gather(bytes & (ends ^ (ends - 1)));
  *at += (std::countr_zero(ends) + 1) / 8;
  return true;
}

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_READ_WIDE_VARINT_H_
