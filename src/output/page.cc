#include "output/page.h"

#include <algorithm>

#include "output/columns.h"
#include "output/text.h"

namespace xplane_time::output {
namespace {

constexpr char kPlain[] = "\x1b[0m";
constexpr size_t kNarrowest = 20;
constexpr size_t kDiagnosticWidth = 240;  // of one diagnostic, over its lines

// Empty where nothing but a bar is missing.
std::string DroppedNote(const std::vector<std::string>& dropped) {
  std::string names;
  for (const std::string& header : dropped) {
    if (!header.empty()) names.append(names.empty() ? "" : ", ").append(header);
  }
  return names.empty() ? "" : "not shown, too wide: " + names;
}

}  // namespace

Page::Page(const OutputOptions& options)
    : options_(options),
      signs_(Signs::For(options)),
      width_(options.wide ? std::string::npos
                          : std::max(static_cast<size_t>(std::max(options.width, 0)), kNarrowest)) {
}

size_t Page::lines() const {
  return static_cast<size_t>(std::count(text_.begin(), text_.end(), '\n'));
}

void Page::Line(std::string_view text, const char* style) {
  if (DisplayWidth(text) <= width_) {
    Put(text, style);
  } else {
    Wrapped(text, style);
  }
}

void Page::Put(std::string_view shown, const char* style) {
  const bool styled = options_.color && style != nullptr && !shown.empty();
  if (styled) text_.append(style);
  text_.append(shown);
  if (styled) text_.append(kPlain);
  text_.push_back('\n');
}

void Page::Wrapped(std::string_view text, const char* style) {
  const std::string wrapped = Wrap(text, width_, 2);
  for (size_t begin = 0; begin < wrapped.size();) {
    const size_t end = std::min(wrapped.find('\n', begin), wrapped.size());
    Put(std::string_view(wrapped).substr(begin, end - begin), style);
    begin = end + 1;
  }
}

void Page::Add(const Section& section) {
  if (!text_.empty()) Line("");
  if (!section.title.empty()) Line(section.title, kBold);
  if (section.grid.rows() > 0) {
    Grid chosen = section.grid;
    ChooseColumns(options_.columns, &chosen);
    const GridText grid = LayOut(chosen, width_, signs_.ellipsis);
    for (size_t i = 0; i < grid.lines.size(); ++i) Put(grid.lines[i], i == 0 ? kDim : nullptr);
    Wrapped(DroppedNote(grid.dropped), kDim);
    if (grid.numbered) Wrapped("#1, #2: different names, too long to show how; --wide does", kDim);
  }
  for (const std::string& note : section.notes) Wrapped(note, kDim);
}

void Page::AddDiagnostics(const std::vector<DiagnosticRow>& rows, bool or_infos, size_t most) {
  const std::vector<DiagnosticLine> lines = DiagnosticLines(rows, /*infos=*/false);
  if (lines.empty() || (!or_infos && lines[0].severity == "info")) return;
  if (!text_.empty()) Line("");
  Line(lines[0].severity == "info" ? "notes on this trace" : "suspicious in this trace", kBold);
  const size_t shown = std::min(lines.size(), most);
  for (size_t i = 0; i < shown; ++i) AddDiagnostic(lines[i]);
  if (lines.size() > shown) {
    Line(MoreNote(lines.size() - shown, "findings", "--format json"), kDim);
  }
}

void Page::AddDiagnostic(const DiagnosticLine& line) {
  const std::string text =
      options_.wide || line.severity == "error"  // what is missing is named whole
          ? line.text
          : ShortenWords(line.text, kDiagnosticWidth, signs_.ellipsis);
  const char* style = nullptr;
  if (line.severity == "error") style = kRed;
  if (line.severity == "warning") style = kYellow;
  Wrapped(line.severity + ": " + text, style);
}

}  // namespace xplane_time::output
