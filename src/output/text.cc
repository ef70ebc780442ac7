#include "output/text.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace xplane_time::output {
namespace {

uint8_t ByteAt(std::string_view text, size_t position) {
  return position < text.size() ? static_cast<uint8_t>(text[position]) : uint8_t{0};
}

bool IsContinuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

void AppendHexByte(char byte, std::string* out) {
  absl::StrAppendFormat(out, "\\x%02x", static_cast<uint8_t>(byte));
}

// C0, DEL and C1 (U+0080 to U+009F): a terminal may act on them.
bool IsControl(std::string_view text, size_t position, size_t length) {
  const uint8_t first = ByteAt(text, position);
  if (length == 1) return first < 0x20 || first == 0x7F;
  return length == 2 && first == 0xC2 && ByteAt(text, position + 1) < 0xA0;
}

// Characters that turn the direction of reading, break lines or are not seen: what stands beside
// them is not what is there. U+061C, U+200B, U+200E, U+200F, U+2028 to U+202E, U+2060 to U+206F
// and U+FEFF.
bool IsDeceptive(std::string_view character) {
  if (character == "\xd8\x9c" || character == "\xef\xbb\xbf") return true;
  if (character.size() != 3 || character[0] != '\xe2') return false;
  const uint8_t second = ByteAt(character, 1), third = ByteAt(character, 2);
  if (second == 0x81) return third >= 0xA0 && third <= 0xAF;
  if (second != 0x80) return false;
  return third == 0x8B || third == 0x8E || third == 0x8F || (third >= 0xA8 && third <= 0xAE);
}

void AppendControl(std::string_view character, std::string* out) {
  if (character == "\n") {
    out->append("\\n");
  } else if (character == "\t") {
    out->append("\\t");
  } else if (character == "\r") {
    out->append("\\r");
  } else {
    for (char byte : character) AppendHexByte(byte, out);
  }
}

std::string Escape(std::string_view text, bool keep_line_feeds) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const size_t length = Utf8Length(text, i);
    if (length == 0) {
      AppendHexByte(text[i], &out);
      ++i;
      continue;
    }
    const std::string_view character = text.substr(i, length);
    const bool shown_as_bytes = IsControl(text, i, length) || IsDeceptive(character);
    if (shown_as_bytes && !(keep_line_feeds && character == "\n")) {
      AppendControl(character, &out);
    } else {
      out.append(character);
    }
    i += length;
  }
  return out;
}

// Byte position after the first `columns` characters.
size_t PositionAfter(std::string_view text, size_t columns) {
  size_t i = 0;
  for (; i < text.size() && columns > 0; --columns) {
    ++i;
    while (i < text.size() && IsContinuation(static_cast<uint8_t>(text[i]))) ++i;
  }
  return i;
}

}  // namespace

size_t Utf8Length(std::string_view text, size_t position) {
  const uint8_t b0 = ByteAt(text, position), b1 = ByteAt(text, position + 1);
  if (position >= text.size()) return 0;
  if (b0 < 0x80) return 1;
  if (b0 < 0xC2 || b0 > 0xF4 || !IsContinuation(b1)) return 0;
  if (b0 < 0xE0) return 2;
  if (!IsContinuation(ByteAt(text, position + 2))) return 0;
  if (b0 < 0xF0) {
    if ((b0 == 0xE0 && b1 < 0xA0) || (b0 == 0xED && b1 > 0x9F)) return 0;
    return 3;
  }
  if ((b0 == 0xF0 && b1 < 0x90) || (b0 == 0xF4 && b1 > 0x8F)) return 0;
  return IsContinuation(ByteAt(text, position + 3)) ? 4 : 0;
}

std::string ValidUtf8(std::string_view text) { return Escape(text, /*keep_line_feeds=*/true); }

std::string Printable(std::string_view text) { return Escape(text, /*keep_line_feeds=*/false); }

std::string PrintableLines(std::string_view text, size_t indent) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return absl::StrReplaceAll(ValidUtf8(text), {{"\n", "\n" + std::string(indent, ' ')}});
}

std::string BriefLine(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  const size_t last = text.rfind('\n');
  const bool traceback = text.starts_with("Traceback ") && last != std::string_view::npos;
  return Printable(traceback ? text.substr(last + 1) : text.substr(0, text.find('\n')));
}

size_t DisplayWidth(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return !IsContinuation(static_cast<uint8_t>(c)); }));
}

