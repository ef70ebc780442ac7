// The verdict: the largest loss decides, if it takes a fifth of the steps' time or more.
//
//   input           before the first launch of a step, while the host dispatches no work; and in
//                   host events that fetch input
//   dispatch        the rest of idle_host, and idle_launch of executions that were launched less
//                   than 20 us before they started
//   communication   collectives while no kernel computes
//   other idle      unknown: unclear
//
// Runs of a function are steps only if the function takes half of the time in which the device is
// busy, or if the user names it (--function). Otherwise the time from run to run is that of a loop
// of several functions, or of none. The same applies if several functions take longest.
//
// A verdict needs steps that represent the device: if the steps are runs of a function, these must
// take half of the device's span, and it must be certain how they split. Marked steps may be few
// and still show what limits them, but only steps that take half of the span are device-bound, and
// only if less than a fifth of the time from start to start is between them. A first step that
// takes most of the time of all steps is a warm-up, so the time of all steps shows no cause.
//
// TensorFlow's profiler also uses a fifth as the limit of "highly input-bound". If each cause takes
// less, and the device works at least half of the time, the step is device-bound.
#include "timing/step_summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "status.h"

namespace xplane_time {
namespace {

constexpr double kLargeLoss = 0.2, kMostlyWork = 0.5, kLeastCoverage = 0.5, kLeastOfBusy = 0.5;

// "37 %"; "0.4 %"; "99.5 %".
std::string PercentText(double share) {
  const double percent = share * 100;
  if (percent >= 99.5 && percent < 99.95) return Cat(std::floor(percent * 10) / 10, " %");
  if (percent >= 0.95 || percent <= 0) return Cat(std::llround(percent), " %");
  return Cat(std::round(percent * 10) / 10, " %");
}

struct Losses {
  double work = 0, copies = 0, communication = 0;
  double input = 0, dispatch = 0;  // without a host: 0
  double queue = 0, unknown = 0;
  std::string evidence = {};                // that is missing if the reason of idle time is unknown
  std::string base = "of the steps' time";  // of all shares
};

struct Verdict {
  StepVerdict verdict;
  std::string reason;
};

Verdict Judge(const Losses& losses) {
  const auto text = [](double share) { return PercentText(share); };
  const double largest =
      std::max({losses.communication, losses.input, losses.dispatch, losses.queue, losses.unknown});
  if (largest < kLargeLoss) {
    if (losses.work < kMostlyWork) {
      return {StepVerdict::kUnclear, Cat("the device works ", text(losses.work), " ", losses.base,
                                         ", and no single cause takes 20 %")};
    }
    return {StepVerdict::kDeviceBound,
            Cat("the device works ", text(losses.work), " ", losses.base,
                losses.copies < kLargeLoss
                    ? ""
                    : Cat("; copies alone take ", text(losses.copies), " ", losses.base))};
  }
  if (largest == losses.unknown) {
    return {StepVerdict::kUnclear, Cat("the device idles ", text(losses.unknown), " ", losses.base,
                                       ", and ", losses.evidence)};
  }
  if (largest == losses.queue) {
    return {StepVerdict::kUnclear, Cat("the device idles ", text(losses.queue), " ", losses.base,
                                       " although its work was launched in time")};
  }
  if (largest == losses.communication) {
    return {StepVerdict::kCommunicationBound, Cat("collectives take ", text(losses.communication),
                                                  " ", losses.base, " while no kernel computes")};
  }
  if (largest == losses.input) {
    return {StepVerdict::kInputBound, Cat("the device waits ", text(losses.input), " ", losses.base,
                                          " for input: the host dispatches no work yet")};
  }
  return {StepVerdict::kHostBound, Cat("the device waits ", text(losses.dispatch), " ", losses.base,
                                       " because the host dispatches too slowly")};
}

double Part(int64_t ps, double of_ps) { return static_cast<double>(ps) / of_ps; }

// The steps' time and the time between them in which the device waits for the next one's input.
double WithWaitsPs(const StepMeter::Measured& steps) {
  return static_cast<double>(steps.times.span_ps()) + static_cast<double>(steps.input_between_ps);
}

// `events`: those that the trace lacks if nothing is left unread.
std::string DescribeMissingEvidence(const StepMarking& marking, const char* events) {
  // Of runs of a function, only launches show why a device waits for the next one.
  const bool may_show = marking.launches_are_unread() ||
                        (marking.host_is_unread() && marking.marked_by().has_value());
  if (!may_show) return Cat("the trace has no ", events, " that show why");
  return Cat("the report does not read the ",
             marking.launches_are_unread() ? "launches" : "host events",
             " that may show why; xplane-time brief does");
}

// For steps with a positive time.
StepShares SharesOf(const StepMeter::Measured& steps, const StepMarking& marking) {
  const auto span_ps = static_cast<double>(steps.times.span_ps());
  const auto& ranks_ps = steps.times.ranks_ps;
  StepShares shares = {.compute = Part(ranks_ps[0], span_ps),
                       .collective_exposed = Part(ranks_ps[1], span_ps),
                       .copy_exposed = Part(ranks_ps[2], span_ps),
                       .other = Part(ranks_ps[3], span_ps),
                       .idle_unknown = Part(steps.times.idle_unknown_ps, span_ps)};
  if (marking.any_launch()) {
    shares.idle_host = Part(steps.times.idle_host_ps, span_ps);
    shares.idle_launch =
        Part(steps.times.idle_late_ps, span_ps) + Part(steps.times.idle_queue_ps, span_ps);
    shares.waits_for_host = shares.idle_host;
  } else if (marking.marked_by() == StepSource::kHostTime) {
    shares.waits_for_host = Part(steps.begin_idle_ps, span_ps);
  }
  const int64_t input_ps = steps.input_ps + steps.input_between_ps;
  if (shares.waits_for_host.has_value() || input_ps > 0) {
    shares.waits_for_input = Part(input_ps, WithWaitsPs(steps));
  }
  return shares;
}

Losses LossesOf(const StepMeter::Measured& steps, const StepShares& shares,
                const StepMarking& marking) {
  const auto span_ps = static_cast<double>(steps.times.span_ps());
  const double all = WithWaitsPs(steps) / span_ps;
  Losses losses = {.work = (shares.compute + shares.copy_exposed + shares.other) / all,
                   .copies = shares.copy_exposed / all,
                   .communication = shares.collective_exposed / all,
                   .evidence = DescribeMissingEvidence(marking, "launches")};
  if (all > 1) losses.base = "of the steps' time and the waits between them";
  if (!shares.waits_for_host.has_value()) {
    losses.input = shares.waits_for_input.value_or(0);
    losses.unknown = std::max(0.0, shares.idle_unknown / all - losses.input);
    return losses;
  }
  const double input = Part(steps.input_ps, span_ps);
  losses.input = *shares.waits_for_input;
  losses.dispatch = std::max(0.0, *shares.waits_for_host - input) / all;
  if (marking.any_launch()) {
    losses.dispatch += Part(steps.times.idle_late_ps, span_ps) / all;
    losses.queue = Part(steps.times.idle_queue_ps, span_ps) / all;
    losses.unknown = shares.idle_unknown / all;
  } else {
    losses.unknown = std::max(0.0, shares.idle_unknown - *shares.waits_for_host) / all;
  }
  return losses;
}

// Why the steps cannot stand for a device of this span, although they have times; empty: they can.
std::string DescribeDoubt(const StepMeter::Measured& steps, const StepSummary& summary,
                          StepVerdict verdict, const StepMarking& marking, int64_t device_span_ps) {
  const bool are_runs = summary.source == StepSource::kFunction;
  const double period_ps = summary.step_period_ps.value_or(0);
  const double between =
      period_ps > 0 ? 1 - summary.step_median_ps.value_or(0) / period_ps : double{0};
  if (!are_runs && steps.timed == steps.steps && steps.steps > 1) {
    // Two steps may differ by chance.
    constexpr double kMuchLonger = 2;
    const auto first_ps = static_cast<double>(steps.first_ps),
               later_ps = static_cast<double>(steps.times.span_ps()) - first_ps;
    const double share = first_ps / (first_ps + later_ps);
    if (share > 1 - kLeastCoverage &&
        first_ps > kMuchLonger * later_ps / static_cast<double>(steps.steps - 1)) {
      return Cat("the first marked step takes ", PercentText(share),
                 " of the time of all steps (a warm-up?), and all later steps ",
                 PercentText(1 - share));
    }
  }
  if (!are_runs && verdict == StepVerdict::kDeviceBound && between >= kLargeLoss) {
    return Cat(PercentText(between), " of the time is between the marked steps",
               marking.host() == nullptr
                   ? ", and " + DescribeMissingEvidence(marking, "host events")
                   : std::string());
  }
  const double coverage = Part(steps.times.span_ps(), static_cast<double>(device_span_ps));
  if (coverage >= kLeastCoverage || (!are_runs && verdict != StepVerdict::kDeviceBound)) return "";
  if (!are_runs) return Cat("the steps take only ", PercentText(coverage), " of the device's time");
  // A warm-up, which often takes most of a short capture.
  const double first = Part(steps.first_ps, static_cast<double>(device_span_ps));
  if (coverage + first >= kLeastCoverage) {
    return Cat("the first run of ", *summary.function, " takes ", PercentText(first),
               " of the device's time (a warm-up?), and all later runs ", PercentText(coverage));
  }
  return Cat("the runs of ", *summary.function, " take only ", PercentText(coverage),
             " of the device's time");
}

void AddVerdict(const StepMeter::Measured& steps, const StepMarking& marking,
                int64_t device_span_ps, StepSummary* summary) {
  summary->steps = steps.steps;
  summary->steps_timed = steps.timed;
  summary->step_median_ps = steps.median_ps;
  summary->step_period_ps = steps.period_ps;
  if (steps.steps == 0) {
    summary->reason = "no execution belongs to a marked step";
  } else if (steps.timed == 0) {
    summary->reason = "the only step has no known start";
  } else if (steps.times.span_ps() <= 0 || steps.median_ps.value_or(0) <= 0) {
    summary->reason = "most steps end before an earlier step ends";
  } else {
    summary->shares = SharesOf(steps, marking);
    if (summary->shares->waits_for_input.has_value()) {
      summary->waits_for_input_ps = steps.input_ps + steps.input_between_ps;
    }
    Verdict verdict = Judge(LossesOf(steps, *summary->shares, marking));
    std::string doubt = DescribeDoubt(steps, *summary, verdict.verdict, marking, device_span_ps);
    if (!doubt.empty()) verdict = {StepVerdict::kUnclear, std::move(doubt)};
    summary->verdict = verdict.verdict;
    summary->reason = std::move(verdict.reason);
  }
}

// The places of the largest positive number; several if they tie.
std::vector<uint32_t> FindLargest(std::span<const int64_t> numbers) {
  std::vector<uint32_t> largest;
  int64_t most = 1;
  for (uint32_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] > most) largest.clear();
    if (numbers[i] >= most) largest.push_back(i);
    most = std::max(most, numbers[i]);
  }
  return largest;
}

