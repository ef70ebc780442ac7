#include "power/nvml_api.h"

#include <dlfcn.h>

#include <initializer_list>
#include <limits>

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

constexpr ErrorEntry kErrors[] = {
    {kNvmlUninitialized, "UNINITIALIZED", PowerReason::kReset, ""},
    // Drivers answer so to fields and kinds that came after them.
    {kNvmlInvalidArgument, "INVALID_ARGUMENT", PowerReason::kUnsupported,
     "a newer driver may have it"},
    {kNvmlNotSupported, "NOT_SUPPORTED", PowerReason::kUnsupported, ""},
    {kNvmlNoPermission, "NO_PERMISSION", PowerReason::kPermissionDenied,
     "give this user access to /dev/nvidiactl and /dev/nvidia*; in a container: --gpus "
     "all"},
    {kNvmlNotFound, "NOT_FOUND", PowerReason::kNoSamples, ""},
    {kNvmlInsufficientSize, "INSUFFICIENT_SIZE", PowerReason::kNoSamples, ""},
    {kNvmlDriverNotLoaded, "DRIVER_NOT_LOADED", PowerReason::kAbsent,
     "load the driver (modprobe nvidia); in a container: --gpus all"},
    {10, "TIMEOUT", PowerReason::kNoSamples, ""},
    {kNvmlLibraryNotFound, "LIBRARY_NOT_FOUND", PowerReason::kAbsent, kInstallFix},
    {kNvmlFunctionNotFound, "FUNCTION_NOT_FOUND", PowerReason::kUnsupported,
     "a newer driver may have it"},
    {kNvmlGpuIsLost, "GPU_IS_LOST", PowerReason::kDeviceLost,
     "the GPU fell off the bus: see dmesg for Xid 79; reboot or reset it"},
    {kNvmlResetRequired, "RESET_REQUIRED", PowerReason::kResetRequired,
     "stop what uses the GPU, then nvidia-smi --gpu-reset -i INDEX"},
    {kNvmlOperatingSystem, "OPERATING_SYSTEM", PowerReason::kPermissionDenied,
     "the system blocks the GPU's device files: see the cgroup of this process"},
    {kNvmlLibRmVersionMismatch, "LIB_RM_VERSION_MISMATCH", PowerReason::kDriverMismatch,
     "the library and the loaded kernel module are of different versions: reboot, or "
     "reload the nvidia modules; restart containers after a driver update"},
    {20, "MEMORY", PowerReason::kNoSamples, ""},
    {21, "NO_DATA", PowerReason::kNoSamples, ""},
    {kNvmlArgumentVersionMismatch, "ARGUMENT_VERSION_MISMATCH", PowerReason::kUnsupported, ""},
    {kNvmlDeprecated, "DEPRECATED", PowerReason::kUnsupported, ""},
    {27, "NOT_READY", PowerReason::kNoSamples, ""},
    {kNvmlGpuNotFound, "GPU_NOT_FOUND", PowerReason::kAbsent, kInstallFix},
};

constexpr ErrorEntry kOtherError = {999, "UNKNOWN", PowerReason::kNoSamples, ""};

const ErrorEntry& EntryOf(NvmlReturn result) {
  for (const ErrorEntry& each : kErrors) {
    if (each.result == result) return each;
  }
  return kOtherError;
}

}  // namespace

NvmlApi::~NvmlApi() {
  if (initialized) shutdown();
  if (library != nullptr) dlclose(library);
}

void* FindNvmlFunction(void* library, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* const function = dlsym(library, name); function != nullptr) return function;
  }
  return nullptr;
}

std::unique_ptr<NvmlApi> OpenNvml(const std::string& path, PowerAbsence* absence) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  *absence = PowerAbsence{"nvml", path, PowerReason::kAbsent, "", std::string(kInstallFix)};
  if (library == nullptr) {
    const char* error = dlerror();
    absence->message = error == nullptr ? path + ": cannot be loaded" : error;
    if (absence->message.find("Permission denied") != std::string::npos) {
      absence->reason = PowerReason::kPermissionDenied;
      absence->fix = "make " + path + " readable for this user";
    }
    return nullptr;
  }
  auto nvml = std::make_unique<NvmlApi>(library);
  if (nvml->is_nvml()) return nvml;
  absence->message = path + ": is no NVML: it lacks nvmlInit or what lists devices";
  return nullptr;
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

// A call whose last argument is a number to be filled in; `kind` comes before it.
template <typename Number, auto function, int... kind>
NvmlReturn ReadNumber(const NvmlApi& nvml, NvmlDevice device, NvmlRaw& raw) {
  Number value = 0;
  const NvmlReturn result = (nvml.*function)(device, kind..., &value);
  raw[0] = value;
  return result;
}

NvmlReturn ReadPstate(const NvmlApi& nvml, NvmlDevice device, NvmlRaw& raw) {
  const NvmlReturn result = ReadNumber<unsigned, &NvmlApi::performance_state>(nvml, device, raw);
  if (result == kNvmlSuccess && raw[0] == kNvmlPstateUnknown) return kNvmlNotSupported;
  return result;
}

NvmlReturn ReadMemory(const NvmlApi& nvml, NvmlDevice device, NvmlRaw& raw) {
  NvmlMemory memory = {};
  const NvmlReturn result = nvml.memory(device, &memory);
  raw = {memory.used, memory.total};
  return result;
}

NvmlReturn ReadUtilization(const NvmlApi& nvml, NvmlDevice device, NvmlRaw& raw) {
  NvmlUtilization utilization = {};
  const NvmlReturn result = nvml.utilization(device, &utilization);
  raw = {utilization.gpu, utilization.memory};
  return result;
}

using Long = unsigned long long;
constexpr NvmlCall kEnergyCall = {"nvmlDeviceGetTotalEnergyConsumption",
                                  {{{"energy_uj", 1000}}},
                                  ReadNumber<Long, &NvmlApi::total_energy>};
constexpr NvmlCall kPowerUsageCall = {
    "nvmlDeviceGetPowerUsage", {{{"power_mw"}}}, ReadNumber<unsigned, &NvmlApi::power_usage>};

constexpr NvmlCall kSlowCalls[] = {
    {"nvmlDeviceGetClockInfo",
     {{{"clock_sm_mhz"}}},
     ReadNumber<unsigned, &NvmlApi::clock, kNvmlClockSm>},
    {"nvmlDeviceGetClockInfo",
     {{{"clock_memory_mhz"}}},
     ReadNumber<unsigned, &NvmlApi::clock, kNvmlClockMemory>},
    {"nvmlDeviceGetTemperature",
     {{{"temperature_mc", 1000}}},
     ReadNumber<unsigned, &NvmlApi::temperature, kNvmlTemperatureGpu>},
    {"nvmlDeviceGetCurrentClocksEventReasons",
     {{{"throttle_reasons"}}},
     ReadNumber<Long, &NvmlApi::clocks_event_reasons>},
    {"nvmlDeviceGetPerformanceState", {{{"pstate"}}}, ReadPstate},
    {"nvmlDeviceGetEnforcedPowerLimit",
     {{{"power_limit_mw"}}},
     ReadNumber<unsigned, &NvmlApi::power_limit>},
    {"nvmlDeviceGetMemoryInfo", {{{"memory_used_bytes"}, {"memory_total_bytes"}}}, ReadMemory},
    {"nvmlDeviceGetUtilizationRates",
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
