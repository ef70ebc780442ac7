#include "output/events.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "json/json.h"
#include "output/markdown.h"

namespace xplane_time::output {
namespace {

constexpr size_t kFlushBytes = size_t{1} << 16;
constexpr uint64_t kExactInDouble = uint64_t{1} << 53;

constexpr size_t kPlaceColumns = 4;  // input to line: the same in many rows
// Columns of the table.
constexpr size_t kNameColumn = 2;  // the third; numbers and stats are after it
constexpr size_t kPlaneWidth = 11, kLineWidth = 10, kTimeWidth = 14, kStatWidth = 10, kEventGap = 2;
constexpr size_t kLeastNameWidth = 11, kAmpleNameWidth = 40;
constexpr size_t kMinEventWidth = 8;  // of plane, line and name in a table that is too narrow
constexpr size_t kFewestOfName = 3;   // in a row whose numbers are long

// Whether no byte is beyond ASCII, a control character or one of `special`. Names are long, and
// nearly all of them plain: without a way out of the loop, many bytes are looked at at once.
bool IsPlain(std::string_view text, char special_1, char special_2) {
  uint8_t odd = 0;
  for (const char c : text) {
    odd |= static_cast<uint8_t>(static_cast<int8_t>(c) < ' ' || c == 0x7f || c == special_1 ||
                                c == special_2);
  }
  return odd == 0;
}

// Hands the value to `as`, by its type.
template <typename As>
void VisitStat(const StatValue& value, As as) {
  switch (value.type) {
    case StatType::kAbsent:
      return as(std::monostate());
    case StatType::kDouble:
      return as(std::bit_cast<double>(value.bits));
    case StatType::kUint64:
      return as(value.bits);
    case StatType::kInt64:
      return as(std::bit_cast<int64_t>(value.bits));
    case StatType::kCompressedString:
      return as(std::string_view(TextOfCompressed(value.text)));
    case StatType::kString:
    case StatType::kBytes:
    case StatType::kRef:
      return as(value.text);
  }
}

// Appends what a value is in JSON or CSV.
struct AppendEventValue {
  bool json;
  std::string* out;

  void operator()(std::monostate) const { out->append(json ? "null" : ""); }
  void operator()(std::integral auto number) const { AppendCsvNumber(number, out); }
  void operator()(double number) const {
    if (json && !std::isfinite(number)) return (*this)(std::monostate());
    const size_t begin = out->size();
    AppendCsvNumber(number, out);
    // One that readers take for a double.
    if (json && out->find_first_of(".e", begin) == std::string::npos) out->append(".0");
  }
  void operator()(std::string_view text) const {
    if (IsPlain(text, '"', json ? '\\' : ',')) {
      const std::string_view quote = json ? "\"" : "";
      out->append(quote).append(text).append(quote);
    } else if (json) {
      out->append(json::Dump(JsonUtf8(text)));
    } else {
      AppendCsvCell(ValidUtf8(text), out);
    }
  }
  void operator()(const StatValue& stat) const {
    VisitStat(stat, [this](const auto& value) {
      bool quote = false;  // beyond what a double holds exactly
      if constexpr (std::integral<std::decay_t<decltype(value)>>) {
        const auto bits = static_cast<uint64_t>(value);
        quote = json && (value < 0 ? uint64_t{0} - bits : bits) > kExactInDouble;
      }
      if (quote) out->push_back('"');
      (*this)(value);
      if (quote) out->push_back('"');
    });
  }
};

std::string StatText(const StatValue& value) {
  if (value.type == StatType::kCompressedString) return Printable(TextOfCompressed(value.text));
  if (HasOwnText(value.type) || value.type == StatType::kRef) return Printable(value.text);
  std::string text;
  AppendEventValue{.json = false, .out = &text}(value);
  return text.empty() ? "-" : text;
}

// Exact: 12345 ps is "12.345".
std::string NanosecondsText(int64_t ps) {
  const uint64_t magnitude =
      ps < 0 ? uint64_t{0} - static_cast<uint64_t>(ps) : static_cast<uint64_t>(ps);
  return absl::StrFormat("%s%u.%03u", ps < 0 ? "-" : "", magnitude / 1000, magnitude % 1000);
}

}  // namespace

std::string TextOfCompressed(std::string_view compressed) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 20;
  auto text = DecompressText(compressed, kMostBytes);
  return text.ok() ? *std::move(text) : absl::StrCat("(", compressed.size(), " compressed bytes)");
}

