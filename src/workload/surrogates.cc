#include "workload/surrogates.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "status.h"

namespace xplane_time {
namespace {

// The noncharacter U+FDD0, before the four digits of a surrogate.
constexpr std::string_view kMark = "\xef\xb7\x90", kReplacement = "\xef\xbf\xbd";
constexpr size_t kDigits = 4;
constexpr uint32_t kFirstHigh = 0xd800, kFirstLow = 0xdc00, kEnd = 0xe000;

bool IsHigh(uint32_t code) { return code >= kFirstHigh && code < kFirstLow; }
bool IsLow(uint32_t code) { return code >= kFirstLow && code < kEnd; }

// Parses four hexadecimal digits at the beginning of `text`; empty if they are not a surrogate.
std::optional<uint32_t> ReadSurrogate(std::string_view text) {
  uint32_t code = 0;
  if (text.size() < kDigits) return std::nullopt;
  const char* const end = text.data() + kDigits;
  const auto [stop, error] = std::from_chars(text.data(), end, code, 16);
  const bool is_whole = error == std::errc() && stop == end;
  return is_whole && (IsHigh(code) || IsLow(code)) ? std::optional(code) : std::nullopt;
}

// The same for an escape such as "\ud83d".
std::optional<uint32_t> ReadEscape(std::string_view text) {
  return text.starts_with("\\u") ? ReadSurrogate(text.substr(2)) : std::nullopt;
}

void AppendPair(uint32_t high, uint32_t low, std::string* text) {
  const uint32_t code = 0x10000 + ((high - kFirstHigh) << 10) + (low - kFirstLow);
  for (const uint32_t byte : {0xf0 | code >> 18, 0x80 | (code >> 12 & 0x3f),
                              0x80 | (code >> 6 & 0x3f), 0x80 | (code & 0x3f)}) {
    text->push_back(static_cast<char>(byte));
  }
}

// Copies the number at the beginning of `text`, in quotes if it is too large for a double. Returns
// the rest.
std::string_view TakeNumber(std::string_view text, std::string* out) {
  const size_t size = std::min(text.find_first_not_of("+-.0123456789eE"), text.size());
  const std::string number(text.substr(0, size));
  const bool is_too_large = std::isinf(std::strtod(number.c_str(), nullptr));
  const char* const quote = is_too_large ? "\"" : "";
  Append(out, quote, number, quote);
  return text.substr(size);
}

// Copies the escape at the beginning of `text`, which is inside a string. Returns the rest.
std::string_view TakeEscape(std::string_view text, std::string* out) {
  constexpr size_t kEscape = 6;
  const auto code = ReadEscape(text);
  if (!code.has_value()) {
    const size_t size = std::min<size_t>(2, text.size());
    out->append(text.substr(0, size));
    return text.substr(size);
  }
  const auto next = IsHigh(*code) ? ReadEscape(text.substr(kEscape)) : std::nullopt;
  if (next.has_value() && IsLow(*next)) {
    out->append(text.substr(0, 2 * kEscape));
    return text.substr(2 * kEscape);
  }
  Append(out, kMark, text.substr(2, kDigits));
  return text.substr(kEscape);
}

}  // namespace

std::string MarkUnpaired(std::string_view json) {
  std::string marked;
  marked.reserve(json.size());
  bool in_text = false;
  while (!json.empty()) {
    const char first = json[0];
    if (in_text && first == '\\') {
      json = TakeEscape(json, &marked);
    } else if (!in_text && (first == '-' || (first >= '0' && first <= '9'))) {
      json = TakeNumber(json, &marked);
    } else {
      in_text ^= first == '"';
      marked += first;
      json.remove_prefix(1);
    }
  }
  return marked;
}

void SurrogateJoiner::Join(std::string_view piece, std::string* text) {
  while (!piece.empty()) {
    const size_t at = piece.find(kMark);
    if (at > 0) {
      End(text);
      text->append(piece.substr(0, at));
      piece.remove_prefix(std::min(at, piece.size()));
      continue;
    }
    const auto code = ReadSurrogate(piece.substr(kMark.size()));
    if (!code.has_value()) {  // the server sent this character itself
      End(text);
      text->append(kMark);
      piece.remove_prefix(kMark.size());
      continue;
    }
    piece.remove_prefix(kMark.size() + kDigits);
    if (high_ != 0 && IsLow(*code)) {
      AppendPair(high_, *code, text);
      high_ = 0;
    } else {
      End(text);
      if (IsHigh(*code)) high_ = *code;
      if (IsLow(*code)) text->append(kReplacement);
    }
  }
}

void SurrogateJoiner::End(std::string* text) {
  if (high_ != 0) text->append(kReplacement);
  high_ = 0;
}

}  // namespace xplane_time
