// Reads JSON as profilers write it, from front to back without an index.
//
// It accepts some invalid JSON that occurs in traces, and reports it by irregular(): bytes that are
// not UTF-8, control characters in text, NaN and Infinity and, in careful mode, unescaped quotes in
// a text. Values are unconverted views of the file.
//
//   JsonCursor cursor(bytes);
//   cursor.ReadObject([&](std::string_view key) { return cursor.ReadValue(&value); });
//   if (cursor.error() != nullptr) ...  // at cursor.offset()
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xplane_time::json {

enum class JsonType : uint8_t { kNothing, kText, kNumber, kWord, kObject, kArray };

struct JsonValue {
  JsonValue() {}
  JsonValue(JsonType its_type, std::string_view its_raw) : type(its_type), raw(its_raw) {}

  JsonType type = JsonType::kNothing;
  // Of a text the part between its quotes, of other values everything.
  std::string_view raw;
};

// A text with its escapes resolved. Bytes that are not UTF-8 become U+FFFD.
std::string Unescaped(std::string_view raw);
// Whether the text is ASCII without escapes, which Unescaped() does not change.
bool IsPlainText(std::string_view raw);
bool IsUtf8(std::string_view bytes);

// The bytes between the values of objects with the same members. If the same bytes occur again,
// they need not be parsed. Views of the file.
struct JsonShape {
  struct Gap {
    std::string_view bytes, key;
  };
  static constexpr size_t kMostGaps = 64;
  std::vector<Gap> gaps;
};

class JsonCursor {
 public:
  explicit JsonCursor(std::string_view bytes)
      : begin_(bytes.data()), at_(begin_), end_(begin_ + bytes.size()) {}

  // The next character that is not a space; 0: the end.
  char Peek();
  uint64_t offset() const { return static_cast<uint64_t>(at_ - begin_); }
  std::string_view rest() const { return {at_, static_cast<size_t>(end_ - at_)}; }
  const char* error() const { return error_; }
  // Whether the error is that the bytes end too early.
  bool ran_out() const { return ran_out_; }

  // Reads any value; objects and arrays as a whole.
  bool ReadValue(JsonValue* value) {
    if (Peek() != '"') return ReadValueAt(value, 0);
    value->type = JsonType::kText;
    return ReadText(&value->raw);
  }
  // Calls on_member(key) before each value, and on_member must read the value. Stops with false if
  // on_member returns false.
  template <typename OnMember>
  bool ReadObject(OnMember on_member);
  // Calls on_element() before each element, likewise.
  template <typename OnElement>
  bool ReadArray(OnElement on_element);
  // The same in steps: Enter() passes '{' or '['. Then `more` is set if there is another member or
  // element, and its value must be read next.
  bool Enter(char open) {
    return Take(open, open == '{' ? "expected an object" : "expected an array");
  }
  // Passes the next character if it is `c`.
  bool Pass(char c) { return Peek() == c ? (++at_, true) : false; }
  bool NextMember(bool is_first, std::string_view* key, bool* more);
  bool NextElement(bool is_first, bool* more);
  // NextMember() for the member at position `place` of an object that is like earlier ones.
  // Afterwards the value begins at the cursor, without spaces.
  bool NextMemberLike(size_t place, JsonShape* shape, std::string_view* key, bool* more);
  // Checks that the document ends here.
  bool ReadEnd();

  // In careful mode, a quote ends a text only if the next characters can follow a text: a colon
  // after a key; a closing brace, or a comma and the next key, after the value of a member.
  void set_careful(bool careful) { careful_ = careful; }
  bool careful() const { return careful_; }
  // At a quote: reads a text of `size` bytes after the quote, up to the closing quote.
  void ReadSizedText(size_t size, std::string_view* raw);
  // Continues reading at this offset, and clears errors and flags.
  void ReturnTo(uint64_t offset);
  // Flags since the last ReturnTo() or ForgetIrregular().
  bool irregular() const { return irregular_; }
  bool any_not_ascii() const { return not_ascii_; }
  void ForgetIrregular() { irregular_ = not_ascii_ = false; }

  bool Fail(const char* error);

 private:
  static constexpr size_t kMostLevels = 1024;
  enum class Place : uint8_t { kDocument, kKey, kMember, kElement };

  void SkipSpace();
  bool ReadValueAt(JsonValue* value, size_t level);
  bool ReadText(std::string_view* raw);
  bool ReadRestOfText(const char* first, const char* at, std::string_view* raw);
  bool SkipLevel(size_t level, char close);
  bool ReadWord(JsonValue* value);
  const char* FindTextEnd(const char* at);
  bool CanEndText(const char* quote) const;
  bool Take(char c, const char* otherwise);

  const char* begin_;
  const char* at_;
  const char* end_;
  const char* error_ = nullptr;
  bool ran_out_ = false, careful_ = false, irregular_ = false, not_ascii_ = false;
  Place place_ = Place::kDocument;  // kind of the next text
};

inline char JsonCursor::Peek() {
  // Usually there is no space, or one.
  if (at_ != end_ && *at_ > ' ') return *at_;
  if (end_ - at_ > 1 && *at_ == ' ' && at_[1] > ' ') return *++at_;
  SkipSpace();
  return at_ == end_ ? '\0' : *at_;
}

inline void JsonCursor::SkipSpace() {
  const auto is_space = [](char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; };
  const char* at = at_;  // a local copy, because a member would be written at each step
#if defined(__SSE2__)
  constexpr ptrdiff_t kAtOnce = 16;
  while (end_ - at >= kAtOnce) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const auto are = [&bytes](char c) { return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c)); };
    const __m128i spaces =
        _mm_or_si128(_mm_or_si128(are(' '), are('\n')), _mm_or_si128(are('\r'), are('\t')));
    const auto others = static_cast<unsigned>(_mm_movemask_epi8(spaces)) ^ 0xffffU;
    if (others != 0) {
      at_ = at + __builtin_ctz(others);
      return;
    }
    at += kAtOnce;
  }
