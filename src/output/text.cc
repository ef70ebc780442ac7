#include "output/text.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "re2/re2.h"

namespace xplane_time::output {
namespace {

// Data, which other programs read, keeps valid UTF-8 except control characters (C0, DEL, C1) and
// the characters that turn the direction of reading or break lines.
constexpr char kInData[] =
    R"([^\x{00}-\x{1f}\x{7f}-\x{9f}\x{61c}\x{200b}\x{200e}\x{200f}\x{2028}-\x{202e})"
    R"(\x{2060}-\x{206f}\x{d800}-\x{dfff}\x{feff}]*)";

// JSON has special escapes for C0.
constexpr char kInJson[] =
    R"([^\x{7f}-\x{9f}\x{61c}\x{200b}\x{200e}\x{200f}\x{2028}-\x{202e}\x{2060}-\x{206f})"
    R"(\x{d800}-\x{dfff}\x{feff}]*)";

// Readers see a character only if it has a shape. So texts for them exclude every control, format,
// private and separator character except the space, the other characters that Unicode ignores by
// default (fillers, variation selectors), the blank Braille pattern and noncharacters, which XML
// forbids. Two names that look alike are then equal, up to characters of similar shape.
constexpr char kVisible[] =
    R"((?: |[^\p{C}\p{Z}\x{34f}\x{115f}\x{1160}\x{17b4}\x{17b5}\x{180b}-\x{180f}\x{2065}\x{2800})"
    R"(\x{3164}\x{fdd0}-\x{fdef}\x{fe00}-\x{fe0f}\x{ffa0}\x{fff0}-\x{fffb}\x{fffe}\x{ffff})"
    R"(\x{1bca0}-\x{1bca3}\x{1d173}-\x{1d17a}\x{1fffe}\x{1ffff}\x{2fffe}\x{2ffff})"
    R"(\x{3fffe}-\x{10ffff}])*)";

enum class LineFeeds { kKept, kEscaped };

// Bytes outside the longest run that `shown_as_it_is` matches become \\xNN, \\r, \\t or \\n.
std::string Escape(re2::StringPiece text, const RE2& shown_as_it_is, LineFeeds line_feeds) {
  const auto plain = [](char c) { return c >= ' ' && c < '\x7f'; };
  if (std::all_of(text.begin(), text.end(), plain)) return std::string(text);  // mostly
  std::string out;
  out.reserve(text.size());
  for (re2::StringPiece shown; !text.empty(); text.remove_prefix(1)) {
    shown_as_it_is.Match(text, 0, text.size(), RE2::ANCHOR_START, &shown, 1);
    out.append(shown.data(), shown.size());
    text.remove_prefix(shown.size());
    if (text.empty()) break;
    // Also reached for the continuation bytes of a character, which are not valid by themselves.
    const char byte = text[0];
    if (byte == '\n') {
      out.append(line_feeds == LineFeeds::kKept ? "\n" : "\\n");
    } else if (byte == '\t' || byte == '\r') {
      out.append(byte == '\t' ? "\\t" : "\\r");
    } else {
      absl::StrAppendFormat(&out, "\\x%02x", static_cast<uint8_t>(byte));
    }
  }
  return out;
}

std::string EscapeInvisible(std::string_view text, LineFeeds line_feeds) {
  static const RE2 visible(kVisible);
  return Escape(text, visible, line_feeds);
}

bool BeginsCharacter(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }

// Byte position after the character at `i`.
size_t NextCharacter(std::string_view text, size_t i) {
  for (++i; i < text.size() && !BeginsCharacter(text[i]);) ++i;
  return i;
}

// Columns of a character of valid UTF-8: Chinese, Japanese, Korean and pictures have two. Bytes
// are in the order of code points.
size_t ColumnsOf(std::string_view character) {
  constexpr std::pair<std::string_view, std::string_view> kWide[] = {
      {"\u1100", "\u115F"},         {"\u2E80", "\u303E"},        {"\u3041", "\uA4CF"},
      {"\uAC00", "\uD7A3"},         {"\uF900", "\uFAFF"},        {"\uFE30", "\uFE6F"},
      {"\uFF01", "\uFF60"},         {"\uFFE0", "\uFFE6"},        {"\U0001F300", "\U0001F64F"},
      {"\U0001F900", "\U0001F9FF"}, {"\U00020000", "\U0003FFFD"}};
  if (character.size() < 3) return 1;
  const bool is_wide = std::ranges::any_of(kWide, [&](const auto& range) {
    return range.first <= character && character <= range.second;
  });
  return is_wide ? 2 : 1;
}

// Byte position after the characters that fit into `columns`.
size_t PositionAfter(std::string_view text, size_t columns) {
  size_t i = 0;
  while (i < text.size()) {
    const size_t next = NextCharacter(text, i), own = ColumnsOf(text.substr(i, next - i));
    if (own > columns) break;
    columns -= own;
    i = next;
  }
  return i;
}

// The characters at its end that fit into `columns`.
std::string_view LastColumns(std::string_view text, size_t columns) {
  const size_t all = DisplayWidth(text);
  std::string_view last = text.substr(PositionAfter(text, all - std::min(all, columns)));
  if (DisplayWidth(last) > columns) last.remove_prefix(NextCharacter(last, 0));
  return last;
}

struct Scale {
  std::string_view name;
  double ps;
  int max_decimals;  // one picosecond
};

// In the order of Unit, after kAuto.
constexpr std::array<Scale, 4> kScales = {{
    {"ns", 1e3, 3},
    {"us", 1e6, 6},
    {"ms", 1e9, 9},
    {"s", 1e12, 12},
}};

// Four to five significant digits of the largest value.
int Decimals(double largest, const Scale& scale) {
  int decimals = 3;
  if (largest >= 100) decimals = 2;
  if (largest >= 1000) decimals = 1;
  if (largest >= 100000) decimals = 0;
  if (largest > 0 && largest < 1) decimals = 3 + static_cast<int>(-std::floor(std::log10(largest)));
  return std::min(decimals, scale.max_decimals);
}

bool IsKnown(const std::optional<double>& value) { return value && std::isfinite(*value); }

size_t ChooseScale(double smallest_ps, double largest_ps) {
  size_t chosen = kScales.size() - 1;
  while (chosen > 0 && largest_ps < kScales[chosen].ps) --chosen;
  while (chosen > 0) {
    const Scale& scale = kScales[chosen];
    const double resolution = std::pow(10, -Decimals(largest_ps / scale.ps, scale));
    const bool digits_are_lost = smallest_ps / scale.ps < 100 * resolution;
    if (!digits_are_lost || largest_ps / kScales[chosen - 1].ps >= 1e5) break;
    --chosen;
  }
  return chosen;
}

// Divided by 1000 until it is below `most`, but for the last of the units; and how often.
std::pair<double, size_t> Scaled(double value, double most, size_t units) {
  size_t unit = 0;
  for (; std::abs(value) >= most && unit + 1 < units; ++unit) value /= 1000;
  return {value, unit};
}

}  // namespace

std::string JsonUtf8(std::string_view text) {
  static const RE2 in_json(kInJson);
  return Escape(text, in_json, LineFeeds::kKept);
}

std::string ValidUtf8(std::string_view text) {
  static const RE2 in_data(kInData);
  return Escape(text, in_data, LineFeeds::kKept);
}

std::string Printable(std::string_view text) { return EscapeInvisible(text, LineFeeds::kEscaped); }

std::string PrintableLines(std::string_view text, size_t indent) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return absl::StrReplaceAll(EscapeInvisible(text, LineFeeds::kKept),
                             {{"\n", "\n" + std::string(indent, ' ')}});
}