EventWriter::EventWriter(const OutputOptions& options, std::vector<std::string> stat_names,
                         Sink sink, std::span<const EventPlace> places)
    : format_(options.format),
      width_(static_cast<size_t>(std::max(options.width, 20))),
      wide_(options.wide),
      ellipsis_(options.unicode ? "…" : "..."),
      stat_names_(std::move(stat_names)),
      sink_(std::move(sink)) {
  const bool json = format_ == Format::kJson;
  for (const std::string_view name : kEventColumns) {
    keys_.push_back(json ? absl::StrCat(keys_.empty() ? "{" : ",", json::Dump(name), ":")
                         : std::string(keys_.empty() ? "" : ","));
  }
  for (const std::string& name : stat_names_) {
    const bool first = keys_.size() == kEventColumns.size();
    keys_.push_back(json ? absl::StrCat(first ? "" : ",", json::Dump(ValidUtf8(name)), ":") : ",");
  }
  TakeWidths(places);
  buffer_.reserve(2 * kFlushBytes);
  Begin();
}

void EventWriter::TakeWidths(std::span<const EventPlace> places) {
  size_t widest_plane = 0, widest_line = 0;
  for (const EventPlace& place : places) several_inputs_ |= place.input != places[0].input;
  for (const EventPlace& place : places) {
    widest_plane = std::max(widest_plane, DisplayWidth(PlaneText(place)));
    widest_line = std::max(widest_line, DisplayWidth(Printable(place.line)));
  }
  const size_t numbers =
      2 * (kTimeWidth + kEventGap) + stat_names_.size() * (kStatWidth + kEventGap);
  const size_t room =
      width_ - std::min(width_, numbers + 2 * kEventGap);  // of plane, line and name
  size_t plane = kPlaneWidth, line = kLineWidth;
  if (room < plane + line + kLeastNameWidth) plane = line = kMinEventWidth;
  size_t name = std::max(room, plane + line + kMinEventWidth) - plane - line;
  for (auto [width, widest] : {std::pair(&line, widest_line), std::pair(&plane, widest_plane)}) {
    const size_t spare = name - std::min(name, kAmpleNameWidth);
    const size_t grown = std::min(spare, widest - std::min(widest, *width));
    *width += grown;
    name -= grown;
  }
  widths_ = {plane, line, name, kTimeWidth, kTimeWidth};
  widths_.resize(widths_.size() + stat_names_.size(), kStatWidth);
}

std::string EventWriter::PlaneText(const EventPlace& place) const {
  std::string text = Printable(place.plane);
  if (several_inputs_) absl::StrAppend(&text, " #", place.input + 1);
  return text;
}

void EventWriter::Begin() {
  if (format_ == Format::kJson) {
    buffer_.append("{\"schema\":\"xplane-time.events.v1\",\"events\":[");
  } else if (format_ == Format::kCsv) {
    const AppendEventValue append{.json = false, .out = &buffer_};
    for (size_t i = 0; i < keys_.size(); ++i) {
      buffer_.append(keys_[i]);
      append(i < kEventColumns.size() ? kEventColumns[i] : stat_names_[i - kEventColumns.size()]);
    }
    buffer_.push_back('\n');
  } else {
    PeopleLine(Headers(), nullptr);
  }
}

bool EventWriter::Row(const EventRow& row) {
  if (format_ == Format::kCsv || format_ == Format::kJson) {
    DataRow(row);
  } else {
    PeopleLine(Cells(row), &row);
  }
  any_row_ = true;
  return buffer_.size() < kFlushBytes ? open_ : Flush();
}

bool EventWriter::End(std::string_view note) {
  if (format_ == Format::kJson) {
    buffer_.append(any_row_ ? "\n]}\n" : "]}\n");
  } else if (format_ != Format::kCsv && !note.empty()) {
    const bool is_markdown = format_ == Format::kMarkdown;
    buffer_.append(is_markdown ? "\n" + MarkdownText(note) : Printable(note)).push_back('\n');
  }
  return Flush();
}

