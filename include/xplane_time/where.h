// Where: what each device's time went to, exactly.
//
//   Diagnostics diagnostics;
//   auto trace = OpenTrace(*FindInputs({"trace.xplane.pb"}, {}), {}, &diagnostics);
//   auto where = FindWhere(*trace, {.device = "gpu"}, diagnostics);
//   for (const WhereDevice& device : where->devices) {
//     // span = compute + collective_exposed + copy_exposed + other + idle, to the picosecond
//     if (device.time.idle_host_ps) ...   // else nobody knows why it was idle: null, never 0
//   }
//   // FailedPrecondition: the selected devices executed nothing (the message lists what is there)
//
// At each instant the highest class that runs has it: compute, collective, copy, other, idle. What
// ran behind a higher class is hidden. Where ops contain each other (TPU, CPU) an op counts with
// its own time, so that a `while` hides nothing of its body. Definitions: docs/where.md.
//
// Times are int64 picoseconds; unknown is empty. Intervals are half-open; devices never merge.
// Memory: as BuildReport, and half a kilobyte a run and a step. The report owns its strings.
// Thread-safe for different calls.
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
  std::string device;  // select.h
  CategoryPatterns categories = {};
  std::string step = {};  // as ReportOptions::step
  int threads = 1;        // this one included
  std::atomic<uint64_t>* events_done = nullptr;
  // Reads the host once more, for what it did during the largest gaps.
  bool host_of_gaps = true;
};

// An interval, or several: what it went to. All but the span are empty where a function's runs have
// no ops.
struct TimeParts {
  std::optional<int64_t> span_ps = {};
  // These add up to the span (of a function: with foreign_ps).
  std::optional<int64_t> compute_ps = {}, collective_exposed_ps = {}, copy_exposed_ps = {},
                         other_ps = {}, idle_ps = {};
  // These add up to idle_ps: nothing was launched; launched, but not started; no launch is known.
  // A device without any launch has none of the first two.
  std::optional<int64_t> idle_host_ps = {}, idle_launch_ps = {}, idle_unknown_ps = {};
  // In flight, and that part of it in which a higher class ran. On a TPU from -start to -done.
  std::optional<int64_t> collective_ps = {}, collective_hidden_ps = {}, copy_ps = {},
                         copy_hidden_ps = {};
};

struct WhereDevice {
  DeviceRef device;
  DeviceKind kind = DeviceKind::kGpu;
  std::optional<Clock> clock = {};  // of all its times; empty: nothing has a time
  uint64_t executions = 0;
  TimeParts time = {};  // from the first start to the last end
  uint64_t steps = 0;
  std::optional<StepSource> step_source = {};  // empty: neither marks nor a function
  std::optional<uint64_t> steps_empty = {};    // marks without an execution
  std::optional<std::string> step_function = {}, step_program_id = {};
  // Empty without steps.
  std::optional<int64_t> steps_span_ps = {}, idle_in_steps_ps = {}, idle_between_steps_ps = {};
  // Idle time in which the host waited for input, as far as names of host events show it; and
  // before the first execution of a marked step, while the host was not seen to do anything else.
  // Empty: the trace has no host.
  std::optional<int64_t> waits_for_input_ps = {};
  // Executions that are in none of the marked steps. Empty: nothing marks steps.
  std::optional<uint64_t> executions_outside_steps = {};
  // Of steps that are marked by host events: the executions before the first one with a known
  // launch, and how long they took. They were launched before the trace began, and the first step
  // may contain them.
  std::optional<uint64_t> early_executions = {};
  std::optional<int64_t> early_ps = {};
  // Names of marks that overlap marks of other names, numbers left out, with their counts:
  // "execute_# (30), forward (30)". Empty: there are none.
  std::optional<std::string> mixed_marks = {};
  // Of the spans of its steps. Where the first step has no mark on the device's clock nobody knows
  // when it began, and the median is of the others.
  std::optional<double> step_median_ps = {};
};

// The runs of a function that are not suspect, together.
struct WhereFunction {
  DeviceRef device;
  std::string function;
  std::optional<std::string> program_id = {};
  Clock clock = Clock::kProfile;
  uint64_t runs = 0, suspect_runs = 0;
  TimeParts time = {};                     // among its own executions
  std::optional<int64_t> foreign_ps = {};  // others ran, and nothing of its own
};

// From the end of the previous step's work, or from the step's mark, to the end of its own work.
struct WhereStep {
  DeviceRef device;
  uint64_t step = 0;  // from 0 on each device, as their first members began
  std::string name;
  int64_t start_ps = 0;
  TimeParts time = {};                    // of all that the device executed within
  std::optional<int64_t> marked_ps = {};  // duration of the mark; empty: runs of a function
};

// A kind of collective or copy. Rows may overlap; waiting for a slower peer is inside.
struct WhereTransfer {
  DeviceRef device;
  Category category = Category::kCopy;
  std::string kernel;
  std::optional<std::string> function = {}, program_id = {};
  uint64_t count = 0;
  int64_t exposed_ps = 0, hidden_ps = 0, in_flight_ps = 0;
  std::optional<int64_t> bytes = {};  // of all of them
  std::optional<std::string_view> bytes_source =
      {};  // "counted" (copies say), "modelled" (XLA says)
};

// One of the three longest times in which a device was idle.
struct WhereGap {
  DeviceRef device;
  int64_t start_ps = 0, duration_ps = 0;
  std::optional<int64_t> idle_host_ps = {}, idle_launch_ps = {};  // empty: no launch is known
  // The host event that covers most of it; of several the shortest. Empty: unknown.
  std::optional<std::string> host_thread = {}, host_event = {};
};

struct WhereReport {
  std::vector<InputRow> inputs;
  CaptureInfo capture;
  std::vector<WhereDevice> devices;      // that executed something
  std::vector<WhereFunction> functions;  // by device, then span, descending
  std::vector<WhereStep> steps;          // by device, as they began
  std::vector<WhereTransfer> transfers;  // by device, then exposed time, descending
  std::vector<WhereGap> gaps;            // by device, the longest first
  std::vector<DiagnosticRow> diagnostics;
};

// `reading` holds what OpenTrace counted; the report lists it too. Errors: as BuildReport.
absl::StatusOr<WhereReport> FindWhere(const Trace& trace, const WhereOptions& options,
                                      const Diagnostics& reading);

}  // namespace xplane_time