#endif
  while (at != end_ && is_space(*at)) ++at;
  at_ = at;
}

// Finds the next quote or backslash, or the end.
inline const char* JsonCursor::FindTextEnd(const char* at) {
  const char* const end = end_;
#if defined(__SSE2__)
  constexpr ptrdiff_t kAtOnce = 16;
  while (end - at >= kAtOnce) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const __m128i controls = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
    const __m128i ends = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('"')),
                                      _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));
    if (_mm_movemask_epi8(bytes) != 0) not_ascii_ = true;
    const int found = _mm_movemask_epi8(_mm_or_si128(ends, controls));
    if (found == 0) {
      at += kAtOnce;
      continue;
    }
    at += __builtin_ctz(static_cast<unsigned>(found));
    if (static_cast<unsigned char>(*at) >= ' ') return at;
    irregular_ = true;
    ++at;
  }
#endif
  for (; at != end && *at != '"' && *at != '\\'; ++at) {
    irregular_ |= static_cast<unsigned char>(*at) < ' ';
    not_ascii_ |= *at < 0;
  }
  return at;
}

// Reads a text; the cursor is at its quote.
inline bool JsonCursor::ReadText(std::string_view* raw) {
  const char* const first = at_ + 1;
  const char* const at = FindTextEnd(first);
  if (at == end_ || *at != '"' || careful_) return ReadRestOfText(first, at, raw);
  *raw = {first, static_cast<size_t>(at - first)};
  at_ = at + 1;
  return true;
}

inline bool JsonCursor::Take(char c, const char* otherwise) {
  if (Peek() != c) return Fail(otherwise);
  ++at_;
  return true;
}

inline bool JsonCursor::NextMember(bool is_first, std::string_view* key, bool* more) {
  char c = Peek();
  *more = c != '}';
  if (!*more) return ++at_, true;
  if (!is_first) {
    if (c != ',') return Fail("expected a comma or }");
    ++at_;
    c = Peek();
  }
  if (c != '"') return Fail("a name in quotes is expected");
  place_ = Place::kKey;
  if (!ReadText(key)) return false;
  place_ = Place::kMember;
  return Take(':', "expected a colon");
}

inline bool JsonCursor::NextMemberLike(size_t place, JsonShape* shape, std::string_view* key,
                                       bool* more) {
  if (place < shape->gaps.size() && !careful_) {
    const JsonShape::Gap& gap = shape->gaps[place];
    if (rest().starts_with(gap.bytes)) {
      at_ += gap.bytes.size();
      *key = gap.key;
      *more = true;
      return true;
    }
  }
  const char* const begin = at_;
  if (!NextMember(place == 0, key, more)) return false;
  if (!*more) return true;
  Peek();
  if (careful_ || irregular_ || not_ascii_) return true;
  if (place > shape->gaps.size() || place >= JsonShape::kMostGaps) return true;
  if (place == shape->gaps.size()) shape->gaps.emplace_back();
  shape->gaps[place] = {{begin, static_cast<size_t>(at_ - begin)}, *key};
  return true;
}

inline bool JsonCursor::NextElement(bool is_first, bool* more) {
  const char c = Peek();
  *more = c != ']';
  if (!*more) return ++at_, true;
  place_ = Place::kElement;
  if (is_first) return true;
  if (c != ',') return Fail("expected a comma or ]");
  return ++at_, true;
}

template <typename OnMember>
bool JsonCursor::ReadObject(OnMember on_member) {
  if (!Enter('{')) return false;
  std::string_view key;
  bool more = true;
  for (bool is_first = true; NextMember(is_first, &key, &more); is_first = false) {
    if (!more) return true;
    if (!on_member(key)) return false;
  }
  return false;
}

template <typename OnElement>
bool JsonCursor::ReadArray(OnElement on_element) {
  if (!Enter('[')) return false;
  bool more = true;
  for (bool is_first = true; NextElement(is_first, &more); is_first = false) {
    if (!more) return true;
    if (!on_element()) return false;
  }
  return false;
}

}  // namespace xplane_time::json
