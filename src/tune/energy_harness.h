// Adds energies from the machine's sensors to a harness that reports none. Each slot runs by
// itself, and its timed calls (SlotTime) become a window of the power recorder's log. The untimed
// run before them is outside of the window.
//
// Sensors update every 10 to 100 ms, so a slot has to last many updates; --calls makes it longer.
// If a slot is too short, rounds become blocks (energy_block.h). The energy includes everything
// that the device used in that time, idle power included. The device is HarnessInfo::device:
// "gpu:0" is the GPU that programs see as 0, "GPU-..." the one with that UUID, "cpu:0" all packages
// and their memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "xplane_time/power.h"
#include "xplane_time/tune.h"

namespace xplane_time {

// Whether rounds without an energy are valid.
enum class EnergyNeed : uint8_t { kNeeded, kWhereThereIsASensor };

// `inner` must outlive it. `calls` is the number of calls in a slot; the energy is that of one
// call. If there is no sensor, `tell` is called at hello, before anything is compiled. Further
// errors of RunRound: Unavailable if neither the harness nor a sensor measures energy, or if the
// readings do not determine the energy of a slot, not even in a block.
std::unique_ptr<Harness> NewEnergyHarness(Harness* inner, PowerSourceOptions from, int64_t calls,
                                          std::function<void(const std::string&)> tell,
                                          EnergyNeed need = EnergyNeed::kNeeded);

}  // namespace xplane_time
