// TPU planes: "/device:TPU:0", "/device:TPU:0 SparseCore 1".
//
//   XLA Modules   |---- jit_f(1219...) ----|---- jit_f(1219...) ----|
//   XLA Ops       |-op-||--op--| |--op--|   |-op-|...
//
// An op belongs to the module event with start <= op.start < end on the profile clock.
// Ops may carry device_offset_ps and device_duration_ps, the device's own clock.
#include <algorithm>
#include <limits>

#include "devices/device_kind.h"
#include "xplane_time/normalize.h"

namespace xplane_time {
namespace {

enum StatColumnIndex : size_t {
  kDeviceOffset,
  kDeviceDuration,
  kHloCategory,
  kFlops,
  kBytesAccessed,
  kTfOp,
  kSource,
};
constexpr std::string_view kStats[] = {"device_offset_ps",
                                       "device_duration_ps",
                                       "hlo_category",
                                       "flops",
                                       "bytes_accessed",
                                       "tf_op",
                                       "source"};

bool Claims(std::string_view name, std::optional<int64_t>* ordinal) {
  const size_t sparse = name.find(" SparseCore ");
  if (sparse != std::string_view::npos &&
      !OrdinalAfter(name.substr(sparse), " SparseCore ").has_value()) {
    return false;
  }
  *ordinal = OrdinalAfter(name.substr(0, sparse), "/device:TPU:");
  return ordinal->has_value();
}

LineRole Role(std::string_view line) {
  if (line == "XLA Ops" || line == "Sparse Core Ops") return LineRole::kExecution;
  if (line == "XLA Modules" || line == "Sparse Core Modules") return LineRole::kRun;
  if (line.find("Async") != std::string_view::npos) return LineRole::kAsync;
  if (line == "_counters_") return LineRole::kCounter;
  return LineRole::kDerived;
}

// Splits "jit_f(12190760917235803885)" into the function and the program's id.
void ParseModuleName(std::string_view name, Draft* draft) {
  const size_t open = name.rfind('(');
  draft->function = name.empty() ? "(unnamed module)" : name;
  if (open == std::string_view::npos || open == 0 || !name.ends_with(")")) return;
  draft->function = name.substr(0, open);
  draft->program_id = {StatType::kString, 0, name.substr(open + 1, name.size() - open - 2)};
}

// A run event's draft names its module; an op's draft describes the op.
void Interpret(const EventBatch& batch, size_t row, std::string_view name, Draft* draft) {
  draft->kernel = name;
  ParseModuleName(name, draft);
  const auto stat = [&](size_t column) -> const StatValue& { return batch.Stat(column, row); };
  const auto offset = IntegerOf(stat(kDeviceOffset)), duration = IntegerOf(stat(kDeviceDuration));
  if (offset.has_value() && duration.has_value() && *offset >= -kAxisLimitPs && *duration >= 0 &&
      EndPs(*offset, *duration).value_or(std::numeric_limits<int64_t>::max()) <= kAxisLimitPs) {
    draft->device_start_ps = *offset;
    draft->device_duration_ps = *duration;
  }
  draft->hlo_op = name;
  draft->hlo_category = stat(kHloCategory).text;
  draft->flops = IntegerOf(stat(kFlops));
  draft->bytes_accessed = IntegerOf(stat(kBytesAccessed));
  draft->tf_op = stat(kTfOp).text;
  draft->source = stat(kSource).text;
}

// The module event around a time: the last to begin of those that contain it.
class ModuleIndex {
 public:
  explicit ModuleIndex(const std::vector<ModuleEvent>& modules) : modules_(modules) {
    int64_t furthest = std::numeric_limits<int64_t>::min();
    for (const ModuleEvent& module : modules) {
      furthest = std::max(furthest, module.interval.end_ps);
      furthest_end_.push_back(furthest);
    }
  }

  uint32_t At(int64_t time_ps) const {
    auto after = std::upper_bound(
        modules_.begin(), modules_.end(), time_ps,
        [](int64_t time, const ModuleEvent& module) { return time < module.interval.start_ps; });
    for (auto i = static_cast<size_t>(after - modules_.begin()); i-- > 0;) {
      if (furthest_end_[i] <= time_ps) break;
      if (modules_[i].interval.end_ps > time_ps) return static_cast<uint32_t>(i);
    }
    return kNone;
  }

 private:
  const std::vector<ModuleEvent>& modules_;
  std::vector<int64_t> furthest_end_;
};

std::vector<Run> Split(DeviceExecutions* device, const HostEvidence& /*evidence*/,
                       Diagnostics* diagnostics) {
  const ModuleIndex index(device->modules);
  const Location where = {.plane = device->plane.plane};
  std::vector<uint32_t> order(device->modules.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return device->modules[a].program < device->modules[b].program;
  });
  std::vector<Run> runs;
  std::vector<uint32_t> run_of_module(order.size());
  for (uint32_t module : order) {
    run_of_module[module] = static_cast<uint32_t>(runs.size());
    runs.push_back(
        {.program = device->modules[module].program, .profile = device->modules[module].interval});
  }
  device->run.assign(device->size(), kNone);
  for (size_t row = 0; row < device->size(); ++row) {
    const uint32_t module = index.At(device->start_ps[row]);
    if (module == kNone) {
      diagnostics->Count(DiagnosticCode::kExecutionOutsideModule, where);
      continue;
    }
    device->run[row] = run_of_module[module];
    device->program[row] = device->modules[module].program;
  }
  return runs;
}

}  // namespace

const KindRules kTpuRules = {DeviceKind::kTpu, Claims, Role, kStats, Interpret, Split};

}  // namespace xplane_time