std::string BriefLine(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  const size_t last = text.rfind('\n');
  const bool traceback = text.starts_with("Traceback ") && last != std::string_view::npos;
  return Printable(traceback ? text.substr(last + 1) : text.substr(0, text.find('\n')));
}

size_t DisplayWidth(std::string_view text) {
  size_t columns = 0;
  for (size_t i = 0, next = 0; i < text.size(); i = next) {
    next = NextCharacter(text, i);
    columns += ColumnsOf(text.substr(i, next - i));
  }
  return columns;
}

std::string Padded(std::string_view text, size_t width, bool right) {
  const std::string padding(width - std::min(width, DisplayWidth(text)), ' ');
  return right ? padding + std::string(text) : std::string(text) + padding;
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
  out.append(LastColumns(text, tail));
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
    return out.append(LastColumns(text, tail));
  }
  out.append(part(0, head)).append(ellipsis);
  if (begin + middle + mark >= columns - tail) {  // or the tail
    return out.append(part(columns - tail - middle - mark, columns));
  }
  out.append(part(begin, begin + middle)).append(ellipsis);
  return out.append(LastColumns(text, tail));
}

std::string_view BareFunction(std::string_view text) {
  constexpr std::string_view kOpening = "<([{", kClosing = ">)]}";
  if (!text.ends_with(')')) return text;
  size_t depth = 0, begin = 0, parameters = 0;  // at depth 0: the last name, and the last list
  for (size_t i = 0; i < text.size(); ++i) {
    if (depth == 0 && text[i] == '(') parameters = i;
    if (depth == 0 && (text[i] == ' ' || text.substr(i).starts_with("::"))) {
      begin = i + (text[i] == ' ' ? 1 : 2);
    }
    if (kOpening.find(text[i]) != kOpening.npos) ++depth;
    if (kClosing.find(text[i]) != kClosing.npos && depth-- == 0) return text;
  }
  if (depth != 0 || parameters <= begin) return text;
  return text.substr(begin, parameters - begin);
}

