// The energy of runs that are too short for a sensor: one round becomes a block of many runs.
//
//   sensor   |    window    |    window    |    window    |
//   block    idle  u[a][a][a][a]  u[b][b][b]    u[a][a][a] u[b][b][b][b]   idle
//
// The runs of a variant form groups of random length, in random order, with random pauses
// (energy/plan.h). So windows contain different mixtures, and a regression finds the power of each
// variant (energy/attribution.h). u is the untimed run before a group; it has its own power. The
// power between runs counts as idle power.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "xplane_time/power.h"
#include "xplane_time/tune.h"

namespace xplane_time {

// A round of a harness, and the sensors that measure it.
struct EnergyBlock {
  Harness* harness = nullptr;
  int64_t batch = 0, round = 0;
  std::string_view workload;
  std::span<const Configuration* const> order;
  int64_t calls = 1;  // for one slot
  PowerSourceOptions from;
  std::function<bool(const PowerChannel&)> is_ours;  // whether the channel belongs to the harness's
                                                     // device
};

// Returns, for each slot of `order`, the median time of its runs and the energy of a call: mean
// power times that time. Takes some ten seconds, two minutes at most. A failed run ends its slot; a
// throttled run ends the block. Errors: those of the harness; Unavailable if an energy is not known
// within 5 %.
absl::StatusOr<RoundTimes> RunEnergyBlock(const EnergyBlock& block);

// A slot this long needs no block: 30 updates of a counter that publishes every 100 ms.
inline constexpr double kGoodNs = 3e9;

// The error for a slot of this duration without an energy; it suggests a sufficient number of
// calls.
absl::Status NoEnergy(const Configuration& variant, double took_ns, int64_t calls,
                      std::string_view why, double good_ns = kGoodNs);

}  // namespace xplane_time
