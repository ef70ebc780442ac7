// Events: raw rows, written as they come.
//
// Input: one event at a time. Output: text, in pieces of about 64 KiB, to a sink. Rows
// are never collected; in the common case (ASCII names) a row allocates no memory.
//
//   EventWriter writer({.format = Format::kCsv}, {"correlation_id"}, sink);
//   writer.StartLine({.plane = "/device:GPU:0", .line = "Stream #16"});
//   while (...) if (!writer.Row(row)) break;   // the sink refused: a closed pipe
//   writer.End();
//
// Columns: kEventColumns, the stats.
// JSON has the stats as an object; integers beyond 2^53 are strings there, so that no
// reader rounds them. Tables show times in ns with all their digits. Not thread-safe.
#pragma once

#include <array>
#include <span>

#include "output/output.h"
#include "xplane_time/read.h"

namespace xplane_time::output {

inline constexpr std::array<std::string_view, 8> kEventColumns = {
    "input", "host", "plane", "line", "name", "start_ps", "duration_ps", "occurrences"};

// The location of events: the first columns.
struct EventPlace {
  uint32_t input = 0;
  std::string_view host = {};  // empty: unknown
  std::string_view plane = {}, line = {};
};

struct EventRow {
  std::string_view name = {};
  int64_t start_ps = kNoTimePs;  // so of an aggregated event
  int64_t duration_ps = 0;
  int64_t occurrences = 1;
  std::span<const StatValue> stats = {};  // as many as stat names
};

// The content of a kCompressedString, or its length if it is damaged or huge.
std::string TextOfCompressed(std::string_view compressed);

class EventWriter {
 public:
  // Takes text; false: no more, please.
  using Sink = std::function<bool(std::string_view)>;

  // Uses format, width and unicode of `options`. `places`: all possible locations, so that tables
  // can reserve room for their names and distinguish files.
  EventWriter(const OutputOptions& options, std::vector<std::string> stat_names, Sink sink,
              std::span<const EventPlace> places = {});
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  // The location of the next rows. Views must outlive those rows.
  void StartLine(const EventPlace& place);
  // False once the sink has refused.
  bool Row(const EventRow& row);
  // Below a table or Markdown there may be a note.
  bool End(std::string_view note = "");

 private:
  void TakeWidths(std::span<const EventPlace> places);
  void Begin();
  bool Flush();
  void DataRow(const EventRow& row);  // of CSV or JSON
  // For tables and Markdown.
  std::vector<std::string> Headers() const;
  std::string PlaneText(const EventPlace& place) const;
  std::vector<std::string> Cells(const EventRow& row) const;
  void PeopleLine(const std::vector<std::string>& cells, const EventRow* row);  // null: the header

  const Format format_;
  const size_t width_;
  const bool wide_;
  const std::string_view ellipsis_;
  std::vector<std::string> stat_names_;
  std::vector<std::string> keys_;  // what is before the value of a column, or of a stat
  std::vector<size_t> widths_;     // of a table's columns
  bool several_inputs_ = false;
  Sink sink_;
  std::string buffer_;
  EventPlace place_;
  std::string place_text_;  // in CSV or JSON, from the first row on
  bool any_row_ = false;
  bool open_ = true;
};

}  // namespace xplane_time::output