bool EventWriter::Flush() {
  if (open_ && !buffer_.empty()) open_ = sink_(buffer_);
  buffer_.clear();
  return open_;
}

void EventWriter::StartLine(const EventPlace& place) {
  place_ = place;
  place_text_.clear();
}

void EventWriter::DataRow(const EventRow& row) {
  const bool json = format_ == Format::kJson;
  size_t key = 0;
  const auto add = [&](const auto& value, std::string* out) {
    AppendEventValue{.json = json, .out = &out->append(keys_[key++])}(value);
  };
  const auto add_known = [&](bool known, const auto& value, std::string* out) {
    if (known) return add(value, out);
    add(std::monostate(), out);
  };
  if (place_text_.empty()) {
    add(place_.input, &place_text_);
    add_known(!place_.host.empty(), place_.host, &place_text_);
    add(place_.plane, &place_text_);
    add(place_.line, &place_text_);
  }
  if (json) buffer_.append(any_row_ ? ",\n" : "\n");
  buffer_.append(place_text_);
  key = kPlaceColumns;
  add(row.name, &buffer_);
  add_known(row.start_ps != kNoTimePs, row.start_ps, &buffer_);
  add(row.duration_ps, &buffer_);
  add(row.occurrences, &buffer_);
  if (json) buffer_.append(",\"stats\":{");
  for (const StatValue& value : row.stats) add(value, &buffer_);
  buffer_.append(json ? "}}" : "\n");
}

std::vector<std::string> EventWriter::Headers() const {
  std::vector<std::string> headers = {"plane", "line", "name", "start ns", "duration ns"};
  if (format_ == Format::kMarkdown) headers.push_back("occurrences");
  for (const std::string& name : stat_names_) headers.push_back(Printable(name));
  return headers;
}

std::vector<std::string> EventWriter::Cells(const EventRow& row) const {
  std::vector<std::string> cells = {PlaneText(place_), Printable(place_.line), Printable(row.name),
                                    row.start_ps == kNoTimePs ? "-" : NanosecondsText(row.start_ps),
                                    NanosecondsText(row.duration_ps)};
  const std::string occurrences = std::to_string(row.occurrences);
  if (format_ == Format::kMarkdown) {
    cells.push_back(occurrences);
  } else if (row.occurrences != 1) {
    cells[kNameColumn].append(" x").append(occurrences);
  }
  for (const StatValue& value : row.stats) cells.push_back(StatText(value));
  return cells;
}

void EventWriter::PeopleLine(const std::vector<std::string>& cells, const EventRow* row) {
  if (format_ == Format::kMarkdown) {
    for (size_t i = 0; i < cells.size(); ++i) {
      const bool is_name = row != nullptr && i <= kNameColumn;
      buffer_.append("| ").append(
          MarkdownCell(is_name ? MarkdownCode(cells[i]) : MarkdownText(cells[i])));
      buffer_.push_back(' ');
    }
    buffer_.append("|\n");
    for (size_t i = 0; row == nullptr && i < cells.size(); ++i) {
      buffer_.append(i <= kNameColumn ? "| --- " : "| ---: ");
    }
    if (row == nullptr) buffer_.append("|\n");
    return;
  }
  std::vector<size_t> widths = widths_;
  const size_t first_stat = widths.size() - stat_names_.size();
  // Numbers are never cut: if one is too long for its column, the name is shortened.
  size_t taken = 0;
  for (size_t i = kNameColumn + 1; row != nullptr && i < cells.size(); ++i) {
    const bool is_number = i < first_stat || row->stats[i - first_stat].text.empty();
    if (!is_number || cells[i].size() <= widths[i]) continue;
    taken += cells[i].size() - std::exchange(widths[i], cells[i].size());
  }
  widths[kNameColumn] -= std::min(taken, widths_[kNameColumn] - kFewestOfName);
  std::string text;
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string shown = wide_ ? cells[i] : ShortenMiddle(cells[i], widths[i], ellipsis_);
    if (!text.empty()) text.append("  ");
    text.append(Padded(shown, widths[i], /*right=*/i > kNameColumn));
  }
  text.erase(text.find_last_not_of(' ') + 1);
  buffer_.append(text).push_back('\n');
}

}  // namespace xplane_time::output
