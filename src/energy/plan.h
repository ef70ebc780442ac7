// Plans an experiment: how often each kernel has to run, and in what order, so that a sensor can
// measure its energy with the wanted precision.
//
//   steps     [k0 x 900][k3 x 40]  [k1 x 7000]   [k3 x 38][k0 x 870] ...
//   windows   |<------>|<------>|<------>|<------>|<------>|<------>|
//
//   const Plan plan = PlanExperiment({{"matmul", 120e-6}, {"softmax", 8e-6}}, sensor,
//                                    {.precision = 0.01, .seed = 7});
//   plan.steps[0]              // at start_s: `repetitions` of `kernel`, then a pause
//   plan.is_reached            // false: not within most_s
//
// A step is a group of repetitions of one kernel. Groups come in random order, with random lengths
// and random pauses, so that each lies at another phase of the sensor. Long groups waste less time
// at their edges; short groups need less time in total. So several lengths are tried, among them
// blocks of over 1 s, and the shortest plan wins.
//
// The expected precision is that of the estimator's own least squares on the sensor's windows
// (ExpectFit). The powers are not known in advance. Two cases are considered: the kernel draws next
// to nothing above idle while all others draw the maximum, and the reverse. If windows overlap,
// both are considered with independent noise and with shared noise. The worst case counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "energy/busy.h"
#include "xplane_time/power.h"

namespace xplane_time::energy {

struct PlanKernel {
  std::string name;
  double duration_s = 0;
  std::string function = {};  // distinguishes kernels that have the same name; may be empty
};

struct PlanSensor {
  ReadingKind kind = ReadingKind::kCumulative;
  double period_s = 0.1, lag_s = 0;
  double window_s = 0;               // 0 for a counter
  double noise = 0.01;               // standard deviation of a window's energy, as a share of it
  double idle_w = 60, most_w = 400;  // of the device
};

struct PlanOptions {
  // Of the energies. In 95 of 100 experiments all kernels are within this share of the truth, and
  // half of each 95 % interval is at most this share.
  double precision = 0.01;
  uint64_t seed = 0;
  double most_s = 3600;
  int threads = 1;  // including the calling thread; they do not change the result
};

struct PlanStep {
  double start_s = 0;  // since the begin of the experiment, which is idle up to the first step
  size_t kernel = 0;
  uint64_t repetitions = 0;
  double duration_s = 0, pause_s = 0;  // the pause follows the step
};

struct PlannedKernel {
  uint64_t repetitions = 0;
  double busy_s = 0;
  double half_width = 0;  // expected half of the 95 % interval, as a share of the energy
};

struct Plan {
  std::vector<PlanStep> steps = {};
  std::vector<PlannedKernel> kernels = {};
  double total_s = 0;  // including the idle time at both ends
  double group_s = 0;  // usual length of a step
  // Polling period. Polls in step with the sensor would locate its publications less precisely.
  double poll_s = 0;
  bool is_reached = false;
};

// There must be at least one kernel; durations and the precision must be positive. The plan has no
// steps if even the shortest experiment takes longer than most_s.
Plan PlanExperiment(std::span<const PlanKernel> kernels, const PlanSensor& sensor,
                    const PlanOptions& options);

}  // namespace xplane_time::energy
