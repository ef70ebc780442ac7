// The energy of runs that are shorter than a sensor tells: one round as a block of many.
//
//   sensor   |    window    |    window    |    window    |
//   block    idle  u[a][a][a][a]  u[b][b][b]    u[a][a][a] u[b][b][b][b]   idle
//
// A variant's slots follow each other in groups of random length, in random order, with random
// pauses (energy/plan.h): windows see different mixtures, and regression tells what each variant
// draws (energy/attribution.h). u: the untimed run, known apart from what is timed. What the
// device draws between slots is taken for idle.
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

// A round of a harness, and what measures it.
struct EnergyBlock {
  Harness* harness = nullptr;
  int64_t batch = 0, round = 0;
  std::string_view workload;
  std::span<const Configuration* const> order;
  int64_t calls = 1;  // of a slot
  PowerSourceOptions from;
  std::function<bool(const PowerChannel&)> is_ours;  // whether it is of the harness's device
};

// Of each slot of `order` the median time of its runs, and the energy of a call: mean power
// times that time. It takes some ten seconds, two minutes at most. A run that fails ends its slot,
// one that was throttled the block. Errors: of the harness; Unavailable where an energy is not
// known within 5 %.
absl::StatusOr<RoundTimes> RunEnergyBlock(const EnergyBlock& block);

// A slot that takes so long needs no block: 30 updates of a counter that is new every 100 ms.
inline constexpr double kGoodNs = 3e9;

// Why there is no energy of a slot that took so long, and how many calls make one.
absl::Status NoEnergy(const Configuration& variant, double took_ns, int64_t calls,
                      std::string_view why, double good_ns = kGoodNs);

}  // namespace xplane_time
