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
    {kDuplicateInput, "duplicate_input", kWarning,
     "the same file was given twice; it is read once"},
    {kDuplicatePlane, "duplicate_plane", kWarning,
     "a plane is an identical copy of another one; the copy is ignored"},
    {kRepeatedPlaneName, "repeated_plane_name", kWarning,
     "a plane has the same name as another one (files were appended to each other); each counts as "
     "a device"},
    {kNegativeDuration, "negative_duration", kError,
     "events with a negative duration or count were skipped", kCompleteness},
    {kTimeOverflow, "time_overflow", kError,
     "events with a time outside the range of the time axis were skipped", kCompleteness},
    {kMissingEventMetadata, "missing_event_metadata", kWarning, "events have no name"},
    {kAggregatedEvent, "aggregated_event", kInfo,
     "aggregated events have totals but no start time; counts and totals include them"},
    {kUnsortedLine, "unsorted_line", kInfo, "lines have events out of order; they are sorted"},
    {kFilesApart, "files_apart", kWarning,
     "the files of one folder are merged as hosts of one run, but they were recorded at different "
     "times; if each is a separate capture, give them as FOLDER/*"},
    {kOtherRuns, "other_runs", kInfo, "runs of a log directory were not read"},
    {kHostLeftOut, "host_left_out", kError,
     "a file of the run is damaged or unreadable and was left out: the result covers only a part "
     "of the run",
     kCompleteness},
    {kStatWithoutValue, "stat_without_value", kWarning, "no selected event has a requested stat"},
    {kIrregularJson, "irregular_json", kWarning,
     "pieces of invalid JSON (invalid UTF-8, control characters, NaN, a quote inside a text) were "
     "interpreted as their writer probably meant them"},
    {kSharedCorrelation, "shared_correlation", kWarning,
     "executions share their correlation id with another process of the file; devices and kernels "
     "include them, functions do not; give each rank's own file instead of the merged one",
     kCompleteness},
    {kIncompleteEvent, "incomplete_event", kError,
     "events without a name, a numeric start or a numeric duration were skipped", kCompleteness},
    {kCountersNotRead, "counters_not_read", kInfo, "counter samples in the trace are not read",
     kCompleteness},
    {kIdleAccelerator, "idle_accelerator", kInfo, "accelerators executed no kernel"},
    {kLeftOutByMinDuration, "left_out_by_min_duration", kWarning,
     "executions shorter than --min-duration were left out"},
    {kLeftOutByMaxEvents, "left_out_by_max_events", kWarning,
     "executions beyond --max-events were left out"},
    {kLeftOutByFilter, "left_out_by_filter", kInfo,
     "executions that match no filter were left out"},
    {kPatternWithoutMatch, "pattern_without_match", kWarning,
     "the pattern of an option matches no name in the trace and has no effect"},
    {kLaunchWithoutExecution, "launch_without_execution", kWarning,
     "launches have no execution in the trace: the profiler lost the records of their kernels",
     kCompleteness},
    {kLaunchAtEnd, "launch_at_end", kInfo,
     "launches at the end of the trace have no execution: their kernels may run after the "
     "recording",
     kCompleteness},
    {kWithoutLaunch, "without_launch", kInfo,
     "executions have no launch in the trace (most were launched before it began); steps and "
     "annotations of PyTorch do not contain them",
     kCompleteness},
    {kStartsBeforeLaunch, "starts_before_launch", kWarning,
     "executions start before their own launch: the clocks of host and device disagree, so steps "
     "and causes of idle time may be wrong",
     kCompleteness},
    {kImpossibleDuration, "impossible_duration", kWarning,
     "durations are impossible: times and shares of the kernel and of its device are wrong",
     kCompleteness},
    {kCopiedExecution, "copied_execution", kWarning,
     "executions are copies of another one (same kernel, stream, start, duration and correlation "
     "id): counts and totals include them, so events were probably written twice",
     kCompleteness},
    {kTooDeepRange, "too_deep_range", kWarning,
     "annotations nest more than 512 deep; the deeper ones have no executions"},
    {kKernelWithoutFunction, "kernel_without_function", kWarning,
     "kernels inside a run have no function name: their annotation was lost, and the run may be "
     "incomplete",
     kCompleteness},
    {kExecutionOutsideModule, "execution_outside_module", kInfo,
     "ops lie outside every module run"},
    {kSuspectRun, "suspect_run", kWarning,
     "runs lack some of their kernels; left out of the statistics"},
    {kRunsUncertain, "runs_uncertain", kWarning, "the split of executions into runs is uncertain"},
    {kNoOps, "no_ops", kInfo, "module runs have no ops; only their span is known"},
    {kClocksDisagree, "clocks_disagree", kWarning,
     "durations of runs differ by more than 1 % between the profile clock and the device clock; "
     "the device clock is used",
     kCompleteness},
    {kMixedClocks, "mixed_clocks", kWarning,
     "functions have ops without the device clock; the profile clock is used"},
    {kNoDeviceClock, "no_device_clock", kWarning,
     "functions lack the requested device clock and are not timed"},
    {kDevicesUnmatched, "devices_unmatched", kWarning,
     "functions have runs that do not match across devices; they have no combined time"},
    {kOverlapInStream, "overlap_in_stream", kInfo,
     "executions start before the previous one of their stream ends (programmatic dependent "
     "launch); busy time counts overlaps once"},
    {kPartialOverlap, "partial_overlap", kInfo,
     "events of one line overlap but do not nest; each belongs to the innermost event around it"},
    {kAsynchronousBody, "asynchronous_body", kInfo,
     "calls or loops end before their bodies; their self time is unknown"},
    {kRoundedDurations, "rounded_durations", kWarning,
     "kernels have too many distinct durations to keep; their median and standard deviation come "
     "from durations rounded to 1 part in 256 or finer"},
    {kLoneDone, "lone_done", kInfo,
     "-done ops have no -start op in the trace; their transfers are counted from the start of the "
     "-done op"},
    {kHloMissing, "hlo_missing", kInfo,
     "programs that ran have no Hlo Proto in the trace; FLOPs, bytes and sources of their ops are "
     "unknown"},
    {kHloUnusable, "hlo_unusable", kWarning,
     "programs that ran have an unusable Hlo Proto; FLOPs, bytes and sources of their ops are "
     "unknown"},
    {kUnbelievablePeak, "unbelievable_peak", kWarning,
     "the trace states an implausible peak of a device, which is ignored; set it with --peak-flops "
     "and --peak-bandwidth"},
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
