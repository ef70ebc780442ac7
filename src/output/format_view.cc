// Formats for people, of a result's view: tables and Markdown; and the choice among all formats.
//
// A table is read in a terminal. Every line fits OutputOptions::width columns; only a number that
// is wider by itself sticks out. With OutputOptions::wide everything may.
//
// Markdown has the columns of the tables as GitHub tables, every column, never shortened. Names and
// words that may be markup are code spans (MarkdownText).
//
// Both pages make every text printable here, whoever wrote it, so that no text of a file or a
// server controls the terminal.
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "output/markdown.h"
#include "output/view.h"

namespace xplane_time::output {
namespace {

constexpr size_t kNarrowest = 20;
constexpr size_t kDiagnosticWidth = 240;  // of one diagnostic, over its lines

// The ANSI sequence before a line, by its tone; empty: no sequence.
constexpr std::string_view kStyles[] = {"",         "\x1b[2m",  "\x1b[1m",
                                        "\x1b[32m", "\x1b[33m", "\x1b[31m"};

// Empty if only a bar was dropped.
std::string DroppedNote(std::vector<std::string> dropped) {
  std::erase(dropped, "");
  return dropped.empty() ? "" : "not shown, too wide: " + absl::StrJoin(dropped, ", ");
}

void MakePrintable(Grid* grid) {
  for (Column& column : grid->columns) {
    column.header = Printable(column.header);
    for (std::string& cell : column.cells) cell = Printable(cell);
  }
}

class TablePage {
 public:
  explicit TablePage(const OutputOptions& options)
      : options_(options),
        ellipsis_(options.unicode ? "…" : "..."),
        width_(options.wide
                   ? std::string::npos
                   : std::max(static_cast<size_t>(std::max(options.width, 0)), kNarrowest)) {}

  std::string Take() && { return std::move(text_); }

  // Adds a blank line before it.
  void Part() {
    if (!text_.empty()) text_.push_back('\n');
  }

  // Breaks lines at spaces if they do not fit.
  void Line(std::string_view text, Tone tone) {
    const std::string shown = Printable(text);
    if (DisplayWidth(shown) <= width_) {
      Put(shown, tone);
    } else {
      Wrapped(shown, tone);
    }
  }

  // Broken at spaces; several of them become one.
  void Wrapped(std::string_view text, Tone tone) {
    const std::string wrapped = Wrap(Printable(text), width_, 2);
    for (const absl::string_view line : absl::StrSplit(wrapped, '\n', absl::SkipEmpty())) {
      Put({line.data(), line.size()}, tone);
    }
  }

  void Add(const ViewLine& line) {
    if (line.as == ViewLine::kItem || line.text.empty()) {  // as it is
      Line(line.text, line.tone);
    } else {
      Wrapped(line.text, line.tone);
    }
  }

  void Add(const Section& section) {
    if (!section.title.empty()) Line(section.title, Tone::kBold);
    if (section.grid.rows() > 0) {
      Grid chosen = section.grid;
      ChooseColumns(options_.columns, &chosen);
      MakePrintable(&chosen);
      const GridText grid = LayOut(chosen, width_, ellipsis_);
      for (size_t i = 0; i < grid.lines.size(); ++i) {
        Put(grid.lines[i], i == 0 ? Tone::kDim : Tone::kPlain);
      }
      Wrapped(DroppedNote(grid.dropped), Tone::kDim);
      if (grid.numbered) {
        Wrapped("#1, #2: different names that are too long to show; use --wide", Tone::kDim);
      }
    }
    for (const std::string& note : section.notes) Wrapped(note, Tone::kDim);
  }

  void AddDiagnostics(const View& view) {
    const std::vector<DiagnosticLine>& lines = view.diagnostics;
    const size_t shown = std::min(lines.size(), view.most_diagnostics);
    std::string title;
    for (size_t i = 0; i < shown; ++i) {
      if (i > 0 && DiagnosticsTitle(lines[i]) != title) Line("", Tone::kPlain);
      if (DiagnosticsTitle(lines[i]) != title)
        Line(title = DiagnosticsTitle(lines[i]), Tone::kBold);
      AddDiagnostic(lines[i]);
    }
    if (lines.size() > shown) {
      Line(MoreNote(lines.size() - shown, "findings", "--format json"), Tone::kDim);
    }
  }

