// The CPU as a device: thunks on the lines of "/host:CPU".
//
// A thunk has a stat hlo_op and is neither a completion marker ("end: ...") nor a launch for
// another device (correlation_id). One plane holds the thunks of several devices, which
// device_ordinal distinguishes. A run is (hlo_module, program_id, run_id, device_ordinal).
//
// `call`, `while` and `conditional` contain their bodies only in synchronous execution. An
// asynchronous op returns at once. Its completion marker, connected by a flow id, comes after its
// end.
#include <algorithm>
#include <limits>
#include <utility>

#include "devices/device_kind.h"

namespace xplane_time {
namespace {

constexpr int64_t kNoRunId = std::numeric_limits<int64_t>::min();

// Columns of stats that are read by index.
enum CpuColumn : size_t { kHloOp, kCorrelationId, kProgramId, kConsumer };
constexpr KindStat kStats[] = {
    {"hlo_op", StatUse::kMeaning, &Draft::hlo_op},
    {"correlation_id", StatUse::kPresence},
    {"program_id", StatUse::kMeaning},
    {"_c", StatUse::kNumber},
    {.name = "_p", .use = StatUse::kNumber, .number = Execution::kFlowId, .absent = kNoFlow},
    {.name = "run_id", .use = StatUse::kNumber, .number = Execution::kRunId, .absent = kNoRunId},
    {"hlo_module", StatUse::kMeaning, &Draft::function},
    {"device_ordinal", StatUse::kMeaning, nullptr, &Draft::ordinal},
    {"tf_op", StatUse::kMeaning, &Draft::tf_op}};

bool Claims(std::string_view name, std::optional<int64_t>* /*ordinal*/) {
  constexpr std::string_view kHost = "/host:CPU";
  return name == kHost || (name.starts_with(kHost) && IsSubprocess(name.substr(kHost.size())));
}

LineRole Role(std::string_view /*line*/) { return LineRole::kExecution; }

constexpr std::string_view kEnd = "end: ";

bool MarksCompletion(std::string_view name) { return name.starts_with(kEnd); }

bool NamesBody(std::string_view op) {
  constexpr std::string_view kWithBody[] = {"call", "while", "cond"};
  return std::any_of(std::begin(kWithBody), std::end(kWithBody),
                     [&](std::string_view name) { return op.starts_with(name); });
}

void Interpret(const EventBatch& batch, size_t row, std::string_view name, Draft* draft) {
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

bool HasBody(const OpInfo& op) { return NamesBody(op.hlo_op); }

}  // namespace

const KindRules kCpuRules = {.kind = DeviceKind::kCpu,
                             .name = "cpu",
                             .claims = Claims,
                             .role = Role,
                             .line_order = LineOrder::kNested,
                             .stats = kStats,
                             .needed_stat = kStats[kHloOp].name,
                             .marks_completion = MarksCompletion,
                             .is_host = true,
                             .interpret = Interpret,
                             .has_body = HasBody,
                             .completed_flow = CompletedFlow,
                             .make_splitter = MakeSplitter<RunIdSplitter>};

}  // namespace xplane_time
