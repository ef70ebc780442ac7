#include "power/nvml_api.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <type_traits>

namespace xplane_time::power {
namespace {

constexpr std::string_view kInstallFix =
    "install the NVIDIA driver; in a container: --gpus all with "
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility; or name the library with --nvml-library";

struct ErrorEntry {
  NvmlReturn result;
  std::string_view name;
  PowerReason reason;
  std::string_view fix;
};

constexpr std::array kErrors = {
    ErrorEntry{kNvmlUninitialized, "UNINITIALIZED", PowerReason::kReset, ""},
    // Drivers answer so to fields and kinds that came after them.
    ErrorEntry{kNvmlInvalidArgument, "INVALID_ARGUMENT", PowerReason::kUnsupported,
               "a newer driver may have it"},
    ErrorEntry{kNvmlNotSupported, "NOT_SUPPORTED", PowerReason::kUnsupported, ""},
    ErrorEntry{kNvmlNoPermission, "NO_PERMISSION", PowerReason::kPermissionDenied,
               "give this user access to /dev/nvidiactl and /dev/nvidia*; in a container: --gpus "
               "all"},
    ErrorEntry{kNvmlNotFound, "NOT_FOUND", PowerReason::kNoSamples, ""},
    ErrorEntry{kNvmlInsufficientSize, "INSUFFICIENT_SIZE", PowerReason::kNoSamples, ""},
    ErrorEntry{kNvmlDriverNotLoaded, "DRIVER_NOT_LOADED", PowerReason::kAbsent,
               "load the driver (modprobe nvidia); in a container: --gpus all"},
    ErrorEntry{10, "TIMEOUT", PowerReason::kNoSamples, ""},
    ErrorEntry{kNvmlLibraryNotFound, "LIBRARY_NOT_FOUND", PowerReason::kAbsent, kInstallFix},
    ErrorEntry{kNvmlFunctionNotFound, "FUNCTION_NOT_FOUND", PowerReason::kUnsupported,
               "a newer driver may have it"},
    ErrorEntry{kNvmlGpuIsLost, "GPU_IS_LOST", PowerReason::kDeviceLost,
               "the GPU fell off the bus: see dmesg for Xid 79; reboot or reset it"},
    ErrorEntry{kNvmlResetRequired, "RESET_REQUIRED", PowerReason::kResetRequired,
               "stop what uses the GPU, then nvidia-smi --gpu-reset -i INDEX"},
    ErrorEntry{kNvmlOperatingSystem, "OPERATING_SYSTEM", PowerReason::kPermissionDenied,
               "the system blocks the GPU's device files: see the cgroup of this process"},
    ErrorEntry{kNvmlLibRmVersionMismatch, "LIB_RM_VERSION_MISMATCH", PowerReason::kDriverMismatch,
               "the library and the loaded kernel module are of different versions: reboot, or "
               "reload the nvidia modules; restart containers after a driver update"},
    ErrorEntry{20, "MEMORY", PowerReason::kNoSamples, ""},
    ErrorEntry{21, "NO_DATA", PowerReason::kNoSamples, ""},
    ErrorEntry{kNvmlArgumentVersionMismatch, "ARGUMENT_VERSION_MISMATCH", PowerReason::kUnsupported,
               ""},
    ErrorEntry{kNvmlDeprecated, "DEPRECATED", PowerReason::kUnsupported, ""},
    ErrorEntry{27, "NOT_READY", PowerReason::kNoSamples, ""},
    ErrorEntry{kNvmlGpuNotFound, "GPU_NOT_FOUND", PowerReason::kAbsent, kInstallFix},
};

constexpr ErrorEntry kOtherError = {999, "UNKNOWN", PowerReason::kNoSamples, ""};

const ErrorEntry& EntryOf(NvmlReturn result) {
  const auto at = std::find_if(kErrors.begin(), kErrors.end(),
                               [&](const ErrorEntry& each) { return each.result == result; });
  return at == kErrors.end() ? kOtherError : *at;
}

// The first of `names` that the library has; later ones are what older drivers call it.
template <typename Function>
void Find(void* library, std::initializer_list<const char*> names, Function*& function) {
  for (const char* name : names) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    if (function != nullptr) return;
  }
}

void FindAll(void* library, NvmlApi& nvml) {
  Find(library, {"nvmlInit_v2", "nvmlInit"}, nvml.init);
  Find(library, {"nvmlShutdown"}, nvml.shutdown);
  Find(library, {"nvmlSystemGetDriverVersion"}, nvml.driver_version);
  Find(library, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}, nvml.device_count);
  Find(library, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"},
       nvml.device_by_index);
  Find(library, {"nvmlDeviceGetHandleByUUID"}, nvml.device_by_uuid);
  Find(library, {"nvmlDeviceGetUUID"}, nvml.uuid);
  Find(library, {"nvmlDeviceGetName"}, nvml.name);
  // _v2 fills the first fields of the same layout, and no bus_id.
  Find(library, {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2"}, nvml.pci);
  Find(library, {"nvmlDeviceGetArchitecture"}, nvml.architecture);
  Find(library, {"nvmlDeviceGetCudaComputeCapability"}, nvml.compute_capability);
  Find(library, {"nvmlDeviceGetMigMode"}, nvml.mig_mode);
  Find(library, {"nvmlDeviceGetMaxMigDeviceCount"}, nvml.max_mig_devices);
  Find(library, {"nvmlDeviceGetMigDeviceHandleByIndex"}, nvml.mig_device_by_index);
  Find(library, {"nvmlDeviceGetVirtualizationMode"}, nvml.virtualization_mode);
  Find(library,
       {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"},
       nvml.compute_processes);
  Find(library, {"nvmlDeviceGetEnforcedPowerLimit"}, nvml.power_limit);
  Find(library, {"nvmlDeviceGetFieldValues"}, nvml.field_values);
  Find(library, {"nvmlDeviceGetPowerUsage"}, nvml.power_usage);
  Find(library, {"nvmlDeviceGetSamples"}, nvml.samples);
  Find(library, {"nvmlDeviceGetTotalEnergyConsumption"}, nvml.total_energy);
  Find(library, {"nvmlDeviceGetClockInfo"}, nvml.clock);
  Find(library, {"nvmlDeviceGetTemperature"}, nvml.temperature);
  Find(library,
       {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"},
       nvml.clocks_event_reasons);
  Find(library, {"nvmlDeviceGetPerformanceState"}, nvml.performance_state);
  Find(library, {"nvmlDeviceGetMemoryInfo"}, nvml.memory);
  Find(library, {"nvmlDeviceGetUtilizationRates"}, nvml.utilization);
}

bool HasNeeded(const NvmlApi& nvml) {
  return nvml.init != nullptr && nvml.device_count != nullptr && nvml.device_by_index != nullptr &&
         nvml.device_by_uuid != nullptr && nvml.uuid != nullptr;
}

}  // namespace

NvmlApi::~NvmlApi() {
  if (initialized && shutdown != nullptr) shutdown();
  if (library != nullptr) dlclose(library);
}

std::unique_ptr<NvmlApi> OpenNvml(const std::string& path, PowerAbsence* absence) {
  auto nvml = std::make_unique<NvmlApi>();
  nvml->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  *absence = PowerAbsence{"nvml", path, PowerReason::kAbsent, "", std::string(kInstallFix)};
  if (nvml->library == nullptr) {
    const char* error = dlerror();
    absence->message = error == nullptr ? path + ": cannot be loaded" : error;
    if (absence->message.find("Permission denied") != std::string::npos) {
      absence->reason = PowerReason::kPermissionDenied;
      absence->fix = "make " + path + " readable for this user";
    }
    return nullptr;
  }
  FindAll(nvml->library, *nvml);
  if (!HasNeeded(*nvml)) {
    absence->message = path + ": is no NVML: it lacks nvmlInit or what lists devices";
    return nullptr;
  }
  return nvml;
}

PowerReason ReasonOf(NvmlReturn result) {
  return result == kNvmlSuccess ? PowerReason::kKnown : EntryOf(result).reason;
}

std::string NvmlErrorText(NvmlReturn result) {
  if (result == kNvmlSuccess) return "NVML_SUCCESS (0)";
  return "NVML_ERROR_" + std::string(EntryOf(result).name) + " (" + std::to_string(result) + ")";
}

std::string_view FixOf(NvmlReturn result) {
  return result == kNvmlSuccess ? std::string_view() : EntryOf(result).fix;
}

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
