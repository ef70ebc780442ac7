#include "power/nvml_api.h"

#include <dlfcn.h>
#include <unistd.h>

#include <limits>

#include "power/sysfs.h"
#include "status.h"

namespace xplane_time::power {
namespace {

constexpr std::string_view kInstallFix =
    "install the NVIDIA driver; in a container: --gpus all with "
    "NVIDIA_DRIVER_CAPABILITIES=compute,utility; or set the path with --nvml-library";

struct ErrorEntry {
  NvmlReturn result;
  std::string_view name;
  PowerReason reason;
  std::string_view fix;
};

constexpr ErrorEntry kErrors[] = {
    {kNvmlUninitialized, "UNINITIALIZED", PowerReason::kReset, ""},
    // The answer of drivers to fields and kinds that are newer than the driver.
    {kNvmlInvalidArgument, "INVALID_ARGUMENT", PowerReason::kUnsupported,
     "a newer driver may support it"},
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
     "a newer driver may support it"},
    {kNvmlGpuIsLost, "GPU_IS_LOST", PowerReason::kDeviceLost,
     "the GPU fell off the bus: see dmesg for Xid 79; reboot or reset it"},
    {kNvmlResetRequired, "RESET_REQUIRED", PowerReason::kResetRequired,
     "stop all processes on the GPU, then run nvidia-smi --gpu-reset -i INDEX"},
    {kNvmlOperatingSystem, "OPERATING_SYSTEM", PowerReason::kPermissionDenied,
     "the system blocks the GPU's device files: see the cgroup of this process"},
    {kNvmlLibRmVersionMismatch, "LIB_RM_VERSION_MISMATCH", PowerReason::kDriverMismatch,
     "the library and the loaded kernel module have different versions: reboot, or "
     "reload the nvidia modules; restart containers after a driver update"},
    {20, "MEMORY", PowerReason::kNoSamples, ""},
    {21, "NO_DATA", PowerReason::kNoSamples, ""},
    {25, "ARGUMENT_VERSION_MISMATCH", PowerReason::kUnsupported, ""},
    {26, "DEPRECATED", PowerReason::kUnsupported, ""},
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
  absence->message =
      path + ": not an NVML library: it lacks nvmlInit or the functions that list devices";
  return nullptr;
}

PowerReason ReasonOf(NvmlReturn result) {
  return result == kNvmlSuccess ? PowerReason::kKnown : EntryOf(result).reason;
}

std::string NvmlErrorText(NvmlReturn result) {
  if (result == kNvmlSuccess) return "NVML_SUCCESS (0)";
  return Cat("NVML_ERROR_", EntryOf(result).name, " (", result, ")");
}

std::string_view FixOf(NvmlReturn result) {
  return result == kNvmlSuccess ? std::string_view() : EntryOf(result).fix;
}

std::optional<int64_t> Scaled(uint64_t raw, int64_t scale) {
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (raw > kMax / static_cast<uint64_t>(scale)) return std::nullopt;
  return static_cast<int64_t>(raw) * scale;
}

std::optional<uint64_t> RawOf(const NvmlValue& value, int value_type) {
  const auto natural = [](long long whole) {
    return whole < 0 ? std::nullopt : std::optional(static_cast<uint64_t>(whole));
  };
  // The bound also rejects values that are not numbers.
  const bool is_number = value_type != kNvmlDouble || (value.dbl >= 0 && value.dbl < 1e18);
  if (!is_number) return std::nullopt;
  if (value_type == kNvmlDouble) return static_cast<uint64_t>(value.dbl);
  if (value_type == kNvmlUnsignedInt) return value.uint;
  if (value_type == kNvmlUnsignedLong) return value.ulong;
  if (value_type == kNvmlUnsignedLongLong) return value.ullong;
  if (value_type == kNvmlSignedLongLong) return natural(value.sllong);
  if (value_type == kNvmlSignedInt) return natural(value.sint);
  if (value_type == kNvmlUnsignedShort) return value.ushort;
  return std::nullopt;
}

namespace {

// The initial pid namespace (PROC_PID_INIT_INO of the kernel).
constexpr std::string_view kFirstPidNamespace = "pid:[4026531836]";
constexpr int kMaxDepth = 10'000;

enum class Kin : uint8_t { kOwn, kOther, kUnknown };

Kin KinOf(int64_t pid, int64_t own_pid, const std::string& procfs) {
  for (int depth = 0; depth < kMaxDepth && pid > 0; ++depth) {
    if (pid == own_pid) return Kin::kOwn;
    const std::string stat = TextIn(Cat(procfs, "/", pid, "/stat"));
    const auto parent = NumberIn(StatField(stat, 4).value_or("")).value;
    if (!parent) return depth == 0 ? Kin::kUnknown : Kin::kOther;
    pid = *parent;
  }
  return Kin::kOther;
}

bool InOwnNamespace(const std::string& procfs) {
  char target[64] = {};
  const ssize_t size = readlink((procfs + "/self/ns/pid").c_str(), target, sizeof target - 1);
  return size > 0 && std::string_view(target, static_cast<size_t>(size)) != kFirstPidNamespace;
}

}  // namespace

Sharing OtherProcesses(const std::vector<int64_t>& pids, int64_t own_pid,
                       const std::string& procfs) {
  Sharing sharing;
  const bool own_namespace = InOwnNamespace(procfs);
  for (const int64_t pid : pids) {
    const Kin kin = KinOf(pid, own_pid, procfs);
    if (kin == Kin::kOwn) continue;
    if (kin == Kin::kOther && !own_namespace) {
      sharing.others.push_back(pid);
    } else {
      sharing.note = Cat("whether other processes use it is unknown: process ", pid,
                         " may belong to another pid namespace");
    }
  }
  if (!sharing.others.empty()) sharing.note.clear();
  return sharing;
}

ChipPriors PriorsOf(const NvmlChip& chip) {
  struct Row {
    unsigned architecture;
    int64_t power_period_ms, power_window_ms, energy_period_ms;  // 0 if unknown
  };
  constexpr Row kRows[] = {
      {kNvmlPascal, 20, 10, 0},     {kNvmlVolta, 20, 0, 20}, {kNvmlTuring, 100, 100, 100},
      {kNvmlAmpere, 100, 100, 100}, {kNvmlAda, 0, 0, 100},   {kNvmlHopper, 100, 25, 100},
  };
  const auto ns = [](int64_t ms) { return ms > 0 ? std::optional(ms * 1'000'000) : std::nullopt; };
  ChipPriors priors;
  if (chip.architecture > kNvmlHopper) priors.energy.period_ns = ns(100);
  for (const Row& row : kRows) {
    if (row.architecture != chip.architecture) continue;
    priors.instant = {ns(row.power_period_ms), ns(row.power_window_ms)};
    priors.energy.period_ns = ns(row.energy_period_ms);
  }
  const bool is_ampere = chip.architecture == kNvmlAmpere;
  const bool is_ga100 = is_ampere && chip.major == 8 && chip.minor == 0;
  // Without a compute capability, it is unknown which of the two it is.
  const bool is_known = chip.architecture != 0 && !(is_ampere && chip.major == 0);
  if (is_known) priors.usage_is_average = chip.architecture >= kNvmlAmpere && !is_ga100;
  if (is_ga100) priors.instant.window_ns = ns(25);
  if (is_ampere && !is_known) priors.instant.window_ns.reset();
  if (priors.usage_is_average == true) priors.average = {ns(100), ns(1000)};
  return priors;
}

}  // namespace xplane_time::power
