// Report: all stages in one call, and the rows that every output prints.
//
// Example:
//
//   Diagnostics diagnostics;
//   const std::vector<std::string> paths = {"trace.xplane.pb"};
//   auto trace = OpenTrace(*FindInputs(paths, {}), {}, &diagnostics);
//   if (!trace.ok()) return trace.status();
//   auto report = BuildReport(*trace, {.device = "gpu"}, diagnostics);
//   if (!report.ok()) return report.status();
//   // FailedPrecondition: the selected devices executed nothing (the message lists
//   // the planes of the trace). InvalidArgument: a bad regex or selector.
//   for (const FunctionRow& row : report->functions) {
//     if (!row.active_ps) continue;  // unknown
//     std::cout << row.function << ' ' << row.active_ps->median / 1e6 << " us\n";
//   }
//
// Memory and time: executions stream from the lines through the aggregation in chunks. Memory grows
// with the number of names, runs and distinct durations (about 160 bytes per run), not with
// executions. In four cases the executions of a device are kept (60 bytes each) and sorted: a line
// that is not sorted, `max_events`, a tolerance, or a device with more than 256 lines. The method
// that finds GPU runs writes its data on executions and launches to a temporary file if there is
// much of it. `threads` threads share the devices and the rows of functions; the result does not
// depend on their number.
//
// A Report owns its strings and outlives the Trace. Times are int64 picoseconds since
// Capture::base_ns. An unknown value is an empty optional, never 0.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/aggregate.h"
#include "xplane_time/diagnostics.h"
#include "xplane_time/select.h"
#include "xplane_time/trace.h"

namespace xplane_time {

// Runs: the executions of each device are split into runs of functions. A run is one execution of a
// compiled function on one device.
//
//   GPU   events on stream lines with equal (hlo_module, program_id), split by annotation
//         scopes, by launches or by likelihood (src/devices/gpu.cc)
//   TPU   one `XLA Modules` event; ops belong to it by start time on the profile clock and
//         are measured by the device clock if they have its times
//   CPU   thunks with equal (hlo_module, program_id, run_id, device_ordinal)
//
//         run 0                    run 1
//   |-k0-| |--k1--|      ... |-k0-| |--k1--|
//   |----- span ---|         active = union of the kernels, gap = span - active
//
// Each device kind has its rules in one file (src/devices). Filters apply after the split: they
// choose the executions that count and never change where a run begins. `min_duration_ps` and
// `max_events` apply before the split, so the split does not see the executions that they exclude.

enum class Clock : uint8_t { kProfile, kDevice };
enum class ClockChoice : uint8_t { kAuto, kDevice, kProfile };
std::string_view ClockName(Clock clock);
// Parses "auto", "device" or "profile". Errors: InvalidArgument.
absl::StatusOr<ClockChoice> ParseClockChoice(std::string_view text);

enum class Category : uint8_t { kCompute, kCopy, kCollective, kOther };
std::string_view CategoryName(Category category);

enum class Metric : uint8_t { kActive, kSpan, kSum };
// Parses "active", "span" or "sum". Errors: InvalidArgument.
absl::StatusOr<Metric> ParseMetric(std::string_view text);

inline constexpr char kDefaultIdPattern[] = "^jit_(?:autotune_fn|tune_jax_fn)_([0-9]+)";

// Patterns of kernels whose category the user states. They take precedence over our own rules
// (devices/category.cc). RE2, search semantics, on the name of the kernel and of its op. Empty: no
// pattern. `collective` is tried first.
struct CategoryPatterns {
  std::string collective, copy;
};

struct ReportOptions {
  std::string device;  // selector of devices (select.h)
  // RE2, search semantics; empty: no filter. `kernel`, `exclude_kernel` and `scope` choose which
  // executions count as a function's time. `scope` searches the name scope, tf_op and source lines
  // of an op, including those of its Hlo Proto (timing/origins.h).
  std::string function, exclude, kernel, exclude_kernel, scope;
  CategoryPatterns categories;
  std::string prefix;                          // only functions that begin with this prefix
  std::string id_pattern = kDefaultIdPattern;  // the first group is the variant id
  // Host events (PyTorch: annotations) with a matching name mark steps. Empty: events that have a
  // step_num, or the line `Steps`.
  std::string step;
  std::optional<int64_t> min_duration_ps;
  std::optional<uint64_t> max_events;
  Metric metric = Metric::kActive;  // the metric that trimming uses
  ClockChoice clock = ClockChoice::kAuto;
  Trim trim;
  uint64_t skip_runs = 0;    // number of first runs of each function and device to drop as warm-up
  bool samples = false;      // fill Report::samples
  bool by_variant = false;   // fill Report::variants
  bool parts = false;        // fill DeviceRow::parts and DeviceRow::steps
  bool launches = false;     // fill KernelRow::launch
  bool sources = false;      // fill KernelRow::source, from the trace and its compiled programs
  int64_t tolerance_ps = 0;  // how far a nested event may extend beyond its parent (intervals.h)
  uint64_t seed = 1;         // seed of the bootstrap
  int threads = 1;           // including the calling thread
  std::atomic<uint64_t>* events_done = nullptr;  // if not null: incremented as events are read
};

// An option that affects the numbers of a report and is not at its default. The JSON of a report
// records these options, and comparisons refuse inputs in which they differ.
struct GivenOption {
  std::string name;  // "skip_runs"
  std::variant<std::string, int64_t> value;
};
// The options that are not at their default, in a fixed order.
std::vector<GivenOption> GivenOptions(const ReportOptions& options);

struct InputRow {
  std::string path;
  uint64_t bytes = 0;
  std::string host;  // empty: unknown
  uint32_t capture = 0;
  int64_t base_ns = 0;  // origin of the times of this capture (normalize.h)
};

struct DiagnosticRow {
  std::string code, severity;
  uint64_t count = 0;
  std::string message;
  std::string plane, line;  // empty: does not apply
  std::optional<uint64_t> event, byte_offset;
  bool is_of_completeness = false;  // ConcernsCompleteness(code)

