// Report: all stages in one call, and the rows that every output prints.
//
//   Diagnostics diagnostics;
//   auto trace = OpenTrace(*FindInputs(paths, {}), {}, &diagnostics);
//   auto report = BuildReport(*trace, {.device = "gpu"}, diagnostics);
//   for (const FunctionRow& row : report->functions) ...
//   // FailedPrecondition: the selected devices executed nothing (the message lists
//   // what is there). InvalidArgument: a bad regex or selector.
//
// Memory and time: executions stream from the lines through the aggregation, chunk by
// chunk, so memory grows with names, runs and distinct durations (some 160 bytes a run),
// not with executions. A line that is not sorted, `max_events`, a tolerance, or a device of
// more than 256 lines: that device's executions are kept (60 bytes each) and sorted. What
// the splitting of GPU runs needs an execution or launch goes to a temporary file where it
// is much. Devices, and the rows of functions, are worked on by `threads` threads; the
// result does not depend on their number.
//
// A Report owns its strings and outlives the Trace. Times are int64 picoseconds since
// Capture::base_ns; unknown is an empty optional, never 0.
#pragma once

#include <atomic>
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

// Runs: what executed on each device splits into runs of functions. A run is one execution
// of a compiled function on one device.
//
//   GPU   events on stream lines with equal (hlo_module, program_id), split by annotation
//         scopes, by launches or by likelihood (src/devices/gpu.cc)
//   TPU   one `XLA Modules` event; ops belong by start time on the profile clock and
//         are measured by the device clock where they carry it
//   CPU   thunks with equal (hlo_module, program_id, run_id, device_ordinal)
//
//         run 0                    run 1
//   |-k0-| |--k1--|      ... |-k0-| |--k1--|
//   |----- span ---|         active = union of the kernels, gap = span - active
//
// The rules of a device kind are in one file (src/devices). Filters come after the
// split: they choose what counts, never where a run begins. `min_duration_ps` and
// `max_events` come before it: what they leave out is not seen at all.

enum class Clock : uint8_t { kProfile, kDevice };
enum class ClockChoice : uint8_t { kAuto, kDevice, kProfile };
std::string_view ClockName(Clock clock);
// "auto", "device", "profile". Errors: InvalidArgument.
absl::StatusOr<ClockChoice> ParseClockChoice(std::string_view text);

enum class Category : uint8_t { kCompute, kCopy, kCollective, kOther };
std::string_view CategoryName(Category category);

enum class Metric : uint8_t { kActive, kSpan, kSum };
// "active", "span", "sum". Errors: InvalidArgument.
absl::StatusOr<Metric> ParseMetric(std::string_view text);

inline constexpr char kDefaultIdPattern[] = "^jit_(?:autotune_fn|tune_jax_fn)_([0-9]+)";

// Kernels whose category the user states, before any rule of ours (devices/category.cc): RE2,
// search semantics, on the kernel's name and on its op's. Empty: none. `collective` comes first.
struct CategoryPatterns {
  std::string collective, copy;
};

struct ReportOptions {
  std::string device;  // select.h
  // RE2, search semantics; empty: no filter. `kernel`, `exclude_kernel` and `scope` choose which
  // executions count as a function's time. `scope` searches the name scope, tf_op and source
  // lines of an op, those of its Hlo Proto included (timing/origins.h).
  std::string function, exclude, kernel, exclude_kernel, scope;
  CategoryPatterns categories;
  std::string prefix;                          // functions whose name starts so
  std::string id_pattern = kDefaultIdPattern;  // first group: the variant id
  // Host events (of PyTorch: annotations) whose names match mark steps. Empty: those that have a
  // step_num, or the line `Steps`.
  std::string step;
  std::optional<int64_t> min_duration_ps;
  std::optional<uint64_t> max_events;
  Metric metric = Metric::kActive;  // what trimming looks at
  ClockChoice clock = ClockChoice::kAuto;
  Trim trim;
  uint64_t skip_runs = 0;    // first runs of each function and device: warm-up
  bool samples = false;      // fill Report::samples
  bool by_variant = false;   // fill Report::variants
  bool parts = false;        // fill DeviceRow::parts and DeviceRow::steps
  bool launches = false;     // fill KernelRow::launch
  int64_t tolerance_ps = 0;  // how far a nested event may stick out (intervals.h)
  uint64_t seed = 1;         // of the bootstrap
  int threads = 1;           // this one included
  std::atomic<uint64_t>* events_done = nullptr;  // where not null: counts events as they are read
};

