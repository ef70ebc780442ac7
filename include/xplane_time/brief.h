// Brief: the main findings of a trace, for people in a hurry and for programs.
//
// Example:
//
//   Diagnostics diagnostics;
//   const std::vector<std::string> paths = {"trace.xplane.pb"};
//   auto trace = OpenTrace(*FindInputs(paths, {}), {}, &diagnostics);
//   if (!trace.ok()) return trace.status();
//   auto report = FindBrief(*trace, {.device = "gpu"}, diagnostics);
//   if (!report.ok()) return report.status();
//   // FailedPrecondition: the selected devices executed nothing. InvalidArgument: a peak of 0.
//   std::cout << report->headline << '\n';  // "step time 36.8 ms, input-bound: ..."
//   for (const BriefFinding& finding : report->findings) {
//     std::cout << finding.what << '\n'       // "host-bound: the device is idle and its host ..."
//               << finding.evidence << '\n'   // "in 412 gaps, mostly before jit_step ..."
//               << finding.command << '\n';   // "xplane-time where trace.xplane.pb --steps"
//     if (finding.recoverable_ps) std::cout << *finding.recoverable_ps << " ps\n";
//   }
//
// Findings are disjoint. They use the exact partition of `where`, and no picosecond of a device
// belongs to two findings. Their times may therefore be added and never exceed the spans of the
// devices. Each time is an upper bound of the time that could be saved. Findings below 1 % of the
// time of all devices and below 5 % of the time of each device are omitted. The list is empty if no
// finding remains.
//
// The statistical findings (slow_device, slowing_down) are together wrong in at most 1 % of traces
// whose runs vary independently. Definitions: docs/brief.md.
//
// The report owns its strings. Thread-safe on const traces. Time and memory: as FindWhere.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/headroom.h"
#include "xplane_time/report.h"
#include "xplane_time/where.h"

namespace xplane_time {

struct BriefOptions {
  std::string device;  // selector of devices (select.h)
  CategoryPatterns categories = {};
  std::string step = {};  // as ReportOptions::step
  int threads = 1;        // including the calling thread
  std::atomic<uint64_t>* events_done = nullptr;
  // As in HeadroomOptions.
  std::optional<double> peak_flops_per_s = {}, peak_bytes_per_s = {};
  // The arguments that commands in findings need to find the same traces, one word each. Empty: the
  // paths of the files.
  std::vector<std::string> arguments = {};
};

enum class Certainty : uint8_t {
  kSure,        // the time was lost for this reason
  kUpperBound,  // the time was lost; a model or a comparison limits the recoverable part
  kCannotTell,  // the recoverable time cannot be determined
};
std::string_view CertaintyName(Certainty certainty);

// The share of one device in a finding.
struct BriefPart {
  DeviceRef device;
  int64_t recoverable_ps = 0;
};

struct BriefFinding {
  // One of exposed_collective, exposed_copy, input_bound, host_bound, tiny_kernels, launch_gap,
  // idle, below_roof, largest_op, padding, slow_device, slowing_down, recompilation, suspect_runs,
  // roof_unknown.
  std::string_view code;
  Certainty certainty = Certainty::kSure;
  std::optional<DeviceRef> device = {};  // the only device, or the slow one
  std::optional<std::string> function = {};
  std::string op = {};                         // for largest_op: BriefOp::op
  std::optional<int64_t> recoverable_ps = {};  // the sum of its parts; empty: cannot be determined
  std::optional<double> share = {};            // fraction of BriefReport::span_ps
  std::vector<BriefPart> parts = {};           // the time of each device
  std::string what = {}, evidence = {};
  std::string command = {};  // a shell command that shows details
};

// An op of a function, or a kernel that belongs to no function, summed over all devices and all
// programs of the function.
struct BriefOp {
  std::optional<std::string> function = {};
  std::string op;
  std::string kernel;  // the one that took longest
  Category category = Category::kCompute;
  uint64_t executions = 0;  // of its kernels
  int64_t time_ps = 0;      // each instant counts for one op, so ops add up to busy time
  double share = 0;         // fraction of BriefReport::span_ps
  std::optional<std::string> op_name = {}, source = {};  // "jit(f)/sort", "model.py:12"
};

struct BriefDevice {
  DeviceRef device;
  DeviceKind kind = DeviceKind::kGpu;
  int64_t span_ps = 0, recoverable_ps = 0;
  std::optional<StepSummary> steps = {};  // empty: there are neither marks nor functions
};

struct BriefReport {
  std::vector<InputRow> inputs;
  // One sentence: the step time, the largest cause and its size; or that the device is busy, and
  // its largest op.
  std::string headline;
  std::vector<BriefDevice> devices;  // devices that executed something
  int64_t span_ps = 0;               // sum over all devices, like the next two
  int64_t recoverable_ps = 0;        // sum of all findings
  int64_t near_roof_ps = 0;          // time of ops above 60 % of their roofs; no finding has it
  // By likely gain, descending; unknown gains last. The likely gain is all of a measured time, half
  // of the time above the roofline, or a third of the time of an op without a roof.
  std::vector<BriefFinding> findings;
  std::vector<BriefOp> ops;  // the ten largest, by time_ps
  // Sentences: reasons why the steps may mislead, and a long time before the first execution.
  std::vector<std::string> doubts;
  std::vector<DiagnosticRow> diagnostics;
};

// Finds the main findings. `reading` has the defects that OpenTrace counted. Errors: as
// BuildReport; InvalidArgument (a peak is out of range).
absl::StatusOr<BriefReport> FindBrief(const Trace& trace, const BriefOptions& options,
                                      const Diagnostics& reading);

}  // namespace xplane_time
