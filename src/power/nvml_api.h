// NvmlApi: the functions of libnvidia-ml.so.1 that this project uses, found at run time.
//
//   path  ->  OpenNvml  ->  table of functions (some may be missing), or an absence
//
//   PowerAbsence absence;
//   std::unique_ptr<NvmlApi> nvml = OpenNvml("libnvidia-ml.so.1", &absence);
//   if (nvml == nullptr) ...      // absence.message: the loader's message; absence.fix
//
// Names, numbers and layouts are those of NVIDIA's public NVML API (nvml.h of CUDA 12, "NVML API
// Reference Guide"; GPM: CUDA 13). The layouts are part of its ABI and are versioned by function
// name.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "xplane_time/power.h"

namespace xplane_time::power {

// nvmlReturn_t.
using NvmlReturn = int;
inline constexpr NvmlReturn kNvmlSuccess = 0;
inline constexpr NvmlReturn kNvmlUninitialized = 1;
inline constexpr NvmlReturn kNvmlInvalidArgument = 2;
inline constexpr NvmlReturn kNvmlNotSupported = 3;
inline constexpr NvmlReturn kNvmlNoPermission = 4;
inline constexpr NvmlReturn kNvmlNotFound = 6;
inline constexpr NvmlReturn kNvmlInsufficientSize = 7;
inline constexpr NvmlReturn kNvmlDriverNotLoaded = 9;
inline constexpr NvmlReturn kNvmlLibraryNotFound = 12;
inline constexpr NvmlReturn kNvmlFunctionNotFound = 13;
inline constexpr NvmlReturn kNvmlGpuIsLost = 15;
inline constexpr NvmlReturn kNvmlResetRequired = 16;
inline constexpr NvmlReturn kNvmlOperatingSystem = 17;
inline constexpr NvmlReturn kNvmlLibRmVersionMismatch = 18;
inline constexpr NvmlReturn kNvmlGpuNotFound = 28;

// nvmlDeviceArchitecture_t.
inline constexpr unsigned kNvmlPascal = 4;
inline constexpr unsigned kNvmlVolta = 5;
inline constexpr unsigned kNvmlTuring = 6;
inline constexpr unsigned kNvmlAmpere = 7;
inline constexpr unsigned kNvmlAda = 8;
inline constexpr unsigned kNvmlHopper = 9;

// NVML_FI_DEV_POWER_*, NVML_POWER_SCOPE_*.
inline constexpr unsigned kNvmlFieldPowerAverage = 185;
inline constexpr unsigned kNvmlFieldPowerInstant = 186;
inline constexpr unsigned kNvmlScopeGpu = 0;
inline constexpr unsigned kNvmlScopeModule = 1;
inline constexpr unsigned kNvmlScopeMemory = 2;

inline constexpr int kNvmlClockSm = 1;              // nvmlClockType_t
inline constexpr int kNvmlClockMemory = 2;          //
inline constexpr int kNvmlTemperatureGpu = 0;       // nvmlTemperatureSensors_t
inline constexpr int kNvmlTotalPowerSamples = 0;    // nvmlSamplingType_t
inline constexpr int kNvmlVirtualizationVgpu = 2;   // nvmlGpuVirtualizationMode_t
inline constexpr unsigned kNvmlPstateUnknown = 32;  // nvmlPstates_t
inline constexpr unsigned kNvmlTextSize = 96;       // the longest text

// nvmlValueType_t and nvmlValue_t.
enum NvmlValueType : int {
  kNvmlDouble = 0,
  kNvmlUnsignedInt = 1,
  kNvmlUnsignedLong = 2,
  kNvmlUnsignedLongLong = 3,
  kNvmlSignedLongLong = 4,
  kNvmlSignedInt = 5,
  kNvmlUnsignedShort = 6,
};
union NvmlValue {
  double dbl;
  int sint;
  unsigned uint;
  unsigned long ulong;
  unsigned long long ullong;
  long long sllong;
  unsigned short ushort;
};

struct NvmlFieldValue {
  unsigned field_id;
  unsigned scope_id;
  long long timestamp_us;  // since 1970
  long long latency_us;
  int value_type;
  NvmlReturn result;
  NvmlValue value;
};

struct NvmlSample {
  unsigned long long timestamp_us;  // "CPU timestamp"; NVML does not document the clock
  NvmlValue value;
};

struct NvmlMemory {
  unsigned long long total, free, used;  // bytes
};

struct NvmlUtilization {
  unsigned gpu, memory;  // percent of the last period
};

// Used by nvmlDeviceGetComputeRunningProcesses_v2 and _v3.
struct NvmlProcess {
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance, compute_instance;
};

// Used by nvmlDeviceGetPciInfo_v3.
struct NvmlPci {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device, pci_subsystem;
  char bus_id[32];
};

// GPM, from Hopper on: hardware counts between two samples. NVML_GPM_METRIC_*, percent.
inline constexpr unsigned kNvmlGpmSmUtil = 2;
inline constexpr unsigned kNvmlGpmAnyTensorUtil = 5;
inline constexpr unsigned kNvmlGpmDramBandwidthUtil = 10;
inline constexpr unsigned kNvmlGpmVersion = 1;  // of the next two structs

struct NvmlGpmSupport {
  unsigned version, is_supported;
};

struct NvmlGpmMetric {
  unsigned id;
  NvmlReturn result;
  double value;
  const char *short_name, *long_name, *unit;  // owned by the library; may be null
};

using NvmlGpmSample = struct NvmlGpmSampleHandle*;

// Only the first metric_count metrics are used. nvml.h of CUDA 12.0 has 98 metrics and that of CUDA
// 13 has 477. The array has the largest size, in case a driver clears all of them.
struct NvmlGpmMetrics {
  unsigned version, metric_count;
  NvmlGpmSample before, after;
  NvmlGpmMetric metrics[477];
};

static_assert(sizeof(NvmlGpmSupport) == 8 && sizeof(NvmlGpmMetric) == 40);
static_assert(sizeof(NvmlGpmMetrics) == 24 + 477 * 40);
static_assert(sizeof(NvmlFieldValue) == 40 && sizeof(NvmlSample) == 16);
static_assert(sizeof(NvmlProcess) == 24 && sizeof(NvmlPci) == 68);

using NvmlDevice = struct NvmlDeviceHandle*;

void* FindNvmlFunction(void* library, std::initializer_list<const char*> names);

// A function of the library. If the library lacks it, a call returns kNvmlFunctionNotFound.
template <typename... Arguments>
class NvmlFunction {
 public:
  // Uses the first of `names` that exists; later names are those of older drivers.
  NvmlFunction(void* library, std::initializer_list<const char*> names)
      : function_(reinterpret_cast<Function*>(FindNvmlFunction(library, names))) {}
  bool is_there() const { return function_ != nullptr; }
  NvmlReturn operator()(Arguments... arguments) const {
    return is_there() ? function_(arguments...) : kNvmlFunctionNotFound;
  }

