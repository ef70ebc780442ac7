// A device kind is one file: which planes it claims, what its lines are, which stats
// it needs, what an event means, what it is capable of and how executions split into runs.
// All others ask for what it can do, never which kind it is.
//
// To add a kind: write src/devices/KIND.cc with a KindRules, and add it to DeviceKind
// (select.h) and to kKinds in registry.cc.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "growing_list.h"
#include "xplane_time/diagnostics.h"
#include "xplane_time/intervals.h"
#include "xplane_time/normalize.h"
#include "xplane_time/read.h"
#include "xplane_time/report.h"
#include "xplane_time/select.h"

namespace xplane_time {

// ---- what devices executed ---------------------------------------------------------------
//
// Executions of a device are ordered by (start, duration descending, file order). A run is one
// execution of a compiled function on one device.

inline constexpr uint32_t kNone = ~uint32_t{0};
inline constexpr int64_t kNoOrdinal = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kNoFlow = -1;

// Everything about an execution that is not its time. Interned: equal ones share an id.
struct OpInfo {
  std::string kernel;  // display name if set, else the name
  std::string hlo_op;
  std::string tf_op, scope, source;  // empty: unknown
  std::string source_stack;          // the same, the outermost line first
  Category category = Category::kCompute;
  bool in_scope = true;                          // --scope matches, or is not given
  std::optional<int64_t> flops, bytes_accessed;  // of one execution
  // TPU: one half of a transfer that runs beside other ops; a -done names its -start.
  bool is_start = false;
  std::string start_op = {};
  std::optional<int64_t> hbm_bytes = {};  // of one execution
  uint32_t symbol = 0;  // small; equal where hlo_op and kernel are: the same to the program
};

struct ProgramInfo {
  std::string function;  // hlo_module, or the module event's name without its id
  std::optional<std::string> program_id;
};

// What is known of a device's ops and programs; columns refer to both by index. They grow while
// executions are read, perhaps on another thread.
struct ExecutionTables {
  GrowingList<OpInfo> ops;
  GrowingList<ProgramInfo> programs;
  // When all is read: of the devices on a host, wanted or not; kNoOrdinal: not told.
  std::set<int64_t> ordinals;
};

// An event of a run line (TPU), on the profile clock.
struct ModuleEvent {
  Interval interval;
  uint32_t program = kNone;
};

// An aggregated event (num_occurrences): a count and a total, no place on the axis.
struct AggregatedExecution {
  uint32_t op = kNone, program = kNone;
  int64_t occurrences = 0, total_ps = 0;
  int64_t device_ordinal = kNoOrdinal;  // CPU
};

// When the op with a flow id was complete, by the marker that the trace holds (CPU). Of ops
// with a body; the markers of all others together are under kNoFlow.
using Completions = absl::flat_hash_map<int64_t, int64_t>;

// What a device executed once. Small: a big trace has many.
struct Execution {
  int64_t start_ps = 0, duration_ps = 0;  // profile clock
  uint32_t op = kNone, program = kNone;   // into the tables; program: kNone where unattributed
  uint32_t line = 0;                      // the timeline's first, into Trace::lines
  uint32_t run = kNone;                   // into the device's runs, or kNone
  // What only some kinds of device tell: places in `numbers`.
  enum OfTpu : size_t { kDeviceStartPs, kDeviceDurationPs };
  enum OfCpu : size_t { kRunId, kDeviceOrdinal, kFlowId };         // kNoOrdinal, kNoFlow: absent
  enum OfGpu : size_t { kCorrelationId, kScopeId, kCopiedBytes };  // 0: none
  std::array<int64_t, 3> numbers = {};

  int64_t end_ps() const { return start_ps + duration_ps; }
  // Of a kind that may have it. What is further apart than the axis is long tells no times.
  bool has_device_clock() const {
    constexpr int64_t kLimitPs = kAxisLimitPs / 2;
    const int64_t device_ps = numbers[kDeviceStartPs], length_ps = numbers[kDeviceDurationPs];
    return device_ps >= -kLimitPs && length_ps >= 0 && device_ps <= kLimitPs - length_ps;
  }
  Interval IntervalOn(Clock clock) const {
    if (clock == Clock::kProfile) return {start_ps, end_ps()};
    return {numbers[kDeviceStartPs], numbers[kDeviceStartPs] + numbers[kDeviceDurationPs]};
  }
};
using Executions = std::vector<Execution>;

// One run. Times of the executions in it are on the program's clock; `profile` places it
// on the capture's axis (TPU: the module event).
struct Run {
  // The end of `profile` before there is an execution.
  static constexpr int64_t kUnset = std::numeric_limits<int64_t>::min();

  uint32_t program = kNone;
  bool uncertain = false;  // ways of splitting disagree about this program
  Interval profile = {0, kUnset};
  std::optional<int64_t> key = {};  // CPU: run_id

