#include "output/events.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>

#include "json/json.h"
#include "output/csv.h"
#include "output/text.h"

namespace xplane_time::output {
namespace {

constexpr size_t kFlushBytes = size_t{1} << 16;
constexpr uint64_t kExactInDouble = uint64_t{1} << 53;

// Columns of the table.
constexpr size_t kPlaneWidth = 11, kLineWidth = 10, kTimeWidth = 14, kStatWidth = 10;
constexpr size_t kLeastNameWidth = 11;
constexpr size_t kFewestOfName = 3;  // in a row whose numbers are long

constexpr uint64_t kOnes = 0x0101010101010101, kHighBits = 0x8080808080808080;

// High bits where a byte of `word` is zero (and perhaps above such a byte).
constexpr uint64_t ZeroBytes(uint64_t word) { return (word - kOnes) & ~word & kHighBits; }

constexpr uint64_t EqualBytes(uint64_t word, char c) {
  return ZeroBytes(word ^ (kOnes * static_cast<uint8_t>(c)));
}

// Whether any byte is not ASCII, a control character or one of `special`. Eight bytes
// at a time: names are long, and nearly all of them are plain.
bool IsPlain(std::string_view text, char special_1, char special_2) {
  const auto odd = [&](uint64_t word) {
    // (word - 0x20 each) borrows where a byte is below a space.
    const uint64_t control = (word - kOnes * 0x20) & ~word & kHighBits;
    constexpr char kDelete = 0x7f;
    return (word & kHighBits) | control | EqualBytes(word, kDelete) | EqualBytes(word, special_1) |
           EqualBytes(word, special_2);
  };
  while (text.size() >= sizeof(uint64_t)) {
    uint64_t word;
    std::memcpy(&word, text.data(), sizeof word);
    if (odd(word) != 0) return false;
    text.remove_prefix(sizeof word);
  }
  uint64_t rest = kOnes * 'a';
  if (!text.empty()) std::memcpy(&rest, text.data(), text.size());
  return odd(rest) == 0;
}

template <typename T>
void AppendInteger(T value, std::string* out) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out->append(digits, static_cast<size_t>(end - digits));
}

void AppendCsvText(std::string_view text, std::string* out) {
  if (IsPlain(text, ',', '"')) {
    out->append(text);
  } else {
    AppendCsvCell(ValidUtf8(text), out);
  }
}

void AppendJsonText(std::string_view text, std::string* out) {
  if (IsPlain(text, '"', '\\')) {
    out->append(1, '"').append(text).append(1, '"');
  } else {
    out->append(json::Dump(ValidUtf8(text)));
  }
}

// A double that readers take for one.
void AppendJsonDouble(double value, std::string* out) {
  if (!std::isfinite(value)) {
    out->append("null");
    return;
  }
  const size_t begin = out->size();
  AppendCsvNumber(value, out);
  if (out->find_first_of(".e", begin) == std::string::npos) out->append(".0");
}

// `quote`: beyond what a double holds exactly.
template <typename T>
void AppendJsonInteger(T value, bool quote, std::string* out) {
  if (quote) out->push_back('"');
  AppendInteger(value, out);
  if (quote) out->push_back('"');
}

std::string CompressedText(std::string_view bytes) {
  return "(" + std::to_string(bytes.size()) + " compressed bytes)";
}

void AppendCsvStat(const StatValue& value, std::string* out) {
  switch (value.type) {
    case StatType::kAbsent:
      return;
    case StatType::kDouble:
      return AppendCsvNumber(std::bit_cast<double>(value.bits), out);
    case StatType::kUint64:
      return AppendInteger(value.bits, out);
    case StatType::kInt64:
      return AppendInteger(std::bit_cast<int64_t>(value.bits), out);
    case StatType::kCompressedString:
      out->append(CompressedText(value.text));
      return;
    case StatType::kString:
    case StatType::kBytes:
    case StatType::kRef:
      return AppendCsvText(value.text, out);
  }
}

void AppendJsonStat(const StatValue& value, std::string* out) {
  switch (value.type) {
    case StatType::kAbsent:
      out->append("null");
      return;
    case StatType::kDouble:
      return AppendJsonDouble(std::bit_cast<double>(value.bits), out);
    case StatType::kUint64:
      return AppendJsonInteger(value.bits, value.bits > kExactInDouble, out);
    case StatType::kInt64: {
      const auto number = std::bit_cast<int64_t>(value.bits);
      const uint64_t magnitude = number < 0 ? uint64_t{0} - value.bits : value.bits;
      return AppendJsonInteger(number, magnitude > kExactInDouble, out);
    }
    case StatType::kCompressedString:
      return AppendJsonText(CompressedText(value.text), out);
    case StatType::kString:
    case StatType::kBytes:
    case StatType::kRef:
      return AppendJsonText(value.text, out);
  }
}

std::string StatText(const StatValue& value) {
  if (value.type == StatType::kString || value.type == StatType::kBytes ||
      value.type == StatType::kRef) {
    return Printable(value.text);
  }
  std::string text;
  AppendCsvStat(value, &text);
  return text.empty() ? "-" : text;
}

// Exact: 12345 ps is "12.345".
std::string NanosecondsText(int64_t ps) {
  const uint64_t magnitude =
      ps < 0 ? uint64_t{0} - static_cast<uint64_t>(ps) : static_cast<uint64_t>(ps);
  std::string fraction = std::to_string(magnitude % 1000);
  fraction.insert(0, 3 - fraction.size(), '0');
  return (ps < 0 ? "-" : "") + std::to_string(magnitude / 1000) + "." + fraction;
}

}  // namespace