// The busy time of each program of the device, or only of the programs of the one function that
// --function selects.
struct ProgramTimes {
  std::vector<int64_t> busy_ps;
  bool is_named = false;
};
ProgramTimes FindProgramTimes(const DeviceAnalysis& device, const StepMeter& meter,
                              const Filters& filters) {
  const auto& programs = device.tables->programs;
  ProgramTimes times;
  std::set<std::string_view> wanted;
  for (uint32_t i = 0; i < programs.size(); ++i) {
    times.busy_ps.push_back(meter.BusyPs(i));
    const bool counts = times.busy_ps[i] > 0 && filters.WantsFunction(programs[i].function);
    if (counts) wanted.insert(programs[i].function);
  }
  times.is_named = filters.function.any() && wanted.size() == 1;
  for (uint32_t i = 0; times.is_named && i < programs.size(); ++i) {
    if (!wanted.contains(programs[i].function)) times.busy_ps[i] = 0;
  }
  return times;
}

// "jit_a"; "program 7 of jit_a" if another program of the device has this name too.
std::string NameProgram(const ProgramTimes& times, const ExecutionTables& tables, uint32_t of) {
  const ProgramInfo& program = tables.programs[of];
  for (uint32_t i = 0; i < times.busy_ps.size(); ++i) {
    const bool is_twin =
        i != of && times.busy_ps[i] > 0 && tables.programs[i].function == program.function;
    if (is_twin && program.program_id) {
      return Cat("program ", *program.program_id, " of ", program.function);
    }
  }
  return program.function;
}

