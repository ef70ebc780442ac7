#include "xplane_time/diagnostics.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

namespace xplane_time {
namespace {

struct CodeInfo {
  DiagnosticCode code;
  std::string_view name;
  Severity severity;
  std::string_view meaning;
  bool concerns_completeness = false;
};

constexpr bool kCompleteness = true;

using enum DiagnosticCode;
using enum Severity;

constexpr CodeInfo kCodes[] = {
    {kProducerError, "producer_error", kError, "the profiler reported an error", kCompleteness},
    {kProducerWarning, "producer_warning", kWarning, "the profiler reported a warning",
     kCompleteness},
    {kDuplicateInput, "duplicate_input", kWarning, "the same file was given twice; read once"},
    {kDuplicatePlane, "duplicate_plane", kWarning,
     "a plane is in the file twice, byte for byte; read once"},
    {kRepeatedPlaneName, "repeated_plane_name", kWarning,
     "a plane name repeats (files appended to each other); each is a device of its own"},
    {kNegativeDuration, "negative_duration", kError,
     "events with a negative duration or count were skipped", kCompleteness},
    {kTimeOverflow, "time_overflow", kError, "events whose time does not fit the axis were skipped",
     kCompleteness},
    {kMissingEventMetadata, "missing_event_metadata", kWarning, "events without a name"},
    {kAggregatedEvent, "aggregated_event", kInfo,
     "aggregated events: counted with their totals, without a place in time"},
    {kUnsortedLine, "unsorted_line", kInfo, "lines whose events were not in order of time"},
    {kFilesApart, "files_apart", kWarning,
     "files of one folder are merged as the hosts of one run, but were recorded at other times; "
     "where they are captures, name each, as FOLDER/*"},
    {kHostLeftOut, "host_left_out", kError,
     "a file of a run is damaged or cannot be read, and was left out: this is a part of the run",
     kCompleteness},
    {kStatWithoutValue, "stat_without_value", kWarning, "no selected event has a stat"},
    {kIrregularJson, "irregular_json", kWarning,
     "places that are no valid JSON (bytes that are no UTF-8, control characters, NaN, a quote "
     "inside a text) were read as they were meant"},
    {kSharedCorrelation, "shared_correlation", kWarning,
     "executions whose correlation id several processes of the file use: in devices and kernels, "
     "in no function; give the file of each rank instead of the merged one",
     kCompleteness},
    {kIncompleteEvent, "incomplete_event", kError,
     "events without a name, or whose beginning or duration is no number, were skipped",
     kCompleteness},
    {kCountersNotRead, "counters_not_read", kInfo,
     "readings of counters are in the trace and are not read", kCompleteness},
    {kIdleAccelerator, "idle_accelerator", kInfo, "accelerators that executed nothing"},
    {kLeftOutByMinDuration, "left_out_by_min_duration", kWarning,
     "executions shorter than --min-duration were left out"},
    {kLeftOutByMaxEvents, "left_out_by_max_events", kWarning,
     "executions past --max-events were left out"},
    {kLeftOutByFilter, "left_out_by_filter", kInfo,
     "executions that no filter matched were left out"},
    {kLaunchWithoutExecution, "launch_without_execution", kWarning,
     "launches have no execution in the trace: the profiler lost the records of their kernels",
     kCompleteness},
    {kLaunchAtEnd, "launch_at_end", kInfo,
     "launches at the end of the trace have no execution: their kernels may run after the "
     "recording",
     kCompleteness},
    {kWithoutLaunch, "without_launch", kInfo,
     "executions whose launch is not in the trace (most were launched before it began); steps and "
     "annotations of PyTorch do not contain them",
     kCompleteness},
    {kStartsBeforeLaunch, "starts_before_launch", kWarning,
     "executions start before their own launch: the clocks of host and device disagree, and causes "
     "of idle time and the steps of executions rest on both",
     kCompleteness},
    {kImpossibleDuration, "impossible_duration", kWarning,
     "durations are impossible: times and shares of the kernel and of its device are wrong",
     kCompleteness},
    {kTooDeepRange, "too_deep_range", kWarning,
     "annotations inside of more than 512 others: their runs have no executions"},
    {kKernelWithoutFunction, "kernel_without_function", kWarning,
     "kernels inside the span of a run name no function: their annotation was lost, and the run "
     "may be short of them",
     kCompleteness},
    {kExecutionOutsideModule, "execution_outside_module", kInfo, "ops outside of every module run"},
    {kSuspectRun, "suspect_run", kWarning,
     "runs lack kernels that the other runs have; left out of the statistics"},
    {kRunsUncertain, "runs_uncertain", kWarning, "how executions split into runs is uncertain"},
    {kNoOps, "no_ops", kInfo, "module runs without ops: only their span is known"},
    {kClocksDisagree, "clocks_disagree", kWarning,
     "runs whose duration differs by more than 1 % between the profile clock and the device's own; "
     "the device clock is used",
     kCompleteness},
    {kMixedClocks, "mixed_clocks", kWarning,
     "functions of which only some ops carry the device clock; the profile clock is used"},
    {kNoDeviceClock, "no_device_clock", kWarning,
     "functions without the device clock that was asked for; not timed"},
    {kDevicesUnmatched, "devices_unmatched", kWarning,
     "functions whose runs do not match across devices; no combined time"},
    {kOverlapInStream, "overlap_in_stream", kInfo,
     "executions overlap inside one stream, as kernels do that start before the one before ends; "
     "busy time counts them once"},
    {kPartialOverlap, "partial_overlap", kInfo,
     "events of one line overlap without one containing the other; each belongs to the innermost "
     "event around it"},
    {kAsynchronousBody, "asynchronous_body", kInfo,
     "calls or loops whose body ended after them; their self time is unknown"},
    {kRoundedDurations, "rounded_durations", kWarning,
     "kernels whose median and standard deviation come from rounded durations (1 part in 256 or "
     "finer): there are too many different ones to keep"},
    {kLoneDone, "lone_done", kInfo,
     "-done ops whose -start is not in the trace: their transfers count from the -done on"},
    {kHloMissing, "hlo_missing", kInfo,
     "programs ran whose Hlo Proto is not in the trace: what the compiler says of their ops is "
     "unknown"},
    {kHloUnusable, "hlo_unusable", kWarning,
     "the Hlo Proto of a program that ran cannot be used: what the compiler says of its ops is "
     "unknown"},
    {kUnbelievablePeak, "unbelievable_peak", kWarning,
     "a device's peak in the trace is one that no device has; left out, --peak-flops and "
     "--peak-bandwidth replace it"},
};
// Every code is in the table, in the order of the enum.
static_assert(std::size(kCodes) == static_cast<size_t>(kCodeCount));
static_assert(std::ranges::adjacent_find(kCodes, std::ranges::greater_equal(), &CodeInfo::code) ==
              std::end(kCodes));

const CodeInfo& Info(DiagnosticCode code) { return kCodes[static_cast<size_t>(code)]; }

}  // namespace

void Diagnostics::Count(DiagnosticCode code, const Location& where, uint64_t times) {
  if (times == 0) return;
  Counter& counter = counters_[static_cast<size_t>(code)];
  if (counter.count == 0) counter.first = where;
  counter.count += times;
}

void Diagnostics::Note(DiagnosticCode code, std::string text, const Location& where,
                       uint64_t times) {
  const std::string key = std::to_string(static_cast<int>(code)) + " " + text;
  const auto [found, inserted] = note_of_text_.try_emplace(key, notes_.size());
  if (inserted) {
    notes_.push_back({code, times, where, std::move(text)});
  } else {
    notes_[found->second].count += times;
  }
}

void Diagnostics::Merge(const Diagnostics& later) {
  for (size_t i = 0; i < counters_.size(); ++i) {
    Count(static_cast<DiagnosticCode>(i), later.counters_[i].first, later.counters_[i].count);
  }
  for (const Diagnostic& note : later.notes_) Note(note.code, note.text, note.first, note.count);
}

uint64_t Diagnostics::count(DiagnosticCode code) const {
  uint64_t count = counters_[static_cast<size_t>(code)].count;
  for (const Diagnostic& note : notes_) {
    if (note.code == code) count += note.count;
  }
  return count;
}

std::vector<Diagnostic> Diagnostics::List() const {
  std::vector<Diagnostic> list;
  for (size_t i = 0; i < counters_.size(); ++i) {
    const auto code = static_cast<DiagnosticCode>(i);
    if (counters_[i].count > 0) list.push_back({code, counters_[i].count, counters_[i].first, ""});
    for (const Diagnostic& note : notes_) {
      if (note.code == code) list.push_back(note);
    }
  }
  return list;
}

std::string_view DiagnosticName(DiagnosticCode code) { return Info(code).name; }
Severity SeverityOf(DiagnosticCode code) { return Info(code).severity; }
std::string_view DiagnosticMeaning(DiagnosticCode code) { return Info(code).meaning; }
bool ConcernsCompleteness(DiagnosticCode code) { return Info(code).concerns_completeness; }

std::string_view SeverityName(Severity severity) {
  constexpr std::string_view kNames[] = {"info", "warning", "error"};
  return kNames[static_cast<size_t>(severity)];
}

}  // namespace xplane_time
