#include "power/nvml_calls.h"

#include <limits>
#include <type_traits>

namespace xplane_time::power {
namespace {

using Raw = std::array<uint64_t, 2>;

// A call whose last argument is a number to be filled in.
template <auto member, typename... Arguments>
NvmlReturn ReadNumber(const NvmlApi& nvml, NvmlDevice device, Raw& raw, Arguments... arguments) {
  const auto function = nvml.*member;
  if (function == nullptr) return kNvmlFunctionNotFound;
  if constexpr (std::is_invocable_v<decltype(function), NvmlDevice, Arguments..., unsigned*>) {
    unsigned value = 0;
    const NvmlReturn result = function(device, arguments..., &value);
    raw[0] = value;
    return result;
  } else {
    unsigned long long value = 0;
    const NvmlReturn result = function(device, arguments..., &value);
    raw[0] = value;
    return result;
  }
}

template <auto member>
NvmlReturn ReadPlain(const NvmlApi& nvml, NvmlDevice device, Raw& raw) {
  return ReadNumber<member>(nvml, device, raw);
}

template <auto member, int kind>
NvmlReturn ReadOfKind(const NvmlApi& nvml, NvmlDevice device, Raw& raw) {
  return ReadNumber<member>(nvml, device, raw, kind);
}

NvmlReturn ReadPstate(const NvmlApi& nvml, NvmlDevice device, Raw& raw) {
  const NvmlReturn result = ReadNumber<&NvmlApi::performance_state>(nvml, device, raw);
  if (result == kNvmlSuccess && raw[0] == kNvmlPstateUnknown) return kNvmlNotSupported;
  return result;
}

NvmlReturn ReadMemory(const NvmlApi& nvml, NvmlDevice device, Raw& raw) {
  if (nvml.memory == nullptr) return kNvmlFunctionNotFound;
  NvmlMemory memory = {};
  const NvmlReturn result = nvml.memory(device, &memory);
  raw = {memory.used, memory.total};
  return result;
}

NvmlReturn ReadUtilization(const NvmlApi& nvml, NvmlDevice device, Raw& raw) {
  if (nvml.utilization == nullptr) return kNvmlFunctionNotFound;
  NvmlUtilization utilization = {};
  const NvmlReturn result = nvml.utilization(device, &utilization);
  raw = {utilization.gpu, utilization.memory};
  return result;
}

constexpr NvmlCall kEnergyCall = {"nvmlDeviceGetTotalEnergyConsumption",
                                  {{{"energy_uj", 1000}, {}}},
                                  ReadPlain<&NvmlApi::total_energy>};
constexpr NvmlCall kPowerUsageCall = {
    "nvmlDeviceGetPowerUsage", {{{"power_mw"}, {}}}, ReadPlain<&NvmlApi::power_usage>};

constexpr std::array kSlowCalls = {
    NvmlCall{"nvmlDeviceGetClockInfo",
             {{{"clock_sm_mhz"}, {}}},
             ReadOfKind<&NvmlApi::clock, kNvmlClockSm>},
    NvmlCall{"nvmlDeviceGetClockInfo",
             {{{"clock_memory_mhz"}, {}}},
             ReadOfKind<&NvmlApi::clock, kNvmlClockMemory>},
    NvmlCall{"nvmlDeviceGetTemperature",
             {{{"temperature_mc", 1000}, {}}},
             ReadOfKind<&NvmlApi::temperature, kNvmlTemperatureGpu>},
    NvmlCall{"nvmlDeviceGetCurrentClocksEventReasons",
             {{{"throttle_reasons"}, {}}},
             ReadPlain<&NvmlApi::clocks_event_reasons>},
    NvmlCall{"nvmlDeviceGetPerformanceState", {{{"pstate"}, {}}}, ReadPstate},
    NvmlCall{"nvmlDeviceGetEnforcedPowerLimit",
             {{{"power_limit_mw"}, {}}},
             ReadPlain<&NvmlApi::power_limit>},
    NvmlCall{
        "nvmlDeviceGetMemoryInfo", {{{"memory_used_bytes"}, {"memory_total_bytes"}}}, ReadMemory},
    NvmlCall{"nvmlDeviceGetUtilizationRates",
             {{{"utilization_gpu_ppm", 10'000}, {"utilization_memory_ppm", 10'000}}},
             ReadUtilization},
};

}  // namespace

const NvmlCall& EnergyCall() { return kEnergyCall; }
const NvmlCall& PowerUsageCall() { return kPowerUsageCall; }
std::span<const NvmlCall> SlowCalls() { return kSlowCalls; }

std::optional<int64_t> Scaled(uint64_t raw, int64_t scale) {
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (raw > kMax / static_cast<uint64_t>(scale)) return std::nullopt;
  return static_cast<int64_t>(raw) * scale;
}

std::optional<uint64_t> RawOf(const NvmlValue& value, int value_type) {
  switch (value_type) {
    case kNvmlDouble:
      // The bound also turns away what is not a number.
      if (!(value.dbl >= 0 && value.dbl < 1e18)) return std::nullopt;
      return static_cast<uint64_t>(value.dbl);
    case kNvmlUnsignedInt:
      return value.uint;
    case kNvmlUnsignedLong:
      return value.ulong;
    case kNvmlUnsignedLongLong:
      return value.ullong;
    case kNvmlSignedLongLong:
      if (value.sllong < 0) return std::nullopt;
      return static_cast<uint64_t>(value.sllong);
    case kNvmlSignedInt:
      if (value.sint < 0) return std::nullopt;
      return static_cast<uint64_t>(value.sint);
    case kNvmlUnsignedShort:
      return value.ushort;
    default:
      return std::nullopt;
  }
}

}  // namespace xplane_time::power
