// Analyze: the stages in order, for the selected devices.
#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "timing/analysis.h"
#include "timing/plane_list.h"
#include "xplane_time/normalize.h"
#include "xplane_time/read.h"
#include "xplane_time/select.h"

namespace xplane_time {
namespace {

bool Empty(const DeviceExecutions& device) {
  return device.size() == 0 && device.aggregated.empty() && device.modules.empty();
}

absl::Status NothingExecuted(const Trace& trace, const Selection& selection) {
  const std::string asked =
      selection.text.empty() ? "the accelerators (the default)" : "--device " + selection.text;
  return absl::FailedPreconditionError(absl::StrCat(
      trace.files[0].path, ": ", asked, " executed nothing; there are: ", ListPlanes(trace),
      "; choose with --device, or --device all"));
}

DeviceRef RefOf(const Trace& trace, const DeviceExecutions& device) {
  const Plane& plane = trace.planes[device.plane.plane];
  return {std::string(plane.name), device.ordinal, std::string(plane.host), plane.file};
}

// Kernels of a GPU that name no function although they lie inside some run's span.
void CountLostAnnotations(const DeviceAnalysis& device, Diagnostics* diagnostics) {
  const DeviceExecutions& rows = device.executions;
  if (rows.plane.kind != DeviceKind::kGpu) return;
  std::vector<Interval> spans;
  for (const Run& run : device.runs) spans.push_back(run.profile);
  spans = MergeIntervals(std::move(spans));
  for (size_t row = 0; row < rows.size(); ++row) {
    if (rows.program[row] != kNone || rows.ops[rows.op[row]].category == Category::kCopy) continue;
    const auto after =
        std::upper_bound(spans.begin(), spans.end(), rows.start_ps[row],
                         [](int64_t time, const Interval& span) { return time < span.start_ps; });
    if (after != spans.begin() && rows.start_ps[row] < std::prev(after)->end_ps) {
      diagnostics->Count(DiagnosticCode::kKernelWithoutFunction,
                         {.plane = rows.plane.plane, .line = rows.line[row]});
    }
  }
}

// Saved captures count from their host's own start: what to add to put the hosts of a
// capture on one axis. 0 where the starts are unknown or the times are absolute already.
int64_t HostShiftPs(const Trace& trace, uint32_t file) {
  if (trace.base_ns != 0) return 0;
  uint64_t first_ns = std::numeric_limits<uint64_t>::max();
  for (const TraceFile& other : trace.files) {
    if (other.capture != trace.files[file].capture) continue;
    if (!other.profile_start_unix_ns.has_value()) return 0;
    first_ns = std::min(first_ns, *other.profile_start_unix_ns);
  }
  const uint64_t later_ns = *trace.files[file].profile_start_unix_ns - first_ns;
  return later_ns < kAxisLimitPs / 1000 ? static_cast<int64_t>(later_ns) * 1000 : 0;
}

void MakeSamples(const ReportOptions& options, int64_t shift_ps, Diagnostics* diagnostics,
                 DeviceAnalysis* device) {
  uint64_t ordinal = 0;
  uint32_t program = kNone;
  const auto occurrences =
      MeasureRuns(device->executions, device->runs, device->clocks, device->op_wanted, diagnostics);
  for (const Occurrence& occurrence : occurrences) {
    if (!device->program_wanted[occurrence.program]) continue;
    ordinal = occurrence.program == program ? ordinal + 1 : 0;
    program = occurrence.program;
    const Run& run = device->runs[occurrence.run];
    const Interval profile{run.profile.start_ps + shift_ps, run.profile.end_ps + shift_ps};
    device->samples.push_back(
        {occurrence, profile, ordinal, run.key, ordinal < options.skip_runs, run.uncertain});
  }
}

void CountIdle(const std::vector<DeviceAnalysis>& devices, Diagnostics* diagnostics) {
  for (const DeviceAnalysis& device : devices) {
    if (!Empty(device.executions)) continue;
    diagnostics->Count(DiagnosticCode::kIdleAccelerator, {.plane = device.executions.plane.plane});
  }
}

}  // namespace

int64_t Sample::Metric(xplane_time::Metric which) const {
  switch (which) {
    case Metric::kActive:
      return occurrence.active_ps;
    case Metric::kSpan:
      return occurrence.span_ps;
    case Metric::kSum:
      break;
  }
  return occurrence.sum_ps;
}

absl::StatusOr<Analysis> Analyze(const Trace& trace, const ReportOptions& options,
                                 const Diagnostics& reading) {
  Analysis analysis;
  analysis.diagnostics = reading;
  auto filters = Filters::Compile(options);
  if (!filters.ok()) return filters.status();
  analysis.filters = *std::move(filters);
  auto selection = SelectDevices(trace, options.device);
  if (!selection.ok()) return selection.status();
  auto collected = CollectExecutions(
      trace, *selection,
      {options.threads, options.min_duration_ps, options.max_events, options.events_done},
      &analysis.diagnostics);
  if (!collected.ok()) return collected.status();
  if (std::all_of(collected->begin(), collected->end(), Empty)) {
    return NothingExecuted(trace, *selection);
  }
  std::map<std::pair<uint32_t, std::string_view>, HostEvidence> evidence;  // by file and host
  for (DeviceExecutions& executions : *collected) {
    DeviceAnalysis device;
    device.executions = std::move(executions);
    DeviceExecutions& rows = device.executions;
    const Plane& plane = trace.planes[rows.plane.plane];
    const std::pair host(plane.file, plane.host);
    const bool by_host = rows.plane.kind == DeviceKind::kGpu && !rows.programs.empty();
    if (by_host && !evidence.contains(host)) {
      Diagnostics host_events;  // the host's own devices report these
      auto found = CollectHostEvidence(trace, rows.plane, &host_events);
      if (!found.ok()) return found.status();
      evidence[host] = *std::move(found);
    }
    device.runs =
        AssignRuns(&rows, by_host ? evidence.at(host) : HostEvidence{}, &analysis.diagnostics);
    device.clocks = ChooseClocks(rows, options.clock, &analysis.diagnostics);
    if (analysis.filters.any_op()) {
      device.op_wanted.emplace();
      for (const OpInfo& op : rows.ops) device.op_wanted->push_back(analysis.filters.WantsOp(op));
    }
    for (const ProgramInfo& program : rows.programs) {
      device.program_wanted.push_back(analysis.filters.WantsFunction(program.function));
    }
    device.ref = RefOf(trace, rows);
    device.capture = trace.files[plane.file].capture;
    MakeSamples(options, HostShiftPs(trace, plane.file), &analysis.diagnostics, &device);
    CountLostAnnotations(device, &analysis.diagnostics);
    analysis.devices.push_back(std::move(device));
  }
  CountIdle(analysis.devices, &analysis.diagnostics);
  return analysis;
}

}  // namespace xplane_time
