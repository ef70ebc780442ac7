// Where: an exact breakdown of each device's time.
//
// Example:
//
//   Diagnostics diagnostics;
//   const std::vector<std::string> paths = {"trace.xplane.pb"};
//   auto trace = OpenTrace(*FindInputs(paths, {}), {}, &diagnostics);
//   if (!trace.ok()) return trace.status();
//   auto where = FindWhere(*trace, {.device = "gpu"}, diagnostics);
//   if (!where.ok()) return where.status();
//   // FailedPrecondition: the selected devices executed nothing (the message lists the planes)
//   for (const WhereDevice& device : where->devices) {
//     // span = compute + collective_exposed + copy_exposed + other + idle, to the picosecond
//     std::cout << device.time.span_ps.value_or(0) << " ps\n";
//     if (device.time.idle_host_ps) std::cout << *device.time.idle_host_ps << " ps for the host\n";
//   }  // empty (never 0): the cause of idle time is unknown
//
// Each instant belongs to the highest class that runs: compute, collective, copy, other, idle. If a
// lower class runs at the same time, its time is hidden. If ops contain each other (TPU, CPU), an
// op counts with its own time, so a `while` does not hide its body. Definitions: docs/where.md.
//
// Times are int64 picoseconds; unknown is empty. Intervals are half-open and belong to one device
// each. Memory: as BuildReport, and half a kilobyte per run and step. The report owns its strings.
// Different calls may run concurrently.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/report.h"

