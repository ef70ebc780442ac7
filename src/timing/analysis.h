// Analysis: everything measured, before it becomes rows. Internal to BuildReport and
// BuildTree.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "timing/device_meter.h"

namespace xplane_time {

// A run, its times and what becomes of it.
struct RunSample : Run {
  uint32_t id = kNone;
  Clock clock = Clock::kProfile;
  bool has_active = false;  // false: a module without ops; only span_ps is known
  bool suspect = false;
  bool skipped = false;  // a warm-up run
  int64_t start_ps = 0;  // on `clock`
  int64_t active_ps = 0, span_ps = 0, sum_ps = 0;
  uint64_t kernels = 0;
  uint64_t ordinal = 0;  // within (device, function, program)

  int64_t gap_ps() const { return span_ps - active_ps; }
  int64_t Metric(Metric which) const;
};

struct DeviceAnalysis {
  DevicePlane plane;
  uint32_t capture = 0;
  std::shared_ptr<const ExecutionTables> tables;
  DeviceRow row;
  bool any_module = false;
  std::vector<RunSample> samples;  // of wanted programs, by (program, start)
  std::vector<KernelCell> cells;
  int64_t self_ps = 0;  // of all executions
  ClockPlan clocks;
  // Only where they were asked for.
  Executions executions;
  Completions completions;
  std::vector<std::vector<Interval>> ran;  // by cell (DeviceMeter)
};

struct Analysis {
  Filters filters;
  std::vector<DeviceAnalysis> devices;
  Diagnostics diagnostics;
};

enum class Keep : uint8_t { kSummaries, kIntervals, kExecutions };

// Selects, reads, splits and measures. With kIntervals it is kept when each kernel ran (16 bytes
// an execution), with kExecutions the executions, all of a device at once. Errors: as BuildReport.
absl::StatusOr<Analysis> Analyze(const Trace& trace, const ReportOptions& options,
                                 const Diagnostics& reading, Keep keep = Keep::kSummaries);

// Row builders.
std::vector<FunctionRow> FunctionRows(const Analysis& analysis, const ReportOptions& options);
std::vector<FunctionRow> CombinedRows(Analysis* analysis, const ReportOptions& options,
                                      bool by_variant);
std::vector<KernelRow> KernelRows(const Analysis& analysis);
// The same of one device, with the indices of the cells that each row is of.
struct KernelOfCells {
  KernelRow row;
  std::vector<size_t> cells;
};
std::vector<KernelOfCells> KernelsOf(const DeviceAnalysis& device);
// Without those that `skip_runs` and `trim` leave out; suspect ones are marked.
std::vector<SampleRow> SampleRows(const Analysis& analysis, const ReportOptions& options);

}  // namespace xplane_time
