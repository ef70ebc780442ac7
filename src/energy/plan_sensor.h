// The sensor that an experiment is planned for: from a calibration, from a log of earlier, or by
// what its model of chip is known for.
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
  std::string_view origin;  // calibration, log, chip
};

struct PlannedExperiment {
  PlannedFor by;
  std::vector<PlanKernel> kernels;
  PlanOptions options;
  Plan plan;
};

// Of a device's sensors the one that attribution takes. Errors: of reading; FailedPrecondition (no
// sensor of a device in it whose period is known).
absl::StatusOr<PlannedFor> SensorOfFile(const std::string& path);
absl::StatusOr<PlannedFor> SensorOfChip(std::span<const PowerChannel> channels);

}  // namespace xplane_time::energy
