#include "json/json_cursor.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace xplane_time::json {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

// The kinds of words that a character may be part of.
constexpr uint8_t kOfNumber = 1, kOfWord = 2;
constexpr std::array<uint8_t, 256> kPartOf = [] {
  std::array<uint8_t, 256> part_of = {};
  for (const char c : std::string_view("abcdfghijklmnopqrstuvwxyzABCDFGHIJKLMNOPQRSTUVWXYZ")) {
    part_of[static_cast<uint8_t>(c)] = kOfWord;
  }
  for (const char c : std::string_view("0123456789.-+eE")) {
    part_of[static_cast<uint8_t>(c)] = kOfNumber;
  }
  return part_of;
}();

void AppendCodePoint(uint32_t code, std::string* out) {
  const auto add = [out](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xc0 | code >> 6);
  } else if (code < 0x10000) {
    add(0xe0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3f));
  } else {
    add(0xf0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3f));
    add(0x80 | (code >> 6 & 0x3f));
  }
  if (code >= 0x80) add(0x80 | (code & 0x3f));
}

// Parses "\u00e9..."; false unless there are four digits.
bool ReadHex(std::string_view text, uint32_t* code) {
  if (text.size() < 6 || !text.starts_with("\\u")) return false;
  const char* const end = text.data() + 6;
  return std::from_chars(text.data() + 2, end, *code, 16).ptr == end;
}

// Appends the meaning of the escape at the beginning of `text` and returns its length. A backslash
// before any other character stands for itself.
size_t AppendEscape(std::string_view text, std::string* out) {
  uint32_t code = 0, low = 0;
  if (ReadHex(text, &code)) {
    const bool high = code >> 10 == 0xd800 >> 10;
    if (high && ReadHex(text.substr(6), &low) && low >> 10 == 0xdc00 >> 10) {
      AppendCodePoint(0x10000 + ((code & 0x3ff) << 10) + (low & 0x3ff), out);
      return 12;
    }
    const bool lone = code >> 11 == 0xd800 >> 11;
    AppendCodePoint(lone ? 0xfffd : code, out);
    return 6;
  }
  constexpr std::string_view kEscapes = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  const size_t which = text.size() < 2 ? kEscapes.npos : kEscapes.find(text[1]);
  out->push_back(which == kEscapes.npos ? '\\' : kMeanings[which]);
  return which == kEscapes.npos ? 1 : 2;
}

// The size of the UTF-8 character at the beginning of `text`; 0: invalid.
size_t CharacterSize(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t size = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (size == 0 || text.size() < size) return 0;
  const uint8_t least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  const uint8_t most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < least || byte(1) > most) return 0;
  for (size_t i = 2; i < size; ++i) {
    if (byte(i) >> 6 != 2) return 0;
  }
  return size;
}

}  // namespace

bool IsUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t size = CharacterSize(bytes);
    if (size == 0) return false;
    bytes.remove_prefix(size);
  }
  return true;
}

bool IsPlainText(std::string_view raw) {
  return std::all_of(raw.begin(), raw.end(), [](char c) { return c >= 0 && c != '\\'; });
}

std::string Unescaped(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  while (!raw.empty()) {
    size_t size = raw[0] == '\\' ? 0 : CharacterSize(raw);
    if (raw[0] == '\\') {
      raw.remove_prefix(AppendEscape(raw, &out));
      continue;
    }
    out.append(size == 0 ? kReplacement : raw.substr(0, size));
    raw.remove_prefix(std::max<size_t>(size, 1));
  }
  return out;
}

void JsonCursor::ReturnTo(uint64_t offset) {
  at_ = begin_ + offset;
  error_ = nullptr;
  ran_out_ = irregular_ = not_ascii_ = false;
}

bool JsonCursor::Fail(const char* error) {
  if (error_ != nullptr) return false;
  ran_out_ = at_ == end_;
  error_ = ran_out_ ? "it is truncated" : error;
  return false;
}

