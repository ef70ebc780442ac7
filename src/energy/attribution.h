// One device: from its kernels' executions and a sensor's polls to what each kernel took, and how
// far that can be trusted.
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
  double known_from_s = 0, known_to_s = 0;  // what energies are of: the capture, or a part
  Eigen::VectorXd busy_s;                   // by kernel, as the next three: how long they ran in it
  std::vector<Known> known;
  std::vector<bool> measured;     // it ran alone for a second and more
  std::vector<uint64_t> windows;  // in which it ran
  double covered_s = 0;           // by windows
  double from_s = 0, to_s = 0;    // what they lie in
  // Of that time, but active_j: of all that energies are of. `unseen_j` of it lies in no window, or
  // is what a sampled reading stood for wrongly: residual_j lacks it.
  double measured_j = 0, active_j = 0, idle_j = 0, residual_j = 0, unseen_j = 0, residual_share = 0;
  double active_half_width_j = 0, idle_half_width_j = 0;  // 95 %
  size_t windows_at_limit = 0;  // of power: the device lowers its clocks there
  std::string_view poor_fit;    // why what ran does not explain the power, in words; empty: it does
};

struct AttributionOptions {
  bool clock_known = true;             // polls are on the capture's axis; else on one of their own
  std::optional<double> limit_w = {};  // the device's power limit
  int threads = 1;
};

// Where windows leave out much of what ran, energies are of what lies in them.
Attribution Attribute(const PowerChannel& channel, std::vector<Poll> polls,
                      std::span<const BusyCurve> kernels, double capture_s,
                      const AttributionOptions& options = {});

// Of a power that was stated: what runs draws it, whatever runs.
Attribution Model(double power_w, std::span<const BusyCurve> kernels, double capture_s);

}  // namespace xplane_time::energy
