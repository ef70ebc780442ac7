// What an initialized NVML has: devices, the channels that answer, and what is missing; and
// which calls fill those channels.
//
//   NvmlApi + options  ->  TakeNvmlInventory  ->  PowerInventory + a plan for each device read
//
// A device gets channels for the calls that answered once; a call that did not is an absence
// with what it said. Devices that the measured program cannot see stay in the list of devices
// and are not read: their power is none of its own, and reading it wakes them. Where it cannot
// be told which it sees, all are read.
#ifndef XPLANE_TIME_SRC_POWER_NVML_INVENTORY_H_
#define XPLANE_TIME_SRC_POWER_NVML_INVENTORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "power/nvml_api.h"
#include "power/nvml_calls.h"
#include "xplane_time/power.h"

namespace xplane_time::power {

// How one device is read. Channels are places in the inventory.
struct NvmlPlan {
  struct Call {
    const NvmlCall* call = nullptr;
    uint32_t first_channel = 0;  // of the call's quantities, in order
    bool slow = false;
  };
  struct Field {
    unsigned field = 0, scope = 0;
    uint32_t channel = 0;
  };
  struct Samples {
    uint32_t channel = 0;
    uint64_t last_seen_us = 0;
  };
  NvmlDevice device = nullptr;
  std::string uuid;
  std::vector<Call> calls;
  std::vector<Field> fields;
  std::optional<Samples> samples;
  bool lost = false;  // its last call said so
};

struct NvmlInventory {
  PowerInventory inventory;
  std::vector<NvmlPlan> plans;
};

NvmlInventory TakeNvmlInventory(const NvmlApi& nvml, const PowerSourceOptions& options);

// Asks for all `fields` at once; every value has its own result. kNvmlSuccess where any of
// them may have one.
NvmlReturn ReadFields(const NvmlApi& nvml, NvmlDevice device,
                      const std::vector<NvmlPlan::Field>& fields,
                      std::vector<NvmlFieldValue>* values);

// Power samples that the driver took after `last_seen_us`, oldest first.
NvmlReturn ReadSamples(const NvmlApi& nvml, NvmlDevice device, uint64_t last_seen_us,
                       int* value_type, std::vector<NvmlSample>* samples);

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_NVML_INVENTORY_H_
