#include "xplane_time/report.h"

#include "timing/analysis.h"

namespace xplane_time {
namespace {

DeviceRow MakeDeviceRow(const DeviceAnalysis& device) {
  const DeviceTotals& totals = device.totals;
  return {.device = device.ref,
          .kind = device.plane.kind,
          .executions = totals.executions,
          .busy_ps = totals.busy_ps,
          .sum_ps = totals.sum_ps,
          .first_ps = totals.first_ps,
          .last_ps = totals.last_ps};
}

}  // namespace

absl::StatusOr<Report> BuildReport(const Trace& trace, const ReportOptions& options,
                                   const Diagnostics& reading) {
  auto analysis = Analyze(trace, options, reading);
  if (!analysis.ok()) return analysis.status();
  Report report;
  report.inputs = DescribeInputs(trace);
  report.capture = DescribeCapture(trace);
  for (const DeviceAnalysis& device : analysis->devices) {
    report.devices.push_back(MakeDeviceRow(device));
  }
  report.functions = FunctionRows(*analysis, options);
  report.combined = CombinedRows(&*analysis, options, /*by_variant=*/false);
  if (options.by_variant) {
    report.variants = CombinedRows(&*analysis, options, /*by_variant=*/true);
  }
  report.kernels = KernelRows(*analysis);
  if (options.samples) report.samples = SampleRows(*analysis, options);
  report.diagnostics = DescribeDiagnostics(trace, analysis->diagnostics);
  return report;
}

}  // namespace xplane_time
