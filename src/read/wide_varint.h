// Reads varints with one wide load of eight bytes, if these and two more bytes are readable.
//
//   byte    7  ..  2  1  0      the lowest clear top bit ends the number; the bytes up to it
//   top bit ?  ..  0  1  1      are kept, and their groups of 7 bits are moved together
//
// Two implementations gather the groups: PEXT (BMI2), and shifts for machines without it.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace xplane_time {

static_assert(std::endian::native == std::endian::little);

inline constexpr uint64_t kVarintBits = 0x7f7f7f7f7f7f7f7f;

// Apart() calls a function without inlining it, so that the function can use all registers.
struct GatherByShifts {
  template <typename Function>
  [[gnu::noinline]] static auto Apart(const Function& function) {
    return function();
  }
  static uint64_t Gather(uint64_t groups) {
    groups &= kVarintBits;
    groups = ((groups & 0x7f007f007f007f00) >> 1) | (groups & 0x007f007f007f007f);
    groups = ((groups & 0x3fff00003fff0000) >> 2) | (groups & 0x00003fff00003fff);
    return ((groups & 0x0fffffff00000000) >> 4) | (groups & 0x000000000fffffff);
  }
};

#if defined(__x86_64__)
// Callers must be compiled for the same target.
#define XPLANE_TIME_TARGET_BMI2 __attribute__((target("bmi,bmi2")))
struct GatherByPext {
  template <typename Function>
  [[gnu::noinline]] XPLANE_TIME_TARGET_BMI2 static auto Apart(const Function& function) {
    return function();
  }
  XPLANE_TIME_TARGET_BMI2 static uint64_t Gather(uint64_t groups) {
    return _pext_u64(groups, kVarintBits);
  }
};
#endif

// A varint and its end; a null end means more than 10 bytes.
struct TailedVarint {
  uint64_t value;
  const char* end;
};

// Reads a varint of nine or ten bytes. All eight bytes from `at` continue; `low` holds their value.
// The tenth byte has room for one bit; like the generated parser, this drops the other bits.
[[gnu::cold, gnu::noinline]] inline TailedVarint ReadVarintTail(const char* at, uint64_t low) {
  const auto ninth = static_cast<uint8_t>(at[8]), tenth = static_cast<uint8_t>(at[9]);
  low |= static_cast<uint64_t>(ninth & 0x7f) << 56;
  if (ninth < 0x80) return {low, at + 9};
  return {low | static_cast<uint64_t>(tenth) << 63, tenth < 0x80 ? at + 10 : nullptr};
}

// Reads a varint of any length and moves `*at` past it; optimized for more than one byte. 10 bytes
// from `*at` must be readable. False if the varint has more than 10 bytes.
template <typename How>
__attribute__((always_inline)) inline bool ReadLongVarint(const char** at, uint64_t* value) {
  uint64_t bytes;
  std::memcpy(&bytes, *at, sizeof bytes);
  const uint64_t ends = ~bytes & ~kVarintBits;
  if (ends == 0) [[unlikely]] {
    const TailedVarint tailed = ReadVarintTail(*at, How::Gather(bytes));
    *value = tailed.value;
    if (tailed.end == nullptr) return false;
    *at = tailed.end;
    return true;
  }
  *value = How::Gather(bytes & (ends ^ (ends - 1)));
  *at += static_cast<size_t>(std::countr_zero(ends)) / 8 + 1;
  return true;
}

// The same, optimized for one byte.
template <typename How>
__attribute__((always_inline)) inline bool ReadWideVarint(const char** at, uint64_t* value) {
  if (static_cast<uint8_t>(**at) < 0x80) {
    *value = static_cast<uint8_t>(*(*at)++);
    return true;
  }
  return ReadLongVarint<How>(at, value);
}

// The same, optimized for a random mix of one and two bytes: without a branch that could be
// mispredicted.
template <typename How>
__attribute__((always_inline)) inline bool ReadShortVarint(const char** at, uint64_t* value) {
  const uint64_t low = static_cast<uint8_t>((*at)[0]), high = static_cast<uint8_t>((*at)[1]);
  const uint64_t two = low >> 7;
  if ((two & (high >> 7)) != 0) [[unlikely]] {
    return ReadLongVarint<How>(at, value);
  }
  *value = (low & 0x7f) | ((high & (0 - two)) << 7);
  *at += 1 + two;
  return true;
}

// Reads a varint that must have exactly `size` <= 8 bytes; otherwise false.
template <typename How>
__attribute__((always_inline)) inline bool ReadVarintOf(uint64_t size, const char* at,
                                                        uint64_t* value) {
  uint64_t bytes;
  std::memcpy(&bytes, at, sizeof bytes);
  const uint64_t ends = ~bytes & ~kVarintBits;
  if (static_cast<uint64_t>(std::countr_zero(ends)) != 8 * size - 1) return false;
  *value = How::Gather(bytes & (ends ^ (ends - 1)));
  return true;
}

}  // namespace xplane_time
