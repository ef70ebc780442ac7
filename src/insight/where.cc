#include "xplane_time/where.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "insight/brief_words.h"
#include "insight/idle_gaps.h"
#include "insight/reports.h"
#include "insight/where_watch.h"
#include "saturate.h"
#include "status.h"
#include "timing/step_summary.h"
#include "timing/steps.h"

namespace xplane_time {
namespace insight {
namespace {

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

using Samples = std::span<const RunSample>;

// Null if the run has no executions.
const RunState* RunOf(const DeviceAnalysis& device, const RunSample& sample) {
  const std::span<const RunState> runs = GetWatch(device).sweep().runs();
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
  row.time = PartsOf(span_ps, times, GetWatch(device).any_launch());
  row.foreign_ps = foreign_ps;
  return row;
}

// The steps of a device in order.
struct StepList {
  std::vector<const Extent*> extents;
  std::vector<uint32_t> marks;  // as many; empty: not marked
};

StepList MarkedSteps(const WhereWatch& watch) {
  StepList steps;
  for (const uint32_t step : watch.sweep().step_order()) {
    steps.extents.push_back(&watch.sweep().steps()[step]);
    steps.marks.push_back(step);
  }
  return steps;
}

StepList FunctionSteps(const DeviceAnalysis& device, Samples samples) {
  StepList steps;
  for (const RunSample& sample : samples) {
    const RunState* const run = RunOf(device, sample);
    if (run != nullptr) steps.extents.push_back(&run->extent);
  }
  std::ranges::stable_sort(steps.extents, {},
                           [](const Extent* extent) { return extent->start_ps; });
  return steps;
}

StepList FindSteps(const DeviceAnalysis& device, WhereDevice* row) {
  const StepMarking& marking = GetWatch(device).marking();
  if (marking.marked_by().has_value()) {
    StepList steps = MarkedSteps(GetWatch(device));
    row->step_source = marking.marked_by();
    row->steps_empty = marking.marks().size() - steps.extents.size();
    return steps;
  }
  const Samples samples = LongestProgram(device.samples);
  StepList steps = FunctionSteps(device, samples);
  if (steps.extents.size() < 2) return {};
  const ProgramInfo& program = device.tables->programs[samples[0].program];
  row->step_source = StepSource::kFunction;
  row->step_function = program.function;
  row->step_program_id = program.program_id;
  row->steps_empty = 0;
  return steps;
}

// The device's times at the beginning and the end of a step.
PartTimes TimesOf(const StepList& steps, std::span<const PlacedStep> placed, size_t step,
                  const PartitionSweep& sweep) {
  const auto at_end = [&](size_t i) { return steps.extents[placed[i].ended_by]->at_last_end; };
  PartTimes at_start = {};
  switch (placed[step].begin) {
    case PlacedStep::Begin::kPreviousEnd:
      if (step > 0) at_start = at_end(step - 1);
      break;
    case PlacedStep::Begin::kMark:
      at_start = sweep.recorded()[steps.marks[step]];
      break;
    case PlacedStep::Begin::kMember:
      at_start = steps.extents[step]->at_start;
      break;
  }
  return at_end(step) - at_start;
}

void AddSteps(const DeviceAnalysis& device, WhereDevice* row, std::vector<WhereStep>* rows) {
  const WhereWatch& watch = GetWatch(device);
  const StepList steps = FindSteps(device, row);
  std::vector<StepMembers> members;
  for (size_t i = 0; i < steps.extents.size(); ++i) {
    members.push_back({steps.extents[i]->start_ps, steps.extents[i]->last_end_ps});
    if (steps.marks.empty() || !watch.marking().on_clock()) continue;
    members.back().mark_start_ps = watch.marking().marks()[steps.marks[i]].interval.start_ps;
  }
  row->steps = members.size();
  if (members.empty()) return;
  const std::vector<PlacedStep> placed = PlaceSteps(watch.sweep().first_ps(), members);
  int64_t span_ps = 0, idle_ps = 0;
  for (size_t i = 0; i < placed.size(); ++i) {
    const PartTimes times = TimesOf(steps, placed, i, watch.sweep());
    const Interval& own = placed[i].interval;
    WhereStep& step = rows->emplace_back();
    step.device = row->device;
    step.step = i;
    step.name = std::to_string(i);
    if (!steps.marks.empty()) {
      const StepMark& mark = watch.marking().marks()[steps.marks[i]];
      step.name = mark.name;
      step.marked_ps = mark.interval.end_ps - mark.interval.start_ps;
    }
    step.start_ps = own.start_ps;
    step.time = PartsOf(own.end_ps - own.start_ps, times, watch.any_launch());
    span_ps += own.end_ps - own.start_ps;
    idle_ps += IdlePs(times);
  }
  row->steps_span_ps = span_ps;
  row->idle_in_steps_ps = idle_ps;
  row->idle_between_steps_ps = *row->time.idle_ps - idle_ps;
  row->step_median_ps = MedianSpan(members, placed);
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
  for (const TransferState& state : GetWatch(device).sweep().transfers()) {
    if (state.count > 0) rows->push_back(TransferRow(device, state));
  }
  std::stable_sort(
      rows->begin() + first, rows->end(),
      [](const WhereTransfer& a, const WhereTransfer& b) { return a.exposed_ps > b.exposed_ps; });
}

void AddFunctions(const DeviceAnalysis& device, std::vector<WhereFunction>* rows) {
  const auto first = static_cast<ptrdiff_t>(rows->size());
  for (const Samples samples : SamplesByProgram(device.samples))
    rows->push_back(FunctionOf(device, samples));
  std::stable_sort(rows->begin() + first, rows->end(),
                   [](const WhereFunction& a, const WhereFunction& b) {
                     return a.time.span_ps > b.time.span_ps;
                   });
}

WhereGap GapRow(const DeviceAnalysis& device, const Gap& gap) {
  const ExecutionTables& tables = *device.tables;
  const auto function = [&](const GapNeighbour& neighbour) {
    return neighbour.program == kNone ? std::nullopt
                                      : std::optional(tables.programs[neighbour.program].function);
  };
  WhereGap row{.device = device.row.device,
               .start_ps = gap.interval.start_ps,
               .duration_ps = gap.length_ps(),
               .kernel_before = tables.ops[gap.before.op].kernel,
               .kernel_after = tables.ops[gap.after.op].kernel,
               .function_before = function(gap.before),
               .function_after = function(gap.after)};
  if (gap.launch_ps == kNoTimePs) return row;
  row.idle_host_ps = gap.launch_ps - gap.interval.start_ps;
  row.idle_launch_ps = gap.interval.end_ps - gap.launch_ps;
  row.cause = row.idle_host_ps >= row.idle_launch_ps ? "host" : "launch";
  return row;
}

// "execute_#" of "execute_12".
std::string WithoutDigits(std::string_view name) {
  std::string text;
  for (const char c : name) {
    const bool is_digit = '0' <= c && c <= '9';
    if (!is_digit) text += c;
    if (is_digit && !text.ends_with('#')) text += '#';
  }
  return text;
}

std::optional<std::string> DescribeMixedMarks(const StepMarks& marks) {
  constexpr size_t kMaxNames = 4;
  std::map<std::string, uint64_t> counts;
  bool overlap = false;
  int64_t furthest_ps = kNoTimePs;
  std::string furthest;  // the name of the mark that ends last so far
  for (size_t i = 0; i < marks.size(); ++i) {
    std::string name = WithoutDigits(marks[i].name);
    overlap |= marks[i].interval.start_ps < furthest_ps && name != furthest;
    ++counts[name];
    if (marks[i].interval.end_ps <= furthest_ps) continue;
    furthest_ps = marks[i].interval.end_ps;
    furthest = std::move(name);
  }
  if (!overlap) return std::nullopt;
  std::vector<std::pair<std::string, uint64_t>> names(counts.begin(), counts.end());
  std::ranges::stable_sort(names, std::greater(), [](const auto& each) { return each.second; });
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) {
    Append(&text, text.empty() ? "" : ", ", ShortName(names[i].first), " (", names[i].second, ")");
  }
  if (names.size() > kMaxNames) Append(&text, ", and ", names.size() - kMaxNames, " more");
  return text;
}

WhereDevice DeviceRowOf(const DeviceAnalysis& device) {
  const WhereWatch& watch = GetWatch(device);
  WhereDevice row{
      .device = device.row.device, .kind = device.row.kind, .executions = device.row.executions};
  if (!watch.sweep().any()) return row;
  row.clock = device.watch_clock;
  row.time = PartsOf(watch.sweep().span_ps(), watch.sweep().times(), watch.any_launch());
  row.gaps = watch.sweep().gap_count();
  row.waits_for_input_ps = watch.input_ps();
  const StepMarking& marking = watch.marking();
  if (!marking.marked_by().has_value()) return row;
  row.executions_outside_steps = watch.executions_outside_steps();
  if (marking.marked_by() == StepSource::kHostLaunch) {
    row.early_executions = watch.early_executions();
    row.early_ps = watch.early_ps();
  }
  if (marking.marked_by() != StepSource::kStepLine) {
    row.mixed_marks = DescribeMixedMarks(marking.marks());
  }
  return row;
}

// Adds the rows of one device.
void AddDevice(const DeviceAnalysis& device, WhereReport* report, Diagnostics* diagnostics) {
  if (device.watcher == nullptr) return;
  diagnostics->Count(DiagnosticCode::kLoneDone, {.plane = device.plane.plane},
                     GetWatch(device).lone_dones());
  AddFunctions(device, &report->functions);
  if (device.row.executions == 0) return;
  WhereDevice& row = report->devices.emplace_back(DeviceRowOf(device));
  if (!GetWatch(device).sweep().any()) return;
  AddSteps(device, &row, &report->steps);
  AddTransfers(device, &report->transfers);
}

// Adds the gaps of one device, and to `asked` the interval and launch line of each for its host.
void AddGaps(const DeviceAnalysis& device, std::vector<WhereGap>* rows,
             std::vector<HostGap>* asked) {
  if (device.watcher == nullptr) return;
  const WhereWatch& watch = GetWatch(device);
  for (size_t i = 0; i < watch.sweep().largest_gaps().size(); ++i) {
    const Gap& gap = watch.sweep().largest_gaps()[i];
    rows->push_back(GapRow(device, gap));
    const int64_t end_ps = gap.profile_end_ps;
    asked->push_back({.gap = nullptr,
                      .plane = device.plane.plane,
                      .interval = {SaturatingSub(end_ps, gap.length_ps()), end_ps},
                      .launch_line = watch.gap_launch_lines()[i]});
  }
}

}  // namespace

std::vector<std::string> DescribeStepDoubts(const WhereDevice& device) {
  std::vector<std::string> doubts;
  if (device.mixed_marks.has_value()) {
    doubts.push_back(Cat("marks of several names overlap: ", *device.mixed_marks,
                         "; an execution belongs to the innermost mark; --step-re with a narrower "
                         "pattern selects one name"));
  }
  // A few are copies and fills before the loop and after it.
  const uint64_t outside = device.executions_outside_steps.value_or(0);
  if (outside > 0 && outside >= device.executions / 20) {
    doubts.push_back(Cat(outside, " of ", CountText(device.executions, "execution"),
                         outside == 1 ? " belongs" : " belong", " to no marked step",
                         device.step_source == StepSource::kHostTime
                             ? ": the trace has no launches, so only executions that start inside "
                               "a mark belong to it"
                             : ""));
  }
  // Less than 1 % of a step is negligible.
  const auto early_ps = static_cast<double>(device.early_ps.value_or(0));
  if (const uint64_t early = device.early_executions.value_or(0);
      early > 0 && early_ps * 100 >= device.step_median_ps.value_or(0)) {
    doubts.push_back(Cat("the first step may contain ", CountText(early, "execution"), ", ",
                         TimeText(early_ps),
                         ", launched "
                         "before the trace began"));
  }
  return doubts;
}

absl::StatusOr<Analysis> AnalyzeForWhere(const Trace& trace, const WhereOptions& options,
                                         const Diagnostics& reading, MakeWatcher make_watcher) {
  ReportOptions how;
  how.device = options.device;
  how.categories = options.categories;
  how.step = options.step;
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

absl::StatusOr<WhereReport> FindWhere(const Trace& trace, const WhereOptions& options,
                                      const Diagnostics& reading) {
  const auto watch = [&](const WatchContext& context) {
    return insight::WhereWatch::MakeKeepingGaps(context, options.gaps);
  };
  ASSIGN_OR_RETURN(Analysis analysis, insight::AnalyzeForWhere(trace, options, reading, watch));
  return insight::WhereOf(trace, &analysis, options, /*keeps_devices=*/false);
}

}  // namespace xplane_time
