// Which device a harness means, and the state that it was in during a round: its clocks, its
// temperature, and what held the clocks down.
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

// Whether a harness means it by HarnessInfo::device: "gpu:1" and "cuda:1" is the GPU that programs
// see as 1, other names are ids.
bool IsCalled(const PowerDevice& device, std::string_view name);

// What was read of a gauge.
struct GaugeRange {
  int64_t min = 0, max = 0;
};

struct DeviceState {
  // By quantity: clock_sm_mhz, clock_memory_mhz, temperature_mc.
  std::map<std::string, GaugeRange> gauges = {};
  // Names of the reasons that were read at any time: sw_power_cap, hw_thermal_slowdown, ...
  std::set<std::string> throttle_reasons = {};
  // For heat, or by the power brake. Idle clocks, clocks that were asked for and a power limit that
  // is reached are how the device works.
  bool throttled = false;
};

// Of those devices whose channels `is_ours` takes. Errors: of reading the log.
absl::StatusOr<DeviceState> ReadDeviceState(
    const std::string& log_path, const std::function<bool(const PowerChannel&)>& is_ours);

// `notes_json` of a round with "device_state" {gauges, throttle_reasons}, where there is any.
std::string WithDeviceState(const std::string& notes_json, const DeviceState& state);

}  // namespace xplane_time
