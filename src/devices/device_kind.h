// A device kind has one file. It defines which planes it claims, the roles of its lines, the stats
// that it reads, the meaning of events, its capabilities, and how executions are split into runs.
// Other code asks for capabilities, never for the kind itself.
//
// To add a kind: write src/devices/KIND.cc with a KindRules, and add it to DeviceKind (select.h)
// and to kKinds in registry.cc.
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

// ---- executions of devices -----------------------------------------------------------------
//
// Executions of a device are ordered by (start, duration descending, file order). A run is one
// execution of a compiled function on one device.

inline constexpr uint32_t kNone = ~uint32_t{0};
inline constexpr int64_t kNoOrdinal = std::numeric_limits<int64_t>::min();
inline constexpr int64_t kNoFlow = -1;

// All properties of an execution except its time. Interned: equal ones share an id.
struct OpInfo {
  std::string kernel;  // the display name if set, else the name
  std::string hlo_op;
  std::string tf_op, scope, source;  // empty: unknown
  std::string source_stack;          // source lines of the call stack, outermost first
  Category category = Category::kCompute;
  bool in_scope = true;                          // --scope matches or is not given
  std::optional<int64_t> flops, bytes_accessed;  // of one execution
  // TPU: this is one half of an asynchronous transfer. A -done names its -start in `start_op`.
  bool is_start = false;
  std::string start_op = {};
  std::optional<int64_t> hbm_bytes = {};  // of one execution
  uint32_t symbol = 0;                    // small id, equal for ops with equal hlo_op and kernel
  // Only with ReportOptions::launches. `launch_dropped`: its configuration is beyond the limit.
  std::optional<LaunchConfig> launch = {};
  bool launch_dropped = false;
};

struct ProgramInfo {
  std::string function;  // hlo_module, or the name of the module event without its id
  std::optional<std::string> program_id;
};

// The ops and programs of a device; columns refer to them by index. They grow while executions are
// read, possibly on another thread.
struct ExecutionTables {
  GrowingList<OpInfo> ops;
  GrowingList<ProgramInfo> programs;
  // After reading: ordinals of all devices on the host, wanted or not; kNoOrdinal: unknown ordinal.
  std::set<int64_t> ordinals;
};

// An event of a run line (TPU), on the profile clock.
struct ModuleEvent {
  Interval interval;
  uint32_t program = kNone;
};

// An aggregated event (num_occurrences): a count and a total, without a place on the axis.
struct AggregatedExecution {
  uint32_t op = kNone, program = kNone;
  int64_t occurrences = 0, total_ps = 0;
  int64_t device_ordinal = kNoOrdinal;  // CPU
};

// Completion time by flow id, from the markers in the trace (CPU), for ops with a body. The markers
// of all other ops are together under kNoFlow.
using Completions = absl::flat_hash_map<int64_t, int64_t>;

// One execution on a device. Kept small, because big traces have many.
struct Execution {
  int64_t start_ps = 0, duration_ps = 0;  // profile clock
  uint32_t op = kNone, program = kNone;   // indices into the tables; program: kNone if unattributed
  uint32_t line = 0;                      // index into Trace::lines of the timeline's first line
  uint32_t run = kNone;                   // index of the device's run, or kNone
  // Positions in `numbers` of values that only some kinds have.
  enum OfTpu : size_t { kDeviceStartPs, kDeviceDurationPs };
  enum OfCpu : size_t { kRunId, kDeviceOrdinal, kFlowId };         // kNoOrdinal, kNoFlow: absent
  enum OfGpu : size_t { kCorrelationId, kScopeId, kCopiedBytes };  // 0: none
  std::array<int64_t, 3> numbers = {};

  int64_t end_ps() const { return start_ps + duration_ps; }
  // For kinds with a device clock. Times beyond half the axis are invalid.
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

// One run. Times of its executions are on the program's clock. `profile` places the run on the
// capture's axis (TPU: the interval of the module event).
struct Run {
  // End of `profile` before the first execution.
  static constexpr int64_t kUnset = std::numeric_limits<int64_t>::min();

  uint32_t program = kNone;
  bool uncertain = false;  // the methods of splitting disagree about this program
  Interval profile = {0, kUnset};
  std::optional<int64_t> key = {};  // CPU: run_id

