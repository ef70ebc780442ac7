#include "output/table.h"

#include <algorithm>
#include <vector>

#include "output/page.h"
#include "output/sections.h"

namespace xplane_time::output {
namespace {

constexpr size_t kReportLines = 46;  // two screens of 24 lines, with their prompts

// How many rows of each kind the report shows.
struct Budget {
  size_t devices = 8, functions = 10, kernels = 10, diagnostics = Page::kDiagnostics;

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

std::string ReportPage(const Report& report, const OrderedReport& rows,
                       const std::vector<const KernelRow*>& kernels, const OutputOptions& options,
                       const Budget& budget, size_t* lines) {
  Page page(options);
  for (const std::string& line : InputLines(report.inputs, 3)) page.Line(line);
  for (const std::string& line : CaptureLines(report.capture, OneCapture(report.inputs)))
    page.Line(line);
  page.Add(DeviceSection(report, options, budget.devices));
  page.Add(OverviewSection(report, rows, options, budget.functions));
  page.Add(TopKernelSection(kernels, options, budget.kernels));
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
    page.Add(SampleSection(report.samples, options));
  } else {
    page.Add(by_id ? VariantSection(report, rows, options)
                   : FunctionSection(rows.functions, report.functions, "functions", options));
  }
  page.AddDiagnostics(report.diagnostics, /*or_infos=*/false);
  return std::move(page).Take();
}

std::string KernelsTable(const Report& report, const OrderedReport& rows,
                         const OutputOptions& options) {
  Page page(options);
  page.Add(KernelSection(rows.kernels, report.kernels.size(), options));
  page.AddDiagnostics(report.diagnostics, /*or_infos=*/false);
  return std::move(page).Take();
}

std::string TreeTable(const TreeReport& report, const OutputOptions& options) {
  Page page(options);
  for (const Section& section : TreeSections(report, options)) {
    page.Add(section);
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
    page.Add(section);
  }
  page.AddDiagnostics(report.diagnostics, /*or_infos=*/false);
  return std::move(page).Take();
}

}  // namespace xplane_time::output