std::string ShortenMiddle(std::string_view text, size_t width, std::string_view ellipsis) {
  const size_t columns = DisplayWidth(text);
  if (columns <= width) return std::string(text);
  const size_t mark = DisplayWidth(ellipsis);
  if (width < mark + 2) return std::string(text.substr(0, PositionAfter(text, width)));
  const size_t tail = (width - mark) / 2;
  const size_t head = width - mark - tail;
  std::string out(text.substr(0, PositionAfter(text, head)));
  out.append(ellipsis);
  out.append(text.substr(PositionAfter(text, columns - tail)));
  return out;
}

std::string ShortenAround(std::string_view text, size_t width, std::string_view ellipsis,
                          size_t at) {
  const size_t columns = DisplayWidth(text), mark = DisplayWidth(ellipsis);
  constexpr size_t kLeastPart = 2;
  if (columns <= width) return std::string(text);
  if (width < 2 * mark + 3 * kLeastPart) return ShortenMiddle(text, width, ellipsis);
  const size_t room = width - 2 * mark, middle = room / 2, tail = (room - middle) / 2;
  const size_t head = room - middle - tail;
  const size_t begin = at - std::min(at, middle / 2);
  const auto part = [&](size_t from, size_t to) {
    const size_t first = PositionAfter(text, from);
    return text.substr(first, PositionAfter(text, to) - first);
  };
  std::string out;
  if (begin <= head + mark) {  // the middle adjoins the head
    out.append(part(0, head + middle + mark)).append(ellipsis);
    return out.append(part(columns - tail, columns));
  }
  out.append(part(0, head)).append(ellipsis);
  if (begin + middle + mark >= columns - tail) {  // or the tail
    return out.append(part(columns - tail - middle - mark, columns));
  }
  out.append(part(begin, begin + middle)).append(ellipsis);
  return out.append(part(columns - tail, columns));
}

std::string ShortenWords(std::string_view text, size_t width, std::string_view ellipsis) {
  if (DisplayWidth(text) <= width) return std::string(text);
  const std::vector<absl::string_view> words =
      absl::StrSplit(absl::string_view(text.data(), text.size()), ' ');
  const size_t room = width - std::min(width, DisplayWidth(ellipsis));
  std::string head, tail;
  size_t first = 0, last = words.size();
  for (bool at_head = true; first < last; at_head = !at_head) {
    const std::string word(at_head ? words[first] : words[last - 1]);
    if (DisplayWidth(head) + DisplayWidth(tail) + DisplayWidth(word) + 1 > room) break;
    if (at_head) {
      head.append(word).push_back(' ');
      ++first;
    } else {
      tail.insert(0, " " + word);
      --last;
    }
  }
  return head.empty() ? ShortenMiddle(text, width, ellipsis) : head.append(ellipsis) + tail;
}

std::string Wrap(std::string_view text, size_t width, size_t indent) {
  std::string out;
  size_t column = 0;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    std::string_view word = text.substr(0, space);
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
    if (word.empty()) continue;
    const size_t room = width > indent ? width - indent : 1;
    const std::string shown = ShortenMiddle(word, room, "...");
    const size_t columns = DisplayWidth(shown);
    if (column != 0 && column + 1 + columns > width) {
      out.push_back('\n');
      out.append(indent, ' ');
      column = indent;
    } else if (column != 0) {
      out.push_back(' ');
      ++column;
    }
    out.append(shown);
    column += columns;
  }
  return out;
}

void AppendCsvCell(std::string_view text, std::string* out) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) {
    out->append(text);
    return;
  }
  out->push_back('"');
  for (char c : text) {
    if (c == '"') out->push_back('"');
    out->push_back(c);
  }
  out->push_back('"');
}

std::string XmlText(std::string_view text) {
  return absl::StrReplaceAll(
      ValidUtf8(text),
      {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"\n", "&#10;"}});
}

std::string MarkdownCell(std::string_view text) {
  return absl::StrReplaceAll(std::string(text), {{"<", "&lt;"},
                                                 {">", "&gt;"},
                                                 {"&", "&amp;"},
                                                 {"|", "\\|"},
                                                 {"\\", "\\\\"},
                                                 {"*", "\\*"},
                                                 {"`", "\\`"}});
}

std::string MarkdownCode(std::string_view text) {
  if (text.empty()) return "";
  std::string body;
  for (char c : text) {
    if (c == '|') body.push_back('\\');
    body.push_back(c);
  }
  if (body.find('`') == std::string::npos) return "`" + body + "`";
  size_t run = 0, longest = 0;
  for (char c : body) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  return fence + " " + body + " " + fence;
}

}  // namespace xplane_time::output