  // Whether the trace is known to lack data, or to contain impossible data.
  bool is_doubt() const { return is_of_completeness && severity != "info"; }
};

struct CaptureInfo {
  uint64_t planes = 0, lines = 0, events = 0;
  int64_t base_ns = 0;  // of the first capture; InputRow has the base of each capture
  std::optional<uint64_t> start_unix_ns, stop_unix_ns;
  std::vector<std::string> hostnames, warnings, errors;
};

// A device (called DEVICE in the JSON schema), and the input that contains its plane.
struct DeviceRef {
  std::string plane;
  std::optional<int64_t> ordinal;
  std::string host;  // empty: unknown
  uint32_t input = 0;
  uint32_t twin = 0;  // number of earlier planes with this name in the input
  friend auto operator<=>(const DeviceRef&, const DeviceRef&) = default;
};
// "GPU:0" for the plane "/device:GPU:0". The ordinal is appended if the plane's name has none. If
// an input has a second plane with this name, it is "GPU:0 (plane 2)".
std::string DeviceName(const DeviceRef& device);

// Time of a device from its first start to its last end, split as in FindWhere (where.h).
struct DeviceParts {
  int64_t span_ps = 0, compute_ps = 0, collective_exposed_ps = 0, copy_exposed_ps = 0;
  int64_t other_ps = 0, idle_ps = 0;
  friend bool operator==(const DeviceParts&, const DeviceParts&) = default;
};

enum class StepSource : uint8_t {
  kStepLine,    // the line `Steps` of the plane
  kHostLaunch,  // launched during a host event that marks a step
  kHostTime,    // started during such a host event; the device has no launches
  kFunction,    // the runs of the function with the largest active time
};
std::string_view StepSourceName(StepSource source);

// The bottleneck of the steps of a device (docs/where.md).
enum class StepVerdict : uint8_t {
  kInputBound,          // the device waits because the host waits for input
  kHostBound,           // the host dispatches more slowly than the device executes
  kDeviceBound,         // the device is busy
  kCommunicationBound,  // collectives run while no computation runs
  kUnclear,
};
// The name of the verdict, such as "input-bound".
std::string_view StepVerdictName(StepVerdict verdict);

// Shares of the time of the steps. The first four, idle_host, idle_launch and idle_unknown add up
// to 1. A share is empty if it is unknown, because the trace has no launches or they were not read.
struct StepShares {
  double compute = 0, collective_exposed = 0, copy_exposed = 0, other = 0;
  std::optional<double> idle_host = {}, idle_launch = {};
  double idle_unknown = 0;
  std::optional<double> waits_for_host = {};  // the device waits for its host
  // The device waits because the host waits for input: share of the time of the steps and of these
  // waits between them.
  std::optional<double> waits_for_input = {};
};

// The steps of a device and their bottleneck. FindWhere lists each step.
struct StepSummary {
  uint64_t steps = 0;
  uint64_t steps_empty = 0;  // marks without executions
  StepSource source = StepSource::kFunction;
  std::optional<std::string> function = {}, program_id = {};
  // Whether no steps were found: the trace marks none, and the runs of no program are steps. Either
  // no program takes half of the time in which the device is busy, or several programs tie.
  // `reason` names them.
  bool has_no_steps() const { return source == StepSource::kFunction && !function.has_value(); }
  bool needs_marks = false;  // it has no steps, and the name of a function cannot choose any
  // Number and median of the steps with a known time. The time of the first step is unknown if it
  // has no mark on the device's clock.
  uint64_t steps_timed = 0;
  std::optional<double> step_median_ps = {};
  // Median distance of the starts of consecutive timed steps. It is longer than the median of the
  // steps if time between marked steps belongs to none. Empty: fewer than two timed steps.
  std::optional<double> step_period_ps = {};
  std::optional<StepShares> shares = {};  // empty: no step has a time
  std::optional<int64_t> waits_for_input_ps = {};
  StepVerdict verdict = StepVerdict::kUnclear;
  std::string reason = {};
};

struct DeviceRow {
  DeviceRef device;
  DeviceKind kind = DeviceKind::kGpu;
  uint64_t executions = 0;
  int64_t busy_ps = 0;  // union of the executions, on the profile clock
  int64_t sum_ps = 0;
  std::optional<int64_t> first_ps = {}, last_ps = {};
  // Filled on request (ReportOptions::parts) if the device executed something.
  std::optional<DeviceParts> parts = {};
  std::optional<StepSummary> steps = {};  // empty: there are neither marks nor functions
};

enum class RowStatus : uint8_t {
  kOk,
  kNoOps,
  kRunsUncertain,
  kDevicesUnmatched,
  // All of its runs have launches without executions, or it is unknown which runs have such
  // launches.
  kLostExecutions,
};
std::string_view RowStatusName(RowStatus status);

// The row of a function on one device, of a function combined over devices (`device` is empty), or
// of a variant. In Report::functions, two kinds of rows have no device: a range of host time in
// which no executed kernel was launched, and a compiled function that the host executed and whose
// kernels are not in the trace.
struct FunctionRow {
  std::optional<DeviceRef> device;
  std::string function;
  std::optional<std::string> program_id;  // empty in combined rows
  std::optional<std::string> variant_id;
  std::optional<Clock> clock;  // empty: unknown or mixed
  uint64_t runs = 0;           // = n + suspect_runs + dropped_samples
  uint64_t suspect_runs = 0, dropped_samples = 0;
  uint64_t kernels_total = 0;             // executions in all runs, including suspect runs
  std::optional<double> kernels_per_run;  // mean over the runs that count
  std::optional<Summary> active_ps, span_ps, gap_ps, sum_ps;
  RowStatus status = RowStatus::kOk;
  // Whether this is a range of host time. Its executions are also in other rows. Its runs without
  // executions are dropped and counted in `empty_runs`.
  bool is_range = false;
  uint64_t empty_runs = 0;

