// Text: names as the producer wrote them become text that is safe to print.
//
// Enters: arbitrary bytes. Leaves: valid UTF-8. Widths count code points: a wide or a
// combining character counts as one column.
//
//   ValidUtf8("a\xff")               "a\\xff"
//   Printable("a\n\x1b[2J")          "a\\n\\x1b[2J"       no terminal control
//   ShortenMiddle("abcdefgh", 5, "...")   "a...h"
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace xplane_time::output {

// Length in bytes of the valid UTF-8 character at `position`, or 0. Overlong forms,
// surrogates and code points past U+10FFFF are not valid.
size_t Utf8Length(std::string_view text, size_t position);

// Invalid bytes, control characters (C0, DEL, C1) and those that turn the direction of reading or
// are not seen (U+202E) become \xNN (four characters a byte), \r or \t; line feeds stay.
std::string ValidUtf8(std::string_view text);

// The same, and line feeds become \n (two characters).
std::string Printable(std::string_view text);

// The lines of a program's words: each printable, those after the first behind `indent` spaces.
std::string PrintableLines(std::string_view text, size_t indent);

// What a program's words come to in one line: the last of a Python traceback, which names the
// error, else the first; printable.
std::string BriefLine(std::string_view text);

// Columns of valid UTF-8 text.
size_t DisplayWidth(std::string_view text);

// At most `width` columns: the middle gives way to `ellipsis`, the head keeps the odd
// column. Where not even the ellipsis fits, the first `width` columns.
std::string ShortenMiddle(std::string_view text, size_t width, std::string_view ellipsis);

// The same, and a third part stays: what is around column `at` of the text.
//   ShortenAround("kernel_of_64_and_some_more_words", 17, "…", 10)   "kerne…of_64_…ords"
std::string ShortenAround(std::string_view text, size_t width, std::string_view ellipsis,
                          size_t at);

// At most `width` columns, cut between words where the first one fits.
//   ShortenWords("m=64 n=128 k=32", 11, "…")   "m=64 … k=32"
std::string ShortenWords(std::string_view text, size_t width, std::string_view ellipsis);

// The text in at most `width` columns a line, broken at spaces; every line after the
// first begins with `indent` spaces. Longer words are cut.
std::string Wrap(std::string_view text, size_t width, size_t indent);

// A cell of RFC 4180: quoted where it holds a comma, a quote or a line break.
void AppendCsvCell(std::string_view text, std::string* out);

// Text and attributes of XML; line feeds become &#10;.
std::string XmlText(std::string_view text);

// A cell of a GitHub table: pipes, backslashes, stars and the characters of HTML escaped.
std::string MarkdownCell(std::string_view text);

// The same as a code span, in which only the pipes of the table need an escape.
std::string MarkdownCode(std::string_view text);

}  // namespace xplane_time::output
