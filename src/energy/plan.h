// A plan of an experiment: how often each kernel has to run, and in what order, so that a sensor
// tells its energy as well as is wanted.
//
//   steps     [k0 x 900][k3 x 40]  [k1 x 7000]   [k3 x 38][k0 x 870] ...
//   windows   |<------>|<------>|<------>|<------>|<------>|<------>|
//
//   const Plan plan = PlanExperiment({{"matmul", 120e-6}, {"softmax", 8e-6}}, sensor,
//                                    {.precision = 0.01, .seed = 7});
//   plan.steps[0]              // at start_s: `repetitions` of `kernel`, then a pause
//   plan.is_reached            // false: not within most_s
//
// Groups of one kernel's repetitions in random order, of random length and with random pauses, lie
// at another phase of the sensor each time. Longer ones waste less at their edges, shorter ones
// need less time in all: several lengths are tried, blocks of over 1 s among them, and the shortest
// plan is taken.
//
// How well it will be known is what the estimator's own least squares come to on the sensor's
// windows (ExpectFit). Powers are not known before: each kernel is taken to draw no more than idle
// while all others draw the most, and the reverse, whichever is worse; and noise as shared by
// windows that overlap, or not.
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
  std::string function = {};  // tells those of one name apart; empty: none
};

struct PlanSensor {
  ReadingKind kind = ReadingKind::kCumulative;
  double period_s = 0.1, lag_s = 0;
  double window_s = 0;               // of a counter 0
  double noise = 0.01;               // standard deviation of a window's energy, as a share of it
  double idle_w = 60, most_w = 400;  // of the device
};

struct PlanOptions {
  // Of energy: in 95 of 100 experiments all kernels are within it of the truth, and their 95 %
  // intervals within it to each side.
  double precision = 0.01;
  uint64_t seed = 0;
  double most_s = 3600;
  int threads = 1;  // this one included; they change no number
};

struct PlanStep {
  double start_s = 0;  // since the experiment began, which is idle up to the first step
  size_t kernel = 0;
  uint64_t repetitions = 0;
  double duration_s = 0, pause_s = 0;  // the pause follows
};

struct PlannedKernel {
  uint64_t repetitions = 0;
  double busy_s = 0;
  double half_width = 0;  // of the 95 % interval that is expected, as a share of its energy
};

struct Plan {
  std::vector<PlanStep> steps = {};
  std::vector<PlannedKernel> kernels = {};
  double total_s = 0;  // with the idle time at both ends
  double group_s = 0;  // the usual length of a step
  // From one poll to the next: in step with the sensor they tell less of when it publishes.
  double poll_s = 0;
  bool is_reached = false;
};

// At least one kernel; durations and the precision are over 0. Without steps: not even the shortest
// experiment takes less than most_s.
Plan PlanExperiment(std::span<const PlanKernel> kernels, const PlanSensor& sensor,
                    const PlanOptions& options);

}  // namespace xplane_time::energy
