// Analysis: everything measured, before it becomes rows. Internal to BuildReport and
// BuildTree.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "devices/gpu_runs/host_evidence.h"
#include "hlo/program.h"
#include "read/plane_index.h"
#include "timing/device_meter.h"
#include "timing/launch_check.h"
#include "unset_allocator.h"

namespace xplane_time {

// A run, its times and its treatment.
struct RunSample : Run {
  uint32_t id = kNone;
  Clock clock = Clock::kProfile;
  bool has_active = false;  // false: a module without ops; only span_ps is known
  bool suspect = false;
  bool incomplete = false;  // launches of it have no execution (timing/lost_runs.h); it is suspect
  bool in_doubt = false;    // launches without an execution may be of this run
  bool skipped = false;     // a warm-up run
  int64_t start_ps = 0;     // on `clock`
  int64_t active_ps = 0, span_ps = 0, sum_ps = 0;
  uint64_t kernels = 0;
  uint64_t ordinal = 0;  // within (device, function, program)

  int64_t gap_ps() const { return span_ps - active_ps; }
  int64_t Metric(Metric which) const;
};

// ExecutionWatcher: looks at every execution of one device while it is measured.
class ExecutionWatcher {
 public:
  virtual ~ExecutionWatcher() = default;
  // Executions have their runs and programs, and come in order of start on the profile clock;
  // those that start together come together.
  virtual absl::Status Add(std::span<const Execution> chunk) = 0;
  // After the last, unless it is given up.
  virtual void Finish() {}

  // If a flag is set, this object is discarded, and a new one reads the device from the beginning:
  bool disordered = false;           // all of it in one chunk
  bool needs_profile_clock = false;  // for some execution has no other, or the device's went back

 protected:
  // Whether the device's clock, on which the next execution starts here, restarted, so that it
  // gives no absolute times: many executions in a row start before the middle of the earlier ones.
  // A few such starts are allowed, because single readings of the profile clock, and so the order,
  // can be wrong.
  bool GoesBack(int64_t device_start_ps) {
    constexpr int kMany = 16;
    if (!starts_ps_.has_value()) starts_ps_ = {device_start_ps, device_start_ps};
    const bool is_early =
        starts_ps_->end_ps - device_start_ps > (starts_ps_->end_ps - starts_ps_->start_ps) / 2;
    early_in_a_row_ = is_early ? early_in_a_row_ + 1 : 0;
    starts_ps_ = {std::min(starts_ps_->start_ps, device_start_ps),
                  std::max(starts_ps_->end_ps, device_start_ps)};
    return early_in_a_row_ >= kMany;
  }

 private:
  std::optional<Interval> starts_ps_;  // of all so far
  int early_in_a_row_ = 0;
};

// The context of a watcher. It outlives the watcher, except `modules` and `evidence`, which are
// valid while executions come.
struct WatchContext {
  const Trace& trace;
  const DevicePlane& plane;
  std::shared_ptr<const ExecutionTables> tables;  // grow while executions come
  std::span<const ModuleEvent> modules;           // of run lines: runs are their indices
  Clock clock;                                    // the one that all executions may have
  const EvidenceSource& evidence;
  bool evidence_is_read;  // used in any case, so it costs no extra time
  bool steps_by_name;     // ReportOptions::step
};
using MakeWatcher =
    absl::FunctionRef<absl::StatusOr<std::unique_ptr<ExecutionWatcher>>(const WatchContext&)>;

struct DeviceAnalysis {
  DevicePlane plane;
  uint32_t capture = 0;
  std::shared_ptr<const ExecutionTables> tables;
  std::shared_ptr<HloPrograms> hlo;  // of its programs; the trace outlives them
  DeviceRow row;
  bool any_module = false;
  // Runs of wanted programs, by (program, start).
  std::vector<RunSample, UnsetAllocator<RunSample>> samples;
  std::vector<bool> uncertain_programs;  // the split into runs is uncertain, also if not wanted
  // Runs of ranges of host time (range_runs.h): an execution may be in several ranges, or in none.
  // If a range of a function executed something, all of its ranges are present, in the host's
  // order.
  std::vector<RunSample> ranges;
  std::vector<KernelCell> cells;
  int64_t self_ps = 0;  // of all executions
  ClockPlan clocks;
  // Until completeness.h has made findings of them. Null: the host has no launches.
  std::unique_ptr<LaunchCheck> launches;
  std::vector<DeviceMeter::Impossible> impossible;
  // Only if requested.
  Executions executions;
  Completions completions;
  std::vector<std::vector<Interval>> ran;  // by cell (DeviceMeter)
  Clock watch_clock = Clock::kProfile;     // of the watcher
  std::unique_ptr<ExecutionWatcher> watcher;
};

struct Analysis {
  Filters filters;
  std::vector<DeviceAnalysis> devices;
  std::vector<FunctionRow> without_executions;  // on any device
  // Executions by the host that lost all of their kernels, by host (file and name) and function.
  // Only functions that no device of the host executed.
  std::map<HostKey, std::map<std::string, uint64_t>> lost_functions;
  gpu_runs::PartExtents host_extents;  // of host lines that were read
  uint64_t launches_compared = 0;      // with executions
  Diagnostics diagnostics;
};

enum class Keep : uint8_t { kSummaries, kIntervals, kExecutions };

// Selects, reads, splits and measures. With kIntervals it is kept when each kernel ran (16 bytes
// an execution), with kExecutions the executions, all of a device at once. Errors: as BuildReport.
absl::StatusOr<Analysis> Analyze(const Trace& trace, const ReportOptions& options,
                                 const Diagnostics& reading, Keep keep = Keep::kSummaries);
// The same with a watcher for each device.
absl::StatusOr<Analysis> AnalyzeAndWatch(const Trace& trace, const ReportOptions& options,
                                         const Diagnostics& reading, MakeWatcher make_watcher);
// For ReportOf: watched if the parts of devices are requested.
absl::StatusOr<Analysis> AnalyzeForReport(const Trace& trace, const ReportOptions& options,
                                          const Diagnostics& reading);

// Row builders.
struct FunctionTables {
  std::vector<FunctionRow> functions;           // one a function, program and device
  std::vector<FunctionRow> combined, variants;  // no variants unless they are asked for
};
FunctionTables FunctionTablesOf(const Analysis& analysis, const ReportOptions& options);
// The kernels of one device, with the indices of the cells of each row.
struct KernelOfCells {
  KernelRow row;
  std::vector<size_t> cells;
};
std::vector<KernelOfCells> KernelsOf(const DeviceAnalysis& device);
// KernelRow::source of the kernels of one device.
void FillSources(const DeviceAnalysis& device, std::span<KernelOfCells> kernels);
// The content of a report. `complete` may add to the rows of each device's kernels.
using CompleteKernels = std::function<void(const DeviceAnalysis&, std::span<KernelOfCells>)>;
Report ReportOf(const Trace& trace, const ReportOptions& options, Analysis* analysis,
                const CompleteKernels& complete = {});
// Without those that `skip_runs` and `trim` leave out; suspect ones are marked.
std::vector<SampleRow> SampleRows(const Analysis& analysis, const ReportOptions& options);

}  // namespace xplane_time
