// A harness whose energy comes from the machine's sensors, where it gives none itself: each slot
// runs by itself, and its timed calls (SlotTime) are a window of the power recorder's log. What
// was before them, the untimed run, is outside.
//
// Sensors update every 10 to 100 ms: a slot has to last many updates, which is what --calls is
// for. Where one does not, rounds become blocks (energy_block.h). What is measured is all that the
// device used meanwhile, its idle power included. The device is that of HarnessInfo::device:
// "gpu:0" is the GPU that programs see as 0, "GPU-..." the one of that UUID, "cpu:0" all packages
// and their memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "xplane_time/power.h"
#include "xplane_time/tune.h"

namespace xplane_time {

// Whether rounds without an energy are rounds.
enum class EnergyNeed : uint8_t { kNeeded, kWhereThereIsASensor };

// `inner` outlives it. `calls` of a slot: energy is that of one. `tell` is told at hello where
// there is no sensor, before anything is compiled. Errors of RunRound besides the inner one's:
// Unavailable where neither the harness nor a sensor has the energy, or a slot has none: its
// readings do not tell, in a block neither.
std::unique_ptr<Harness> NewEnergyHarness(Harness* inner, PowerSourceOptions from, int64_t calls,
                                          std::function<void(const std::string&)> tell,
                                          EnergyNeed need = EnergyNeed::kNeeded);

}  // namespace xplane_time
