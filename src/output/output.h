// Output: turns finished results into text.
//
// Input: an Output, which is a result as data (result/result.h) with its view for people. Output:
// one string in the requested format, ready for standard output or a file.
//
//   const Output kernels = KernelsOutput(report, options);   // results.h
//   Render(kernels, {.format = Format::kCsv})
//
// JSON and CSV hold every row in full precision. Tables fit `width` columns; Markdown has the same
// columns, never shortened. Names with invalid UTF-8 are shown with \xNN in every format. This code
// does not read files, clocks or the terminal. Raw events are streamed instead (events.h).
#pragma once

#include <functional>
#include <map>

#include "absl/status/statusor.h"
#include "output/grid.h"
#include "output/text.h"
#include "result/result.h"
#include "xplane_time/report.h"

namespace xplane_time::output {

enum class Format : uint8_t {
  kTable,
  kJson,
  kCsv,
  kMarkdown,
  // Only some results have this format.
  kJunit,
  kBenchmark,    // Google Benchmark JSON
  kBmf,          // Bencher Metric Format
  kOpenMetrics,  // of power
  kSqlite,       // a file's bytes: sqlite/result_database.h
  kHtml,         // page/page.h
  kPerfetto,     // of timelines: perfetto/timeline_trace.h
};

struct OutputOptions {
  Format format = Format::kTable;
  std::vector<GivenOption> given = {};  // JSON records them
  std::string command = {};        // a command line for a shell, shown on pages; empty: unknown
  std::optional<size_t> top = {};  // rows to keep; tables of `report` default to 10
  std::string sort = {};           // a key of trace_views.h; empty: total, descending
  Unit unit = Unit::kAuto;
  int width = 80;     // terminal columns
  bool wide = false;  // tables: every column, names at full length, whatever width
  std::vector<std::string> columns = {};  // only these of tables; empty: the usual ones
  bool color = false;                     // ANSI
  Metric metric = Metric::kActive;        // the time that function tables show
  bool unicode = true;                    // bars, ellipsis and signs beyond ASCII in tables

  bool for_people() const {
    return format == Format::kTable || format == Format::kMarkdown || format == Format::kHtml;
  }
  // Every row of every table.
  bool has_all() const {
    return format == Format::kJson || format == Format::kSqlite || format == Format::kHtml;
  }
  // Not interpreted.
  bool is_file() const {
    return format == Format::kSqlite || format == Format::kHtml || format == Format::kPerfetto;
  }
};

// The tone of a line; a colour if colours are on.
enum class Tone : uint8_t { kPlain, kDim, kBold, kGood, kWarning, kBad };

struct ViewLine {
  std::string text;
  Tone tone = Tone::kPlain;
  // In Markdown.
  enum As : uint8_t { kText, kItem, kHeading } as = kText;
};

struct Section {
  std::string title = {};               // empty: no title
  Grid grid = {};                       // no rows: the title and notes say why
  std::vector<std::string> notes = {};  // below the grid: what was left out
  bool is_titled_in_markdown = true;    // false: a heading above has it
  std::string_view table = {};  // table of the document, if it is not the title's first word
};

struct DiagnosticLine {
  std::string severity;  // "info", "note", "warning", "error"
  std::string text;      // with the count and the first place
};

// The text for people, in order.
struct View {
  std::vector<ViewLine> lines = {};
  std::vector<Section> sections = {};
  std::vector<DiagnosticLine> diagnostics = {};
  size_t most_diagnostics = 8;  // in a table
  std::vector<ViewLine> remarks = {};
};

struct Output {
  result::Result result;
  // In pages alone: what figures need beside the document.
  std::vector<result::Table> drawn = {};
  std::string timeline = {};  // JSON (page/timeline_data.h); empty: no timeline
  std::function<View(const OutputOptions&)> view = {};  // of options.format, a table or Markdown
  std::map<Format, std::function<std::string()>> others = {};
};

// A format that the result does not have is a table.
std::string Render(const Output& output, const OutputOptions& options);

// By themselves.
std::string JsonText(const result::Result& result);
std::string CsvText(const result::Table& table);
// The value of the only member that `member` emits.
std::string JsonValue(const result::Members& member);
std::string TableText(const View& view, const OutputOptions& options);

// The JSON Schema of a command's document; null: unknown name.
const char* JsonSchema(std::string_view name);

}  // namespace xplane_time::output
