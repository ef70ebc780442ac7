// Hides an API key in texts, even if it is escaped.
//
// Hide tries to match the key at each position of the text. MatchCharacter accepts each character
// of the key in any of its escaped forms, so the key may be escaped in part or in several ways. A
// match of the whole key, or of its first kTelling characters, is replaced. The lengths of escapes
// are limited, so Hide is O(text x key).
#include "workload/api_key.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "status.h"

namespace xplane_time {
namespace {

constexpr size_t kLeastSecret = 8;   // a shorter key is a placeholder
constexpr size_t kTelling = 12;      // a part of this length is hidden like the whole key
constexpr size_t kTellingAtCut = 4;  // the same at the end of a shortened text
// Escapes within escapes: "\\\\\\u0073" and "%252573". The bounds keep Hide linear.
constexpr size_t kMaxBackslashes = 8, kMaxPercents = 4;

// Parses the first `digits` characters as a number in `base`; empty if one is not a digit.
std::optional<int> ReadDigits(std::string_view text, size_t digits, int base) {
  int value = 0;
  if (text.size() < digits) return std::nullopt;
  const char* const end = text.data() + digits;
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  const bool is_whole = error == std::errc() && stop == end && text[0] != '-';
  return is_whole ? std::optional(value) : std::nullopt;
}

// Matches an escape of `wanted` at the beginning of `text`, which starts with a backslash. Returns
// its length in bytes, or 0.
size_t MatchBackslashes(std::string_view text, char wanted) {
  const size_t slashes = text.substr(0, kMaxBackslashes + 1).find_first_not_of('\\');
  if (slashes == text.npos) return 0;
  const std::string_view rest = text.substr(slashes);
  const int code = static_cast<unsigned char>(wanted);
  if ((rest[0] == 'u' || rest[0] == 'U') && ReadDigits(rest.substr(1), 4, 16) == code) {
    return slashes + 5;
  }
  if (rest[0] == 'x' && ReadDigits(rest.substr(1), 2, 16) == code) return slashes + 3;
  if (ReadDigits(rest, 3, 8) == code) return slashes + 3;
  return rest[0] == wanted ? slashes + 1 : 0;
}

// Like MatchBackslashes, for a text that starts with a percent sign.
size_t MatchPercents(std::string_view text, char wanted) {
  size_t used = 1;
  const int code = static_cast<unsigned char>(wanted);
  for (size_t i = 0; i < kMaxPercents; ++i) {
    if (ReadDigits(text.substr(used), 2, 16) == code) return used + 2;
    if (!text.substr(used).starts_with("25")) return 0;
    used += 2;
  }
  return 0;
}

// Like MatchBackslashes, for a text that starts with an ampersand.
size_t MatchEntity(std::string_view text, char wanted) {
  constexpr size_t kMaxBytes = 12;
  const size_t end = text.substr(0, kMaxBytes).find(';');
  if (end == text.npos) return 0;
  const std::string_view name = text.substr(1, end - 1);
  constexpr std::pair<std::string_view, char> kNamed[] = {
      {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}, {"sol", '/'}};
  for (const auto& [known, character] : kNamed) {
    if (name == known && character == wanted) return end + 1;
  }
  if (!name.starts_with('#') || name.size() < 2) return 0;
  const bool is_hex = name[1] == 'x' || name[1] == 'X';
  const std::string_view digits = name.substr(is_hex ? 2 : 1);
  const auto code = ReadDigits(digits, digits.size(), is_hex ? 16 : 10);
  return !digits.empty() && code == static_cast<unsigned char>(wanted) ? end + 1 : 0;
}

// Like MatchBackslashes, for any text. The character itself also matches.
size_t MatchCharacter(std::string_view text, char wanted) {
  if (text.empty()) return 0;
  size_t bytes = 0;
  if (text[0] == '\\') bytes = MatchBackslashes(text, wanted);
  if (text[0] == '%') bytes = MatchPercents(text, wanted);
  if (text[0] == '&') bytes = MatchEntity(text, wanted);
  return bytes > 0 ? bytes : text[0] == wanted ? 1 : 0;
}

// Whether `text` can be the beginning of an escape whose end was cut off.
bool IsCutEscape(std::string_view text) {
  constexpr size_t kMaxBytes = 12;
  return text.size() < kMaxBytes && (text[0] == '\\' || text[0] == '%' || text[0] == '&');
}

}  // namespace

absl::StatusOr<ApiKey> ApiKey::FromEnvironment(const std::string& variable) {
  const char* const text = variable.empty() ? nullptr : std::getenv(variable.c_str());
  ApiKey key(variable, text == nullptr ? "" : text);
  const auto is_odd = [](char each) { return each <= ' ' || each > '~'; };
  if (std::ranges::none_of(key.text_, is_odd)) return key;
  return InvalidArgument(
      "the environment variable ", variable,
      ": contains a space, a line end or a control character, which is invalid in an API key");
}

std::string ApiKey::MissingReason() const {
  if (!text_.empty()) return "";
  return variable_.empty() ? "no API key was sent (--client-param api_key_env=NAME)"
                           : Cat("the environment variable ", variable_, " is not set");
}

std::string ApiKey::Hide(std::string_view text, bool is_cut) const {
  if (text_.size() < kLeastSecret) return std::string(text);
  std::string hidden;
  const size_t telling = std::min(kTelling, text_.size());
  size_t kept = 0;  // `hidden` already contains the text before this position
  for (size_t at = 0; at < text.size();) {
    size_t end = at, matched = 0;
    while (matched < text_.size()) {
      const size_t bytes = MatchCharacter(text.substr(end), text_[matched]);
      if (bytes == 0) break;
      end += bytes;
      ++matched;
    }
    const std::string_view rest = text.substr(end);
    const bool at_cut = is_cut && matched >= kTellingAtCut && (rest.empty() || IsCutEscape(rest));
    if (matched < telling && !at_cut) {
      ++at;
      continue;
    }
    Append(&hidden, text.substr(kept, at - kept), "[API key]");
    at = kept = at_cut ? text.size() : end;
  }
  return hidden.append(text.substr(kept));
}

}  // namespace xplane_time
