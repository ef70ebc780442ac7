#include "xplane_time/report.h"

#include <algorithm>
#include <utility>

#include "timing/analysis.h"
#include "timing/saturate.h"

namespace xplane_time {
namespace {

DeviceRow MakeDeviceRow(const DeviceAnalysis& device) {
  const DeviceExecutions& rows = device.executions;
  DeviceRow row{.device = device.ref, .kind = rows.plane.kind, .executions = rows.size()};
  UnionLength busy;
  for (size_t i = 0; i < rows.size(); ++i) {
    busy.Add(rows.start_ps[i], rows.end_ps(i));
    row.sum_ps = SaturatingAdd(row.sum_ps, rows.duration_ps[i]);
    row.last_ps = std::max(row.last_ps.value_or(rows.end_ps(i)), rows.end_ps(i));
  }
  if (rows.size() > 0) row.first_ps = rows.start_ps[0];
  row.busy_ps = busy.length_ps();
  for (const AggregatedExecution& sum : rows.aggregated) {
    row.executions += static_cast<uint64_t>(sum.occurrences);
    row.sum_ps = SaturatingAdd(row.sum_ps, sum.total_ps);
  }
  return row;
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
  report.kernels = KernelRows(&*analysis, options.tolerance_ps);
  if (options.samples) report.samples = SampleRows(*analysis);
  report.diagnostics = DescribeDiagnostics(trace, analysis->diagnostics);
  return report;
}

}  // namespace xplane_time
