// What devices executed, as columns: what device kinds fill and split into runs, and what
// timing measures.
//
// A run is one execution of a compiled function on one device. Columns of one length, rows
// ordered by (start, duration descending, file order). Columns that a device kind does not
// use are empty.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "xplane_time/merge.h"
#include "xplane_time/runs.h"
#include "xplane_time/select.h"

namespace xplane_time {

inline constexpr uint32_t kNone = ~uint32_t{0};
inline constexpr int64_t kNoOrdinal = std::numeric_limits<int64_t>::min();
inline constexpr uint64_t kNoFlow = ~uint64_t{0};

// Everything about an execution that is not its time. Interned: equal ones share an id.
struct OpInfo {
  std::string kernel;  // display name if set, else the name
  std::string hlo_op;
  std::string tf_op, scope, source;  // empty: unknown
  Category category = Category::kCompute;
  std::optional<int64_t> flops, bytes_accessed;  // of one execution
  uint32_t symbol = 0;  // small; equal where hlo_op and kernel are: the same to the program
};

struct ProgramInfo {
  std::string function;  // hlo_module, or the module event's name without its id
  std::optional<std::string> program_id;
};

// What is known of a device's ops and programs; columns refer to both by index.
struct ExecutionTables {
  std::vector<OpInfo> ops;
  std::vector<ProgramInfo> programs;
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
using Completions = absl::flat_hash_map<uint64_t, int64_t>;

struct DeviceExecutions {
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
  std::vector<int64_t> scope_id;                             // GPU; 0: none

  size_t size() const { return start_ps.size(); }
  int64_t end_ps(size_t row) const { return start_ps[row] + duration_ps[row]; }
  const OpInfo& op_info(size_t row) const { return tables->ops[op[row]]; }
  Interval IntervalOn(Clock clock, size_t row) const {
    if (clock == Clock::kProfile) return {start_ps[row], end_ps(row)};
    return {device_start_ps[row], device_start_ps[row] + device_duration_ps[row]};
  }

  // Calls change(column of this, column of `other`) for each pair.
  template <typename Change>
  void ForEachColumn(DeviceExecutions* other, Change change) {
    change(&start_ps, &other->start_ps);
    change(&duration_ps, &other->duration_ps);
    change(&op, &other->op);
    change(&program, &other->program);
    change(&line, &other->line);
    change(&run, &other->run);
    change(&device_start_ps, &other->device_start_ps);
    change(&device_duration_ps, &other->device_duration_ps);
    change(&run_id, &other->run_id);
    change(&device_ordinal, &other->device_ordinal);
    change(&flow_id, &other->flow_id);
    change(&correlation_id, &other->correlation_id);
    change(&scope_id, &other->scope_id);
  }

  // Appends rows [begin, end) of `from`.
  void AppendRows(DeviceExecutions* from, size_t begin, size_t end) {
    ForEachColumn(from, [&](auto* to, auto* column) {
      if (column->empty()) return;
      to->insert(to->end(), column->begin() + static_cast<ptrdiff_t>(begin),
                 column->begin() + static_cast<ptrdiff_t>(end));
    });
  }
  void SwapRows(DeviceExecutions* other) {
    ForEachColumn(other, [](auto* one, auto* two) { one->swap(*two); });
  }
  // Leaves rows [begin, end), moved to the front.
  void KeepRows(size_t begin, size_t end) {
    ForEachColumn(this, [&](auto* column, auto* /*same*/) {
      if (column->empty()) return;
      column->resize(end);
      column->erase(column->begin(), column->begin() + static_cast<ptrdiff_t>(begin));
    });
  }
  // Becomes the rows `order`, in that order, of `from`.
  void GatherRows(std::span<const uint32_t> order, DeviceExecutions* from) {
    ForEachColumn(from, [&](auto* to, auto* column) {
      to->clear();
      if (column->empty()) return;
      to->reserve(order.size());
      for (const uint32_t row : order) to->push_back((*column)[row]);
    });
  }
};

// One run. Times of the executions in it are on the program's clock; `profile` places it
// on the capture's axis (TPU: the module event).
struct Run {
  // The end of `profile` before there is an execution.
  static constexpr int64_t kUnset = std::numeric_limits<int64_t>::min();

  uint32_t program = kNone;
  Interval profile = {0, kUnset};
  bool uncertain = false;           // ways of splitting disagree about this program
  std::optional<int64_t> key = {};  // CPU: run_id

  // Makes `profile` contain the execution.
  void Cover(const DeviceExecutions& chunk, size_t row) {
    if (profile.end_ps == kUnset) profile.start_ps = chunk.start_ps[row];
    profile.end_ps = std::max(profile.end_ps, chunk.end_ps(row));
  }
};

}  // namespace xplane_time
