// Planes of other accelerators: "/device:XPU:0", "/device:CUSTOM:...", "/custom:...",
// "/virtualdevice:...". The events of their lines count as executions, except on lines that
// profilers derive from other lines. Functions are known only if the host marked ranges of time in
// which they were launched (gpu_runs/host_ranges.h), as in PyTorch traces.
#include <algorithm>

#include "devices/device_kind.h"
#include "devices/gpu_runs/host_ranges.h"
#include "devices/power_counters.h"

namespace xplane_time {
namespace {

constexpr KindStat kCustomStats[] = {
    {.name = "correlation_id", .use = StatUse::kNumber, .number = Execution::kCorrelationId}};

bool ClaimsCustom(std::string_view name, std::optional<int64_t>* ordinal) {
  constexpr std::string_view kDevice = "/device:";
  if (name.starts_with(kDevice) && name.size() > kDevice.size()) {
    const size_t colon = name.find(':', kDevice.size());
    if (colon != name.npos) *ordinal = OrdinalAfter(name, name.substr(0, colon + 1));
    return true;
  }
  return name.starts_with("/custom:") || name.starts_with("/virtualdevice:");
}

LineRole ClassifyCustomLine(std::string_view line) {
  constexpr std::string_view kDerived[] = {
      "Steps",         "XLA Modules",           "XLA TraceMe",    "Framework Name Scope",
      "Framework Ops", "TensorFlow Name Scope", "TensorFlow Ops", "Launch Stats",
      "Source code"};
  if (line == kCountersLine) return LineRole::kCounter;
  return std::ranges::count(kDerived, line) > 0 ? LineRole::kDerived : LineRole::kExecution;
}

bool CustomPlaneAsksHost(const Plane& plane) { return HasStat(plane, gpu_runs::kInRangesStat); }

}  // namespace

const KindRules kCustomRules = {
    .kind = DeviceKind::kCustom,
    .name = "custom",
    .claims = ClaimsCustom,
    .role = ClassifyCustomLine,
    .stats = kCustomStats,
    .launch_id = Execution::kCorrelationId,
    .asks_host = CustomPlaneAsksHost,
    .in_ranges_stat = gpu_runs::kInRangesStat,
    .make_splitter = [](const SplitContext&) { return std::make_unique<RunSplitter>(); }};

}  // namespace xplane_time
