// What an NVIDIA GPU is, beside what NVML answers: who else uses it, and how its sensors behave.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "power/nvml_api.h"

namespace xplane_time::power {

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
