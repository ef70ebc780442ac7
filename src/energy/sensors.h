// The sensors of a power log: their readings, and the choice of the sensor that measures a device
// of the trace.
//
//   ASSIGN_OR_RETURN(const SensorLog log, ReadSensorLog("p.jsonl"));
//   const SensorChoice choice = ChooseSensor(log, {DeviceKind::kGpu, /*ordinal=*/0}, {});
//   if (choice.sensors.empty()) ...             // choice.reason: "module", "no_map", ...
//   const std::vector<Poll> polls = PollsOn(log, choice.sensors, capture_start_unix_ns);
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "energy/publications.h"
#include "power/machine.h"
#include "power/reader.h"
#include "xplane_time/power.h"
#include "xplane_time/select.h"

namespace xplane_time::energy {

struct SensorReadings {
  PowerChannel channel;
  std::vector<power::Reading> readings;  // those with a value, in order of time
  NegativeReadings negative = {};        // not in `readings`
};

// The begin or the end of a window that the log marks.
struct LogMark {
  int64_t t_ns = 0;
  std::string window;
  bool is_end = false;
};

struct SensorLog {
  std::string path;
  std::vector<PowerDevice> devices;
  std::vector<SensorReadings> sensors;  // of power or energy
  std::vector<power::Clocks> clocks;    // in order of time
  std::vector<LogMark> marks;           // in the order of lines
  // The highest power limit that was read, by device and domain.
  std::map<std::pair<std::string, std::string>, double> power_limit_w;

  std::optional<double> LimitOf(const PowerChannel& channel) const;
  bool complete = false;  // the log has its last line
  uint64_t damaged_lines = 0;
};

// Limit of the readings that are kept, over all sensors.
inline constexpr size_t kMostReadings = size_t{1} << 26;

// Errors: those of ReadPowerLog; ResourceExhausted if there are too many readings.
absl::StatusOr<SensorLog> ReadSensorLog(const std::string& path);

// A device of the trace.
struct TraceDevice {
  DeviceKind kind = DeviceKind::kGpu;
  std::optional<int64_t> ordinal;
};

// Ranks the sensors that measure a whole device; the lowest rank is the most informative. 0 is a
// counter, then come instantaneous readings, then averages, then a stated power. kNoRank means that
// the sensor also measures other devices, or only a part of the device.
inline constexpr size_t kNoRank = SIZE_MAX;
size_t RankOf(const PowerChannel& channel);

// More than one sensor if only their sum measures the device: the counters of a machine's
// processors.
using Sensors = std::vector<const SensorReadings*>;

struct SensorChoice {
  Sensors sensors;
  std::string device;       // its id; all ids if there are several sensors
  bool shared = false;      // programs other than the traced one use it
  std::string_view reason;  // why there is no sensor: module, no_map, no_sensor
  std::string message;      // the reason in words, and what to do
};

// `map` maps ordinals to ids of the log's devices, or to prefixes of ids. It overrides the ordinals
// in the log.
SensorChoice ChooseSensor(const SensorLog& log, const TraceDevice& device,
                          const std::map<int32_t, std::string>& map);

// Returns times in seconds since `origin_ns` on the log's own clock. If a counter wraps, its values
// go on. If a counter was reset, or jumps further than the device could draw, the increase is
// unknown, and a new part of the polls begins. For several sensors, returns the sums of the values
// of each polling round.
std::vector<Poll> PollsSince(int64_t origin_ns, const Sensors& sensors);

// Returns times since the start of the capture. The log's nearest clock line converts
// `capture_start_unix_ns` (UNIX time) to the log's clock. If the log has no clock line, the origin
// of the times is arbitrary.
std::vector<Poll> PollsOn(const SensorLog& log, const Sensors& sensors,
                          int64_t capture_start_unix_ns);

}  // namespace xplane_time::energy
