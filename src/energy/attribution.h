// Attributes the energy of one device: from the kernels' executions and a sensor's polls to the
// energy of each kernel, with its uncertainty.
//
//   const Attribution found = Attribute(channel, polls, kernels, capture_s);
//   if (!found.reason.empty()) ...       // found.message: why there are no numbers
//   found.energies, found.known          // by kernel
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "energy/energies.h"
#include "xplane_time/energy.h"

namespace xplane_time::energy {

struct Attribution {
  std::string_view reason;  // why there are no numbers: no_overlap, few_windows, ...
  std::string message;
  EnergyClock clock = EnergyClock::kCaptureStart;
  Fit fit;
  Energies energies;
  double known_from_s = 0, known_to_s = 0;  // the span that energies cover
  Eigen::VectorXd busy_s;  // by kernel, like the next three: its running time in that span
  std::vector<Known> known;
  std::vector<bool> measured;     // whether it ran alone for a second or more
  std::vector<uint64_t> windows;  // number of windows in which it ran
  double covered_s = 0;           // time that the windows stand for
  double from_s = 0, to_s = 0;    // first start and last end of the windows
  // All but active_j cover the time that the windows stand for; active_j covers everything that
  // energies cover. `unseen_j` is the active energy outside of the windows, or that the scaling of
  // sampled readings missed or counted twice. residual_j excludes it.
  double measured_j = 0, active_j = 0, idle_j = 0, residual_j = 0, unseen_j = 0, residual_share = 0;
  double active_half_width_j = 0, idle_half_width_j = 0;  // of a 95 % interval
  size_t windows_at_limit = 0;  // windows at the power limit, where the device lowers its clocks
  std::string_view poor_fit;    // why the kernels do not explain the power; empty if they do
};

struct AttributionOptions {
  bool clock_known = true;             // polls are on the capture's axis; otherwise on an axis with
                                       // unknown origin
  std::optional<double> limit_w = {};  // the device's power limit
  int threads = 1;
};

// If more than 5 % of the running time lies before the first window or after the last, energies
// cover the span of the windows only.
Attribution Attribute(const PowerChannel& channel, std::vector<Poll> polls,
                      std::span<const BusyCurve> kernels, double capture_s,
                      const AttributionOptions& options = {});

// The attribution for a stated power: the device draws `power_w` all the time, whatever runs.
Attribution Model(double power_w, std::span<const BusyCurve> kernels, double capture_s);

}  // namespace xplane_time::energy
