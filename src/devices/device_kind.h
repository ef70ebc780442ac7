// A device kind is one file: which planes it claims, what its lines are, which stats
// it needs, what an event means and how executions split into runs.
//
// To add a kind: write src/devices/KIND.cc with a KindRules, and add it to kKinds in
// registry.cc.
#ifndef XPLANE_TIME_SRC_DEVICES_DEVICE_KIND_H_
#define XPLANE_TIME_SRC_DEVICES_DEVICE_KIND_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "timing/host_evidence.h"
#include "xplane_time/read.h"
#include "xplane_time/runs.h"
#include "xplane_time/select.h"

namespace xplane_time {

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
  std::string_view kernel, hlo_op, tf_op, scope, source;
  std::string_view opcode;  // of hlo_op, from the capture's Hlo Protos; empty: unknown
  std::string_view hlo_category;
  bool is_copy = false;  // the trace says so (memcpy_details)
  std::optional<int64_t> flops, bytes_accessed;
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

struct KindStat {
  std::string_view name;
  StatUse use;
};

// The end of a run's profile interval before it has an execution.
inline constexpr int64_t kUnset = std::numeric_limits<int64_t>::min();

// Makes the run's profile interval contain the execution.
inline void Cover(const DeviceExecutions& chunk, size_t row, Run* run) {
  if (run->profile.end_ps == kUnset) run->profile.start_ps = chunk.start_ps[row];
  run->profile.end_ps = std::max(run->profile.end_ps, chunk.end_ps(row));
}

// Splits a device's executions into runs. All chunks of the device come in order of
// start, once for each look that is wanted, then once more to be assigned.
class RunSplitter {
 public:
  virtual ~RunSplitter() = default;
  virtual bool WantsLook() const { return false; }
  virtual absl::Status Look(const DeviceExecutions& /*chunk*/) { return absl::OkStatus(); }
  virtual void EndLook() {}
  // The first look's runs, for the chunk that it saw last, as far as can be told by then;
  // false from the first chunk on of which that is not known.
  virtual bool AssignEarly(DeviceExecutions* /*chunk*/) { return false; }
  // After the looks: whether all chunks were assigned early, to the right runs. Then
  // nothing is left to assign.
  virtual bool early_was_right() const { return false; }
  // Fills chunk->run, and chunk->program where time tells.
  virtual void Assign(DeviceExecutions* chunk) = 0;
  // All runs, by the ids assigned. `diagnostics` tells what was left out of the chunks.
  virtual std::vector<Run> Finish(Diagnostics* diagnostics) = 0;
};

// Evidence is read when it is first needed.
using EvidenceSource = std::function<absl::StatusOr<const HostEvidence*>()>;

struct SplitContext {
  uint32_t plane;
  std::shared_ptr<const ExecutionTables> tables;  // grow while chunks come
  std::span<const ModuleEvent> modules;           // TPU, ordered by start
  bool may_have_programs = true;                  // GPU
  size_t likelihood_block = size_t{1} << 21;      // GPU: executions split by likelihood at once
  EvidenceSource evidence;                        // GPU
};

struct KindRules {
  DeviceKind kind;
  // Whether a plane with this name is such a device; sets its ordinal where it has one.
  bool (*claims)(std::string_view plane_name, std::optional<int64_t>* ordinal);
  LineRole (*role)(std::string_view line_name);
  // Stats of execution events, in the order that `interpret` and `numbers` expect.
  std::span<const KindStat> stats;
  // Without a stat of this name a plane has no executions; empty: it may have.
  std::string_view needed_stat;
  // Fills the draft from row `row` of the batch. `name` is the event's shown name.
  void (*interpret)(const EventBatch& batch, size_t row, std::string_view name, Draft* draft);
  // The same for an event of a run line, of which only the name is read.
  void (*interpret_run)(std::string_view name, Draft* draft);
  // Appends the numbers of some rows to the columns of this kind.
  void (*numbers)(const EventBatch& batch, std::span<const uint32_t> rows, DeviceExecutions* to);
  std::unique_ptr<RunSplitter> (*make_splitter)(const SplitContext& context);
};

extern const KindRules kGpuRules, kTpuRules, kCpuRules, kCustomRules;

const KindRules& RulesOf(DeviceKind kind);
std::span<const KindRules* const> AllKinds();

// "/device:GPU:7" or "/device:GPU:7 [pid]" with prefix "/device:GPU:": the number.
std::optional<int64_t> OrdinalAfter(std::string_view plane_name, std::string_view prefix);

// Of a CPU completion marker: the flow of the thunk that is complete, or kNoFlow.
uint64_t CompletedFlow(const EventBatch& batch, size_t row);
// Whether a CPU op contains others: call, while, conditional.
bool HasBody(const OpInfo& op);
// Whether the op of a flow was complete after `end_ps`. A synchronous body is complete
// before its op returns; a marker that is missing comes after the trace's end.
bool CompletesLater(const absl::flat_hash_map<uint64_t, int64_t>& completion_ps, uint64_t flow,
                    int64_t end_ps);

// From the opcode, from what else the trace says, from names; never from line names.
Category Classify(const Draft& draft);

// Stat access: numbers as they are, doubles not converted.
inline std::optional<int64_t> IntegerOf(const StatValue& value) {
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  const bool known =
      value.type == StatType::kInt64 || (value.type == StatType::kUint64 && value.bits <= kMost);
  return known ? std::optional(static_cast<int64_t>(value.bits)) : std::nullopt;
}

// Appends convert(type, bits) of a stat of each row to `numbers`.
template <typename Convert, typename Number>
void AppendNumbers(const EventBatch& batch, size_t column, std::span<const uint32_t> rows,
                   Convert convert, std::vector<Number>* numbers) {
  const StatColumn& own = batch.stats[column];
  if (own.empty() && !batch.InMetadata(column)) {
    numbers->resize(numbers->size() + rows.size(), convert(StatType::kAbsent, 0));
    return;
  }
  std::array<Number, EventBatch::kBatchSize> converted;
  Number* to = converted.data();
  const StatType* const types = own.type.data();
  const uint64_t* const bits = own.bits.data();
  for (const uint32_t row : rows) {
    if (types != nullptr && types[row] != StatType::kAbsent) {
      *to++ = convert(types[row], bits[row]);
    } else {
      const StatValue& value = batch.MetadataStat(column, batch.metadata[row]);
      *to++ = convert(value.type, value.bits);
    }
  }
  numbers->insert(numbers->end(), converted.data(), to);
}

}  // namespace xplane_time

#endif  // XPLANE_TIME_SRC_DEVICES_DEVICE_KIND_H_
