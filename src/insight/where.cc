#include "xplane_time/where.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "insight/idle_gaps.h"
#include "insight/reports.h"
#include "insight/where_watch.h"
#include "saturate.h"
#include "status.h"

namespace xplane_time {
namespace insight {
namespace {

const WhereWatch& WatchOf(const DeviceAnalysis& device) {
  return static_cast<const WhereWatch&>(*device.watcher);
}

TimeParts PartsOf(int64_t span_ps, const PartTimes& times, bool any_launch) {
  const auto launched = [&](Part part) {
    return any_launch ? std::optional(times[part]) : std::nullopt;
  };
  return {.span_ps = span_ps,
          .compute_ps = times[kComputePart],
          .collective_exposed_ps = times[kCollectiveExposed],
          .copy_exposed_ps = times[kCopyExposed],
          .other_ps = times[kOtherPart],
          .idle_ps = IdlePs(times),
          .idle_host_ps = launched(kIdleHost),
          .idle_launch_ps = launched(kIdleLaunch),
          .idle_unknown_ps = times[kIdleUnknown],
          .collective_ps = times[kCollectiveInFlight],
          .collective_hidden_ps = times[kCollectiveHidden],
          .copy_ps = times[kCopyInFlight],
          .copy_hidden_ps = times[kCopyHidden]};
}

// The runs of one program, in order of start.
using Samples = std::span<const RunSample>;
std::vector<Samples> ByProgram(const DeviceAnalysis& device) {
  std::vector<Samples> programs;
  for (Samples rest = device.samples; !rest.empty();) {
    size_t count = 1;
    while (count < rest.size() && rest[count].program == rest[0].program) ++count;
    programs.push_back(rest.first(count));
    rest = rest.subspan(count);
  }
  return programs;
}

// Null where the run has no executions.
const RunState* RunOf(const DeviceAnalysis& device, const RunSample& sample) {
  const std::span<const RunState> runs = WatchOf(device).sweep().runs();
  return sample.id < runs.size() && runs[sample.id].extent.begun() ? &runs[sample.id] : nullptr;
}

WhereFunction FunctionOf(const DeviceAnalysis& device, Samples samples) {
  const ProgramInfo& program = device.tables->programs[samples[0].program];
  WhereFunction row{
      .device = device.row.device, .function = program.function, .program_id = program.program_id};
  row.runs = samples.size();
  PartTimes times = {};
  int64_t span_ps = 0, foreign_ps = 0, span_without_ops_ps = 0;
  bool any_ops = false;
  for (const RunSample& sample : samples) {
    row.suspect_runs += sample.suspect ? 1 : 0;
    const RunState* const run = RunOf(device, sample);
    any_ops |= run != nullptr;
    if (sample.suspect) continue;
    if (run == nullptr) {
      span_without_ops_ps = SaturatingAdd(span_without_ops_ps, sample.span_ps);
      continue;
    }
    times += run->times;
    span_ps = SaturatingAdd(span_ps, run->extent.last_end_ps - run->extent.start_ps);
    foreign_ps = SaturatingAdd(foreign_ps, run->foreign_ps);
  }
  if (!any_ops) {
    row.time.span_ps = span_without_ops_ps;
    return row;
  }
  row.clock = device.watch_clock;
  row.time = PartsOf(span_ps, times, WatchOf(device).any_launch());
  row.foreign_ps = foreign_ps;
  return row;
}

// The program with the largest active time, where it has two runs or more; empty: none, or a tie.
Samples LongestProgram(const DeviceAnalysis& device) {
  Samples longest;
  int64_t most_ps = 0;
  bool tie = false;
  for (const Samples samples : ByProgram(device)) {
    int64_t active_ps = 0;
    for (const RunSample& sample : samples) {
      if (sample.has_active) active_ps = SaturatingAdd(active_ps, sample.active_ps);
    }
    tie = active_ps == most_ps || (tie && active_ps < most_ps);
    if (active_ps > most_ps) longest = samples;
    most_ps = std::max(most_ps, active_ps);
  }
  return tie || longest.size() < 2 ? Samples() : longest;
}

struct Step {
  const Extent* extent;
  std::string name;
};

std::vector<Step> MarkedSteps(const WhereWatch& watch) {
  std::vector<Step> steps;
  for (const uint32_t step : watch.sweep().step_order()) {
    steps.push_back({&watch.sweep().steps()[step], watch.marks()[step].name});
  }
  return steps;
}

std::vector<Step> FunctionSteps(const DeviceAnalysis& device, Samples samples) {
  std::vector<Step> steps;
  for (const RunSample& sample : samples) {
    const RunState* const run = RunOf(device, sample);
    if (run != nullptr) steps.push_back({&run->extent, ""});
  }
  std::ranges::stable_sort(steps, {}, [](const Step& step) { return step.extent->start_ps; });
  for (size_t i = 0; i < steps.size(); ++i) steps[i].name = std::to_string(i);
  return steps;
}

std::vector<Step> StepsOf(const DeviceAnalysis& device, WhereDevice* row) {
  const WhereWatch& watch = WatchOf(device);
  if (watch.marked_by().has_value()) {
    std::vector<Step> steps = MarkedSteps(watch);
    if (!steps.empty()) row->step_source = watch.marked_by();
    return steps;
  }
  const Samples samples = LongestProgram(device);
  std::vector<Step> steps = FunctionSteps(device, samples);
  if (steps.size() < 2) return {};
  const ProgramInfo& program = device.tables->programs[samples[0].program];
  row->step_source = StepSource::kFunction;
  row->step_function = program.function;
  row->step_program_id = program.program_id;
  return steps;
}

void AddSteps(const DeviceAnalysis& device, WhereDevice* row, std::vector<WhereStep>* rows) {
  const std::vector<Step> steps = StepsOf(device, row);
  row->steps = steps.size();
  if (steps.empty()) return;
  int64_t span_ps = 0, idle_ps = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Extent& extent = *steps[i].extent;
    const PartTimes times = extent.Times();
    rows->push_back({row->device, i, steps[i].name, extent.start_ps,
                     PartsOf(extent.span_ps(), times, WatchOf(device).any_launch())});
    span_ps += extent.span_ps();
    idle_ps += IdlePs(times);
  }
  row->steps_span_ps = span_ps;
  row->idle_in_steps_ps = idle_ps;
  row->idle_between_steps_ps = *row->time.idle_ps - idle_ps;
}

WhereTransfer TransferRow(const DeviceAnalysis& device, const TransferState& state) {
  const OpInfo& op = device.tables->ops[state.op];
  WhereTransfer row{.device = device.row.device, .category = op.category, .kernel = op.kernel};
  if (state.program != kNone) {
    const ProgramInfo& program = device.tables->programs[state.program];
    row.function = program.function;
    row.program_id = program.program_id;
  }
  row.count = state.count;
  row.exposed_ps = state.exposed_ps;
  row.hidden_ps = state.hidden_ps;
  row.in_flight_ps = state.in_flight_ps;
  if (state.bytes_known && state.bytes < std::numeric_limits<int64_t>::max()) {
    row.bytes = state.bytes;
    row.bytes_source = state.bytes_modelled ? "modelled" : "counted";
  }
  return row;
}

void AddTransfers(const DeviceAnalysis& device, std::vector<WhereTransfer>* rows) {
  const auto first = static_cast<ptrdiff_t>(rows->size());
  for (const TransferState& state : WatchOf(device).sweep().transfers()) {
    if (state.count > 0) rows->push_back(TransferRow(device, state));
  }
  std::stable_sort(
      rows->begin() + first, rows->end(),
      [](const WhereTransfer& a, const WhereTransfer& b) { return a.exposed_ps > b.exposed_ps; });
}

void AddFunctions(const DeviceAnalysis& device, std::vector<WhereFunction>* rows) {
  const auto first = static_cast<ptrdiff_t>(rows->size());
  for (const Samples samples : ByProgram(device)) rows->push_back(FunctionOf(device, samples));
  std::stable_sort(rows->begin() + first, rows->end(),
                   [](const WhereFunction& a, const WhereFunction& b) {
                     return a.time.span_ps > b.time.span_ps;
                   });
}

WhereGap GapRow(const DeviceRef& device, const Gap& gap) {
  WhereGap row{.device = device,
               .start_ps = gap.interval.start_ps,
               .duration_ps = gap.interval.end_ps - gap.interval.start_ps};
  if (gap.launch_ps == kNoTimePs) return row;
  row.idle_host_ps = gap.launch_ps - gap.interval.start_ps;
  row.idle_launch_ps = gap.interval.end_ps - gap.launch_ps;
  return row;
}

WhereDevice DeviceRowOf(const DeviceAnalysis& device) {
  const WhereWatch& watch = WatchOf(device);
  WhereDevice row{
      .device = device.row.device, .kind = device.row.kind, .executions = device.row.executions};
  if (!watch.sweep().any()) return row;
  row.clock = device.watch_clock;
  row.time = PartsOf(watch.sweep().span_ps(), watch.sweep().times(), watch.any_launch());
  return row;
}

// Adds the rows of one device.
void AddDevice(const DeviceAnalysis& device, WhereReport* report, Diagnostics* diagnostics) {
  if (device.watcher == nullptr) return;
  diagnostics->Count(DiagnosticCode::kLoneDone, {.plane = device.plane.plane},
                     WatchOf(device).lone_dones());
  AddFunctions(device, &report->functions);
  if (device.row.executions == 0) return;
  WhereDevice& row = report->devices.emplace_back(DeviceRowOf(device));
  if (!WatchOf(device).sweep().any()) return;
  AddSteps(device, &row, &report->steps);
  AddTransfers(device, &report->transfers);
}

// Adds the gaps of one device, and where its host is asked about each.
void AddGaps(const DeviceAnalysis& device, std::vector<WhereGap>* rows,
             std::vector<HostGap>* asked) {
  if (device.watcher == nullptr) return;
  for (const Gap& gap : WatchOf(device).sweep().largest_gaps()) {
    const WhereGap& row = rows->emplace_back(GapRow(device.row.device, gap));
    const int64_t end_ps = gap.profile_end_ps;
    asked->push_back({.gap = nullptr,
                      .plane = device.plane.plane,
                      .interval = {SaturatingSub(end_ps, row.duration_ps), end_ps}});
  }
}

}  // namespace

absl::StatusOr<Analysis> AnalyzeForWhere(const Trace& trace, const WhereOptions& options,
                                         const Diagnostics& reading, MakeWatcher make_watcher) {
  ReportOptions how;
  how.device = options.device;
  how.categories = options.categories;
  how.threads = options.threads;
  how.events_done = options.events_done;
  return AnalyzeAndWatch(trace, how, reading, make_watcher);
}

absl::StatusOr<WhereReport> WhereOf(const Trace& trace, Analysis* analysis,
                                    const WhereOptions& options, bool keeps_devices) {
  WhereReport report;
  report.inputs = DescribeInputs(trace);
  report.capture = DescribeCapture(trace);
  Diagnostics diagnostics = analysis->diagnostics;
  std::vector<HostGap> gaps;
  for (DeviceAnalysis& device : analysis->devices) {
    AddDevice(device, &report, &diagnostics);
    AddGaps(device, &report.gaps, &gaps);
    if (!keeps_devices) device = {};  // its runs may be many
  }
  for (size_t i = 0; i < gaps.size(); ++i) gaps[i].gap = &report.gaps[i];
  if (options.host_of_gaps && !gaps.empty()) {
    RETURN_IF_ERROR(
        FindHostEvents(trace, analysis->host_extents, std::move(gaps), options.threads));
  }
  report.diagnostics = DescribeDiagnostics(trace, diagnostics);
  return report;
}

}  // namespace insight

std::string_view StepSourceName(StepSource source) {
  constexpr std::array<std::string_view, 4> kNames = {"step_line", "host_launch", "host_time",
                                                      "function"};
  return kNames[static_cast<size_t>(source)];
}

absl::StatusOr<WhereReport> FindWhere(const Trace& trace, const WhereOptions& options,
                                      const Diagnostics& reading) {
  ASSIGN_OR_RETURN(Analysis analysis,
                   insight::AnalyzeForWhere(trace, options, reading, insight::WhereWatch::Make));
  return insight::WhereOf(trace, &analysis, options, /*keeps_devices=*/false);
}

}  // namespace xplane_time