// An option that changes what a report says, where it is not the default. The JSON of a report
// records them; comparisons refuse inputs in which they differ.
struct GivenOption {
  std::string name;  // "skip_runs"
  std::variant<std::string, int64_t> value;
};
// In a fixed order; empty: all are the default.
std::vector<GivenOption> GivenOptions(const ReportOptions& options);

struct InputRow {
  std::string path;
  uint64_t bytes = 0;
  std::string host;  // empty: unknown
  uint32_t capture = 0;
  int64_t base_ns = 0;  // times of this capture count from here (normalize.h)
};

struct DiagnosticRow {
  std::string code, severity;
  uint64_t count = 0;
  std::string message;
  std::string plane, line;  // empty: does not apply
  std::optional<uint64_t> event, byte_offset;
  bool is_of_completeness = false;  // ConcernsCompleteness(code)
};

struct CaptureInfo {
  uint64_t planes = 0, lines = 0, events = 0;
  int64_t base_ns = 0;  // of the first capture; InputRow has each
  std::optional<uint64_t> start_unix_ns, stop_unix_ns;
  std::vector<std::string> hostnames, warnings, errors;
};

// DEVICE of the JSON output, and the input that holds its plane.
struct DeviceRef {
  std::string plane;
  std::optional<int64_t> ordinal;
  std::string host;  // empty: unknown
  uint32_t input = 0;
};
// "GPU:0" for "/device:GPU:0": of the plane, with the ordinal where its name has none.
std::string DeviceName(const DeviceRef& device);

// What a device did from its first start to its last end, as FindWhere has it (where.h).
struct DeviceParts {
  int64_t span_ps = 0, compute_ps = 0, collective_exposed_ps = 0, copy_exposed_ps = 0;
  int64_t other_ps = 0, idle_ps = 0;
  friend bool operator==(const DeviceParts&, const DeviceParts&) = default;
};

enum class StepSource : uint8_t {
  kStepLine,    // the plane's line `Steps`
  kHostLaunch,  // launched within a host event that marks a step
  kHostTime,    // started within one; the device has no launches
  kFunction,    // the runs of the function with the largest active time
};
std::string_view StepSourceName(StepSource source);

// What limits the steps of a device (docs/where.md).
enum class StepVerdict : uint8_t {
  kInputBound,          // the device waits because the host waits for input
  kHostBound,           // the host dispatches more slowly than the device executes
  kDeviceBound,         // the device works
  kCommunicationBound,  // collectives run, and nothing computes meanwhile
  kUnclear,
};
// "input-bound", ...
std::string_view StepVerdictName(StepVerdict verdict);

// Shares of the time of the steps. The first four, idle_host, idle_launch and idle_unknown add up
// to 1. Empty: unknown, as the trace has no launches or nobody read them.
struct StepShares {
  double compute = 0, collective_exposed = 0, copy_exposed = 0, other = 0;
  std::optional<double> idle_host = {}, idle_launch = {};
  double idle_unknown = 0;
  std::optional<double> waits_for_host = {};   // the device waits for its host
  std::optional<double> waits_for_input = {};  // a part of that, and of the time between steps
};

// The steps of a device (FindWhere has each) and what limits them.
struct StepSummary {
  uint64_t steps = 0;
  uint64_t steps_empty = 0;  // marks without an execution
  StepSource source = StepSource::kFunction;
  std::optional<std::string> function = {}, program_id = {};
  // A first step without a mark on the device's clock is in neither of these.
  uint64_t steps_timed = 0;
  std::optional<double> step_median_ps = {};
  std::optional<StepShares> shares = {};  // empty: no step has a time
  std::optional<int64_t> waits_for_input_ps = {};
  StepVerdict verdict = StepVerdict::kUnclear;
  std::string reason = {};
};

