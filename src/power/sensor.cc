#include "power/sensor.h"

#include <utility>

namespace xplane_time::power {

FileNumber Scaled(FileNumber number, Scale scale) {
  if (!number.value) return number;
  int64_t product = 0;
  if (__builtin_mul_overflow(*number.value, scale.multiply, &product)) {
    return Unknown<int64_t>(PowerReason::kUnsupported);
  }
  return {product / scale.divide, PowerReason::kKnown};
}

std::function<FileNumber()> ReadsFile(std::shared_ptr<HeldFile> file, Scale scale) {
  return [file = std::move(file), scale] { return Scaled(file->Read(), scale); };
}

void ReadSensors(const std::vector<Sensor>& sensors, bool slow, std::vector<Reading>* readings) {
  for (uint32_t channel = 0; channel < sensors.size(); ++channel) {
    const Sensor& sensor = sensors[channel];
    if (sensor.channel.slow && !slow) continue;
    const int64_t before_ns = MonotonicNow();
    const FileNumber number = sensor.read();
    readings->push_back({.channel = channel,
                         .before_ns = before_ns,
                         .after_ns = MonotonicNow(),
                         .value = number.value,
                         .reason = number.reason});
  }
}

std::vector<PowerChannel> ChannelsOf(const std::vector<Sensor>& sensors) {
  std::vector<PowerChannel> channels;
  channels.reserve(sensors.size());
  for (const Sensor& sensor : sensors) channels.push_back(sensor.channel);
  return channels;
}

std::optional<int64_t> PlausibleMw(const FileNumber& sustained_uw) {
  const int64_t mw = Scaled(sustained_uw, {10, 1000}).value.value_or(0);
  return mw > 0 ? std::optional(mw) : std::nullopt;
}

}  // namespace xplane_time::power