 private:
  using Function = NvmlReturn(Arguments...);
  Function* const function_;
};

struct NvmlApi {
  explicit NvmlApi(void* opened) : library(opened) {}
  ~NvmlApi();  // calls nvmlShutdown and unloads the library
  // Whether the library has the indispensable functions.
  bool is_nvml() const {
    return init.is_there() && device_count.is_there() && device_by_index.is_there() &&
           device_by_uuid.is_there() && uuid.is_there();
  }

  void* const library;
  bool initialized = false;

  template <typename... Arguments>
  using Call = const NvmlFunction<Arguments...>;
  template <typename... Arguments>
  using OfDevice = const NvmlFunction<NvmlDevice, Arguments...>;
  using Count = unsigned*;
  using Long = unsigned long long*;

  Call<> init{library, {"nvmlInit_v2", "nvmlInit"}};
  Call<> shutdown{library, {"nvmlShutdown"}};
  Call<char*, unsigned> driver_version{library, {"nvmlSystemGetDriverVersion"}};
  Call<Count> device_count{library, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}};
  Call<unsigned, NvmlDevice*> device_by_index{
      library, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"}};
  Call<const char*, NvmlDevice*> device_by_uuid{library, {"nvmlDeviceGetHandleByUUID"}};
  OfDevice<char*, unsigned> uuid{library, {"nvmlDeviceGetUUID"}};
  OfDevice<char*, unsigned> name{library, {"nvmlDeviceGetName"}};
  // _v2 fills the first fields of the same layout, without bus_id.
  OfDevice<NvmlPci*> pci{library, {"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2"}};
  OfDevice<Count> architecture{library, {"nvmlDeviceGetArchitecture"}};
  OfDevice<int*, int*> compute_capability{library, {"nvmlDeviceGetCudaComputeCapability"}};
  OfDevice<Count, Count> mig_mode{library, {"nvmlDeviceGetMigMode"}};
  OfDevice<Count> max_mig_devices{library, {"nvmlDeviceGetMaxMigDeviceCount"}};
  OfDevice<unsigned, NvmlDevice*> mig_device_by_index{library,
                                                      {"nvmlDeviceGetMigDeviceHandleByIndex"}};
  OfDevice<int*> virtualization_mode{library, {"nvmlDeviceGetVirtualizationMode"}};
  OfDevice<Count, NvmlProcess*> compute_processes{
      library,
      {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"}};
  OfDevice<Count> power_limit{library, {"nvmlDeviceGetEnforcedPowerLimit"}};
  OfDevice<int, NvmlFieldValue*> field_values{library, {"nvmlDeviceGetFieldValues"}};
  OfDevice<Count> power_usage{library, {"nvmlDeviceGetPowerUsage"}};
  OfDevice<int, unsigned long long, int*, Count, NvmlSample*> samples{library,
                                                                      {"nvmlDeviceGetSamples"}};
  OfDevice<Long> total_energy{library, {"nvmlDeviceGetTotalEnergyConsumption"}};
  OfDevice<int, Count> clock{library, {"nvmlDeviceGetClockInfo"}};
  OfDevice<int, Count> temperature{library, {"nvmlDeviceGetTemperature"}};
  OfDevice<Long> clocks_event_reasons{
      library,
      {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"}};
  OfDevice<Count> performance_state{library, {"nvmlDeviceGetPerformanceState"}};
  OfDevice<NvmlMemory*> memory{library, {"nvmlDeviceGetMemoryInfo"}};
  OfDevice<NvmlUtilization*> utilization{library, {"nvmlDeviceGetUtilizationRates"}};

  OfDevice<NvmlGpmSupport*> gpm_support{library, {"nvmlGpmQueryDeviceSupport"}};
  Call<NvmlGpmSample*> gpm_alloc{library, {"nvmlGpmSampleAlloc"}};
  Call<NvmlGpmSample> gpm_free{library, {"nvmlGpmSampleFree"}};
  OfDevice<NvmlGpmSample> gpm_sample{library, {"nvmlGpmSampleGet"}};
  Call<NvmlGpmMetrics*> gpm_metrics{library, {"nvmlGpmMetricsGet"}};

  // Functions for settings (gpu_settings.h). Clocks can be locked from Volta on.
  OfDevice<Count, unsigned*> supported_memory_clocks{library,
                                                     {"nvmlDeviceGetSupportedMemoryClocks"}};
  OfDevice<unsigned, Count, unsigned*> supported_graphics_clocks{
      library, {"nvmlDeviceGetSupportedGraphicsClocks"}};
  OfDevice<unsigned, unsigned> lock_clocks{library, {"nvmlDeviceSetGpuLockedClocks"}};
  OfDevice<> reset_locked_clocks{library, {"nvmlDeviceResetGpuLockedClocks"}};
  OfDevice<Count> management_power_limit{library, {"nvmlDeviceGetPowerManagementLimit"}};
  OfDevice<Count, Count> power_limit_range{library,
                                           {"nvmlDeviceGetPowerManagementLimitConstraints"}};
  OfDevice<unsigned> set_power_limit{library, {"nvmlDeviceSetPowerManagementLimit"}};
};

// Loads the library and finds its functions, without calling any.
std::unique_ptr<NvmlApi> OpenNvml(const std::string& path, PowerAbsence* absence);

// The meaning of a failed call; kKnown for success.
PowerReason ReasonOf(NvmlReturn result);
std::string NvmlErrorText(NvmlReturn result);  // "NVML_ERROR_NO_PERMISSION (4)"
// What the user can do about the error; may be empty.
std::string_view FixOf(NvmlReturn result);

// raw * scale; empty for impossible values (all ones is NVML's "not available").
std::optional<int64_t> Scaled(uint64_t raw, int64_t scale);
// The value of a field or a sample; empty if it is negative, not finite, or of unknown type.
std::optional<uint64_t> RawOf(const NvmlValue& value, int value_type);

// Facts about an NVIDIA GPU beyond NVML's answers: other processes on it, and properties of its
// sensors.

// Other users of a GPU: the processes on it, except for the measured one and its descendants.
//
//   pids + procfs  ->  OtherProcesses  ->  {others, note}
//
// Descendants are found by their parents in procfs. If procfs lacks a pid, or if the process runs
// in its own pid namespace (the driver may then report host pids), the result is unknown: `others`
// is empty and `note` has the reason. Processes that start later are not detected.

struct Sharing {
  std::vector<int64_t> others;
  std::string note;  // why the result is unknown; empty if it is known
};

Sharing OtherProcesses(const std::vector<int64_t>& pids, int64_t own_pid,
                       const std::string& procfs);

// Known properties of a chip model, before anything is read: how often its sensor changes and over
// how long it averages. They are priors: they were measured on some chips, and a driver may change
// them. A summary estimates the period from the readings themselves.
//
// Sources: Yang et al., arXiv 2312.02741 (periods, windows); NVML API Reference Guide,
// nvmlDeviceGetPowerUsage ("On Ampere (except GA100) or newer GPUs, the API returns power averaged
// over 1 sec interval"). Properties without a source are empty.

struct NvmlChip {
  unsigned architecture = 0;  // kNvmlPascal, ...; 0: unknown
  int major = 0, minor = 0;   // compute capability; 0: unknown
};

struct SensorPrior {
  std::optional<int64_t> period_ns = {}, window_ns = {};
};

struct ChipPriors {
  SensorPrior instant, average, energy;
  // Whether nvmlDeviceGetPowerUsage is an average over one second; empty if the chip is unknown.
  std::optional<bool> usage_is_average = {};
};
ChipPriors PriorsOf(const NvmlChip& chip);

}  // namespace xplane_time::power
