// Table: what a person reads in a terminal. Every line fits OutputOptions::width columns; only a
// number that is wider by itself sticks out. With OutputOptions::wide everything may.
#include <algorithm>

#include "output/columns.h"
#include "output/text.h"
#include "output/view.h"

namespace xplane_time::output {
namespace {

constexpr size_t kNarrowest = 20;
constexpr size_t kDiagnosticWidth = 240;  // of one diagnostic, over its lines

// The ANSI sequence before a line, by its tone; empty: none.
constexpr std::string_view kStyles[] = {"",         "\x1b[2m",  "\x1b[1m",
                                        "\x1b[32m", "\x1b[33m", "\x1b[31m"};

// Empty where nothing but a bar is missing.
std::string DroppedNote(const std::vector<std::string>& dropped) {
  std::string names;
  for (const std::string& header : dropped) {
    if (!header.empty()) names.append(names.empty() ? "" : ", ").append(header);
  }
  return names.empty() ? "" : "not shown, too wide: " + names;
}

class Page {
 public:
  explicit Page(const OutputOptions& options)
      : options_(options),
        ellipsis_(Signs::For(options).ellipsis),
        width_(options.wide
                   ? std::string::npos
                   : std::max(static_cast<size_t>(std::max(options.width, 0)), kNarrowest)) {}

  std::string Take() && { return std::move(text_); }

  // A blank line between this and what is above it.
  void Part() {
    if (!text_.empty()) text_.push_back('\n');
  }

  // Broken at spaces where it does not fit.
  void Line(std::string_view text, Tone tone) {
    if (DisplayWidth(text) <= width_) {
      Put(text, tone);
    } else {
      Wrapped(text, tone);
    }
  }

  // Broken at spaces; several of them become one.
  void Wrapped(std::string_view text, Tone tone) {
    const std::string wrapped = Wrap(text, width_, 2);
    for (size_t begin = 0; begin < wrapped.size();) {
      const size_t end = std::min(wrapped.find('\n', begin), wrapped.size());
      Put(std::string_view(wrapped).substr(begin, end - begin), tone);
      begin = end + 1;
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
      const GridText grid = LayOut(chosen, width_, ellipsis_);
      for (size_t i = 0; i < grid.lines.size(); ++i) {
        Put(grid.lines[i], i == 0 ? Tone::kDim : Tone::kPlain);
      }
      Wrapped(DroppedNote(grid.dropped), Tone::kDim);
      if (grid.numbered) {
        Wrapped("#1, #2: different names, too long to show how; --wide does", Tone::kDim);
      }
    }
    for (const std::string& note : section.notes) Wrapped(note, Tone::kDim);
  }

  void AddDiagnostics(const View& view) {
    const std::vector<DiagnosticLine>& lines = view.diagnostics;
    Line(DiagnosticsTitle(lines), Tone::kBold);
    const size_t shown = std::min(lines.size(), view.most_diagnostics);
    for (size_t i = 0; i < shown; ++i) AddDiagnostic(lines[i]);
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

}  // namespace

std::string TableText(const View& view, const OutputOptions& options) {
  return TextOf(view, Page(options));
}

}  // namespace xplane_time::output