  const std::optional<Summary>& metric(Metric which) const;
};

// How a kernel was launched on a GPU, as the trace states it. Values that no GPU can have are
// unknown: some producers write uninitialized memory.
struct LaunchConfig {
  std::optional<int64_t> registers;  // per thread
  // Per block. If the trace does not distinguish static and dynamic, only `shared_bytes` is set.
  std::optional<int64_t> static_shared_bytes, dynamic_shared_bytes, shared_bytes;
  // 0 to 1. Theoretical: from the resources of the kernel alone (XPlane). Estimated: also from the
  // number of blocks (PyTorch's "est. achieved occupancy %").
  std::optional<double> theoretical_occupancy, estimated_occupancy;
  std::string grid, block;  // "160,1,1"; empty: unknown

  friend auto operator<=>(const LaunchConfig&, const LaunchConfig&) = default;
};

struct KernelRow {
  DeviceRef device;
  std::string kernel;
  std::optional<std::string> function, program_id;
  Category category = Category::kCompute;
  std::optional<std::string> scope;  // empty if unknown, or if there are several
  // Only with ReportOptions::sources: the source line of its ops, such as "model.py:12"; empty if
  // unknown, or if there are several.
  std::optional<std::string> source = {};
  Clock clock = Clock::kProfile;
  uint64_t count = 0;
  int64_t total_ps = 0;
  std::optional<int64_t> self_ps;  // total minus nested kernels
  double mean_ps = 0;
  // Empty if only aggregated events are known.
  std::optional<double> median_ps, std_ps;
  std::optional<int64_t> min_ps, max_ps;
  std::optional<double> share;                   // of the self time of all kernels of the device
  std::optional<int64_t> flops, bytes_accessed;  // sums over all executions of the row
  // Only BuildReportWithRates (headroom.h) fills these: the rates that the kernel reaches, and the
  // least time that its device needs at peak divided by the time that it took. A share above 1
  // means that the figures or the peak are wrong.
  std::optional<double> flops_per_s, bytes_per_s, roof_share;
  // Executions in `count` with an impossible duration (kImpossibleDuration).
  uint64_t impossible_count = 0;
  // Only with ReportOptions::launches, and only if the trace has them: the most frequent
  // configuration, how many executions have it, and the number of different configurations.
  std::optional<LaunchConfig> launch = {};
  std::optional<uint64_t> launch_count = {}, launch_configs = {};
};

struct SampleRow {
  DeviceRef device;
  std::string function;
  std::optional<std::string> program_id, variant_id;
  uint64_t run = 0;  // number within (device, function, program), from 0 by start
  int64_t start_ps = 0;
  std::optional<int64_t> active_ps, sum_ps;  // empty for a module without ops
  int64_t span_ps = 0;
  uint64_t kernels = 0;
  Clock clock = Clock::kProfile;
  bool suspect = false;
};

struct Report {
  std::vector<InputRow> inputs;
  CaptureInfo capture;
  std::vector<DeviceRow> devices;
  std::vector<FunctionRow> functions;  // by device, then by the total of the metric, descending
  std::vector<FunctionRow> combined;
  std::vector<FunctionRow> variants;  // if by_variant is set: `combined` pooled by variant id
  std::vector<KernelRow> kernels;     // by device, then by total, descending
  std::vector<SampleRow> samples;
  std::vector<DiagnosticRow> diagnostics;
  // Launches of kernels and graphs that were compared with executions. 0: the trace has no
  // launches.
  uint64_t launches_compared = 0;
};

// Runs all stages. `reading` has the defects that OpenTrace counted, and the report includes them.
// Errors: FailedPrecondition (the selected devices executed nothing), InvalidArgument (a selector,
// a regex), DataLoss (as EventReader).
absl::StatusOr<Report> BuildReport(const Trace& trace, const ReportOptions& options,
                                   const Diagnostics& reading);

// Parts that every command prints.
std::vector<InputRow> DescribeInputs(const Trace& trace);
CaptureInfo DescribeCapture(const Trace& trace);
std::vector<DiagnosticRow> DescribeDiagnostics(const Trace& trace, const Diagnostics& diagnostics);

// ---- contents of a trace, before any timing -------------------------------------------------

struct LineRow {
  int64_t id = 0;
  std::string name;  // the display name, if there is one
  // role of the line for its device kind: "execution", "run", "derived", "async", "counter", "host"
  std::string role;
  uint64_t events = 0;
  std::optional<int64_t> first_ps, last_ps;  // since base_ns; empty without intervals
  int64_t sum_ps = 0;                        // plain sum of durations
};

struct StatRow {
  std::string name;
  std::string type;   // "double", "uint64", "int64", "str", "bytes", "ref", "compressed_str"
  std::string owner;  // "event" (of the event or else of its metadata), "event_metadata", "plane"
  uint64_t count = 0;
};

struct PlaneRow {
  uint32_t input = 0;
  std::string name, host;
  std::optional<DeviceKind> kind;  // empty: not a device
  uint64_t events = 0;
  std::optional<int64_t> first_ps, last_ps;
  std::vector<LineRow> lines;
  std::vector<StatRow> stats;  // only if with_stats is set; ordered by owner, name, type
};

struct PlanesReport {
  std::vector<InputRow> inputs;
  CaptureInfo capture;
  std::vector<PlaneRow> planes;
  std::vector<DiagnosticRow> diagnostics;
};

struct PlanesOptions {
  std::string device = "all";  // select.h
  bool with_stats = false;
};

// Lists the planes and lines of a trace. Errors: as SelectPlanes and VisitEvents.
absl::StatusOr<PlanesReport> DescribePlanes(const Trace& trace, const PlanesOptions& options,
                                            const Diagnostics& reading);

// ---- trees ------------------------------------------------------------------------------------

// The levels of a tree: nested events, name scopes of ops, source lines of ops, or PyTorch modules.
enum class TreeBy : uint8_t { kNesting, kScope, kSource, kModule };
// Parses "nesting", "scope", "source" or "module". Errors: InvalidArgument.
absl::StatusOr<TreeBy> ParseTreeBy(std::string_view text);

struct TreeOptions {
  ReportOptions select;  // device, filters, clock and tolerance
  // RE2 on names of lines: trees of these lines instead of functions; empty: trees of functions
  std::string line;
  std::string name;        // RE2: only children that match; the root always stays
  uint32_t max_depth = 0;  // 0: unlimited
  // `line` and `name` apply to kNesting only.
  TreeBy by = TreeBy::kNesting;
  // For kScope: the forward and the backward pass of a layer are one row. This row also includes
  // recomputed and batched ops (timing/name_scopes.h).
  bool fold = false;
};

// One path of names from a root, summed over all its occurrences. Rows are in pre-order.
//
// By scope, source or module (PyTorch, from the stack at the launch): `total_ps` is the self time
// of all executions below this path, each counted once. `self_ps` is the part of executions whose
// path ends here. The roots of a device therefore add up to the self time of its executions.
struct TreeRow {
  DeviceRef device;
  std::string line;  // empty for a function's tree
  std::string name;
  uint32_t depth = 0;
  std::optional<uint32_t> parent;  // index of the parent's row
  uint64_t count = 0;
  int64_t total_ps = 0;
  // self + child = total. Empty if a body ends after its parent.
  std::optional<int64_t> self_ps = {}, child_ps = {};
  // "ok"; or "asynchronous" or "aggregated" if some executions that end here have an unknown self
  // time.
  std::string status = {};
  // By scope or source: the source lines of the executions that end here, such as "model.py:12".
  // For a fusion, the lines of all its fused ops.
  std::vector<std::string> lines = {};
  bool lines_cut = false;  // there are more lines
};

struct TreeReport {
  std::vector<InputRow> inputs;
  TreeBy by = TreeBy::kNesting;
  std::vector<TreeRow> rows;
  std::vector<DiagnosticRow> diagnostics;
};

// Builds a tree. The tree of a function: its runs (total = span, self = gap) and the kernels nested
// in them. The tree of a line: its events. By scope: "jit(f)", in it "layer", in it "dot_general".
// By source: the call stack, such as "train.py:90 <module>", in it "model.py:12 attention".
// Executions without a scope or source are in a row "(no scope)" or "(no source)". Errors: as
// BuildReport.
absl::StatusOr<TreeReport> BuildTree(const Trace& trace, const TreeOptions& options,
                                     const Diagnostics& reading);

}  // namespace xplane_time
