// Markdown: the columns of the tables as GitHub tables, every column, never shortened. Names are
// code spans, so that nothing in them is taken for markup.
#include "output/columns.h"
#include "output/text.h"
#include "output/view.h"

namespace xplane_time::output {
namespace {

class Page {
 public:
  explicit Page(const OutputOptions& options) : options_(options) {}
  std::string Take() && { return std::move(text_); }

  void Part() {
    if (!text_.empty() && !text_.ends_with("\n\n")) text_.push_back('\n');
  }

  void Add(const ViewLine& line) {
    const bool is_heading = line.as == ViewLine::kHeading;
    text_.append(is_heading ? "### " : line.as == ViewLine::kItem ? "- " : "");
    text_.append(MarkdownCell(line.text)).append(is_heading ? "\n\n" : "\n");
  }

  void Add(const Section& section) {
    if (section.is_titled_in_markdown) {
      text_.append("### ").append(MarkdownCell(section.title)).append("\n");
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
      text_.append(MarkdownCell(note)).append("\n");
    }
  }

  void AddDiagnostics(const View& view) {
    text_.append("### ").append(DiagnosticsTitle(view.diagnostics)).append("\n\n");
    for (const DiagnosticLine& line : view.diagnostics) {
      text_.append("- **").append(line.severity).append("**: ");
      text_.append(MarkdownCell(line.text)).append("\n");
    }
  }

 private:
  const OutputOptions& options_;
  std::string text_;
};

}  // namespace

std::string MarkdownText(const View& view, const OutputOptions& options) {
  return TextOf(view, Page(options));
}

}  // namespace xplane_time::output
