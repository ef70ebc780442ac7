// The sensors of a power log: what they answered, and which of them stands for a device of the
// trace.
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
  std::vector<power::Reading> readings;  // with a value, in the order of time
};

// Where a window that the log marks begins, or ends.
struct LogMark {
  int64_t t_ns = 0;
  std::string window;
  bool is_end = false;
};

struct SensorLog {
  std::string path;
  std::vector<PowerDevice> devices;
  std::vector<SensorReadings> sensors;  // of power or energy
  std::vector<power::Clocks> clocks;    // as they were told, in the order of time
  std::vector<LogMark> marks;           // in the order of lines
  // By device and domain, where it was read: the highest.
  std::map<std::pair<std::string, std::string>, double> power_limit_w;

  std::optional<double> LimitOf(const PowerChannel& channel) const;
  bool complete = false;  // it has its last line
  uint64_t damaged_lines = 0;
};

// At most this many readings are kept of all sensors.
inline constexpr size_t kMostReadings = size_t{1} << 26;

// Errors: of ReadPowerLog; ResourceExhausted (too many readings).
absl::StatusOr<SensorLog> ReadSensorLog(const std::string& path);

// A device of the trace.
struct TraceDevice {
  DeviceKind kind = DeviceKind::kGpu;
  std::optional<int64_t> ordinal;
};

// Of sensors that measure a device whole the least says most: its counter, else the shortest mean,
// else what was stated.
// kNoRank: it also counts others, or is only a part.
inline constexpr size_t kNoRank = SIZE_MAX;
size_t RankOf(const PowerChannel& channel);

// Several, where only their sum is the device's: the counters of a machine's processors.
using Sensors = std::vector<const SensorReadings*>;

struct SensorChoice {
  Sensors sensors;
  std::string device;       // its id; of several all
  bool shared = false;      // others than the traced program use it
  std::string_view reason;  // why there is none: module, no_map, no_sensor
  std::string message;      // the same in words, with the way out
};

// `map`: ids of the log's devices, or what they begin with, by ordinal; it goes before what the
// log says itself.
SensorChoice ChooseSensor(const SensorLog& log, const TraceDevice& device,
                          const std::map<int32_t, std::string>& map);

// In seconds since `origin_ns` on the log's own clock. A counter that starts again goes on; where
// it is not known how far it had come (a reset, a jump that no device makes), the longest part is
// taken. Of several sensors the sums of what was read in one round.
std::vector<Poll> PollsSince(int64_t origin_ns, const Sensors& sensors);

// Since the capture's start, which was `capture_start_unix_ns` on the calendar's clock when it was
// as in the nearest line of clocks; on an axis of its own, where the log has none.
std::vector<Poll> PollsOn(const SensorLog& log, const Sensors& sensors,
                          int64_t capture_start_unix_ns);

}  // namespace xplane_time::energy
