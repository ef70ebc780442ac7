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

// Who else uses a GPU: the processes on it, less the measured one and what it started.
//
//   pids + procfs  ->  OtherProcesses  ->  {others, note}
//
// The measured process's own are found by their parents in procfs. A pid that procfs does not
// have, and any in a pid namespace of its own, tells nothing (the driver may count in the
// host's): then `others` is empty and `note` says so. Processes that start later are not seen.

struct Sharing {
  std::vector<int64_t> others;
  std::string note;  // why it is not known; empty: it is
};

Sharing OtherProcesses(const std::vector<int64_t>& pids, int64_t own_pid,
                       const std::string& procfs);

// Of compute processes on the device; own_pid 0 is this process.
Sharing SharingOf(const NvmlApi& nvml, NvmlDevice device, int64_t own_pid,
                  const std::string& procfs);

// What is known of a model of chip before anything is read: how often its sensor changes and
// over how long it averages. Priors: they hold for chips that others measured, and a driver may
// change them; a summary estimates the period from the readings themselves.
//
// Sources: Yang et al., arXiv 2312.02741 (periods, windows); NVML API Reference Guide,
// nvmlDeviceGetPowerUsage ("On Ampere (except GA100) or newer GPUs, the API returns power
// averaged over 1 sec interval"). What neither says is empty.

struct NvmlChip {
  unsigned architecture = 0;  // kNvmlPascal, ...; 0: unknown
  int major = 0, minor = 0;   // compute capability; 0: unknown
};

struct SensorPrior {
  std::optional<int64_t> period_ns = {}, window_ns = {};
};

enum class NvmlSensorKind : uint8_t { kInstantPower, kAveragePower, kEnergy };

SensorPrior PriorOf(const NvmlChip& chip, NvmlSensorKind kind);

// Whether nvmlDeviceGetPowerUsage is the average of a second; empty: the chip is not known.
std::optional<bool> PowerUsageIsAverage(const NvmlChip& chip);

// Whether the sensor changes more often than the default period, so that the driver's buffer
// of samples holds values that polling does not see.
bool ChangesBetweenPolls(const NvmlChip& chip);

}  // namespace xplane_time::power

#endif  // XPLANE_TIME_SRC_POWER_NVML_INVENTORY_H_
