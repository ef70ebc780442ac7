#include "power/nvml_priors.h"

#include "power/nvml_api.h"

namespace xplane_time::power {
namespace {

constexpr int64_t kMs = 1'000'000;

bool IsGa100(const NvmlChip& chip) {
  return chip.architecture == kNvmlAmpere && chip.major == 8 && chip.minor == 0;
}

SensorPrior InstantPrior(const NvmlChip& chip) {
  switch (chip.architecture) {
    case kNvmlPascal:
      return {20 * kMs, 10 * kMs};
    case kNvmlVolta:
      return {20 * kMs, std::nullopt};
    case kNvmlTuring:
      return {100 * kMs, 100 * kMs};
    case kNvmlAmpere:
      // Without a capability it is not known which of the two it is.
      if (chip.major == 0) return {100 * kMs, std::nullopt};
      return {100 * kMs, (IsGa100(chip) ? 25 : 100) * kMs};
    case kNvmlHopper:
      return {100 * kMs, 25 * kMs};
    default:
      return {};
  }
}

}  // namespace

SensorPrior PriorOf(const NvmlChip& chip, NvmlSensorKind kind) {
  switch (kind) {
    case NvmlSensorKind::kInstantPower:
      return InstantPrior(chip);
    case NvmlSensorKind::kAveragePower:
      if (PowerUsageIsAverage(chip) != true) return {};
      return {100 * kMs, 1000 * kMs};
    case NvmlSensorKind::kEnergy:
      if (chip.architecture < kNvmlVolta) return {};
      return {(chip.architecture == kNvmlVolta ? 20 : 100) * kMs, std::nullopt};
  }
  return {};
}

std::optional<bool> PowerUsageIsAverage(const NvmlChip& chip) {
  if (chip.architecture == 0) return std::nullopt;
  if (chip.architecture == kNvmlAmpere) {
    if (chip.major == 0) return std::nullopt;
    return !IsGa100(chip);
  }
  return chip.architecture > kNvmlAmpere;
}

bool ChangesBetweenPolls(const NvmlChip& chip) {
  return chip.architecture == kNvmlPascal || chip.architecture == kNvmlVolta;
}

}  // namespace xplane_time::power
