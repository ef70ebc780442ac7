#include "tune/device_state.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "power/log.h"
#include "re2/re2.h"
#include "status.h"
#include "tune/outcome_json.h"

namespace xplane_time {
namespace {

constexpr std::string_view kThrottle = "throttle_reasons";
constexpr std::string_view kRanges[] = {"clock_sm_mhz", "clock_memory_mhz", "temperature_mc"};

struct Reason {
  int64_t bit;
  std::string_view name;
  bool bites;
};
// nvmlClocksEventReasons of nvml.h.
constexpr Reason kReasons[] = {{0x1, "gpu_idle", false},
                               {0x2, "applications_clocks_setting", false},
                               {0x4, "sw_power_cap", false},
                               {0x8, "hw_slowdown", true},
                               {0x10, "sync_boost", false},
                               {0x20, "sw_thermal_slowdown", true},
                               {0x40, "hw_thermal_slowdown", true},
                               {0x80, "hw_power_brake_slowdown", true},
                               {0x100, "display_clock_setting", false}};

class Collector : public power::LogSink {
 public:
  explicit Collector(const std::function<bool(const PowerChannel&)>& is_ours) : is_ours_(is_ours) {}

  void Header(power::LogHeader header) override {
    for (PowerChannel& channel : header.inventory.channels) Channel(std::move(channel), {});
  }
  void Channel(PowerChannel channel, PowerDevice /*device*/) override {
    const bool is_kept = channel.quantity == kThrottle ||
                         std::ranges::find(kRanges, channel.quantity) != std::end(kRanges);
    quantities_.push_back(is_kept && is_ours_(channel) ? std::move(channel.quantity) : "");
  }
  void Readings(size_t /*s*/, int64_t /*t_ns*/, std::span<const power::Reading> readings) override {
    for (const power::Reading& each : readings) {
      const std::string& quantity = quantities_[each.channel];
      if (quantity.empty() || !each.value.has_value()) continue;
      if (quantity == kThrottle) {
        AddReasons(*each.value);
        continue;
      }
      GaugeRange& range =
          state_.gauges.try_emplace(quantity, GaugeRange{*each.value, *each.value}).first->second;
      range = {std::min(range.min, *each.value), std::max(range.max, *each.value)};
    }
  }

  DeviceState Result() && { return std::move(state_); }

 private:
  void AddReasons(int64_t bits) {
    for (const Reason& reason : kReasons) {
      if ((bits & reason.bit) == 0) continue;
      state_.throttle_reasons.emplace(reason.name);
      state_.throttled |= reason.bites;
    }
  }

  const std::function<bool(const PowerChannel&)>& is_ours_;
  std::vector<std::string> quantities_;  // by channel; empty if it is not part of the state
  DeviceState state_;
};

}  // namespace

bool IsCalled(const PowerDevice& device, std::string_view name) {
  static const RE2 gpu("(?:gpu|cuda|rocm):(\\d+)");
  int32_t ordinal = 0;
  return RE2::FullMatch(name, gpu, &ordinal) ? device.ordinal == ordinal : device.id == name;
}

absl::StatusOr<DeviceState> ReadDeviceState(
    const std::string& log_path, const std::function<bool(const PowerChannel&)>& is_ours) {
  Collector collector(is_ours);
  RETURN_IF_ERROR(power::ReadPowerLog(log_path, &collector).status());
  return std::move(collector).Result();
}

std::string WithDeviceState(const std::string& notes_json, const DeviceState& state) {
  if (state.gauges.empty() && state.throttle_reasons.empty()) return notes_json;
  json::Json of_device = {{kThrottle, state.throttle_reasons}};
  for (const auto& [quantity, range] : state.gauges) {
    of_device[quantity] = {{"min", range.min}, {"max", range.max}};
  }
  return WithNote(notes_json, "device_state", std::move(of_device));
}

}  // namespace xplane_time