std::string WithoutFolder(std::string_view source) {
  const std::string_view name = source.substr(source.rfind('/') + 1);
  return std::string(name.empty() || name[0] == ':' ? source : name);
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
  std::vector<std::string> words;
  for (const absl::string_view word :
       absl::StrSplit(absl::string_view(text.data(), text.size()), ' ', absl::SkipEmpty())) {
    if (word[0] == '%' && !words.empty()) {  // a number and its percent sign stay together
      absl::StrAppend(&words.back(), " ", word);
    } else {
      words.emplace_back(word);
    }
  }
  for (const std::string& word : words) {
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
  const std::string quotes_doubled = absl::StrReplaceAll(std::string(text), {{"\"", "\"\""}});
  out->append("\"").append(quotes_doubled).append("\"");
}

void AppendCsvNumber(double value, std::string* out) {
  if (!std::isfinite(value)) return;
  const double magnitude = std::abs(value);
  const bool ordinary = magnitude == 0 || (magnitude >= 1e-5 && magnitude < 1e21);
  char buffer[64];
  const auto format = ordinary ? std::chars_format::fixed : std::chars_format::scientific;
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, format).ptr;
  out->append(buffer, static_cast<size_t>(end - buffer));
}

std::string XmlText(std::string_view text) {
  return absl::StrReplaceAll(
      EscapeInvisible(text, LineFeeds::kKept),
      {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"\n", "&#10;"}});
}

std::string FormatFixed(double value, int decimals) {
  if (value == 0) value = 0;            // no "-0"
  constexpr double kFixedBelow = 1e16;  // more digits than a double has
  if (!(std::abs(value) < kFixedBelow)) return absl::StrFormat("%.3e", value);
  return absl::StrFormat("%.*f", decimals, value);
}

Unit CommonUnit(const std::vector<std::optional<double>>& values_ps, Unit unit) {
  if (unit != Unit::kAuto) return unit;
  double smallest = HUGE_VAL, largest = 0;
  for (const auto& value : values_ps) {
    if (!IsKnown(value) || *value == 0) continue;
    largest = std::max(largest, std::abs(*value));
    smallest = std::min(smallest, std::abs(*value));
  }
  if (largest == 0) return Unit::kUs;  // only zeros
  return static_cast<Unit>(ChooseScale(smallest, largest) + 1);
}

TimeColumn FormatTimes(const std::vector<std::optional<double>>& values_ps, Unit unit) {
  const Scale& scale = kScales[static_cast<size_t>(CommonUnit(values_ps, unit)) - 1];
  double largest = 0;
  for (const auto& value : values_ps) {
    if (IsKnown(value)) largest = std::max(largest, std::abs(*value));
  }
  const int decimals = Decimals(largest / scale.ps, scale);
  TimeColumn column = {.unit = scale.name, .cells = {}};
  column.cells.reserve(values_ps.size());
  for (const auto& value : values_ps) {
    column.cells.push_back(IsKnown(value) ? FormatFixed(*value / scale.ps, decimals) : "-");
  }
  return column;
}

std::string FormatRate(const std::optional<double>& per_second) {
  if (!IsKnown(per_second)) return "-";
  if (*per_second == 0) return "0";
  static constexpr const char* kPrefixes[] = {"", " k", " M", " G", " T", " P", " E"};
  const auto [value, prefix] = Scaled(*per_second, 999.5, std::size(kPrefixes));
  const double size = std::abs(value);
  return FormatFixed(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2) + kPrefixes[prefix];
}

std::string FormatTime(double ps, Unit unit) {
  const TimeColumn column = FormatTimes({ps}, unit);
  return column.cells[0] + " " + std::string(column.unit);
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " B";
  static constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  const auto [value, unit] = Scaled(static_cast<double>(bytes) / 1000, 999.95, std::size(kUnits));
  return FormatFixed(value, 1) + " " + kUnits[unit];
}

std::string FormatUtc(uint64_t unix_ns) {
  const absl::Time time = absl::FromUnixSeconds(static_cast<int64_t>(unix_ns / 1'000'000'000));
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
}

std::string FormatPercent(std::optional<double> share) {
  return IsKnown(share) ? FormatFixed(*share * 100, 1) : "-";
}

std::string PercentText(double share) {
  constexpr double kAbsurd = 100;  // beyond this, the samples are too few for a statement
  if (!(share < kAbsurd)) return "an unknown share";
  std::string text = FormatFixed(share * 100, std::abs(share) >= 0.0995 ? 1 : 2);
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text + " %";
}

std::string ChangeText(double ratio) {
  constexpr double kMostDigits = 1e6;  // beyond this, only the magnitude matters
  const double percent = (ratio - 1) * 100;
  const std::string text = std::abs(percent) >= kMostDigits
                               ? absl::StrFormat("%.1e", percent)
                               : FormatFixed(percent, std::abs(percent) >= 9.95 ? 1 : 2);
  return percent > 0 ? "+" + text : text;
}

}  // namespace xplane_time::output
