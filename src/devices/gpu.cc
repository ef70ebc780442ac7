// GPU planes: "/device:GPU:7". Executions are the events of stream lines, kernels and
// copies alike; every other line is derived. How
// they split into runs: gpu_runs/splitter.h.
#include "devices/device_kind.h"
#include "devices/gpu_runs/splitter.h"

namespace xplane_time {
namespace {

enum GpuColumn : size_t {
  kHloModule,
  kProgramId,
  kHloOp,
  kCorrelationId,
  kScopeRangeId,
  kTfOp,
  kName,
  kSource,
  kMemcpyDetails,
  kFlops,
  kBytesAccessed,
};
constexpr KindStat kStats[] = {{"hlo_module", StatUse::kMeaning},
                               {"program_id", StatUse::kMeaning},
                               {"hlo_op", StatUse::kMeaning},
                               {"correlation_id", StatUse::kNumber},
                               {"scope_range_id", StatUse::kNumber},
                               {"tf_op", StatUse::kMeaning},
                               {"name", StatUse::kMeaning},
                               {"source", StatUse::kMeaning},
                               {"memcpy_details", StatUse::kPresence},
                               {"flops", StatUse::kMeaning},
                               {"bytes_accessed", StatUse::kMeaning}};

bool Claims(std::string_view name, std::optional<int64_t>* ordinal) {
  *ordinal = OrdinalAfter(name, "/device:GPU:");
  return ordinal->has_value();
}

LineRole Role(std::string_view line) {
  if (line.starts_with("Stream #")) return LineRole::kExecution;
  if (line == "_counters_") return LineRole::kCounter;
  return LineRole::kDerived;
}

void Interpret(const EventBatch& batch, size_t row, std::string_view name, Draft* draft) {
  const auto stat = [&](size_t column) { return batch.Stat(column, row); };
  draft->kernel = name;
  draft->function = stat(kHloModule).text;
  draft->program_id = stat(kProgramId);
  draft->hlo_op = stat(kHloOp).text;
  // The annotation is "XlaModule:" for every kernel of JAX; the op is in `name`.
  const std::string_view tf_op = stat(kTfOp).text;
  draft->tf_op = tf_op.starts_with("XlaModule:") ? std::string_view() : tf_op;
  draft->scope = stat(kName).text;
  draft->source = stat(kSource).text;
  draft->is_copy = stat(kMemcpyDetails).type != StatType::kAbsent;
  draft->flops = IntegerOf(stat(kFlops));
  draft->bytes_accessed = IntegerOf(stat(kBytesAccessed));
}

void Numbers(const EventBatch& batch, std::span<const uint32_t> rows, DeviceExecutions* to) {
  AppendNumbers(
      batch, kCorrelationId, rows, [](StatType, uint64_t bits) { return bits; },
      &to->correlation_id);
  AppendNumbers(
      batch, kScopeRangeId, rows,
      [](StatType, uint64_t bits) { return static_cast<int64_t>(bits); }, &to->scope_id);
}

}  // namespace

const KindRules kGpuRules = {.kind = DeviceKind::kGpu,
                             .name = "gpu",
                             .claims = Claims,
                             .role = Role,
                             .line_order = LineOrder::kQueued,
                             .stats = kStats,
                             .interpret = Interpret,
                             .numbers = Numbers,
                             .make_splitter = gpu_runs::MakeSplitter};

}  // namespace xplane_time
