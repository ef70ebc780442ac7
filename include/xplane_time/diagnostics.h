// What is wrong with a trace, counted.
//
// A damaged *file* is an absl::Status. A damaged or doubtful *event* is counted
// here under a code and skipped; the first place where it was seen, in file
// order, is kept. Nothing is formatted until somebody prints.
//
//   Diagnostics diagnostics;
//   diagnostics.Count(DiagnosticCode::kNegativeDuration, {.line = 3, .event = 17});
//   diagnostics.count(DiagnosticCode::kNegativeDuration);   // 1
//   diagnostics.count(DiagnosticCode::kTimeOverflow);       // 0
//
// Not thread-safe: each worker has its own, and Merge() joins them in file order,
// so that the result does not depend on the number of threads.
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
  kProducerError,         // XSpace.errors
  kProducerWarning,       // XSpace.warnings
  kDuplicateInput,        // the same file again: not counted twice
  kDuplicatePlane,        // a byte-identical plane again (a file appended to itself)
  kRepeatedPlaneName,     // files appended to each other: kept apart
  kNegativeDuration,      // event skipped
  kTimeOverflow,          // event skipped: its time does not fit the axis
  kMissingEventMetadata,  // named "(event metadata ID)"
  kAggregatedEvent,       // num_occurrences: counted, no interval
  kUnsortedLine,          // sorted here
  kFilesApart,            // files of one folder were recorded one after the other
  kHostLeftOut,           // a file of a run is damaged: the others are read
  kStatWithoutValue,      // a stat was asked for that no selected event has
  kIrregularJson,         // Kineto: no JSON, and read all the same
  kSharedCorrelation,     // Kineto: an execution whose launch is in one of several processes
  kIncompleteEvent,       // Kineto: event skipped: no name, no beginning or no duration
  kCountersNotRead,       // readings of counters that are in the trace
  // Selection and options.
  kIdleAccelerator,  // an accelerator plane that executed nothing
  kLeftOutByMinDuration,
  kLeftOutByMaxEvents,
  kLeftOutByFilter,
  kPatternWithoutMatch,  // of an option that excludes names or changes their category
  // Timing.
  kLaunchWithoutExecution,  // a kernel was launched, and its record was lost
  kLaunchAtEnd,             // the same at the end of the recording: the kernel may run after it
  kWithoutLaunch,           // an execution whose launch is not in the trace
  kStartsBeforeLaunch,      // an execution that starts before its launch: the clocks are off
  kImpossibleDuration,      // an execution that lasts across later ones of its in-order stream
  kTooDeepRange,            // of host time
  kKernelWithoutFunction,   // inside a run's span: its annotation was lost
  kExecutionOutsideModule,  // a TPU op in no module event
  kSuspectRun,              // a run that lacks kernels: left out of the statistics
  kRunsUncertain,           // ways of splitting disagree
  kNoOps,                   // a module event without ops
  kClocksDisagree,          // profile and device clock differ by more than 1 %
  kMixedClocks,             // some ops lack the device clock: the profile clock is used
  kNoDeviceClock,           // --clock device, and there is none
  kDevicesUnmatched,        // no combined row
  kOverlapInStream,         // events of one stream overlap
  kPartialOverlap,          // events of one line overlap without one containing the other
  kAsynchronousBody,        // a CPU call/while whose body ends after it: no self time
  kRoundedDurations,        // kernels with more distinct durations than memory is meant for
  kLoneDone,                // where.h: a -done whose -start is not in its run
  // What the compiler says (headroom.h).
  kHloMissing,        // a program that ran has no Hlo Proto
  kHloUnusable,       // it is damaged, of another program, or there are two
  kUnbelievablePeak,  // a peak in the trace that no device has
  kCodeCount,
};

// Where something was seen. Absent parts are kNowhere.
struct Location {
  static constexpr uint64_t kNowhere = ~uint64_t{0};
  uint64_t file = kNowhere;         // index into Trace::files
  uint64_t plane = kNowhere;        // index into Trace::planes
  uint64_t line = kNowhere;         // index into Trace::lines
  uint64_t event = kNowhere;        // index within the line, in file order
  uint64_t byte_offset = kNowhere;  // into the (decompressed) file
};

// `text` tells more about the first occurrence (a producer's own warning, a
// function's name); codes with different texts are kept as separate entries.
struct Diagnostic {
  DiagnosticCode code;
  uint64_t count;
  Location first;
  std::string text;
};

class Diagnostics {
 public:
  // O(1), no allocation.
  void Count(DiagnosticCode code, const Location& where, uint64_t times = 1);
  // For rare things that carry a text of their own.
  void Note(DiagnosticCode code, std::string text, const Location& where = {}, uint64_t times = 1);

  // `later` happened after everything here, in file order.
  void Merge(const Diagnostics& later);

  uint64_t count(DiagnosticCode code) const;
  // Counted codes in enum order, each followed by its notes in order of arrival.
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
// What it means for the reader of the numbers, one sentence without the count.
std::string_view DiagnosticMeaning(DiagnosticCode code);
// Whether it means that records of the trace are lost, skipped, impossible or not read.
bool ConcernsCompleteness(DiagnosticCode code);

}  // namespace xplane_time
