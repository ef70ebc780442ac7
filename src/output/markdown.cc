#include "output/markdown.h"

#include <algorithm>
#include <vector>

#include "output/columns.h"
#include "output/sections.h"
#include "output/text.h"

namespace xplane_time::output {
namespace {

constexpr size_t kReportRows = 10;
constexpr size_t kAll = ~size_t{0};

void AppendList(const std::vector<std::string>& lines, std::string* out) {
  for (const std::string& line : lines) out->append("- ").append(MarkdownCell(line)).append("\n");
}

void AppendSection(Section section, const OutputOptions& options, std::string* out) {
  ChooseColumns(options.columns, &section.grid);
  if (!out->empty()) out->push_back('\n');
  out->append("### ").append(MarkdownCell(section.title)).append("\n");
  if (section.grid.rows() > 0) out->append("\n").append(MarkdownGrid(section.grid));
  if (!section.notes.empty()) out->push_back('\n');
  for (const std::string& note : section.notes) out->append(MarkdownCell(note)).append("\n");
}

void AppendDiagnostics(const std::vector<DiagnosticRow>& rows, bool or_infos, std::string* out) {
  const std::vector<DiagnosticLine> lines = DiagnosticLines(rows, /*infos=*/false);
  if (lines.empty() || (!or_infos && lines[0].severity == "info")) return;
  out->append(out->empty() ? "" : "\n").append("### ");
  out->append(lines[0].severity == "info" ? "notes on" : "suspicious in").append(" this trace\n\n");
  for (const DiagnosticLine& line : lines) {
    out->append("- **").append(line.severity).append("**: ");
    out->append(MarkdownCell(line.text)).append("\n");
  }
}

}  // namespace

std::string ReportMarkdown(const Report& report, const OrderedReport& rows,
                           const OutputOptions& options) {
  const std::vector<KernelRow> merged = MergeKernels(report.kernels);
  std::vector<const KernelRow*> kernels;
  for (const KernelRow& row : merged) kernels.push_back(&row);
  SortKernels(options.sort, &kernels);
  const size_t most = options.top.value_or(kReportRows);
  std::string out;
  AppendList(InputLines(report.inputs, kAll), &out);
  AppendList(CaptureLines(report.capture, OneCapture(report.inputs)), &out);
  AppendSection(DeviceSection(report, options, kAll), options, &out);
  AppendSection(OverviewSection(report, rows, options, most), options, &out);
  AppendSection(TopKernelSection(kernels, options, most), options, &out);
  AppendDiagnostics(report.diagnostics, /*or_infos=*/true, &out);
  return out;
}

std::string FunctionsMarkdown(const Report& report, const OrderedReport& rows,
                              const OutputOptions& options, bool by_id, bool samples) {
  std::string out;
  if (samples) {
    AppendSection(SampleSection(report.samples, options), options, &out);
  } else if (by_id) {
    AppendSection(VariantSection(report, rows, options), options, &out);
  } else {
    AppendSection(FunctionSection(rows.functions, report.functions, "functions", options), options,
                  &out);
  }
  AppendDiagnostics(report.diagnostics, /*or_infos=*/false, &out);
  return out;
}

std::string KernelsMarkdown(const Report& report, const OrderedReport& rows,
                            const OutputOptions& options) {
  std::string out;
  AppendSection(KernelSection(rows.kernels, report.kernels.size(), options), options, &out);
  AppendDiagnostics(report.diagnostics, /*or_infos=*/false, &out);
  return out;
}

std::string TreeMarkdown(const TreeReport& report, const OutputOptions& options) {
  std::string out;
  for (const Section& section : TreeSections(report, options))
    AppendSection(section, options, &out);
  AppendDiagnostics(report.diagnostics, /*or_infos=*/false, &out);
  return out;
}

std::string PlanesMarkdown(const PlanesReport& report, const OutputOptions& options) {
  std::string out;
  AppendList(InputLines(report.inputs, kAll), &out);
  AppendList(CaptureLines(report.capture, OneCapture(report.inputs)), &out);
  for (const Section& section : PlaneSections(report, options))
    AppendSection(section, options, &out);
  AppendDiagnostics(report.diagnostics, /*or_infos=*/false, &out);
  return out;
}

}  // namespace xplane_time::output
