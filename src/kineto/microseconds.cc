#include "kineto/microseconds.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace xplane_time::kineto {
namespace {

constexpr int kPsDigits = 6;
// Further digits do not matter on the axis, and this number of digits fits 128 bits.
constexpr int kMostDigits = 30;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// The digits of a number without its sign.
struct Digits {
  absl::int128 value = 0;  // the first kMostDigits digits
  int taken = 0;           // number of digits in `value` without leading zeros
  int64_t decimals = 0;    // digits of `value` after the point; negative: missing zeros

  void Add(char digit, bool behind_point) {
    if (taken == kMostDigits) {
      if (!behind_point) --decimals;
      return;
    }
    value = value * 10 + (digit - '0');
    if (value != 0) ++taken;
    if (behind_point) ++decimals;
  }
};

// Reads digits and moves `*at` past them. nullopt: there is no digit.
std::optional<Digits> ReadDigits(const char** at, const char* end) {
  Digits digits;
  const char* const begin = *at;
  for (; *at != end && IsDigit(**at); ++*at) digits.Add(**at, false);
  bool any = *at != begin;
  if (*at != end && **at == '.') {
    const char* const point = ++*at;
    for (; *at != end && IsDigit(**at); ++*at) digits.Add(**at, true);
    any |= *at != point;
  }
  return any ? std::optional(digits) : std::nullopt;
}

// digits * 10^(kPsDigits - decimals), rounded.
absl::int128 Scale(const Digits& digits, int64_t decimals) {
  absl::int128 value = digits.value;
  if (value == 0) return 0;
  for (; decimals < kPsDigits && value < kFarPs; ++decimals) value *= 10;
  if (decimals > kPsDigits + kMostDigits) return 0;
  int last = 0;  // the last dropped digit
  for (; decimals > kPsDigits; --decimals) {
    last = static_cast<int>(value % 10);
    value /= 10;
  }
  return std::min(value + (last >= 5 ? 1 : 0), kFarPs);
}

// Fast path for the usual form: up to 18 digits before the point and at most six after it.
std::optional<absl::int128> Usual(std::string_view text) {
  constexpr size_t kMostUsual = 18;
  const size_t point = std::min(text.find('.'), text.size());
  if (point == 0 || point > kMostUsual || text.size() > point + 1 + kPsDigits) return std::nullopt;
  int64_t us = 0, ps = 0;
  for (size_t i = 0; i < point; ++i) {
    if (!IsDigit(text[i])) return std::nullopt;
    us = us * 10 + (text[i] - '0');
  }
  size_t at = point + 1;
  for (int i = 0; i < kPsDigits; ++i, ++at) {
    if (at < text.size() && !IsDigit(text[at])) return std::nullopt;
    ps = ps * 10 + (at < text.size() ? text[at] - '0' : 0);
  }
  return absl::int128(us) * kPsPerUs + ps;
}

}  // namespace

std::optional<absl::int128> MicrosecondsToPs(std::string_view text) {
  if (const auto usual = Usual(text); usual.has_value()) return usual;
  const char* at = text.data();
  const char* const end = at + text.size();
  const bool negative = at != end && *at == '-';
  if (negative) ++at;
  const auto digits = ReadDigits(&at, end);
  if (!digits.has_value()) return std::nullopt;
  int64_t exponent = 0;
  if (at != end && (*at == 'e' || *at == 'E')) {
    if (++at != end && *at == '+' && at + 1 != end && IsDigit(at[1])) ++at;
    const auto [rest, error] = std::from_chars(at, end, exponent);
    if (rest == at) return std::nullopt;
    // larger than the number of digits in any file
    constexpr int64_t kFarExponent = int64_t{1} << 40;
    if (error != std::errc()) exponent = *at == '-' ? -kFarExponent : kFarExponent;
    exponent = std::clamp(exponent, -kFarExponent, kFarExponent);
    at = rest;
  }
  if (at != end) return std::nullopt;
  const absl::int128 ps = Scale(*digits, digits->decimals - exponent);
  return negative ? -ps : ps;
}

}  // namespace xplane_time::kineto