 private:
  void Put(std::string_view shown, Tone tone) {  // as it is
    const std::string_view style = kStyles[static_cast<size_t>(tone)];
    const bool styled = options_.color && !style.empty() && !shown.empty();
    if (styled) text_.append(style);
    text_.append(shown);
    if (styled) text_.append("\x1b[0m");
    text_.push_back('\n');
  }

  void AddDiagnostic(const DiagnosticLine& line) {
    const bool is_error = line.severity == "error";  // what is missing is named whole
    const std::string text = options_.wide || is_error
                                 ? line.text
                                 : ShortenWords(line.text, kDiagnosticWidth, ellipsis_);
    Wrapped(line.severity + ": " + text, is_error                     ? Tone::kBad
                                         : line.severity == "warning" ? Tone::kWarning
                                                                      : Tone::kPlain);
  }

  const OutputOptions& options_;
  const std::string_view ellipsis_;
  const size_t width_;
  std::string text_;
};

class MarkdownPage {
 public:
  explicit MarkdownPage(const OutputOptions& options) : options_(options) {}
  std::string Take() && { return std::move(text_); }

  void Part() {
    if (!text_.empty() && !text_.ends_with("\n\n")) text_.push_back('\n');
  }

  void Add(const ViewLine& line) {
    const bool is_heading = line.as == ViewLine::kHeading;
    text_.append(is_heading ? "### " : line.as == ViewLine::kItem ? "- " : "");
    text_.append(MarkdownText(line.text)).append(is_heading ? "\n\n" : "\n");
  }

  void Add(const Section& section) {
    if (section.is_titled_in_markdown) {
      text_.append("### ").append(MarkdownText(section.title)).append("\n");
    }
    if (section.grid.rows() > 0) {
      Grid chosen = section.grid;
      ChooseColumns(options_.columns, &chosen);
      Part();
      text_.append(MarkdownGrid(chosen));
    }
    // A paragraph each: lines that follow each other are run together.
    for (const std::string& note : section.notes) {
      Part();
      text_.append(MarkdownText(note)).append("\n");
    }
  }

  void AddDiagnostics(const View& view) {
    std::string title;
    for (const DiagnosticLine& line : view.diagnostics) {
      if (DiagnosticsTitle(line) != title) {
        if (!title.empty()) text_.append("\n");
        text_.append("### ").append(title = DiagnosticsTitle(line)).append("\n\n");
      }
      text_.append("- **").append(MarkdownText(line.severity)).append("**: ");
      text_.append(MarkdownText(line.text)).append("\n");
    }
  }

 private:
  const OutputOptions& options_;
  std::string text_;
};

// The parts of a view in order, each added to a page.
std::string TextOf(const View& view, auto page) {
  for (const ViewLine& line : view.lines) page.Add(line);
  for (const Section& section : view.sections) {
    page.Part();
    page.Add(section);
  }
  if (!view.diagnostics.empty()) {
    page.Part();
    page.AddDiagnostics(view);
  }
  if (!view.remarks.empty()) page.Part();
  for (const ViewLine& remark : view.remarks) page.Add(remark);
  return std::move(page).Take();
}

}  // namespace

std::string TableText(const View& view, const OutputOptions& options) {
  return TextOf(view, TablePage(options));
}

std::string Render(const Output& output, const OutputOptions& options) {
  if (const auto other = output.others.find(options.format); other != output.others.end()) {
    return other->second();
  }
  switch (options.format) {
    case Format::kJson:
      return JsonText(output.result);
    case Format::kCsv:
      return CsvText(output.result.csv);
    case Format::kMarkdown:
      return TextOf(output.view(options), MarkdownPage(options));
    default:
      return TableText(output.view(options), options);
  }
}

}  // namespace xplane_time::output
