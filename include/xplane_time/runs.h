// Runs: what executed on each device, and how it splits into runs of functions.
//
// Enters: a Trace and a Selection. Leaves: per device the executions as columns, and
// the runs (occurrences) of each program with their times. A run is one execution of a
// compiled function on one device.
//
//   GPU   events on stream lines with equal (hlo_module, program_id), split by root
//         scope_range_id; else by correlation_id -> host launch -> the host event that
//         executes the module; else by the smallest period of the sequence
//   TPU   one `XLA Modules` event; ops belong by start time on the profile clock and
//         are measured by the device clock where they carry it
//   CPU   thunks with equal (hlo_module, program_id, run_id, device_ordinal)
//
//         run 0                    run 1
//   |-k0-| |--k1--|      ... |-k0-| |--k1--|
//   |----- span ---|         active = union of the kernels, gap = span - active
//
// The rules of a device kind are in one file (src/devices). Filters come after the
// split: they choose what counts, never where a run begins.
#ifndef XPLANE_TIME_RUNS_H_
#define XPLANE_TIME_RUNS_H_

#include <atomic>
#include <cstdint>
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

// What one device executed. Columns of equal length, ordered by (start, duration
// descending, file order). Columns that a device kind does not use are empty.
struct DeviceExecutions {
  DevicePlane plane;
  std::optional<int64_t> ordinal;  // plane.ordinal, or the CPU's device_ordinal
  std::vector<OpInfo> ops;
  std::vector<ProgramInfo> programs;

  std::vector<int64_t> start_ps, duration_ps;  // profile clock
  std::vector<uint32_t> op, program;           // program: kNone where unattributed
  std::vector<uint32_t> line;                  // the timeline's first, into Trace::lines
  std::vector<uint32_t> run;                   // into the device's runs, or kNone (AssignRuns)
  std::vector<int64_t> device_start_ps, device_duration_ps;  // TPU; kNoTimePs: absent
  std::vector<int64_t> run_id;                               // CPU
  std::vector<uint64_t> correlation_id;                      // GPU; 0: none
  std::vector<int64_t> root_scope_id;                        // GPU; 0: none
  std::vector<uint8_t> asynchronous;                         // CPU: 1 where the body ends later

  std::vector<ModuleEvent> modules;  // TPU, ordered by start
  std::vector<AggregatedExecution> aggregated;

  size_t size() const { return start_ps.size(); }
  int64_t end_ps(size_t row) const { return start_ps[row] + duration_ps[row]; }
};

struct CollectOptions {
  int threads = 1;
  std::optional<int64_t> min_duration_ps;  // shorter executions are left out (and counted)
  std::optional<uint64_t> max_events;      // a device's first N executions in file order
  // Where not null: counts the events read so far, for showing progress.
  std::atomic<uint64_t>* events_done = nullptr;
};

// Reads the selected devices. Devices without any execution are there, empty. On CPU
// one entry a device_ordinal. Errors: as VisitEvents.
absl::StatusOr<std::vector<DeviceExecutions>> CollectExecutions(const Trace& trace,
                                                                const Selection& selection,
                                                                const CollectOptions& options,
                                                                Diagnostics* diagnostics);

// What the host recorded about the GPU programs of one host: launches by correlation
// id, and the events that execute a module.
struct HostEvidence {
  struct Launch {
    uint32_t line;  // Line::timeline
    Interval interval;
    bool ambiguous = false;  // several launches share the correlation id
  };
  struct Execution {
    uint32_t line;
    Interval interval;
    int64_t furthest_end_ps = 0;  // of this one and all before it
  };
  absl::flat_hash_map<uint64_t, Launch> launches;
  absl::flat_hash_map<std::string, std::vector<Execution>> executions;  // by module, by start
  size_t device_count = 0;  // GPUs of that host that have events
};

// Evidence for the devices on `device.plane`'s host. Reads the host planes of that
// capture and host.
absl::StatusOr<HostEvidence> CollectHostEvidence(const Trace& trace, const DevicePlane& device,
                                                 Diagnostics* diagnostics);

// One run. Times of the executions in it are on `clock`; `profile` places it on the
// capture's axis (TPU: the module event).
struct Run {
  uint32_t program = kNone;
  Interval profile;
  bool uncertain = false;           // ways of splitting disagree about this program
  std::optional<int64_t> key = {};  // CPU: run_id
};

// Splits a device's executions into runs: fills device->run and returns the runs,
// ordered by (program, start).
std::vector<Run> AssignRuns(DeviceExecutions* device, const HostEvidence& evidence,
                            Diagnostics* diagnostics);

// A measured run.
struct Occurrence {
  uint32_t run = kNone;  // into the runs
  uint32_t program = kNone;
  Clock clock = Clock::kProfile;
  int64_t start_ps = 0;     // on `clock`
  bool has_active = false;  // false: a module without ops; only span_ps is known
  int64_t active_ps = 0, span_ps = 0, sum_ps = 0;
  uint64_t kernels = 0;
  bool suspect = false;
  int64_t gap_ps() const { return span_ps - active_ps; }
};

// The clock of each program, and last that of the executions in no program: kDevice
// where every execution carries the device clock (and `choice` allows it). With
// ClockChoice::kDevice a program without it gets nothing.
std::vector<std::optional<Clock>> ChooseClocks(const DeviceExecutions& device, ClockChoice choice,
                                               Diagnostics* diagnostics);

// A row's interval on a clock.
Interval ExecutionInterval(const DeviceExecutions& device, size_t row, Clock clock);

// Measures each run over the executions whose op is wanted (by OpInfo index; nothing: all
// are), and marks suspects: a run whose ops (all of them, wanted or not) are a strict subset of the
// modal run's, where the mode covers at least 3/4 of at least 4 runs of the program; of
// tied modes the larger. Same order as `runs`; runs of programs without a clock and runs
// in which nothing is wanted are left out.
std::vector<Occurrence> MeasureRuns(const DeviceExecutions& device, const std::vector<Run>& runs,
                                    const std::vector<std::optional<Clock>>& clocks,
                                    const std::optional<std::vector<bool>>& op_wanted,
                                    Diagnostics* diagnostics);

}  // namespace xplane_time

#endif  // XPLANE_TIME_RUNS_H_