struct DeviceRow {
  DeviceRef device;
  DeviceKind kind = DeviceKind::kGpu;
  uint64_t executions = 0;
  int64_t busy_ps = 0;  // union, profile clock
  int64_t sum_ps = 0;
  std::optional<int64_t> first_ps = {}, last_ps = {};
  // If asked for, of a device that executed something.
  std::optional<DeviceParts> parts = {};
  std::optional<StepSummary> steps = {};  // empty: neither marks nor a function
};

enum class RowStatus : uint8_t { kOk, kNoOps, kRunsUncertain, kDevicesUnmatched };
std::string_view RowStatusName(RowStatus status);

// A function on one device; combined over devices (`device` empty); or a variant. Without a device
// among functions: a range of host time from which nothing was launched that was executed.
struct FunctionRow {
  std::optional<DeviceRef> device;
  std::string function;
  std::optional<std::string> program_id;  // never for combined rows
  std::optional<std::string> variant_id;
  std::optional<Clock> clock;  // empty: unknown or mixed
  uint64_t runs = 0;           // = n + suspect_runs + dropped_samples
  uint64_t suspect_runs = 0, dropped_samples = 0;
  uint64_t kernels_total = 0;             // executions in all runs, suspect ones included
  std::optional<double> kernels_per_run;  // mean over the runs that count
  std::optional<Summary> active_ps, span_ps, gap_ps, sum_ps;
  RowStatus status = RowStatus::kOk;
  // Of host time: what it executed is in other rows, too. Runs that executed nothing are dropped.
  bool is_range = false;
  uint64_t empty_runs = 0;

  const std::optional<Summary>& metric(Metric which) const;
};

// How a kernel was launched on a GPU, as the trace states it. Values that no GPU can have are
// unknown: some producers write uninitialized memory.
struct LaunchConfig {
  std::optional<int64_t> registers;  // per thread
  // Per block. The sum alone where the trace does not split it.
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
  std::optional<std::string> scope;  // empty: none, or several
  Clock clock = Clock::kProfile;
  uint64_t count = 0;
  int64_t total_ps = 0;
  std::optional<int64_t> self_ps;  // total minus nested kernels
  double mean_ps = 0;
  // Empty where only aggregated events are known.
  std::optional<double> median_ps, std_ps;
  std::optional<int64_t> min_ps, max_ps;
  std::optional<double> share;                   // of the device's self time, all kernels
  std::optional<int64_t> flops, bytes_accessed;  // over all executions of the row
  // Only of BuildReportWithRates (headroom.h): what it reaches, and the time that its device needs
  // at its peak as a part of what it took (above 1: the figures or the peak are wrong).
  std::optional<double> flops_per_s, bytes_per_s, roof_share;
  // Executions in `count` whose duration cannot be right (kImpossibleDuration).
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
  uint64_t run = 0;  // from 0, within (device, function, program), by start
  int64_t start_ps = 0;
  std::optional<int64_t> active_ps, sum_ps;  // empty: a module without ops
  int64_t span_ps = 0;
  uint64_t kernels = 0;
  Clock clock = Clock::kProfile;
  bool suspect = false;
};

struct Report {
  std::vector<InputRow> inputs;
  CaptureInfo capture;
  std::vector<DeviceRow> devices;
  std::vector<FunctionRow> functions;  // by device, then total of the metric, descending
  std::vector<FunctionRow> combined;
  std::vector<FunctionRow> variants;  // with by_variant: `combined` pooled by variant id
  std::vector<KernelRow> kernels;     // by device, then total, descending
  std::vector<SampleRow> samples;
  std::vector<DiagnosticRow> diagnostics;
  // Launches of kernels and graphs that were compared with the executions; 0: the trace has none.
  uint64_t launches_compared = 0;
};

// `reading` holds what OpenTrace counted; the report lists it too.
absl::StatusOr<Report> BuildReport(const Trace& trace, const ReportOptions& options,
                                   const Diagnostics& reading);

