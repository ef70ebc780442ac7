// Whether an experiment reached what its plan promised.
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
  double precision = 0;              // of each energy, as a share of it
  std::vector<std::string> kernels;  // or layers
};

// Errors: of reading; DataLoss (no plan).
absl::StatusOr<Goal> ReadGoal(const std::string& path);

struct Verdict {
  bool is_reached = false;
  std::string message;
};
// The 95 % interval of each of its kernels, on each device, beside the precision.
Verdict Judge(const Goal& goal, const EnergyReport& report);

}  // namespace xplane_time::energy