EventWriter::EventWriter(const OutputOptions& options, std::vector<std::string> stat_names,
                         Sink sink)
    : format_(options.format),
      width_(static_cast<size_t>(std::max(options.width, 20))),
      wide_(options.wide),
      ellipsis_(options.unicode ? "…" : "..."),
      stat_names_(std::move(stat_names)),
      sink_(std::move(sink)) {
  for (const std::string& name : stat_names_)
    stat_keys_.push_back(json::Dump(ValidUtf8(name)) + ":");
  const size_t others =
      kPlaneWidth + kLineWidth + 2 * kTimeWidth + 8 + stat_names_.size() * (kStatWidth + 2);
  name_width_ = std::max(kLeastNameWidth, width_ - std::min(width_, others));
  buffer_.reserve(2 * kFlushBytes);
}

bool EventWriter::Begin() {
  switch (format_) {
    case Format::kCsv:
      buffer_.append("input,host,plane,line,name,start_ps,duration_ps,occurrences");
      for (const std::string& name : stat_names_) {
        buffer_.push_back(',');
        AppendCsvText(name, &buffer_);
      }
      buffer_.push_back('\n');
      break;
    case Format::kJson:
      buffer_.append("{\"schema\":\"xplane-time.events.v1\",\"events\":[");
      break;
    case Format::kMarkdown:
      BeginMarkdown();
      break;
    default:
      BeginTable();
  }
  return open_;
}

bool EventWriter::Row(const EventRow& row) {
  switch (format_) {
    case Format::kCsv:
      CsvRow(row);
      break;
    case Format::kJson:
      JsonRow(row);
      break;
    case Format::kMarkdown:
      MarkdownRow(row);
      break;
    default:
      TableRow(row);
  }
  any_row_ = true;
  return buffer_.size() < kFlushBytes ? open_ : Flush();
}

bool EventWriter::End() {
  if (format_ == Format::kJson) buffer_.append(any_row_ ? "\n]}\n" : "]}\n");
  return Flush();
}

bool EventWriter::Flush() {
  if (open_ && !buffer_.empty()) open_ = sink_(buffer_);
  buffer_.clear();
  return open_;
}

bool EventWriter::SamePlace(const EventRow& row) {
  if (any_row_ && row.input == input_ && row.host == host_ && row.plane == plane_ &&
      row.line == line_) {
    return true;
  }
  input_ = row.input;
  host_ = row.host;
  plane_ = row.plane;
  line_ = row.line;
  place_.clear();
  return false;
}

void EventWriter::CsvRow(const EventRow& row) {
  if (!SamePlace(row)) {
    AppendInteger(row.input, &place_);
    for (std::string_view text : {row.host, row.plane, row.line}) {
      place_.push_back(',');
      AppendCsvText(text, &place_);
    }
    place_.push_back(',');
  }
  buffer_.append(place_);
  AppendCsvText(row.name, &buffer_);
  buffer_.push_back(',');
  if (row.start_ps) AppendInteger(*row.start_ps, &buffer_);
  buffer_.push_back(',');
  AppendInteger(row.duration_ps, &buffer_);
  buffer_.push_back(',');
  AppendInteger(row.occurrences, &buffer_);
  for (const StatValue& value : row.stats) {
    buffer_.push_back(',');
    AppendCsvStat(value, &buffer_);
  }
  buffer_.push_back('\n');
}

