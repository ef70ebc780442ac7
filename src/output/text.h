// Text: names and numbers become text that is safe to print.
//
// Names are arbitrary bytes from the producer, and become valid UTF-8. Widths
// count code points: a wide or a combining character counts as one column.
//
//   ValidUtf8("a\xff")               "a\\xff"
//   Printable("a\n\x1b[2J")          "a\\n\\x1b[2J"       no terminal control
//   ShortenMiddle("abcdefgh", 5, "...")   "a...h"
//
// Times are picoseconds; some are unknown. The times of a column share one unit and the number of
// decimals. The unit is the largest one in which the largest value is at least 1. It becomes
// smaller as long as the smallest value would lose digits and the largest stays below 100000.
//
//   FormatTimes({{12'345'678}, {}}, Unit::kAuto)   "us", {"12.346", "-"}
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace xplane_time::output {

// For data (CSV, SQLite, Arrow, Perfetto): invalid bytes, control characters (C0, DEL, C1) and
// characters that turn the direction of reading or break lines become \xNN (four characters a
// byte), \r or \t. Line feeds stay.
std::string ValidUtf8(std::string_view text);

// For strings of JSON: as ValidUtf8, but C0 stays, because JSON has escapes for it.
std::string JsonUtf8(std::string_view text);

// For people (terminal, Markdown, HTML, SVG, JUnit): invisible characters are also escaped, so that
// different names look different: separators other than the space, fillers, variation selectors,
// soft hyphens, noncharacters. Line feeds become \n (two characters). Printable text does not
// change.
std::string Printable(std::string_view text);

// The lines of a program's words: each printable, those after the first behind `indent` spaces.
std::string PrintableLines(std::string_view text, size_t indent);

// The most relevant line of a program's output: the last line of a Python traceback, which names
// the error, otherwise the first line; printable.
std::string BriefLine(std::string_view text);

// Columns of valid UTF-8 text.
size_t DisplayWidth(std::string_view text);

// Padded with spaces to `width` columns; the spaces come first if the text is right-aligned.
std::string Padded(std::string_view text, size_t width, bool right);

// At most `width` columns: `ellipsis` replaces the middle, and the head keeps the odd column. If
// not even the ellipsis fits, the first `width` columns.
std::string ShortenMiddle(std::string_view text, size_t width, std::string_view ellipsis);

// The same, and a third part stays: what is around column `at` of the text.
//   ShortenAround("kernel_of_64_and_some_more_words", 17, "…", 10)   "kerne…of_64_…ords"
std::string ShortenAround(std::string_view text, size_t width, std::string_view ellipsis,
                          size_t at);

// "model.py:12" for "/home/me/model.py:12"; unchanged if the last part names no file: "/",
// "/tmp/:3".
std::string WithoutFolder(std::string_view source);

// At most `width` columns, cut between words if the first word fits.
// ShortenWords("m=64 n=128 k=32", 11, "…")   "m=64 … k=32"
std::string ShortenWords(std::string_view text, size_t width, std::string_view ellipsis);

// A C++ function without namespaces, return type and parameters, which carry the least information.
// BareFunction("void at::copy<float, 4>(float*, int)")   "copy<float, 4>"
// Any other text is returned unchanged.
std::string_view BareFunction(std::string_view text);

// The text in at most `width` columns a line, broken at spaces; every line after the
// first begins with `indent` spaces. Longer words are cut.
std::string Wrap(std::string_view text, size_t width, size_t indent);

// A cell of CSV (RFC 4180): quoted if it contains a comma, a quote or a line break. A text that
// begins with =, +, - or @ does not change: CSV is data, and a prefix would change the name. A
// number has the shortest form that reads back as the same value, without an exponent at ordinary
// magnitudes. Numbers that are not finite become empty cells.
void AppendCsvCell(std::string_view text, std::string* out);
void AppendCsvNumber(double value, std::string* out);
void AppendCsvNumber(std::integral auto value, std::string* out) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out->append(digits, static_cast<size_t>(end - digits));
}

// Text and attributes of XML and HTML: as Printable, but line feeds become &#10;.
std::string XmlText(std::string_view text);

// The unit of times in tables; JSON and CSV always use picoseconds.
enum class Unit : uint8_t { kAuto, kNs, kUs, kMs, kS };

struct TimeColumn {
  std::string_view unit;           // "ns", "us", "ms", "s"
  std::vector<std::string> cells;  // "-" if unknown
};

TimeColumn FormatTimes(const std::vector<std::optional<double>>& values_ps, Unit unit);

// The unit that FormatTimes chooses for these, for columns that are to share it. Never
// kAuto.
Unit CommonUnit(const std::vector<std::optional<double>>& values_ps, Unit unit);

// An amount a second, with the prefix of its unit: "50.0 T"; 0: "0"; unknown: "-".
std::string FormatRate(const std::optional<double>& per_second);

// One time by itself: "97.91 s".
std::string FormatTime(double ps, Unit unit);

// "3.1 MB"; powers of 1000.
std::string FormatBytes(uint64_t bytes);

// "2025-08-21 10:11:12 UTC".
std::string FormatUtc(uint64_t unix_ns);

// With that many decimals; from 1e16 on "1.234e+16".
std::string FormatFixed(double value, int decimals);

// A share of 1: "36.7"; unknown: "-".
std::string FormatPercent(std::optional<double> share);

// "5.1 %", "+5.1" and "-0.3": a change of a ratio, in percent.
std::string PercentText(double share);
std::string ChangeText(double ratio);

}  // namespace xplane_time::output
