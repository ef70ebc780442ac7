// Results in one step, for tests: the text of a result in a format.
#pragma once

#include <string>

#include "output/results.h"
#include "status.h"

namespace xplane_time::output {

inline constexpr OutputOptions kJson = {.format = Format::kJson};

inline absl::StatusOr<std::string> RenderReport(Report report, const OutputOptions& how) {
  RETURN_IF_ERROR(OrderReport(how, SortKeys::kReport, &report));
  return Render(ReportOutput(report, how), how);
}
inline absl::StatusOr<std::string> RenderFunctions(Report report, const OutputOptions& how,
                                                   bool by_id, bool samples) {
  RETURN_IF_ERROR(OrderReport(how, SortKeys::kFunctions, &report));
  return Render(FunctionsOutput(report, how, by_id, samples), how);
}
inline absl::StatusOr<std::string> RenderKernels(Report report, const OutputOptions& how) {
  RETURN_IF_ERROR(OrderReport(how, SortKeys::kKernels, &report));
  return Render(KernelsOutput(report, how), how);
}
inline std::string RenderTree(const TreeReport& report, const OutputOptions& how) {
  return Render(TreeOutput(report, how), how);
}
inline std::string RenderPlanes(const PlanesReport& report, const OutputOptions& how) {
  return Render(PlanesOutput(report, how), how);
}
inline std::string RenderComparison(const Comparison& comparison, Format format) {
  return Render(CompareOutput(comparison), {.format = format});
}
inline std::string RenderPower(const PowerSummary& summary, OutputOptions how, Format format,
                               const CarbonModel& carbon) {
  how.format = format;
  return Render(PowerOutput(summary, carbon), how);
}

}  // namespace xplane_time::output
