// Planes of other accelerators: "/device:CUSTOM:...", "/custom:...",
// "/virtualdevice:...". Their events are taken as executions; nothing is known about
// functions and runs.
#include "devices/device_kind.h"

namespace xplane_time {
namespace {

bool Claims(std::string_view name, std::optional<int64_t>* /*ordinal*/) {
  return name.starts_with("/device:CUSTOM:") || name.starts_with("/custom:") ||
         name.starts_with("/virtualdevice:");
}

LineRole Role(std::string_view line) {
  return line == "_counters_" ? LineRole::kCounter : LineRole::kExecution;
}

void Interpret(const EventBatch& /*batch*/, size_t /*row*/, std::string_view name, Draft* draft) {
  draft->kernel = name;
}

std::vector<Run> Split(DeviceExecutions* device, const HostEvidence& /*evidence*/,
                       Diagnostics* /*diagnostics*/) {
  device->run.assign(device->size(), kNone);
  return {};
}

}  // namespace

const KindRules kCustomRules = {DeviceKind::kCustom, Claims, Role, {}, Interpret, Split};

}  // namespace xplane_time