// "jit_a, jit_b and 3 more compiled programs".
std::string NamePrograms(const ProgramTimes& times, const ExecutionTables& tables,
                         std::span<const uint32_t> programs) {
  constexpr size_t kMaxNames = 3;
  const size_t shown = programs.size() <= kMaxNames ? programs.size() : kMaxNames - 1;
  std::string text;
  for (size_t i = 0; i < shown; ++i) {
    const bool is_last = i + 1 == programs.size();
    Append(&text, i == 0 ? "" : is_last ? " and " : ", ", NameProgram(times, tables, programs[i]));
  }
  if (shown < programs.size()) {
    Append(&text, " and ", programs.size() - shown, " more compiled programs");
  }
  return text;
}

// Whether a function could be named whose runs are steps: its longest program has no equal, and two
// runs or more.
bool CanNameFunction(const ProgramTimes& times, const ExecutionTables& tables,
                     std::span<const uint64_t> runs) {
  if (times.is_named) return false;
  std::map<std::string_view, std::vector<uint32_t>> functions;
  for (uint32_t i = 0; i < times.busy_ps.size(); ++i) {
    if (times.busy_ps[i] > 0) functions[tables.programs[i].function].push_back(i);
  }
  return std::ranges::any_of(functions, [&](const auto& function) {
    std::vector<int64_t> own_ps;
    for (const uint32_t program : function.second) own_ps.push_back(times.busy_ps[program]);
    const std::vector<uint32_t> longest = FindLargest(own_ps);
    return longest.size() == 1 && runs[function.second[longest[0]]] >= 2;
  });
}

