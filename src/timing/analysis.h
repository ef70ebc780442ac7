// Analysis: everything measured, before it becomes rows. Internal to BuildReport and
// BuildTree.
#ifndef XPLANE_TIME_SRC_TIMING_ANALYSIS_H_
#define XPLANE_TIME_SRC_TIMING_ANALYSIS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "timing/filters.h"
#include "xplane_time/report.h"
#include "xplane_time/runs.h"

namespace xplane_time {

// A run's times and what becomes of it.
struct Sample {
  Occurrence occurrence;
  Interval profile;      // on the capture's axis
  uint64_t ordinal = 0;  // within (device, function, program)
  std::optional<int64_t> key;
  bool skipped = false;  // a warm-up run
  bool uncertain = false;

  int64_t Metric(Metric which) const;
};

struct DeviceAnalysis {
  DeviceExecutions executions;
  std::vector<Run> runs;
  std::vector<std::optional<Clock>> clocks;    // by program, last: unattributed
  std::optional<std::vector<bool>> op_wanted;  // nothing: all
  std::vector<bool> program_wanted;
  std::vector<Sample> samples;  // of wanted programs, by (program, start)
  DeviceRef ref;
  uint32_t capture = 0;
};

struct Analysis {
  Filters filters;
  std::vector<DeviceAnalysis> devices;
  Diagnostics diagnostics;
};

// Selects, collects, splits and measures. Errors: as BuildReport.
absl::StatusOr<Analysis> Analyze(const Trace& trace, const ReportOptions& options,
                                 const Diagnostics& reading);

// Row builders, one file each.
std::vector<FunctionRow> FunctionRows(const Analysis& analysis, const ReportOptions& options);
std::vector<FunctionRow> CombinedRows(Analysis* analysis, const ReportOptions& options,
                                      bool by_variant);
std::vector<KernelRow> KernelRows(Analysis* analysis, int64_t tolerance_ps);
std::vector<SampleRow> SampleRows(const Analysis& analysis);

// Fills runs, kernels and the summaries from samples of one function; shared by
// functions and combined rows.
void SummarizeSamples(const std::vector<Sample>& samples, const ReportOptions& options,
                      FunctionRow* row);

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_TIMING_ANALYSIS_H_
