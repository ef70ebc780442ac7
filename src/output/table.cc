#include "output/table.h"

#include <algorithm>
#include <vector>

#include "output/sections.h"
#include "output/text.h"

namespace xplane_time::output {
namespace {

constexpr size_t kReportLines = 46;  // two screens of 24 lines, with their prompts
constexpr size_t kDiagnostics = 8;
constexpr size_t kDiagnosticWidth = 160;  // of one diagnostic, over its lines

// How many rows of each kind the report shows.
struct Budget {
  size_t devices = 8, functions = 10, kernels = 10, diagnostics = kDiagnostics;

  // Gives up one row, of what is missed least; false: nothing is left to give.
  bool Tighten() {
    const Budget steps[] = {{8, 7, 7, 8}, {8, 7, 7, 4}, {5, 5, 5, 3}, {3, 3, 3, 2}};
    for (const Budget& least : steps) {
      size_t* given = kernels > least.kernels && kernels >= functions ? &kernels
                      : functions > least.functions                   ? &functions
                      : diagnostics > least.diagnostics               ? &diagnostics
                      : devices > least.devices                       ? &devices
                                                                      : nullptr;
      if (given == nullptr) continue;
      --*given;
      return true;
    }
    return false;
  }
};

constexpr char kDim[] = "\x1b[2m";
constexpr char kBold[] = "\x1b[1m";
constexpr char kYellow[] = "\x1b[33m";
constexpr char kRed[] = "\x1b[31m";
constexpr char kPlain[] = "\x1b[0m";

// Collects lines that fit the width.
class Page {
 public:
  explicit Page(const OutputOptions& options)
      : options_(options),
        signs_(Signs::For(options)),
        width_(static_cast<size_t>(std::max(options.width, 20))) {}

  size_t lines() const { return static_cast<size_t>(std::count(text_.begin(), text_.end(), '\n')); }
  std::string Take() && { return std::move(text_); }

  void Line(std::string_view text, const char* style = nullptr) {
    const std::string shown = ShortenMiddle(text, width_, signs_.ellipsis);
    const bool styled = options_.color && style != nullptr && !shown.empty();
    if (styled) text_.append(style);
    text_.append(shown);
    if (styled) text_.append(kPlain);
    text_.push_back('\n');
  }

  // With a blank line before it. `tell_dropped`: a note names columns that did not fit.
  void Add(const Section& section, bool tell_dropped) {
    if (!text_.empty()) Line("");
    if (!section.title.empty()) Line(section.title, kBold);
    if (section.grid.rows() > 0) {
      const GridText grid = LayOut(section.grid, width_, signs_.ellipsis);
      for (size_t i = 0; i < grid.lines.size(); ++i) Line(grid.lines[i], i == 0 ? kDim : nullptr);
      if (tell_dropped && !grid.dropped.empty()) Wrapped(DroppedNote(grid.dropped), kDim);
    }
    for (const std::string& note : section.notes) Wrapped(note, kDim);
  }

