// Checks whether an experiment reached the precision that its plan promised.
//
//   ASSIGN_OR_RETURN(const Goal goal, ReadGoal("plan.json"));     // of power plan
//   const Verdict verdict = Judge(goal, report);
//   verdict.is_reached, verdict.message      // "gelu +-1.4 %, add without a number: ..."
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "xplane_time/energy.h"

namespace xplane_time::energy {

struct Goal {
  double precision = 0;              // half of the 95 % interval, as a share of the energy
  std::vector<std::string> kernels;  // or layers
};

// Errors: read errors; DataLoss if the file is not a plan.
absl::StatusOr<Goal> ReadGoal(const std::string& path);

struct Verdict {
  bool is_reached = false;
  std::string message;
};
// Compares the 95 % interval of each of the goal's kernels, on each device, with the precision.
Verdict Judge(const Goal& goal, const EnergyReport& report);

}  // namespace xplane_time::energy
