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

  void Line(const ViewLine& line) {
    const bool is_heading = line.as == ViewLine::kHeading;
    text_.append(is_heading ? "### " : line.as == ViewLine::kItem ? "- " : "");
    text_.append(MarkdownCell(line.text)).append(is_heading ? "\n\n" : "\n");
  }

  void Add(Section section) {
    Part();
    if (section.is_titled_in_markdown) {
      text_.append("### ").append(MarkdownCell(section.title)).append("\n");
    }
    if (section.grid.rows() > 0) {
      ChooseColumns(options_.columns, &section.grid);
      Part();
      text_.append(MarkdownGrid(section.grid));
    }
    // A paragraph each: lines that follow each other are run together.
    for (const std::string& note : section.notes) {
      Part();
      text_.append(MarkdownCell(note)).append("\n");
    }
  }

  void AddDiagnostics(const std::vector<DiagnosticLine>& lines) {
    Part();
    text_.append("### ").append(DiagnosticsTitle(lines)).append("\n\n");
    for (const DiagnosticLine& line : lines) {
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
  Page page(options);
  for (const ViewLine& line : view.lines) page.Line(line);
  for (const Section& section : view.sections) page.Add(section);
  if (!view.diagnostics.empty()) page.AddDiagnostics(view.diagnostics);
  if (!view.remarks.empty()) page.Part();
  for (const ViewLine& remark : view.remarks) page.Line(remark);
  return std::move(page).Take();
}

}  // namespace xplane_time::output
