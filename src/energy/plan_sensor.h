// Finds the sensor that an experiment is planned for: from a calibration, from an earlier log, or
// from the known properties of the chip's model.
//
//   ASSIGN_OR_RETURN(const PlannedFor by, SensorOfFile("calibration.json"));
//   PlanExperiment(kernels, by.sensor, {});
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "energy/plan.h"
#include "xplane_time/power.h"

namespace xplane_time::energy {

struct PlannedFor {
  PowerChannel channel;
  PlanSensor sensor;
  std::string_view origin;  // "calibration", "log" or "chip"
};

struct PlannedExperiment {
  PlannedFor by;
  std::vector<PlanKernel> kernels;
  PlanOptions options;
  Plan plan;
};

// Both choose the sensor that attribution would use. Errors: read errors; FailedPrecondition if
// there is no device sensor with a known period.
absl::StatusOr<PlannedFor> SensorOfFile(const std::string& path);
absl::StatusOr<PlannedFor> SensorOfChip(std::span<const PowerChannel> channels);

}  // namespace xplane_time::energy
