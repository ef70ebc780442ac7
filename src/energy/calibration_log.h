// Calibrations of a machine's sensors: from the log of a load that was switched on and off, and
// from the file that stores them.
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

inline constexpr double kNsPerS = 1e9;
inline constexpr char kLoadWindow[] = "load";
inline constexpr double kIdleEndS =
    1;  // idle time of a calibration before the first load and after the last

struct SensorCalibration {
  PowerChannel channel;
  Calibration found;
};

struct SensorCalibrations {
  size_t loads = 0;  // number of times that the load was switched on
  double load_s = 0, total_s = 0;
  std::vector<SensorCalibration> sensors;  // sensors of power or energy
};

// Errors: those of ReadSensorLog; FailedPrecondition if the log contains no load.
absl::StatusOr<SensorCalibrations> CalibrateLog(const std::string& path);

// Reads the output of `power calibrate -o`: the JSON of xplane-time.power-calibration.v1. Errors:
// read errors; DataLoss if the file has another format.
absl::StatusOr<SensorCalibrations> ReadCalibrations(const std::string& path);
// Recognizes the file by its first bytes. False if the file does not exist.
bool HoldsCalibrations(const std::string& path);

// The calibrated sensors as channels that have their period and window as priors.
std::vector<PowerChannel> PriorsOf(const SensorCalibrations& calibrations);

}  // namespace xplane_time::energy