void EventWriter::JsonRow(const EventRow& row) {
  if (!SamePlace(row)) {
    place_.append("{\"input\":");
    AppendInteger(row.input, &place_);
    place_.append(",\"host\":").append(row.host.empty() ? "null" : json::Dump(ValidUtf8(row.host)));
    place_.append(",\"plane\":").append(json::Dump(ValidUtf8(row.plane)));
    place_.append(",\"line\":").append(json::Dump(ValidUtf8(row.line))).append(",\"name\":");
  }
  buffer_.append(any_row_ ? ",\n" : "\n").append(place_);
  AppendJsonText(row.name, &buffer_);
  buffer_.append(",\"start_ps\":");
  if (row.start_ps) {
    AppendInteger(*row.start_ps, &buffer_);
  } else {
    buffer_.append("null");
  }
  buffer_.append(",\"duration_ps\":");
  AppendInteger(row.duration_ps, &buffer_);
  buffer_.append(",\"occurrences\":");
  AppendInteger(row.occurrences, &buffer_);
  buffer_.append(",\"stats\":{");
  const size_t count = std::min(row.stats.size(), stat_keys_.size());
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) buffer_.push_back(',');
    buffer_.append(stat_keys_[i]);
    AppendJsonStat(row.stats[i], &buffer_);
  }
  buffer_.append("}}");
}

namespace {

struct TableCells {
  std::string_view ellipsis;
  bool wide = false;  // nothing is shortened: a long text moves what is right of it
  std::string line = {};
  void Add(std::string_view text, size_t width, bool right) {
    const std::string shown = wide ? std::string(text) : ShortenMiddle(text, width, ellipsis);
    const size_t padding = width - std::min(width, DisplayWidth(shown));
    if (!line.empty()) line.append("  ");
    if (right) line.append(padding, ' ');
    line.append(shown);
    if (!right) line.append(padding, ' ');
  }
  void Finish(std::string* out) {
    line.erase(line.find_last_not_of(' ') + 1);
    out->append(line).push_back('\n');
  }
};

}  // namespace

void EventWriter::BeginTable() {
  TableCells cells = {ellipsis_, wide_};
  cells.Add("plane", kPlaneWidth, false);
  cells.Add("line", kLineWidth, false);
  cells.Add("name", name_width_, false);
  cells.Add("start ns", kTimeWidth, true);
  cells.Add("duration ns", kTimeWidth, true);
  for (const std::string& name : stat_names_) cells.Add(Printable(name), kStatWidth, true);
  cells.Finish(&buffer_);
}

// Numbers are never cut: where one is too long for its column, the name makes room.
void EventWriter::TableRow(const EventRow& row) {
  std::string name = Printable(row.name);
  if (row.occurrences != 1) name.append(" x").append(std::to_string(row.occurrences));
  const std::string start = row.start_ps ? NanosecondsText(*row.start_ps) : "-";
  const std::string duration = NanosecondsText(row.duration_ps);
  const size_t start_width = std::max(start.size(), kTimeWidth);
  const size_t duration_width = std::max(duration.size(), kTimeWidth);
  size_t taken = start_width + duration_width - 2 * kTimeWidth;
  std::vector<std::string> stats;
  for (const StatValue& value : row.stats) {
    stats.push_back(StatText(value));
    const bool number = value.text.empty();
    if (number) taken += std::max(stats.back().size(), kStatWidth) - kStatWidth;
  }
  TableCells cells = {ellipsis_, wide_};
  cells.Add(Printable(row.plane), kPlaneWidth, false);
  cells.Add(Printable(row.line), kLineWidth, false);
  cells.Add(name, name_width_ - std::min(taken, name_width_ - kFewestOfName), false);
  cells.Add(start, start_width, true);
  cells.Add(duration, duration_width, true);
  for (size_t i = 0; i < stats.size(); ++i) {
    const bool number = row.stats[i].text.empty();
    cells.Add(stats[i], number ? std::max(stats[i].size(), kStatWidth) : kStatWidth, true);
  }
  cells.Finish(&buffer_);
}

void EventWriter::BeginMarkdown() {
  buffer_.append("| plane | line | name | start ns | duration ns | occurrences |");
  for (const std::string& name : stat_names_) {
    buffer_.append(" ").append(MarkdownCell(Printable(name))).append(" |");
  }
  buffer_.append("\n| --- | --- | --- | ---: | ---: | ---: |");
  for (size_t i = 0; i < stat_names_.size(); ++i) buffer_.append(" ---: |");
  buffer_.push_back('\n');
}

void EventWriter::MarkdownRow(const EventRow& row) {
  for (std::string_view text : {row.plane, row.line, row.name}) {
    buffer_.append("| ").append(MarkdownCode(Printable(text))).append(" ");
  }
  buffer_.append("| ").append(row.start_ps ? NanosecondsText(*row.start_ps) : "-");
  buffer_.append(" | ").append(NanosecondsText(row.duration_ps));
  buffer_.append(" | ").append(std::to_string(row.occurrences)).append(" |");
  for (const StatValue& value : row.stats) {
    buffer_.append(" ").append(MarkdownCell(StatText(value))).append(" |");
  }
  buffer_.push_back('\n');
}

}  // namespace xplane_time::output
