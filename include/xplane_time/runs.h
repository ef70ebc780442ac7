// Runs: what executed on each device, and how it splits into runs of functions.
//
// Enters: a Trace and a Selection. Leaves: per device the executions as columns, and
// the runs (occurrences) of each program with their times. A run is one execution of a
// compiled function on one device.
//
//   GPU   events on stream lines with equal (hlo_module, program_id), split by root
//         scope_range_id; else by correlation_id -> host launch -> the host event that
//         executes the module; else the likeliest split of the sequence
//   TPU   one `XLA Modules` event; ops belong by start time on the profile clock and
//         are measured by the device clock where they carry it
//   CPU   thunks with equal (hlo_module, program_id, run_id, device_ordinal)
//
//         run 0                    run 1
//   |-k0-| |--k1--|      ... |-k0-| |--k1--|
//   |----- span ---|         active = union of the kernels, gap = span - active
//
// The rules of a device kind are in one file (src/devices). Filters come after the
// split: they choose what counts, never where a run begins. CollectOptions come before
// it: what they leave out is not seen at all.
#ifndef XPLANE_TIME_RUNS_H_
#define XPLANE_TIME_RUNS_H_

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "xplane_time/diagnostics.h"
#include "xplane_time/merge.h"
#include "xplane_time/select.h"
#include "xplane_time/trace.h"

namespace xplane_time {

enum class Clock : uint8_t { kProfile, kDevice };
enum class ClockChoice : uint8_t { kAuto, kDevice, kProfile };
std::string_view ClockName(Clock clock);
// "auto", "device", "profile". Errors: InvalidArgument.
absl::StatusOr<ClockChoice> ParseClockChoice(std::string_view text);

enum class Category : uint8_t { kCompute, kCopy, kCollective, kOther };
std::string_view CategoryName(Category category);

// Everything about an execution that is not its time. Interned: equal ones share an id.
struct OpInfo {
  std::string kernel;  // display name if set, else the name
  std::string hlo_op;
  std::string tf_op, scope, source;  // empty: unknown
  Category category = Category::kCompute;
  std::optional<int64_t> flops, bytes_accessed;  // of one execution
  friend bool operator==(const OpInfo&, const OpInfo&) = default;
};

struct ProgramInfo {
  std::string function;  // hlo_module, or the module event's name without its id
  std::optional<std::string> program_id;
  friend bool operator==(const ProgramInfo&, const ProgramInfo&) = default;
};

inline constexpr uint32_t kNone = ~uint32_t{0};

// A TPU module event, on the profile clock.
struct ModuleEvent {
  Interval interval;
  uint32_t program = kNone;
};

// An aggregated event (num_occurrences): a count and a total, no place on the axis.
struct AggregatedExecution {
  uint32_t op = kNone, program = kNone;
  int64_t occurrences = 0, total_ps = 0;
};

// What is known of a device's ops and programs; columns refer to both by index.
struct ExecutionTables {
  std::vector<OpInfo> ops;
  std::vector<ProgramInfo> programs;
};

inline constexpr int64_t kNoOrdinal = std::numeric_limits<int64_t>::min();
inline constexpr uint64_t kNoFlow = ~uint64_t{0};

// What one device executed, or a part of it. Columns of equal length, ordered by (start,
// duration descending, file order). Columns that a device kind does not use are empty.
struct DeviceExecutions {
  DevicePlane plane;
  std::optional<int64_t> ordinal;  // plane.ordinal, or the CPU's device_ordinal
  std::shared_ptr<const ExecutionTables> tables;

  std::vector<int64_t> start_ps, duration_ps;  // profile clock
  std::vector<uint32_t> op, program;           // program: kNone where unattributed
  std::vector<uint32_t> line;                  // the timeline's first, into Trace::lines
  std::vector<uint32_t> run;                   // into the device's runs, or kNone
  std::vector<int64_t> device_start_ps, device_duration_ps;  // TPU; kNoTimePs: absent
  std::vector<int64_t> run_id;                               // CPU
  std::vector<int64_t> device_ordinal;                       // CPU; kNoOrdinal: absent
  std::vector<uint64_t> flow_id;                             // CPU; kNoFlow: absent
  std::vector<uint64_t> correlation_id;                      // GPU; 0: none
  std::vector<int64_t> root_scope_id;                        // GPU; 0: none

  std::vector<ModuleEvent> modules;  // TPU, ordered by start
  std::vector<AggregatedExecution> aggregated;
  // CPU: when the op with a flow id was complete, by the marker that the trace holds. Of
  // ops with a body; the markers of all others together are under kNoFlow.
  absl::flat_hash_map<uint64_t, int64_t> completion_ps;

  size_t size() const { return start_ps.size(); }
  int64_t end_ps(size_t row) const { return start_ps[row] + duration_ps[row]; }
  const OpInfo& op_info(size_t row) const { return tables->ops[op[row]]; }
};

struct CollectOptions {
  int threads = 1;
  std::optional<int64_t> min_duration_ps;  // shorter executions are left out (and counted)
  std::optional<uint64_t> max_events;      // a device's first N executions in file order
  // Where not null: counts the events read so far, for showing progress.
  std::atomic<uint64_t>* events_done = nullptr;
};

// One run. Times of the executions in it are on the program's clock; `profile` places it
// on the capture's axis (TPU: the module event).
struct Run {
  uint32_t program = kNone;
  Interval profile;
  bool uncertain = false;           // ways of splitting disagree about this program
  std::optional<int64_t> key = {};  // CPU: run_id
};

struct DeviceRuns {
  DeviceExecutions executions;
  std::vector<Run> runs;
};

// Reads the selected devices, all of their executions at once, and splits them into runs.
// (A report does the same chunk by chunk.) Devices without any execution are there,
// empty. On CPU one entry a device_ordinal. Errors: as EventReader. Memory: about 60
// bytes an execution.
absl::StatusOr<std::vector<DeviceRuns>> CollectRuns(const Trace& trace, const Selection& selection,
                                                    const CollectOptions& options,
                                                    Diagnostics* diagnostics);

// A row's interval on a clock.
Interval ExecutionInterval(const DeviceExecutions& device, size_t row, Clock clock);

}  // namespace xplane_time

#endif  // XPLANE_TIME_RUNS_H_
