// Planes of other accelerators: "/device:CUSTOM:...", "/custom:...",
// "/virtualdevice:...". Their events are taken as executions; nothing is known about
// functions and runs.
#include "devices/device_kind.h"
#include "devices/power_counters.h"

namespace xplane_time {
namespace {

bool Claims(std::string_view name, std::optional<int64_t>* /*ordinal*/) {
  return name.starts_with("/device:CUSTOM:") || name.starts_with("/custom:") ||
         name.starts_with("/virtualdevice:");
}

LineRole Role(std::string_view line) {
  return line == kCountersLine ? LineRole::kCounter : LineRole::kExecution;
}

}  // namespace

const KindRules kCustomRules = {
    .kind = DeviceKind::kCustom,
    .name = "custom",
    .claims = Claims,
    .role = Role,
    .make_splitter = [](const SplitContext&) { return std::make_unique<RunSplitter>(); }};

}  // namespace xplane_time