namespace xplane_time {

struct WhereOptions {
  std::string device;  // selector of devices (select.h)
  CategoryPatterns categories = {};
  std::string step = {};  // as ReportOptions::step
  int threads = 1;        // including the calling thread
  std::atomic<uint64_t>* events_done = nullptr;
  // Whether to read the host planes once more, to find the host's activity during the longest gaps.
  bool host_of_gaps = true;
  size_t gaps = 3;  // how many of the longest gaps of each device are listed
};

// Breakdown of one interval or the sum of several. If the runs of a function have no ops,
// everything but the span is empty.
struct TimeParts {
  std::optional<int64_t> span_ps = {};
  // These add up to the span. For a function, foreign_ps is a further part of the span.
  std::optional<int64_t> compute_ps = {}, collective_exposed_ps = {}, copy_exposed_ps = {},
                         other_ps = {}, idle_ps = {};
  // These add up to idle_ps. In idle_host_ps no launch was pending. In idle_launch_ps work was
  // launched, but had not started. In idle_unknown_ps no launch is known. The first two are empty
  // for a device without launches.
  std::optional<int64_t> idle_host_ps = {}, idle_launch_ps = {}, idle_unknown_ps = {};
  // Time in flight, and the part of it in which a higher class ran. On a TPU from -start to -done.
  std::optional<int64_t> collective_ps = {}, collective_hidden_ps = {}, copy_ps = {},
                         copy_hidden_ps = {};
};

struct WhereDevice {
  DeviceRef device;
  DeviceKind kind = DeviceKind::kGpu;
  std::optional<Clock> clock = {};  // the clock of all its times; empty: it has no times
  uint64_t executions = 0;
  TimeParts time = {};  // from the first start to the last end
  uint64_t steps = 0;
  std::optional<StepSource> step_source = {};  // empty: there are neither marks nor functions
  std::optional<uint64_t> steps_empty = {};    // marks without executions
  std::optional<std::string> step_function = {}, step_program_id = {};
  // Empty without steps.
  std::optional<int64_t> steps_span_ps = {}, idle_in_steps_ps = {}, idle_between_steps_ps = {};
  // Sum of two kinds of idle time: time in which the host waited for input, according to the names
  // of host events, and time before the first execution of a marked step in which the host did no
  // other known work. Empty: the trace has no host events.
  std::optional<int64_t> waits_for_input_ps = {};
  // Executions in none of the marked steps. Empty: no marks.
  std::optional<uint64_t> executions_outside_steps = {};
  // For steps that host events mark: the executions before the first one with a known launch, and
  // their total time. They were launched before the trace began, and the first step may contain
  // them.
  std::optional<uint64_t> early_executions = {};
  std::optional<int64_t> early_ps = {};
  // Names of marks that overlap marks of other names, without numbers, with their counts:
  // "execute_# (30), forward (30)". Empty: there are none.
  std::optional<std::string> mixed_marks = {};
  // Median of the spans of its steps. If the first step has no mark on the device's clock, its
  // start is unknown, and the median leaves it out.
  std::optional<double> step_median_ps = {};
  uint64_t gaps = 0;  // all times in which it was idle between executions
};

// The runs of a function without suspect runs, as a sum.
struct WhereFunction {
  DeviceRef device;
  std::string function;
  std::optional<std::string> program_id = {};
  Clock clock = Clock::kProfile;
  uint64_t runs = 0, suspect_runs = 0;
  TimeParts time = {};                     // of its own executions
  std::optional<int64_t> foreign_ps = {};  // time in which other functions ran and this one did not
};

// From the end of the previous step's work, or from the step's mark, to the end of its own work.
struct WhereStep {
  DeviceRef device;
  uint64_t step = 0;  // number on its device, from 0, by the start of its first execution
  std::string name;
  int64_t start_ps = 0;
  TimeParts time = {};  // of everything that the device executed in the step
  // duration of the mark; empty: the step is a run of a function
  std::optional<int64_t> marked_ps = {};
};

// A kind of collective or copy. Rows may overlap. Waiting for a slower peer is included.
struct WhereTransfer {
  DeviceRef device;
  Category category = Category::kCopy;
  std::string kernel;
  std::optional<std::string> function = {}, program_id = {};
  uint64_t count = 0;
  int64_t exposed_ps = 0, hidden_ps = 0, in_flight_ps = 0;
  std::optional<int64_t> bytes = {};  // total of all of them
  std::optional<std::string_view> bytes_source =
      {};  // "counted" (from copy events), "modelled" (from XLA)
};

// Events of one name on a host thread, and their self time.
struct WhereHostTime {
  std::string event;
  int64_t self_ps = 0;
};

// One of the longest idle intervals of a device.
struct WhereGap {
  DeviceRef device;
  int64_t start_ps = 0, duration_ps = 0;
  std::string_view cause = "unknown";  // "host" or "launch", whichever is longer
  std::optional<int64_t> idle_host_ps = {}, idle_launch_ps = {};  // empty: no launch is known
  // The execution that ends where the gap starts, and the one that starts where it ends; if several
  // do, the longest. An unknown function is empty.
  std::string kernel_before, kernel_after;
  std::optional<std::string> function_before = {}, function_after = {};
  // The thread that launched the execution after the gap, if its events cover half of the gap.
  // Otherwise the thread with the event that covers most of the gap. Empty: the gap has no host
  // event.
  std::optional<std::string> host_thread = {};
  // The event of that thread that covers most of the gap; if several do, the last to begin.
  std::optional<std::string> host_event = {};
  std::optional<int64_t> host_busy_ps = {};  // the part of the gap that the thread's events cover
  // Up to five, by self time within the gap, descending.
  std::vector<WhereHostTime> host_events = {};
};

struct WhereReport {
  std::vector<InputRow> inputs;
  CaptureInfo capture;
  std::vector<WhereDevice> devices;      // devices that executed something
  std::vector<WhereFunction> functions;  // by device, then by span, descending
  std::vector<WhereStep> steps;          // by device, in order of start
  std::vector<WhereTransfer> transfers;  // by device, then by exposed time, descending
  std::vector<WhereGap> gaps;            // by device, longest first
  std::vector<DiagnosticRow> diagnostics;
};

// Breaks down the time of each device. `reading` has the defects that OpenTrace counted, and the
// report includes them. Errors: as BuildReport.
absl::StatusOr<WhereReport> FindWhere(const Trace& trace, const WhereOptions& options,
                                      const Diagnostics& reading);

}  // namespace xplane_time
