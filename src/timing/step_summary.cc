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
// of several functions, or of none.
//
// A verdict needs steps that represent the device: if the steps are runs of a function, these must
// take half of the device's span, and it must be certain how they split. Marked steps may be few
// and still show what limits them, but only steps that take half of the span are device-bound, and
// only if less than a fifth of the time from start to start is between them.
//
// TensorFlow's profiler also uses a fifth as the limit of "highly input-bound". If each cause takes
// less, and the device works at least half of the time, the step is device-bound.
#include "timing/step_summary.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "status.h"

namespace xplane_time {
namespace {

constexpr double kLargeLoss = 0.2, kMostlyWork = 0.5, kLeastCoverage = 0.5, kLeastOfBusy = 0.5;

// "37 %"; "0.4 %".
std::string PercentText(double share) {
  const double percent = share * 100;
  if (percent >= 0.95 || percent <= 0) return Cat(std::llround(percent), " %");
  return Cat(std::round(percent * 10) / 10, " %");
}

struct Losses {
  double work = 0, copies = 0, communication = 0;
  double input = 0, dispatch = 0;  // without a host: 0
  double queue = 0, unknown = 0;
  bool launches_are_unread = false;
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
    return {StepVerdict::kUnclear,
            Cat("the device idles ", text(losses.unknown), " ", losses.base, ", and ",
                losses.launches_are_unread ? "the report does not read the launches that may show "
                                             "why; xplane-time brief does"
                                           : "the trace has no launches that show why")};
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
    shares.waits_for_input = Part(steps.input_ps, span_ps) + Part(steps.input_between_ps, span_ps);
  }
  return shares;
}

Losses LossesOf(const StepMeter::Measured& steps, const StepShares& shares,
                const StepMarking& marking) {
  const auto span_ps = static_cast<double>(steps.times.span_ps());
  // With the time between steps in which the device waits for the next one's input.
  const double all = 1 + Part(steps.input_between_ps, span_ps);
  Losses losses = {.work = (shares.compute + shares.copy_exposed + shares.other) / all,
                   .copies = shares.copy_exposed / all,
                   .communication = shares.collective_exposed / all,
                   .launches_are_unread = marking.launches_are_unread()};
  if (all > 1) losses.base = "of the steps' time and the waits between them";
  if (!shares.waits_for_host.has_value()) {
    losses.input = shares.waits_for_input.value_or(0) / all;
    losses.unknown = std::max(0.0, shares.idle_unknown / all - losses.input);
    return losses;
  }
  const double input = Part(steps.input_ps, span_ps);
  losses.input = *shares.waits_for_input / all;
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
                          StepVerdict verdict, int64_t device_span_ps) {
  const bool are_runs = summary.source == StepSource::kFunction;
  const double period_ps = summary.step_period_ps.value_or(0);
  const double between =
      period_ps > 0 ? 1 - summary.step_median_ps.value_or(0) / period_ps : double{0};
  if (!are_runs && verdict == StepVerdict::kDeviceBound && between >= kLargeLoss) {
    return Cat(PercentText(between), " of the time is between the marked steps");
  }
  const double coverage = Part(steps.times.span_ps(), static_cast<double>(device_span_ps));
  if (coverage >= kLeastCoverage || (!are_runs && verdict != StepVerdict::kDeviceBound)) return "";
  if (!are_runs) return Cat("the steps take only ", PercentText(coverage), " of the device's time");
  // A warm-up, which often takes most of a short capture.
  const double first = Part(steps.first_run_ps, static_cast<double>(device_span_ps));
  if (coverage + first >= kLeastCoverage) {
    return Cat("the first run of ", *summary.function, " takes ", PercentText(first),
               " of the device's time (a warm-up?), and all later runs ", PercentText(coverage));
  }
  return Cat("the runs of ", *summary.function, " take only ", PercentText(coverage),
             " of the device's time");
}

// Whether --function selects this function alone.
bool IsNamed(const DeviceAnalysis& device, const Filters& filters, const std::string& function) {
  return filters.function.any() && std::ranges::all_of(device.samples, [&](const auto& sample) {
           return device.tables->programs[sample.program].function == function;
         });
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
  } else if (!steps.has_times) {
    summary->reason = "a filter excludes runs of the function";
  } else if (steps.times.span_ps() <= 0 || steps.median_ps.value_or(0) <= 0) {
    summary->reason = "most steps end before an earlier step ends";
  } else {
    summary->shares = SharesOf(steps, marking);
    if (summary->shares->waits_for_input.has_value()) {
      summary->waits_for_input_ps = steps.input_ps + steps.input_between_ps;
    }
    Verdict verdict = Judge(LossesOf(steps, *summary->shares, marking));
    std::string doubt = DescribeDoubt(steps, *summary, verdict.verdict, device_span_ps);
    if (!doubt.empty()) verdict = {StepVerdict::kUnclear, std::move(doubt)};
    summary->verdict = verdict.verdict;
    summary->reason = std::move(verdict.reason);
  }
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

std::span<const RunSample> LongestProgram(std::span<const RunSample> samples,
                                          const std::function<int64_t(uint32_t)>& busy_ps) {
  std::span<const RunSample> longest;
  int64_t most_ps = 0;
  bool tie = false;
  for (const std::span<const RunSample> program : SamplesByProgram(samples)) {
    int64_t active_ps = busy_ps ? busy_ps(program[0].program) : 0;
    for (const RunSample& sample : program) {
      if (!busy_ps && sample.has_active) active_ps = SaturatingAdd(active_ps, sample.active_ps);
    }
    tie = active_ps == most_ps || (tie && active_ps < most_ps);
    if (active_ps > most_ps) longest = program;
    most_ps = std::max(most_ps, active_ps);
  }
  return tie || longest.size() < 2 ? std::span<const RunSample>() : longest;
}

std::optional<StepSummary> SummarizeSteps(const DeviceAnalysis& device, const PartsWatch& watch,
                                          const Filters& filters) {
  const std::optional<DeviceParts> parts = watch.parts();
  if (!parts.has_value()) return std::nullopt;
  const StepMarking& marking = watch.marking();
  StepSummary summary;
  if (marking.marked_by().has_value()) {
    summary.source = *marking.marked_by();
    const StepMeter::Measured steps = watch.steps().MeasureMarked();
    summary.steps_empty = marking.marks().size() - steps.steps;
    AddVerdict(steps, marking, parts->span_ps, &summary);
    return summary;
  }
  const auto busy_ps = [&](uint32_t program) { return watch.steps().BusyPs(program); };
  // Filters on kernels change the active times of runs, but not which program has the steps.
  const std::span<const RunSample> samples =
      filters.any_op() ? LongestProgram(device.samples, busy_ps) : LongestProgram(device.samples);
  if (samples.empty()) return std::nullopt;
  std::vector<uint32_t> runs;
  for (const RunSample& sample : samples) runs.push_back(sample.id);
  const StepMeter::Measured steps = watch.steps().MeasureRuns(samples[0].program, runs);
  if (steps.steps < 2) return std::nullopt;
  const ProgramInfo& program = device.tables->programs[samples[0].program];
  const auto device_busy_ps = static_cast<double>(parts->span_ps - parts->idle_ps);
  const double of_busy =
      device_busy_ps > 0 ? Part(busy_ps(samples[0].program), device_busy_ps) : double{1};
  if (of_busy < kLeastOfBusy && !IsNamed(device, filters, program.function)) {
    const bool has_twins = std::ranges::any_of(device.samples, [&](const RunSample& sample) {
      const ProgramInfo& other = device.tables->programs[sample.program];
      return sample.program != samples[0].program && other.function == program.function;
    });
    summary.reason =
        Cat("no compiled program takes half of the time in which the device is busy; ",
            has_twins && program.program_id ? Cat("program ", *program.program_id, " of ") : "",
            program.function, " takes most, ", PercentText(of_busy));
    return summary;
  }
  summary.function = program.function;
  summary.program_id = program.program_id;
  AddVerdict(steps, marking, parts->span_ps, &summary);
  if (std::ranges::any_of(samples, [](const RunSample& sample) { return sample.uncertain; })) {
    summary.verdict = StepVerdict::kUnclear;
    summary.reason = Cat("the split of ", program.function, " into runs is uncertain");
  }
  return summary;
}

}  // namespace xplane_time
