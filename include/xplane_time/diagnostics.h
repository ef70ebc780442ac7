// Counts of the defects of a trace.
//
// A damaged *file* is reported as an absl::Status. A damaged or doubtful *event* is counted here
// under a code and usually skipped. The first place in file order is kept. Text is formatted only
// for output.
//
// Example:
//
//   Diagnostics diagnostics;
//   diagnostics.Count(DiagnosticCode::kNegativeDuration, {.line = 3, .event = 17});
//   assert(diagnostics.count(DiagnosticCode::kNegativeDuration) == 1);
//   assert(diagnostics.count(DiagnosticCode::kTimeOverflow) == 0);
//
// Not thread-safe. Each worker has its own object, and Merge() joins them in file order, so the
// result does not depend on the number of threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace xplane_time {

enum class Severity : uint8_t { kInfo, kWarning, kError };

enum class DiagnosticCode : uint8_t {
  // Reading.
  kProducerError,    // XSpace.errors
  kProducerWarning,  // XSpace.warnings
  kDuplicateInput,   // the same file was given twice; it is read once
  // a byte-identical plane in one file (appended to itself); read once
  kDuplicatePlane,
  kRepeatedPlaneName,     // two planes of one name (concatenated files); they stay separate
  kNegativeDuration,      // event skipped
  kTimeOverflow,          // event skipped: its time is beyond the axis
  kMissingEventMetadata,  // the event is named "(event metadata ID)"
  kAggregatedEvent,       // num_occurrences is set: counted, without an interval
  kUnsortedLine,          // events were not in order of time; they are sorted here
  kFilesApart,            // files of one folder were recorded at different times
  kOtherRuns,             // a log directory has further runs, which are not read
  kHostLeftOut,           // a damaged file of a run was skipped; the others are read
  kStatWithoutValue,      // no selected event has a requested stat
  kIrregularJson,         // Kineto: invalid JSON that could still be read
  kSharedCorrelation,     // Kineto: several processes use the correlation id of an execution
  kIncompleteEvent,       // Kineto: event skipped, because its name, start or duration is missing
  kCountersNotRead,       // the trace has counter readings that are not read
  // Selection and options.
  kIdleAccelerator,  // an accelerator plane without executions
  kLeftOutByMinDuration,
  kLeftOutByMaxEvents,
  kLeftOutByFilter,
  kPatternWithoutMatch,  // a pattern for exclusions or categories matches no name
  // Timing.
  kLaunchWithoutExecution,  // the record of a launched kernel is missing
  kLaunchAtEnd,             // the same at the end of the recording: the kernel may run after it
  kWithoutLaunch,           // the launch of an execution is not in the trace
  kStartsBeforeLaunch,      // an execution starts before its launch: the clocks disagree
  kImpossibleDuration,      // an execution spans later ones of its in-order stream
  kCopiedExecution,         // an execution is in the trace twice; it counts twice
  kTooDeepRange,            // a range of host time is nested too deeply
  kKernelWithoutFunction,   // a kernel inside the span of a run has lost its annotation
  kExecutionOutsideModule,  // a TPU op is in no module event
  kSuspectRun,              // a run lacks kernels: excluded from the statistics
  kRunsUncertain,           // the methods of finding runs disagree
  kNoOps,                   // a module event without ops
  kClocksDisagree,          // profile and device clock differ by more than 1 %
  kMixedClocks,             // some ops lack the device clock: the profile clock is used
  kNoDeviceClock,           // --clock device was given, but there is no device clock
  kDevicesUnmatched,        // runs do not match across devices: no combined row
  kOverlapInStream,         // events of one stream overlap
  kPartialOverlap,          // events of one line overlap without one containing the other
  kAsynchronousBody,        // the body of a CPU call or while ends after it: no self time
  kRoundedDurations,        // a kernel has too many distinct durations to keep: rounded
  kLoneDone,                // a -done op has no -start in its run (where.h)
  // Data of the compiler (headroom.h).
  kHloMissing,        // a program that ran has no Hlo Proto
  kHloUnusable,       // the Hlo Proto is damaged, of another program, or ambiguous
  kUnbelievablePeak,  // a peak in the trace is outside the plausible range
  kCodeCount,
};

// The place of a defect. Parts that do not apply are kNowhere.
struct Location {
  static constexpr uint64_t kNowhere = ~uint64_t{0};
  uint64_t file = kNowhere;         // index into Trace::files
  uint64_t plane = kNowhere;        // index into Trace::planes
  uint64_t line = kNowhere;         // index into Trace::lines
  uint64_t event = kNowhere;        // index within the line, in file order
  uint64_t byte_offset = kNowhere;  // into the (decompressed) file
};

// `text` describes the first occurrence, for example a producer's own warning or the name of a
// function. Each text has its own entry.
struct Diagnostic {
  DiagnosticCode code;
  uint64_t count;
  Location first;
  std::string text;
};

class Diagnostics {
 public:
  // Counts a defect. O(1), no allocation.
  void Count(DiagnosticCode code, const Location& where, uint64_t times = 1);
  // Counts a rare defect that has its own text.
  void Note(DiagnosticCode code, std::string text, const Location& where = {}, uint64_t times = 1);

  // Adds the counts of `later`, whose defects come after these in file order.
  void Merge(const Diagnostics& later);

  uint64_t count(DiagnosticCode code) const;
  // Counted codes in enum order. The notes of each code follow it in order of arrival.
  std::vector<Diagnostic> List() const;

 private:
  struct Counter {
    uint64_t count = 0;
    Location first;
  };
  std::array<Counter, static_cast<size_t>(DiagnosticCode::kCodeCount)> counters_;
  std::vector<Diagnostic> notes_;
  absl::flat_hash_map<std::string, size_t> note_of_text_;  // code and text -> index in notes_
};

// snake_case, as in the JSON output ("negative_duration").
std::string_view DiagnosticName(DiagnosticCode code);
std::string_view SeverityName(Severity severity);
Severity SeverityOf(DiagnosticCode code);
// One sentence without the count: what the defect means for the numbers.
std::string_view DiagnosticMeaning(DiagnosticCode code);
// Whether the code means that records of the trace are lost, skipped, impossible or not read.
bool ConcernsCompleteness(DiagnosticCode code);

}  // namespace xplane_time