// Why the runs of no program are steps; `longest`: the programs that take longest. Empty: those of
// the only one are.
std::string DescribeNoSteps(const ProgramTimes& times, const ExecutionTables& tables,
                            std::span<const uint32_t> longest, std::span<const uint64_t> runs,
                            int64_t device_busy_ps) {
  const std::string names = NamePrograms(times, tables, longest);
  if (longest.size() > 1) {
    return Cat(names, " take equally long, ", times.is_named ? "" : "more than any other program, ",
               "so it is unknown whose runs are steps");
  }
  const double of_busy = device_busy_ps > 0
                             ? Part(times.busy_ps[longest[0]], static_cast<double>(device_busy_ps))
                             : double{1};
  if (of_busy < kLeastOfBusy && !times.is_named) {
    return Cat(
        "no compiled program takes half of the time in which the device is busy; the longest, ",
        names, ", takes ", PercentText(of_busy));
  }
  return runs[longest[0]] < 2 ? Cat("the trace has only one run of ", names) : "";
}

// Steps that are runs of a program.
std::optional<StepSummary> SummarizeRuns(const DeviceAnalysis& device, const PartsWatch& watch,
                                         const Filters& filters, const DeviceParts& parts) {
  const StepMeter& meter = watch.steps();
  const ExecutionTables& tables = *device.tables;
  const ProgramTimes times = FindProgramTimes(device, meter, filters);
  const std::vector<uint32_t> longest = FindLargest(times.busy_ps);
  if (longest.empty()) return std::nullopt;
  const std::vector<uint64_t> runs = meter.CountRuns();
  StepSummary summary;
  summary.reason = DescribeNoSteps(times, tables, longest, runs, parts.span_ps - parts.idle_ps);
  if (!summary.reason.empty()) {
    summary.needs_marks = !CanNameFunction(times, tables, runs);
    return summary;
  }
  const ProgramInfo& program = tables.programs[longest[0]];
  summary.function = program.function;
  summary.program_id = program.program_id;
  AddVerdict(meter.MeasureRuns(longest[0]), watch.marking(), parts.span_ps, &summary);
  if (device.uncertain_programs[longest[0]]) {
    summary.verdict = StepVerdict::kUnclear;
    summary.reason = Cat("the split of ", program.function, " into runs is uncertain");
  }
  return summary;
}

}  // namespace

std::vector<std::span<const RunSample>> SamplesByProgram(std::span<const RunSample> samples) {
  std::vector<std::span<const RunSample>> programs;
  for (std::span<const RunSample> rest = samples; !rest.empty();) {
    size_t count = 1;
    while (count < rest.size() && rest[count].program == rest[0].program) ++count;
    programs.push_back(rest.first(count));
    rest = rest.subspan(count);
  }
  return programs;
}

std::span<const RunSample> LongestProgram(std::span<const RunSample> samples) {
  std::vector<std::span<const RunSample>> programs = SamplesByProgram(samples);
  std::vector<int64_t> active_ps;
  for (const std::span<const RunSample> program : programs) {
    int64_t& of_program_ps = active_ps.emplace_back();
    for (const RunSample& sample : program) {
      if (sample.has_active) of_program_ps = SaturatingAdd(of_program_ps, sample.active_ps);
    }
  }
  const std::vector<uint32_t> longest = FindLargest(active_ps);
  return longest.size() == 1 ? programs[longest[0]] : std::span<const RunSample>();
}

std::optional<StepSummary> SummarizeSteps(const DeviceAnalysis& device, const PartsWatch& watch,
                                          const Filters& filters) {
  const std::optional<DeviceParts> parts = watch.parts();
  if (!parts.has_value()) return std::nullopt;
  const StepMarking& marking = watch.marking();
  if (!marking.marked_by().has_value()) return SummarizeRuns(device, watch, filters, *parts);
  StepSummary summary;
  summary.source = *marking.marked_by();
  const StepMeter::Measured steps = watch.steps().MeasureMarked();
  summary.steps_empty = marking.marks().size() - steps.steps;
  AddVerdict(steps, marking, parts->span_ps, &summary);
  return summary;
}

}  // namespace xplane_time
