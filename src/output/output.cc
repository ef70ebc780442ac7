#include "output/output.h"

#include "output/csv.h"
#include "output/json.h"
#include "output/markdown.h"
#include "output/ordering.h"
#include "output/table.h"

namespace xplane_time::output {

absl::StatusOr<std::string> RenderReport(const Report& report, const OutputOptions& options) {
  auto rows = OrderReport(report, options, SortKeys::kReport);
  if (!rows.ok()) return rows.status();
  switch (options.format) {
    case Format::kJson:
      return ReportJson(report, *rows, options.given);
    case Format::kCsv:
      return FunctionsCsv(report, *rows, /*by_id=*/false, /*samples=*/false);
    case Format::kMarkdown:
      return ReportMarkdown(report, *rows, options);
    case Format::kTable:
      break;
  }
  return ReportTable(report, *rows, options);
}

absl::StatusOr<std::string> RenderFunctions(const Report& report, const OutputOptions& options,
                                            bool by_id, bool samples) {
  auto rows = OrderReport(report, options, SortKeys::kFunctions);
  if (!rows.ok()) return rows.status();
  switch (options.format) {
    case Format::kJson:
      return FunctionsJson(report, *rows, by_id, samples, options.given);
    case Format::kCsv:
      return FunctionsCsv(report, *rows, by_id, samples);
    case Format::kMarkdown:
      return FunctionsMarkdown(report, *rows, options, by_id, samples);
    case Format::kTable:
      break;
  }
  return FunctionsTable(report, *rows, options, by_id, samples);
}

absl::StatusOr<std::string> RenderKernels(const Report& report, const OutputOptions& options) {
  auto rows = OrderReport(report, options, SortKeys::kKernels);
  if (!rows.ok()) return rows.status();
  switch (options.format) {
    case Format::kJson:
      return KernelsJson(report, *rows, options.given);
    case Format::kCsv:
      return KernelsCsv(*rows);
    case Format::kMarkdown:
      return KernelsMarkdown(report, *rows, options);
    case Format::kTable:
      break;
  }
  return KernelsTable(report, *rows, options);
}

std::string RenderTree(const TreeReport& report, const OutputOptions& options) {
  switch (options.format) {
    case Format::kJson:
      return TreeJson(report, options.top, options.given);
    case Format::kCsv:
      return TreeCsv(report, options.top);
    case Format::kMarkdown:
      return TreeMarkdown(report, options);
    case Format::kTable:
      break;
  }
  return TreeTable(report, options);
}

std::string RenderPlanes(const PlanesReport& report, const OutputOptions& options) {
  switch (options.format) {
    case Format::kJson:
      return PlanesJson(report, options.given);
    case Format::kCsv:
      return PlanesCsv(report);
    case Format::kMarkdown:
      return PlanesMarkdown(report, options);
    case Format::kTable:
      break;
  }
  return PlanesTable(report, options);
}

}  // namespace xplane_time::output