// Parts that every command prints.
std::vector<InputRow> DescribeInputs(const Trace& trace);
CaptureInfo DescribeCapture(const Trace& trace);
std::vector<DiagnosticRow> DescribeDiagnostics(const Trace& trace, const Diagnostics& diagnostics);

// ---- what is in a trace, before anything is timed -------------------------------------------

struct LineRow {
  int64_t id = 0;
  std::string name;  // the display name if set
  std::string role;  // "execution", "run", "derived", "async", "counter",
                     // "host"; what the device kind takes the line for
  uint64_t events = 0;
  std::optional<int64_t> first_ps, last_ps;  // since base_ns; empty without intervals
  int64_t sum_ps = 0;                        // plain sum of durations
};

struct StatRow {
  std::string name;
  std::string type;   // "double", "uint64", "int64", "str", "bytes", "ref", "compressed_str"
  std::string owner;  // "event" (own, or else from its metadata), "event_metadata", "plane"
  uint64_t count = 0;
};

struct PlaneRow {
  uint32_t input = 0;
  std::string name, host;
  std::optional<DeviceKind> kind;  // empty: not a device
  uint64_t events = 0;
  std::optional<int64_t> first_ps, last_ps;
  std::vector<LineRow> lines;
  std::vector<StatRow> stats;  // with_stats only; ordered by owner, name, type
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

// Errors: as SelectPlanes and VisitEvents.
absl::StatusOr<PlanesReport> DescribePlanes(const Trace& trace, const PlanesOptions& options,
                                            const Diagnostics& reading);

// ---- trees ------------------------------------------------------------------------------------

// What a tree is of: what is nested in what, the name scopes of ops, or the lines of source that
// they are from.
enum class TreeBy : uint8_t { kNesting, kScope, kSource, kModule };
// "nesting", "scope", "source". Errors: InvalidArgument.
absl::StatusOr<TreeBy> ParseTreeBy(std::string_view text);

struct TreeOptions {
  ReportOptions select;    // device, filters, clock, tolerance
  std::string line;        // RE2 on line names: these lines instead of functions; empty: functions
  std::string name;        // RE2: only children that match (the root always stays)
  uint32_t max_depth = 0;  // 0: no limit
  // Unless this is kNesting, `line` and `name` have no effect.
  TreeBy by = TreeBy::kNesting;
  // By scope: the forward and the backward pass of a layer are one row, as is what is computed
  // again or in a batch (timing/name_scopes.h).
  bool fold = false;
};

// One path of names from a root, summed over all its occurrences. Pre-order.
//
// By scope, source or module (of PyTorch, around the launch): `total_ps` is the own time of all
// executions in it, each counted once, and `self_ps` that of those which end here, in no further
// scope, line or module. So the roots of a device add up to the self time of its executions.
struct TreeRow {
  DeviceRef device;
  std::string line;  // empty for a function's tree
  std::string name;
  uint32_t depth = 0;
  std::optional<uint32_t> parent;  // row index
  uint64_t count = 0;
  int64_t total_ps = 0;
  // self + child = total; empty where a body ends after its parent.
  std::optional<int64_t> self_ps = {}, child_ps = {};
  // "ok"; "asynchronous", "aggregated": of executions that end here some have no known own time.
  std::string status = {};
  // By scope or source, of what ends here: "model.py:12"; of a fusion those of all that is in it.
  std::vector<std::string> lines = {};
  bool lines_cut = false;  // there are more
};

struct TreeReport {
  std::vector<InputRow> inputs;
  TreeBy by = TreeBy::kNesting;
  std::vector<TreeRow> rows;
  std::vector<DiagnosticRow> diagnostics;
};

// A function's tree: the runs (span; self = gap) and the kernels nested in them.
// A line's tree: its events. By scope: "jit(f)", in it "layer", in it "dot_general". By source: the
// stack of calls, "train.py:90 <module>", in it "model.py:12 attention". What has neither is in a
// row of its own, "(no scope)" or "(no source)". Errors: as BuildReport.
absl::StatusOr<TreeReport> BuildTree(const Trace& trace, const TreeOptions& options,
                                     const Diagnostics& reading);

}  // namespace xplane_time
