// Small parts of runs.h.
#include <string>

#include "absl/strings/str_cat.h"
#include "xplane_time/runs.h"

namespace xplane_time {

std::string_view ClockName(Clock clock) { return clock == Clock::kProfile ? "profile" : "device"; }

absl::StatusOr<ClockChoice> ParseClockChoice(std::string_view text) {
  if (text == "auto") return ClockChoice::kAuto;
  if (text == "device") return ClockChoice::kDevice;
  if (text == "profile") return ClockChoice::kProfile;
  return absl::InvalidArgumentError(
      absl::StrCat("clock is auto, device or profile, not '", std::string(text), "'"));
}

std::string_view CategoryName(Category category) {
  constexpr std::string_view kNames[] = {"compute", "copy", "collective", "other"};
  return kNames[static_cast<size_t>(category)];
}

Interval ExecutionInterval(const DeviceExecutions& device, size_t row, Clock clock) {
  if (clock == Clock::kDevice) {
    return {device.device_start_ps[row],
            device.device_start_ps[row] + device.device_duration_ps[row]};
  }
  return {device.start_ps[row], device.end_ps(row)};
}

}  // namespace xplane_time