namespace {

const char* AfterSpaces(const char* at, const char* end) {
  while (at != end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t')) ++at;
  return at;
}

// Whether a key and its colon begin at `at`. Keys in traces are short and without quotes.
bool IsAtKey(const char* at, const char* end) {
  constexpr ptrdiff_t kMaxKeyBytes = 256;
  if (at == end || *at != '"') return false;
  const char* const limit = end - at > kMaxKeyBytes ? at + kMaxKeyBytes : end;
  const char* const quote = std::find(at + 1, limit, '"');
  if (quote == limit) return limit == end;  // the bytes end inside a key
  const char* const colon = AfterSpaces(quote + 1, end);
  return colon == end || *colon == ':';
}

// Whether the quote at `at` belongs to the first key of the next object. A text that continues
// beyond it has lost its closing quote.
bool IsInNextObject(const char* first, const char* at, const char* end) {
  for (const char c : {'{', ',', '}'}) {
    do {
      if (at == first) return false;
      --at;
    } while (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t');
    if (*at != c) return false;
    if (c == '{') {
      const char* const quote = AfterSpaces(at + 1, end);
      if (!IsAtKey(quote, end)) return false;
    }
  }
  return true;
}

bool IsAtValue(const char* at, const char* end) {
  constexpr std::string_view kBegins = "\"{[-0123456789tfnNI";
  return at == end || kBegins.find(*at) != kBegins.npos;
}

}  // namespace

bool JsonCursor::CanEndText(const char* quote) const {
  const char* const next = AfterSpaces(quote + 1, end_);
  if (next == end_) return true;
  switch (place_) {
    case Place::kDocument:
      return false;
    case Place::kKey:
      return *next == ':';
    case Place::kMember:
      return *next == '}' || (*next == ',' && IsAtKey(AfterSpaces(next + 1, end_), end_));
    case Place::kElement:
      return *next == ']' || (*next == ',' && IsAtValue(AfterSpaces(next + 1, end_), end_));
  }
  return false;
}

void JsonCursor::ReadSizedText(size_t size, std::string_view* raw) {
  const char* const first = at_ + 1;
  const char* const last = first + size;
  *raw = {first, size};
  for (const char* at = FindTextEnd(first); at < last; at = FindTextEnd(at)) {
    irregular_ |= *at == '"';
    at += *at == '\\' ? 2 : 1;
  }
  at_ = last + 1;
}

// Reads a text from its first quote or backslash on.
bool JsonCursor::ReadRestOfText(const char* first, const char* at, std::string_view* raw) {
  for (;; at = FindTextEnd(at)) {
    if (at == end_) {
      at_ = end_;
      return Fail("unterminated string");
    }
    if (*at == '\\') {
      at += end_ - at > 1 ? 2 : 1;
    } else if (careful_ && !CanEndText(at)) {
      if (IsInNextObject(first, at, end_)) {
        at_ = first;
        return Fail("unterminated string");
      }
      irregular_ = true;
      ++at;
    } else {
      *raw = {first, static_cast<size_t>(at - first)};
      at_ = at + 1;
      return true;
    }
  }
}

// Reads a number, true, false, null, or other writers' forms of numbers.
bool JsonCursor::ReadWord(JsonValue* value) {
  if (at_ == end_) return Fail("expected a value");
  const char* const first = at_;
  const char* at = first;
  uint8_t parts = 0;
  for (uint8_t part = 0; at != end_ && (part = kPartOf[static_cast<uint8_t>(*at)]) != 0; ++at) {
    parts |= part;
  }
  at_ = at;
  value->raw = {first, static_cast<size_t>(at_ - first)};
  const char begin = *first == '-' && at_ - first > 1 ? first[1] : *first;
  if (at_ != first && begin >= '0' && begin <= '9') {
    value->type = JsonType::kNumber;
    irregular_ |= (parts & kOfWord) != 0;
    return true;
  }
  value->type = JsonType::kWord;
  if (value->raw == "true" || value->raw == "false" || value->raw == "null") return true;
  irregular_ = true;
  if (value->raw == "NaN" || value->raw == "Infinity" || value->raw == "-Infinity") return true;
  if (at_ != end_) at_ = first;
  return Fail("expected a value");
}

bool JsonCursor::SkipLevel(size_t level, char close) {
  if (level == kMostLevels) return Fail("more than 1024 levels");
  JsonValue ignored;
  const auto skip = [&] { return ReadValueAt(&ignored, level + 1); };
  if (close == ']') return ReadArray(skip);
  return ReadObject([&](std::string_view /*key*/) { return skip(); });
}

bool JsonCursor::ReadValueAt(JsonValue* value, size_t level) {
  const char c = Peek();
  if (c == '"') {
    value->type = JsonType::kText;
    return ReadText(&value->raw);
  }
  if (c != '{' && c != '[') return ReadWord(value);
  value->type = c == '{' ? JsonType::kObject : JsonType::kArray;
  const char* const first = at_;
  if (!SkipLevel(level, c == '{' ? '}' : ']')) return false;
  value->raw = {first, static_cast<size_t>(at_ - first)};
  return true;
}

bool JsonCursor::ReadEnd() {
  return Peek() == '\0' && at_ == end_ ? true : Fail("more than one document");
}

}  // namespace xplane_time::json