  // Extends `profile` to contain the execution.
  void Cover(const Execution& execution) {
    if (profile.end_ps == kUnset) profile.start_ps = execution.start_ps;
    profile.end_ps = std::max(profile.end_ps, execution.end_ps());
  }
};

// ---- definition of a kind -------------------------------------------------------------------

enum class LineRole : uint8_t {
  kExecution,  // executions of the device
  kRun,        // one event per run
  kHost,       // host threads: launches, module executions
  kDerived,    // computed by the profiler from other lines; it would be counted twice
  kAsync,      // spans that may overlap
  kCounter,
};
std::string_view LineRoleName(LineRole role);

// One event as its kind interprets it. Views into the trace.
struct Draft {
  std::string_view kernel, hlo_op, tf_op, scope, source, source_stack;
  std::string_view opcode;  // of hlo_op, from the capture's Hlo Protos; empty: unknown
  std::string_view hlo_category;
  std::string_view collective;     // name of the collective, if the trace states that it is one
  bool is_copy = false;            // the trace states that it is a copy (memcpy_details)
  std::string_view hlo_text;       // TPU: the op's metadata name
  std::string_view memory_access;  // TPU: memory_access_breakdown
  std::optional<int64_t> flops, bytes_accessed;
  std::optional<int64_t> graph_node;
  std::string_view function;  // empty: unattributed
  StatValue program_id;
  std::optional<int64_t> ordinal;  // CPU
  bool is_completion = false;      // CPU: a completion marker, connected to its thunk by a flow id
  bool completes_body = false;     // the marker of an op with a body (HasBody)
  bool is_execution = true;
};

// The use of a stat.
enum class StatUse : uint8_t {
  kMeaning,   // its value is part of the draft: events with equal values have equal drafts
  kPresence,  // its presence is part of the draft
  kNumber,    // it differs between events and is not part of the draft
};

// Names of the stats with the graph of an execution and its node in the graph.
struct GraphStats {
  std::string_view graph = {}, node = {};  // empty: the kind has no graphs
};

struct KindStat {
  std::string_view name;
  StatUse use;
  // The member of the draft that receives its text or its integer.
  std::string_view Draft::*text = nullptr;
  std::optional<int64_t> Draft::*integer = nullptr;
  // Position of its integer in Execution::numbers, and the value there if the stat is absent.
  std::optional<size_t> number = {};
  int64_t absent = 0;
  // Converts its text to a number; null: the stat is a number itself.
  int64_t (*number_in)(std::string_view text) = nullptr;
};

// Splits a device's executions into runs. This base class finds no runs. All chunks of the device
// come in order of start: once for each look that the splitter wants, and then once more for
// Assign().
class RunSplitter {
 public:
  virtual ~RunSplitter() = default;
  virtual bool WantsLook() const { return false; }
  // Examines a chunk. The first look sets `run` as far as it is known by then.
  virtual absl::Status Look(std::span<Execution> /*chunk*/) { return absl::OkStatus(); }
  virtual void EndLook() {}
  // Whether the first look set the right runs in all chunks, as far as is known. If it still holds
  // after all looks, Assign() is not needed.
  virtual bool early_right() const { return false; }
  // Sets `run`; also sets `program` if time determines it.
  virtual void Assign(std::span<Execution> /*chunk*/) {}
  // All runs, by assigned id. `diagnostics` shows what was left out of the chunks.
  virtual std::vector<Run> Finish(Diagnostics* /*diagnostics*/) { return {}; }
};

// The host's record of a device's programs; read on first use.
namespace gpu_runs {
struct HostEvidence;
}
using EvidenceSource = std::function<absl::StatusOr<const gpu_runs::HostEvidence*>()>;

struct SplitContext {
  const Trace* trace = nullptr;                   // null: only the executions are known
  uint32_t plane = 0;                             // index into Trace::planes
  std::shared_ptr<const ExecutionTables> tables;  // they grow while chunks arrive
  std::span<const ModuleEvent> modules;           // events of run lines, by start
  // GPU: number of executions that are split by likelihood at once
  size_t likelihood_block = size_t{1} << 21;
  // GPU: with more executions that need the split by likelihood, the runs stay unknown (uncertain).
  uint64_t most_by_likelihood = std::numeric_limits<uint64_t>::max();
  EvidenceSource evidence;
};

// The relation between the events of one execution line.
enum class LineOrder : uint8_t {
  kAny,
  kQueued,  // sequential: an overlap is noted
  kNested,  // nested; within a run if runs are events
};

// Ops of a framework that run on threads of the host, in a plane without the stat that a kind
// needs.
struct HostOps {
  std::string_view line_prefix = {};  // of the lines that run ops; empty: all lines
  std::vector<uint8_t> entries = {};  // by event metadata: 1 if its events are ops
};

struct KindRules {
  DeviceKind kind = DeviceKind::kCustom;
  std::string_view name;  // name for --device and in output
  // Whether the kind claims a plane with this name. Sets the ordinal of the device if it has one.
  bool (*claims)(std::string_view plane_name, std::optional<int64_t>* ordinal) = nullptr;
  LineRole (*role)(std::string_view line_name) = nullptr;
  LineOrder line_order = LineOrder::kAny;
  // Stats of execution events. Those that `interpret` reads by column come first.
  std::span<const KindStat> stats = {};
  // If not empty: events without this stat, the first in `stats`, are not executions.
  std::string_view needed_stat = {};
  // The ops of a plane without that stat, if the trace has no other executions. Null: a plane
  // without the stat executes nothing.
  std::optional<HostOps> (*find_host_ops)(const Trace& trace, const Plane& plane) = nullptr;
  // Whether an event with this name but without that stat may be a completion marker.
  bool (*marks_completion)(std::string_view name) = nullptr;
  // Name of the stat with the device's own clock; empty: the kind has none.
  std::string_view device_clock_stat = {};
  // Positions in `numbers` of the id that an execution shares with its launch, and of the bytes of
  // a copy.
  std::optional<size_t> launch_id = {}, copied_bytes = {};
  // Whether executions may have stats of their launch (timing/launch_configs.h).
  bool has_launches = false;
  // Whether the trace has FLOPs and HBM bytes of each op, as counted by the compiler.
  bool tells_costs = false;
  // Whether the split of this plane's executions needs the record of the host. Null: no.
  bool (*asks_host)(const Plane& plane) = nullptr;
  // Name of the stat that marks planes for which ranges of host time are also runs.
  std::string_view in_ranges_stat = {};
  // Stats of graphs; that of the node is also in `stats`. The program determines the ops of nodes.
  GraphStats graph_stats = {};
  // Whether the device is the host itself. It is timed only if there is no accelerator, or on
  // request. A plane holds several devices, which Draft::ordinal distinguishes.
  bool is_host = false;
  // Completes the draft of row `row` of the batch. The draft already has the shown name as its
  // kernel, and the values of the table of stats. Null: the draft is complete.
  void (*interpret)(const EventBatch& batch, size_t row, std::string_view name,
                    Draft* draft) = nullptr;
  // The same for an event of a run line, of which only the name is read. Null: runs are not events.
  // Otherwise programs belong to runs, and executions belong to runs by time.
  void (*interpret_run)(std::string_view name, Draft* draft) = nullptr;
  bool runs_are_events() const { return interpret_run != nullptr; }
  // Whether an op contains other ops, which may end after it. Null: no op does.
  bool (*has_body)(const OpInfo& op) = nullptr;
  // For a completion marker: the flow id of the completed op, or kNoFlow.
  int64_t (*completed_flow)(const EventBatch& batch, size_t row) = nullptr;
  std::unique_ptr<RunSplitter> (*make_splitter)(const SplitContext& context) = nullptr;
};

template <typename Splitter>
std::unique_ptr<RunSplitter> MakeSplitter(const SplitContext& context) {
  return std::make_unique<Splitter>(context);
}

extern const KindRules kGpuRules, kTpuRules, kCpuRules, kCustomRules;

const KindRules& RulesOf(DeviceKind kind);
// The kind with this name, ignoring case; null: there is no such kind.
const KindRules* FindKind(std::string_view name);
// The kind that claims a plane, and its ordinal; null: the plane is not a device.
const KindRules* FindKindOfPlane(std::string_view plane_name, std::optional<int64_t>* ordinal);

// The number of "/device:GPU:7" or "/device:GPU:7 [pid]" for the prefix "/device:GPU:".
std::optional<int64_t> OrdinalAfter(std::string_view plane_name, std::string_view prefix);
// Whether the rest of a plane name marks a plane that was merged from a subprocess: " [7]" or "
// (pid 7)".
bool IsSubprocess(std::string_view rest);

// Whether the op of a flow completed after `end_ps`. The body of a synchronous op is complete
// before the op returns. A missing marker counts as later, because it is after the end of the
// trace.
bool CompletesLater(const Completions& completions, int64_t flow, int64_t end_ps);

// Whether the op is one half of a pair such as "copy-start.3" and "copy-done.3".
bool IsHalfOfPair(std::string_view op);

// Whether any line of the plane has an event.
bool HasEvents(const Trace& trace, const Plane& plane);

// Whether the plane's metadata has a stat with this name; false for an empty name.
bool HasStat(const Plane& plane, std::string_view name);
// By entry of the plane's event metadata: 1 if it has one of these stats.
std::vector<uint8_t> EntriesWith(const Plane& plane, std::span<const std::string_view> stats);
// By entry of the event metadata: 1 if events of this entry may be executions or completion markers
// even without stats of their own. For kinds with a needed stat.
std::vector<uint8_t> EntriesWorthReading(const Plane& plane, const KindRules& rules);

// The category from the opcode, from other data in the trace, or from names; never from line names.
Category Classify(const Draft& draft);
// Whether it is a while, conditional or call. The ops of its body are executions of their own.
bool HasBody(const Draft& draft);

// Whether a stat is an integer. Doubles are not converted.
inline bool IsInteger(StatType type) {
  return type == StatType::kInt64 || type == StatType::kUint64;
}

}  // namespace xplane_time
