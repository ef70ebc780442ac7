// A sensor: a channel and the way to its value. What a reader of files is made of.
#ifndef XPLANE_TIME_SRC_POWER_SENSOR_H_
#define XPLANE_TIME_SRC_POWER_SENSOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "power/reader.h"
#include "power/sysfs.h"
#include "xplane_time/power.h"

namespace xplane_time::power {

struct Sensor {
  PowerChannel channel;
  std::function<FileNumber()> read;
};

// value * multiply / divide, towards 0. Of file's units to those of a channel's quantity.
struct Scale {
  int64_t multiply = 1, divide = 1;
};
FileNumber Scaled(FileNumber number, Scale scale);
std::function<FileNumber()> ReadsFile(std::shared_ptr<HeldFile> file, Scale scale = {});

// A reading of each sensor that is due; `channel` is its place in `sensors`.
void ReadSensors(const std::vector<Sensor>& sensors, bool slow, std::vector<Reading>* readings);
std::vector<PowerChannel> ChannelsOf(const std::vector<Sensor>& sensors);

// The most that a device of this sustained power draws, in milliwatts: ten times as much. A
// laptop's 15 W processor takes 64 W for seconds and more for moments; a counter that starts
// again looks like kilowatts at the least.
std::optional<int64_t> PlausibleMw(const FileNumber& sustained_uw);

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_SENSOR_H_
