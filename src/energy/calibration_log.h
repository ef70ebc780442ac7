// Calibrations of the sensors of a machine: from the log of a load that was switched on and off,
// and in the file that is kept of them.
//
//   ASSIGN_OR_RETURN(const SensorCalibrations found, CalibrateLog("calibration.jsonl"));
//   found.sensors[0].found.period_s       // of found.sensors[0].channel
//
// The log has a window kLoadWindow for each time that the load was on (docs/power-log.md).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "energy/calibrate.h"
#include "xplane_time/power.h"

namespace xplane_time::energy {

inline constexpr char kLoadWindow[] = "load";
inline constexpr double kIdleEndS =
    1;  // of a calibration, before the first load and after the last

struct SensorCalibration {
  PowerChannel channel;
  Calibration found;
};

struct SensorCalibrations {
  size_t loads = 0;  // how often it was switched on
  double load_s = 0, total_s = 0;
  std::vector<SensorCalibration> sensors;  // of power or energy
};

// Errors: of ReadSensorLog; FailedPrecondition (no load in it).
absl::StatusOr<SensorCalibrations> CalibrateLog(const std::string& path);

// What `power calibrate -o` wrote: the JSON of xplane-time.power-calibration.v1. Errors: of
// reading; DataLoss (something else).
absl::StatusOr<SensorCalibrations> ReadCalibrations(const std::string& path);
// By its first bytes; false: no file.
bool HoldsCalibrations(const std::string& path);

// Those of its sensors that are known, as priors of the channels.
std::vector<PowerChannel> PriorsOf(const SensorCalibrations& calibrations);

}  // namespace xplane_time::energy
