// The device that a harness names, and its state during a round: clocks, temperature, and the
// reasons for reduced clocks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "xplane_time/power.h"

namespace xplane_time {

// Whether HarnessInfo::device names this device: "gpu:1" and "cuda:1" are the GPU that programs see
// as 1; other names are ids.
bool IsCalled(const PowerDevice& device, std::string_view name);

// The range of a gauge's readings.
struct GaugeRange {
  int64_t min = 0, max = 0;
};

struct DeviceState {
  // By quantity: clock_sm_mhz, clock_memory_mhz, temperature_mc.
  std::map<std::string, GaugeRange> gauges = {};
  // Names of all reasons that occurred: sw_power_cap, hw_thermal_slowdown, ...
  std::set<std::string> throttle_reasons = {};
  // True for heat and for the power brake. Idle clocks, requested clocks and a reached power limit
  // are normal operation.
  bool throttled = false;
};

// The state of the devices whose channels `is_ours` accepts. Errors: those of reading the log.
absl::StatusOr<DeviceState> ReadDeviceState(
    const std::string& log_path, const std::function<bool(const PowerChannel&)>& is_ours);

// The `notes_json` of a round, with "device_state" {gauges, throttle_reasons} if it is known.
std::string WithDeviceState(const std::string& notes_json, const DeviceState& state);

}  // namespace xplane_time
