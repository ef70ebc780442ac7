// Every trace that a reader accepts can be reported on: no crash, no overflow and no endless loop,
// and the sums of report.h are correct.
#include <cstdint>

#include "tests/fuzz/on_trace.h"
#include "xplane_time/report.h"

namespace xplane_time {
namespace {

void CheckFunction(const FunctionRow& row) {
  const auto& values = row.span_ps;
  Require(row.runs >= row.suspect_runs + row.dropped_samples, "runs >= suspect + dropped");
  if (!values.has_value()) return;
  Require(values->n + row.suspect_runs + row.dropped_samples == row.runs,
          "runs = n + suspect + dropped");
  const auto min = static_cast<double>(values->min), max = static_cast<double>(values->max);
  Require(min <= values->median && values->median <= max, "min <= median <= max");
}

void CheckReport(const Report& report) {
  for (const DeviceRow& row : report.devices) {
    Require(row.busy_ps >= 0 && row.busy_ps <= row.sum_ps, "0 <= busy <= sum");
  }
  for (const FunctionRow& row : report.functions) CheckFunction(row);
  for (const FunctionRow& row : report.combined) CheckFunction(row);
  for (const KernelRow& row : report.kernels) {
    Require(row.self_ps.value_or(0) >= 0, "self >= 0");
    Require(row.self_ps.value_or(0) <= row.total_ps, "self <= total");
  }
}

void CheckTree(const TreeReport& tree) {
  for (size_t i = 0; i < tree.rows.size(); ++i) {
    const TreeRow& row = tree.rows[i];
    Require(row.self_ps.value_or(0) >= 0, "self of a tree row >= 0");
    if (!row.parent.has_value()) continue;
    Require(*row.parent < i, "parents come first");
    Require(row.depth == tree.rows[*row.parent].depth + 1, "depth = depth of the parent + 1");
  }
}

void Try(const Trace& trace, const TreeOptions& options, const Diagnostics& reading) {
  if (auto report = BuildReport(trace, options.select, reading); report.ok()) CheckReport(*report);
  if (auto tree = BuildTree(trace, options, reading); tree.ok()) CheckTree(*tree);
}

void TryAll(const Trace& trace, const Diagnostics& reading) {
  for (const char* device : {"", "all", "cpu"}) {
    TreeOptions options;
    options.select.device = device;
    options.select.id_pattern = "([0-9]+)";
    options.select.samples = options.select.by_variant = true;
    Try(trace, options, reading);
    for (const TreeBy by : {TreeBy::kScope, TreeBy::kSource}) {
      options.by = by;
      if (auto tree = BuildTree(trace, options, reading); tree.ok()) CheckTree(*tree);
    }
  }
  TreeOptions lines;
  lines.select.device = "all";
  lines.select.clock = ClockChoice::kDevice;
  lines.line = ".";
  Try(trace, lines, reading);
  PlanesOptions planes;
  planes.with_stats = true;
  (void)DescribePlanes(trace, planes, reading);
}

}  // namespace
}  // namespace xplane_time

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return xplane_time::OnTrace(data, size, xplane_time::TryAll);
}
