// The CPU as a device: thunks on the lines of "/host:CPU".
//
// A thunk has a stat hlo_op and is neither a completion marker ("end: ...") nor a
// launch for another device (correlation_id). One plane holds the thunks of several
// devices, told apart by device_ordinal. A run is (hlo_module, program_id, run_id,
// device_ordinal).
//
// `call`, `while` and `conditional` contain their bodies only in synchronous execution.
// An asynchronous one returns at once; its completion marker, tied to it by a flow id,
// comes after its end.
#include <algorithm>
#include <map>
#include <tuple>

#include "devices/device_kind.h"

namespace xplane_time {
namespace {

enum StatColumnIndex : size_t {
  kHloOp,
  kHloModule,
  kProgramId,
  kRunId,
  kDeviceOrdinal,
  kCorrelationId,
  kTfOp,
  kProducer,
  kConsumer,
};
constexpr std::string_view kStats[] = {
    "hlo_op",         "hlo_module", "program_id", "run_id", "device_ordinal",
    "correlation_id", "tf_op",      "_p",         "_c"};

bool Claims(std::string_view name, std::optional<int64_t>* /*ordinal*/) {
  return name == "/host:CPU" || (name.starts_with("/host:CPU [") && name.ends_with("]"));
}

LineRole Role(std::string_view /*line*/) { return LineRole::kExecution; }

void Interpret(const EventBatch& batch, size_t row, std::string_view name, Draft* draft) {
  const auto stat = [&](size_t column) -> const StatValue& { return batch.Stat(column, row); };
  const auto flow = [&](size_t column) {
    const StatValue value = stat(column);
    if (value.type == StatType::kInt64 || value.type == StatType::kUint64) {
      draft->flow_id = value.bits;
    }
  };
  if (name.starts_with("end: ")) {
    draft->is_execution = false;
    draft->is_completion = true;
    flow(kConsumer);
    return;
  }
  if (stat(kHloOp).type == StatType::kAbsent || stat(kCorrelationId).type != StatType::kAbsent) {
    draft->is_execution = false;
    return;
  }
  flow(kProducer);
  draft->kernel = name;
  draft->hlo_op = stat(kHloOp).text;
  draft->tf_op = stat(kTfOp).text;
  draft->function = stat(kHloModule).text;
  draft->program_id = stat(kProgramId);
  draft->ordinal = IntegerOf(stat(kDeviceOrdinal));
  draft->run_id = static_cast<int64_t>(stat(kRunId).bits);
}

std::vector<Run> Split(DeviceExecutions* device, const HostEvidence& /*evidence*/,
                       Diagnostics* /*diagnostics*/) {
  std::map<int64_t, uint32_t> label_of_run_id;
  std::vector<uint32_t> label(device->size());
  for (size_t row = 0; row < device->size(); ++row) {
    const auto next = static_cast<uint32_t>(label_of_run_id.size());
    label[row] = label_of_run_id.try_emplace(device->run_id[row], next).first->second;
  }
  return RunsFromLabels(device, label);
}

}  // namespace

const KindRules kCpuRules = {DeviceKind::kCpu, Claims, Role, kStats, Interpret, Split};

}  // namespace xplane_time
