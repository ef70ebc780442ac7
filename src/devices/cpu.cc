// The CPU as a device: thunks on the lines of "/host:CPU".
//
// A thunk has a stat hlo_op and is neither a completion marker ("end: ...") nor a launch for
// another device (correlation_id). One plane holds the thunks of several devices, which
// device_ordinal distinguishes. A run is (hlo_module, program_id, run_id, device_ordinal).
//
// `call`, `while` and `conditional` contain their bodies only in synchronous execution. An
// asynchronous op returns at once. Its completion marker, connected by a flow id, comes after its
// end.
//
// Frameworks without XLA run ops on threads of the host. Such ops count only if nothing else in the
// trace executed: no accelerator has events, and the plane has neither thunks nor launches.
//
//   PyTorch      events of the category cpu_op (in 2021: Operator), on every thread
//   TensorFlow   all events on the lines tf_Compute/..., the threads of its executor
//
// They nest, so self time is computed within a thread. Their functions are unknown.
#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "devices/device_kind.h"

namespace xplane_time {
namespace {

constexpr int64_t kNoRunId = std::numeric_limits<int64_t>::min();

// Columns of stats that are read by index.
enum CpuColumn : size_t { kHloOp, kCorrelationId, kProgramId, kConsumer };
constexpr KindStat kCpuStats[] = {
    {"hlo_op", StatUse::kMeaning, &Draft::hlo_op},
    {"correlation_id", StatUse::kPresence},
    {"program_id", StatUse::kMeaning},
    {"_c", StatUse::kNumber},
    {.name = "_p", .use = StatUse::kNumber, .number = Execution::kFlowId, .absent = kNoFlow},
    {.name = "run_id", .use = StatUse::kNumber, .number = Execution::kRunId, .absent = kNoRunId},
    {"hlo_module", StatUse::kMeaning, &Draft::function},
    {"device_ordinal", StatUse::kMeaning, nullptr, &Draft::ordinal},
    {"tf_op", StatUse::kMeaning, &Draft::tf_op}};

bool ClaimsCpu(std::string_view name, std::optional<int64_t>* /*ordinal*/) {
  constexpr std::string_view kHost = "/host:CPU";
  return name == kHost || (name.starts_with(kHost) && IsSubprocess(name.substr(kHost.size())));
}

LineRole ClassifyCpuLine(std::string_view /*line*/) { return LineRole::kExecution; }

constexpr std::string_view kEnd = "end: ";

bool MarksCompletion(std::string_view name) { return name.starts_with(kEnd); }

bool NamesBody(std::string_view op) {
  constexpr std::string_view kWithBody[] = {"call", "while", "cond"};
  return std::any_of(std::begin(kWithBody), std::end(kWithBody),
                     [&](std::string_view name) { return op.starts_with(name); });
}

void InterpretCpuEvent(const EventBatch& batch, size_t row, std::string_view name, Draft* draft) {
  draft->is_completion = MarksCompletion(name);
  draft->completes_body = draft->is_completion && NamesBody(name.substr(kEnd.size()));
  draft->is_execution = !draft->is_completion &&
                        batch.Stat(kHloOp, row).type != StatType::kAbsent &&
                        batch.Stat(kCorrelationId, row).type == StatType::kAbsent;
  draft->program_id = batch.Stat(kProgramId, row);
}

// Runs by (program, run_id), in order of appearance. Without a run_id (jax 0.6.0 writes none) all
// executions of a program are one uncertain run.
class RunIdSplitter : public RunSplitter {
 public:
  explicit RunIdSplitter(const SplitContext& context)
      : plane_(context.plane), tables_(context.tables) {}

  void Assign(std::span<Execution> chunk) override {
    for (Execution& execution : chunk) {
      if (execution.program == kNone) continue;
      execution.run = RunOf(execution.program, execution.numbers[Execution::kRunId]);
      runs_[execution.run].Cover(execution);
    }
  }