  void AddDiagnostics(const std::vector<DiagnosticRow>& rows, bool or_infos,
                      size_t most = kDiagnostics) {
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

 private:
  void AddDiagnostic(const DiagnosticLine& line) {
    const std::string text = ShortenMiddle(line.text, kDiagnosticWidth, signs_.ellipsis);
    const char* style = nullptr;
    if (line.severity == "error") style = kRed;
    if (line.severity == "warning") style = kYellow;
    Wrapped(line.severity + ": " + text, style);
  }

  void Wrapped(std::string_view text, const char* style) {
    const std::string wrapped = Wrap(text, width_, 2);
    for (size_t begin = 0; begin < wrapped.size();) {
      const size_t end = std::min(wrapped.find('\n', begin), wrapped.size());
      Line(std::string_view(wrapped).substr(begin, end - begin), style);
      begin = end + 1;
    }
  }

  static std::string DroppedNote(const std::vector<std::string>& dropped) {
    std::string note = "not shown, too wide: ";
    for (size_t i = 0; i < dropped.size(); ++i) note.append(i > 0 ? ", " : "").append(dropped[i]);
    return note;
  }

  const OutputOptions& options_;
  const Signs signs_;
  const size_t width_;
  std::string text_;
};

std::string ReportPage(const Report& report, const OrderedReport& rows,
                       const std::vector<const KernelRow*>& kernels, const OutputOptions& options,
                       const Budget& budget, size_t* lines) {
  Page page(options);
  for (const std::string& line : InputLines(report.inputs, 3)) page.Line(line);
  for (const std::string& line : CaptureLines(report.capture, OneCapture(report.inputs)))
    page.Line(line);
  page.Add(DeviceSection(report, options, budget.devices), /*tell_dropped=*/false);
  page.Add(OverviewSection(report, rows, options, budget.functions), /*tell_dropped=*/false);
  page.Add(TopKernelSection(kernels, options, budget.kernels), /*tell_dropped=*/false);
  page.AddDiagnostics(report.diagnostics, /*or_infos=*/true, budget.diagnostics);
  *lines = page.lines();
  return std::move(page).Take();
}

}  // namespace

std::string ReportTable(const Report& report, const OrderedReport& rows,
                        const OutputOptions& options) {
  const std::vector<KernelRow> merged = MergeKernels(report.kernels);
  std::vector<const KernelRow*> kernels;
  for (const KernelRow& row : merged) kernels.push_back(&row);
  SortKernels(options.sort, &kernels);
  Budget budget;
  if (options.top) budget.functions = budget.kernels = *options.top;
  while (true) {
    size_t lines = 0;
    std::string text = ReportPage(report, rows, kernels, options, budget, &lines);
    if (lines <= kReportLines || options.top || !budget.Tighten()) return text;
  }
}

std::string FunctionsTable(const Report& report, const OrderedReport& rows,
                           const OutputOptions& options, bool by_id, bool samples) {
  Page page(options);
  if (samples) {
    page.Add(SampleSection(report.samples, options), /*tell_dropped=*/true);
  } else if (by_id) {
    Section section = FunctionSection(rows.variants, report.variants, "variants", options);
    if (report.variants.empty()) {
      section.notes = {"none: no function name matches --id-pattern"};
    }
    page.Add(section, /*tell_dropped=*/true);
  } else {
    Section section = FunctionSection(rows.functions, report.functions, "functions", options);
    const size_t hidden = report.functions.size() - rows.functions.size();
    if (hidden > 0) section.notes.push_back(MoreNote(hidden, "functions", "without --top"));
    page.Add(section, /*tell_dropped=*/true);
  }
  page.AddDiagnostics(report.diagnostics, /*or_infos=*/false);
  return std::move(page).Take();
}

std::string KernelsTable(const Report& report, const OrderedReport& rows,
                         const OutputOptions& options) {
  Page page(options);
  Section section = KernelSection(rows.kernels, options);
  const size_t hidden = report.kernels.size() - rows.kernels.size();
  if (hidden > 0) section.notes.push_back(MoreNote(hidden, "kernels", "without --top"));
  page.Add(section, /*tell_dropped=*/true);
  page.AddDiagnostics(report.diagnostics, /*or_infos=*/false);
  return std::move(page).Take();
}

std::string TreeTable(const TreeReport& report, const OutputOptions& options) {
  Page page(options);
  for (const Section& section : TreeSections(report, options)) {
    page.Add(section, /*tell_dropped=*/true);
  }
  page.AddDiagnostics(report.diagnostics, /*or_infos=*/false);
  return std::move(page).Take();
}

std::string PlanesTable(const PlanesReport& report, const OutputOptions& options) {
  Page page(options);
  for (const std::string& line : InputLines(report.inputs, 3)) page.Line(line);
  for (const std::string& line : CaptureLines(report.capture, OneCapture(report.inputs)))
    page.Line(line);
  for (const Section& section : PlaneSections(report, options)) {
    page.Add(section, /*tell_dropped=*/true);
  }
  page.AddDiagnostics(report.diagnostics, /*or_infos=*/false);
  return std::move(page).Take();
}

}  // namespace xplane_time::output