  // Makes `profile` contain the execution.
  void Cover(const Execution& execution) {
    if (profile.end_ps == kUnset) profile.start_ps = execution.start_ps;
    profile.end_ps = std::max(profile.end_ps, execution.end_ps());
  }
};

// ---- what a kind is -------------------------------------------------------------------------

enum class LineRole : uint8_t {
  kExecution,  // what the device executed
  kRun,        // one event a run
  kHost,       // host threads: launches, module executions
  kDerived,    // computed by the profiler from other lines: counting it counts twice
  kAsync,      // spans that overlap each other
  kCounter,
};
std::string_view LineRoleName(LineRole role);

// One event as its kind understands it; views into the trace.
struct Draft {
  std::string_view kernel, hlo_op, tf_op, scope, source, source_stack;
  std::string_view opcode;  // of hlo_op, from the capture's Hlo Protos; empty: unknown
  std::string_view hlo_category;
  std::string_view collective;     // which, where the trace says that it is one
  bool is_copy = false;            // the trace says so (memcpy_details)
  std::string_view hlo_text;       // TPU: the op's metadata name
  std::string_view memory_access;  // TPU: memory_access_breakdown
  std::optional<int64_t> flops, bytes_accessed;
  std::optional<int64_t> graph_node;
  std::string_view function;  // empty: unattributed
  StatValue program_id;
  std::optional<int64_t> ordinal;  // CPU
  bool is_completion = false;      // CPU: a marker, tied to its thunk by a flow id
  bool completes_body = false;     // of an op with a body (HasBody)
  bool is_execution = true;
};

// What a stat says about an event.
enum class StatUse : uint8_t {
  kMeaning,   // its value is part of what the event is: equal ones have equal drafts
  kPresence,  // that it is there is
  kNumber,    // it differs from event to event and is not part of the draft
};

// Of an execution that a graph launched: which graph, and which node of it.
struct GraphStats {
  std::string_view graph = {}, node = {};  // empty: the kind has no graphs
};

struct KindStat {
  std::string_view name;
  StatUse use;
  // The part of the draft that its text, or its integer, is.
  std::string_view Draft::*text = nullptr;
  std::optional<int64_t> Draft::*integer = nullptr;
  // The place of its integer in Execution::numbers, and what stands there without one.
  std::optional<size_t> number = {};
  int64_t absent = 0;
  // What number its text has; null: it is a number itself.
  int64_t (*number_in)(std::string_view text) = nullptr;
};

// Splits a device's executions into runs; this one knows of none. All chunks of the device come in
// order of start, once for each look that is wanted, then once more to be assigned.
class RunSplitter {
 public:
  virtual ~RunSplitter() = default;
  virtual bool WantsLook() const { return false; }
  // The first look fills `run` by what can be told by then.
  virtual absl::Status Look(std::span<Execution> /*chunk*/) { return absl::OkStatus(); }
  virtual void EndLook() {}
  // Whether all chunks of the first look have the right runs, so far as is known. Where that holds
  // after the looks, nothing is left to assign.
  virtual bool early_right() const { return false; }
  // Fills `run`, and `program` where time tells.
  virtual void Assign(std::span<Execution> /*chunk*/) {}
  // All runs, by the ids assigned. `diagnostics` tells what was left out of the chunks.
  virtual std::vector<Run> Finish(Diagnostics* /*diagnostics*/) { return {}; }
};

// What the host recorded about a device's programs; read when it is first needed.
namespace gpu_runs {
struct HostEvidence;
}
using EvidenceSource = std::function<absl::StatusOr<const gpu_runs::HostEvidence*>()>;

struct SplitContext {
  const Trace* trace = nullptr;                   // null: nothing is known but the executions
  uint32_t plane = 0;                             // into Trace::planes
  std::shared_ptr<const ExecutionTables> tables;  // grow while chunks come
  std::span<const ModuleEvent> modules;           // of run lines, ordered by start
  size_t likelihood_block = size_t{1} << 21;      // GPU: executions split by likelihood at once
  // GPU: of more executions that only likelihood splits the runs stay unknown (uncertain).
  uint64_t most_by_likelihood = std::numeric_limits<uint64_t>::max();
  EvidenceSource evidence;
};

// How the events of one execution line lie to each other.
enum class LineOrder : uint8_t {
  kAny,
  kQueued,  // one after the other: an overlap is worth a note
  kNested,  // inside each other; within a run where runs are events
};

// Ops of a framework that run on threads of the host, in a plane without the stat that a kind
// needs.
struct HostOps {
  std::string_view line_prefix = {};  // of the lines that run ops; empty: all lines
  std::vector<uint8_t> entries = {};  // by event metadata: 1 if its events are ops
};

struct KindRules {
  DeviceKind kind = DeviceKind::kCustom;
  std::string_view name;  // of --device and in output
  // Whether a plane with this name is such a device; sets its ordinal where it has one.
  bool (*claims)(std::string_view plane_name, std::optional<int64_t>* ordinal) = nullptr;
  LineRole (*role)(std::string_view line_name) = nullptr;
  LineOrder line_order = LineOrder::kAny;
  // Stats of execution events, those first that `interpret` looks at.
  std::span<const KindStat> stats = {};
  // Without a stat of this name, the first in `stats`, nothing is an execution; empty: it may be.
  std::string_view needed_stat = {};
  // The ops of a plane without that stat, if they are all that the trace has executed. Null: a
  // plane without the stat executes nothing.
  std::optional<HostOps> (*find_host_ops)(const Trace& trace, const Plane& plane) = nullptr;
  // Of the name of an event that has it not: whether it may be a completion marker.
  bool (*marks_completion)(std::string_view name) = nullptr;
  // Without a stat of this name no execution has the device's own clock, as with no name.
  std::string_view device_clock_stat = {};
  // In `numbers`: what its launch on the host has, too; how many bytes a copy moved.
  std::optional<size_t> launch_id = {}, copied_bytes = {};
  // Whether flops and bytes of HBM are in the trace, op by op, as the compiler counts them.
  bool tells_costs = false;
  // Whether the runs of such a plane's executions are told by what the host recorded. Null: no.
  bool (*asks_host)(const Plane& plane) = nullptr;
  // With a stat of this name ranges of the host's time are runs of a plane's executions, too.
  std::string_view in_ranges_stat = {};
  // Their stats; the one of the node is in `stats`, too. The ops of nodes are told by the program.
  GraphStats graph_stats = {};
  // The host itself: timed only where there is no accelerator, or when asked for. A plane
  // holds several devices, told apart by Draft::ordinal.
  bool is_host = false;
  // Completes the draft, which has the event's shown name as its kernel and what the table of
  // stats says, from row `row` of the batch. Null: it is complete.
  void (*interpret)(const EventBatch& batch, size_t row, std::string_view name,
                    Draft* draft) = nullptr;
  // The same for an event of a run line, of which only the name is read. Null: runs are no
  // events. Else programs are those of the runs, and executions belong to them by time.
  void (*interpret_run)(std::string_view name, Draft* draft) = nullptr;
  bool runs_are_events() const { return interpret_run != nullptr; }
  // Whether an op contains others, which may end after it. Null: ops end when they end.
  bool (*has_body)(const OpInfo& op) = nullptr;
  // Of a completion marker: the flow of the op that is complete, or kNoFlow.
  int64_t (*completed_flow)(const EventBatch& batch, size_t row) = nullptr;
  std::unique_ptr<RunSplitter> (*make_splitter)(const SplitContext& context) = nullptr;
};

template <typename Splitter>
std::unique_ptr<RunSplitter> MakeSplitter(const SplitContext& context) {
  return std::make_unique<Splitter>(context);
}

extern const KindRules kGpuRules, kTpuRules, kCpuRules, kCustomRules;

const KindRules& RulesOf(DeviceKind kind);
// Of the kind with this name, whatever the case; null: there is none.
const KindRules* FindKind(std::string_view name);
// Of the kind that claims a plane, with its ordinal; null: it is no device.
const KindRules* FindKindOfPlane(std::string_view plane_name, std::optional<int64_t>* ordinal);

// "/device:GPU:7" or "/device:GPU:7 [pid]" with prefix "/device:GPU:": the number.
std::optional<int64_t> OrdinalAfter(std::string_view plane_name, std::string_view prefix);
// Whether this is what follows the name of a plane that was merged from a subprocess: " [7]", or
// " (pid 7)".
bool IsSubprocess(std::string_view rest);

// Whether the op of a flow was complete after `end_ps`. A synchronous body is complete
// before its op returns; a marker that is missing comes after the trace's end.
bool CompletesLater(const Completions& completions, int64_t flow, int64_t end_ps);

// One of a pair, "copy-start.3" and "copy-done.3": the work is done between the two.
bool IsHalfOfPair(std::string_view op);

// Whether any line of the plane has an event.
bool HasEvents(const Trace& trace, const Plane& plane);

// Whether the plane's metadata names such a stat; none has no name.
bool HasStat(const Plane& plane, std::string_view name);
// By entry of the plane's event metadata: 1 where it has one of these stats.
std::vector<uint8_t> EntriesWith(const Plane& plane, std::span<const std::string_view> stats);
// By entry: 1 where its events, whatever stats they have of their own, may be executions or
// completion markers. Of a kind with a needed stat.
std::vector<uint8_t> EntriesWorthReading(const Plane& plane, const KindRules& rules);

// From the opcode, from what else the trace says, from names; never from line names.
Category Classify(const Draft& draft);

// Numbers are taken as they are, doubles not converted.
inline bool IsInteger(StatType type) {
  return type == StatType::kInt64 || type == StatType::kUint64;
}

}  // namespace xplane_time