  std::vector<Run> Finish(Diagnostics* diagnostics) override {
    for (const Run& run : runs_) {
      if (!run.uncertain) continue;
      diagnostics->Note(DiagnosticCode::kRunsUncertain,
                        tables_->programs[run.program].function +
                            ": its thunks have no run_id, so all of them count as one run",
                        {.plane = plane_});
    }
    return std::move(runs_);
  }

 private:
  uint32_t RunOf(uint32_t program, int64_t run_id) {
    const bool has_id = run_id != kNoRunId;
    const std::optional<int64_t> key = has_id ? std::optional(run_id) : std::nullopt;
    if (last_ != kNone && runs_[last_].program == program && runs_[last_].key == key) {
      return last_;
    }
    const auto next = static_cast<uint32_t>(runs_.size());
    const auto [found, inserted] = run_of_id_.try_emplace({program, run_id}, next);
    if (inserted) {
      runs_.push_back({.program = program, .uncertain = !has_id, .key = key});
    }
    last_ = found->second;
    return last_;
  }

  const uint32_t plane_;
  const std::shared_ptr<const ExecutionTables> tables_;
  absl::flat_hash_map<std::pair<uint32_t, int64_t>, uint32_t> run_of_id_;
  std::vector<Run> runs_;
  uint32_t last_ = kNone;
};

int64_t CompletedFlow(const EventBatch& batch, size_t row) {
  const StatValue value = batch.Stat(kConsumer, row);
  return IsInteger(value.type) ? static_cast<int64_t>(value.bits) : kNoFlow;
}

bool AnyAcceleratorRan(const Trace& trace) {
  return std::ranges::any_of(FindDevicePlanes(trace), [&](const DevicePlane& device) {
    return !RulesOf(device.kind).is_host && HasEvents(trace, trace.planes[device.plane]);
  });
}

// Entries of the plane whose events PyTorch calls ops.
std::vector<uint8_t> FindTorchOps(const Plane& plane) {
  absl::flat_hash_set<int64_t> category_ids;
  for (const StatMetadata& stat : plane.stat_metadata.entries) {
    if (stat.name == "category") category_ids.insert(stat.id);
  }
  std::vector<uint8_t> ops;
  for (const EventMetadata& entry : plane.event_metadata.entries) {
    const auto own = std::span(plane.metadata_stats).subspan(entry.first_stat, entry.stat_count);
    ops.push_back(std::ranges::any_of(own, [&](const Stat& stat) {
      return category_ids.contains(stat.metadata_id) &&
             (stat.value.text == "cpu_op" || stat.value.text == "Operator");
    }));
  }
  return ops;
}

std::optional<HostOps> FindHostOps(const Trace& trace, const Plane& plane) {
  if (HasStat(plane, "correlation_id") || AnyAcceleratorRan(trace)) return std::nullopt;
  std::vector<uint8_t> torch_ops = FindTorchOps(plane);
  if (std::ranges::count(torch_ops, 1) > 0) return HostOps{.entries = std::move(torch_ops)};
  constexpr std::string_view kTensorFlowThreads = "tf_Compute";
  const auto lines = std::span(trace.lines).subspan(plane.first_line, plane.line_count);
  const bool any = std::ranges::any_of(lines, [&](const Line& line) {
    return line.event_count > 0 && line.name.starts_with(kTensorFlowThreads);
  });
  if (!any) return std::nullopt;
  return HostOps{kTensorFlowThreads, std::vector<uint8_t>(plane.event_metadata.entries.size(), 1)};
}

bool HasBody(const OpInfo& op) { return NamesBody(op.hlo_op); }

}  // namespace

const KindRules kCpuRules = {.kind = DeviceKind::kCpu,
                             .name = "cpu",
                             .claims = ClaimsCpu,
                             .role = ClassifyCpuLine,
                             .line_order = LineOrder::kNested,
                             .stats = kCpuStats,
                             .needed_stat = kCpuStats[kHloOp].name,
                             .find_host_ops = FindHostOps,
                             .marks_completion = MarksCompletion,
                             .is_host = true,
                             .interpret = InterpretCpuEvent,
                             .has_body = HasBody,
                             .completed_flow = CompletedFlow,
                             .make_splitter = MakeSplitter<RunIdSplitter>};

}  // namespace xplane_time
