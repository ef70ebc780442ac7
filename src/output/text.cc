#include "output/text.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_replace.h"

namespace xplane_time::output {
namespace {

uint8_t ByteAt(std::string_view text, size_t position) {
  return position < text.size() ? static_cast<uint8_t>(text[position]) : uint8_t{0};
}

bool IsContinuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

void AppendHexByte(char byte, std::string* out) {
  static constexpr char kDigits[] = "0123456789abcdef";
  const auto value = static_cast<uint8_t>(byte);
  out->append("\\x");
  out->push_back(kDigits[value >> 4]);
  out->push_back(kDigits[value & 0xF]);
}

// C0, DEL and C1 (U+0080 to U+009F): a terminal may act on them.
bool IsControl(std::string_view text, size_t position, size_t length) {
  const uint8_t first = ByteAt(text, position);
  if (length == 1) return first < 0x20 || first == 0x7F;
  return length == 2 && first == 0xC2 && ByteAt(text, position + 1) < 0xA0;
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
    if (IsControl(text, i, length) && !(keep_line_feeds && character == "\n")) {
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
