#include "insight/brief_words.h"

#include <cmath>
#include <cstdio>
#include <span>

#include "status.h"

namespace xplane_time::insight {
namespace {

// The largest unit in which the value is at least 1; three digits.
std::string WithUnit(double value, std::span<const char* const> units, double step) {
  size_t at = 0;
  for (; at + 1 < units.size() && std::abs(value) >= step * 0.9995; ++at) value /= step;
  const int decimals = std::abs(value) >= 99.95 ? 0 : std::abs(value) >= 9.995 ? 1 : 2;
  char digits[400];
  std::snprintf(digits, sizeof digits, "%.*f", decimals, value);
  return Cat(digits, " ", units[at]);
}

bool IsPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_@%+=:,./-").find(c) != std::string_view::npos;
}

bool IsAscii(char c) { return c >= ' ' && c <= '~'; }

std::string Quoted(std::string_view word) {
  bool plain = !word.empty(), ascii = true;
  for (const char c : word) plain &= IsPlain(c), ascii &= IsAscii(c);
  if (plain) return std::string(word);
  std::string quoted = ascii ? "'" : "$'";
  for (const char c : word) {
    if (!IsAscii(c)) {
      char hex[8];
      std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned char>(c));
      quoted += hex;
    } else if (c == '\'') {
      quoted += ascii ? "'\\''" : "\\'";
    } else {
      if (c == '\\' && !ascii) quoted += '\\';
      quoted += c;
    }
  }
  return quoted + "'";
}

}  // namespace

std::string TimeText(double ps) {
  constexpr const char* kUnits[] = {"ps", "ns", "us", "ms", "s"};
  return WithUnit(ps, kUnits, 1000);
}

std::string BytesText(double bytes) {
  constexpr const char* kUnits[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  return WithUnit(bytes, kUnits, 1000);
}

std::string ShareText(double share) {
  const double percent = share * 100;
  if (percent > 0 && percent < 0.095) return "<0.1 %";
  char digits[40];
  std::snprintf(digits, sizeof digits, percent < 9.95 ? "%.2g" : "%.0f", percent);
  return Cat(digits, " %");
}

std::string ShortName(std::string_view name) {
  constexpr size_t kMost = 60, kTail = 20;
  if (name.size() <= kMost) return std::string(name);
  const auto is_inside = [&](size_t at) {
    return (static_cast<unsigned char>(name[at]) & 0xc0) == 0x80;
  };
  size_t head = kMost - kTail - 3, tail = name.size() - kTail;
  while (head > 0 && is_inside(head)) --head;
  while (tail < name.size() && is_inside(tail)) ++tail;
  return Cat(name.substr(0, head), "...", name.substr(tail));
}

std::string CountText(uint64_t count, std::string_view what) {
  return Cat(count, " ", what, count == 1 ? "" : "s");
}

std::string CommandText(const std::vector<std::string>& words) {
  std::string command = "xplane-time";
  for (const std::string& word : words) Append(&command, " ", Quoted(word));
  return command;
}

std::string ExactName(std::string_view name) {
  std::string pattern = "^";
  for (const char c : name) {
    if (std::string_view("\\.+*?()|[]{}^$").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern + "$";
}

}  // namespace xplane_time::insight
