#include "power/nvml_inventory.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "power/nvml_api.h"
#include "power/visible_devices.h"

namespace xplane_time::power {
namespace {

// More than any device or module draws; of counters of devices that do not tell their limit.
constexpr int64_t kMaxDeviceMw = 5'000'000;
constexpr int64_t kMaxModuleMw = 20'000'000;
// Short peaks exceed the limit that the driver enforces over tens of milliseconds.
constexpr int64_t kPeakOverLimit = 3;
constexpr unsigned kMaxMigInstances = 64;
constexpr unsigned kSampleBuffer = 256;

struct Found {
  NvmlDevice handle = nullptr;
  PowerDevice device;
  GpuIdentity identity;
  NvmlChip chip;
  bool vgpu = false;
  bool whole_module = false;  // its counter is that of the CPU and the GPU together
};

template <typename Function>
std::string TextOf(Function* function, NvmlDevice device) {
  char text[kNvmlTextSize] = {};
  if (function == nullptr || function(device, text, sizeof text) != kNvmlSuccess) return {};
  text[sizeof text - 1] = 0;
  return text;
}

std::string BusIdOf(const NvmlApi& nvml, NvmlDevice device) {
  NvmlPci pci = {};
  if (nvml.pci == nullptr || nvml.pci(device, &pci) != kNvmlSuccess) return {};
  char text[32] = {};
  std::snprintf(text, sizeof text, "%08x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
  return text;
}

NvmlChip ChipOf(const NvmlApi& nvml, NvmlDevice device) {
  NvmlChip chip;
  unsigned architecture = 0;
  if (nvml.architecture != nullptr && nvml.architecture(device, &architecture) == kNvmlSuccess &&
      architecture != ~0U) {
    chip.architecture = architecture;
  }
  int major = 0;
  int minor = 0;
  if (nvml.compute_capability != nullptr &&
      nvml.compute_capability(device, &major, &minor) == kNvmlSuccess) {
    chip.major = major;
    chip.minor = minor;
  }
  return chip;
}

bool IsSplit(const NvmlApi& nvml, NvmlDevice device) {
  unsigned current = 0;
  unsigned pending = 0;
  return nvml.mig_mode != nullptr && nvml.mig_mode(device, &current, &pending) == kNvmlSuccess &&
         current == 1;
}

std::vector<std::string> InstancesOf(const NvmlApi& nvml, NvmlDevice device) {
  std::vector<std::string> instances;
  unsigned most = 0;
  if (nvml.max_mig_devices == nullptr || nvml.mig_device_by_index == nullptr ||
      nvml.max_mig_devices(device, &most) != kNvmlSuccess) {
    return instances;
  }
  for (unsigned i = 0; i < std::min(most, kMaxMigInstances); ++i) {
    NvmlDevice instance = nullptr;  // places without an instance answer NOT_FOUND
    if (nvml.mig_device_by_index(device, i, &instance) != kNvmlSuccess) continue;
    if (std::string uuid = TextOf(nvml.uuid, instance); !uuid.empty()) {
      instances.push_back(std::move(uuid));
    }
  }
  return instances;
}

class Taker {
 public:
  Taker(const NvmlApi& nvml, const PowerSourceOptions& options) : nvml_(nvml), options_(options) {}

  NvmlInventory Take() {
    FindDevices();
    const Visibility visible = See();
    for (size_t i = 0; i < found_.size(); ++i) {
      PowerDevice& device = found_[i].device;
      if (visible.MaySee(i)) {
        Share(found_[i]);
        Plan(found_[i]);
      } else {
        AddNote(device,
                "the measured program does not see it (CUDA_VISIBLE_DEVICES or --map): "
                "not read");
      }
      taken_.inventory.devices.push_back(device);
    }
    return std::move(taken_);
  }

 private:
  void Absent(std::string what, NvmlReturn result, std::string message, std::string fix) {
    taken_.inventory.absences.push_back(
        {"nvml", std::move(what), ReasonOf(result), std::move(message), std::move(fix)});
  }

  static void AddNote(PowerDevice& device, const std::string& note) {
    if (!device.note.empty()) device.note += "; ";
    device.note += note;
  }

  void FindDevices() {
    unsigned count = 0;
    const NvmlReturn result = nvml_.device_count(&count);
    if (result != kNvmlSuccess) {
      Absent("devices", result, "nvmlDeviceGetCount: " + NvmlErrorText(result),
             std::string(FixOf(result)));
    } else if (count == 0) {
      Absent("devices", kNvmlGpuNotFound, "the NVIDIA driver has no GPU",
             std::string(FixOf(kNvmlGpuNotFound)));
    }
    char driver[kNvmlTextSize] = {};
    if (nvml_.driver_version != nullptr &&
        nvml_.driver_version(driver, sizeof driver) != kNvmlSuccess) {
      driver[0] = 0;
    }
    for (unsigned i = 0; result == kNvmlSuccess && i < count; ++i) FindDevice(i, driver);
  }

  void FindDevice(unsigned index, const char* driver) {
    const std::string what = "GPU " + std::to_string(index);
    Found found;
    NvmlReturn result = nvml_.device_by_index(index, &found.handle);
    char uuid[kNvmlTextSize] = {};
    if (result == kNvmlSuccess) result = nvml_.uuid(found.handle, uuid, sizeof uuid);
    if (result != kNvmlSuccess) {
      Absent(what, result, what + ": " + NvmlErrorText(result), std::string(FixOf(result)));
      return;
    }
    uuid[sizeof uuid - 1] = 0;
    found.device.id = uuid;
    found.device.name = TextOf(nvml_.name, found.handle);
    found.device.source = "nvml";
    found.device.index = static_cast<int32_t>(index);
    found.device.pci_bus_id = BusIdOf(nvml_, found.handle);
    found.device.driver = driver;
    found.device.mig = IsSplit(nvml_, found.handle);
    found.chip = ChipOf(nvml_, found.handle);
    found.whole_module = found.device.name.find("GH200") != std::string::npos;
    int mode = 0;
    found.vgpu = nvml_.virtualization_mode != nullptr &&
                 nvml_.virtualization_mode(found.handle, &mode) == kNvmlSuccess &&
                 mode == kNvmlVirtualizationVgpu;
    found.identity = {found.device.id, found.device.name, {}, found.device.mig};
    if (found.device.mig) found.identity.mig_instances = InstancesOf(nvml_, found.handle);
    found_.push_back(std::move(found));
  }

  // Sets the ordinals; where they are not known, an absence says why.
  Visibility See() {
    std::vector<GpuIdentity> identities;
    for (const Found& found : found_) identities.push_back(found.identity);
    Visibility visible =
        VisibleDevices(identities, GpuVendor::kNvidia, options_.environment, options_.ordinals);
    for (const auto& [ordinal, place] : visible.device_of) {
      std::optional<int32_t>& first = found_[place].device.ordinal;
      if (!first) first = ordinal;
    }
    if (!visible.unknown.empty()) {
      taken_.inventory.absences.push_back({"nvml", "ordinals", PowerReason::kUnsupported,
                                           "which GPU has which ordinal is not known",
                                           visible.unknown});
    }
    for (const std::string& id : visible.not_found) {
      if (!id.starts_with("GPU-") && !id.starts_with("MIG-")) continue;  // of another source
      taken_.inventory.absences.push_back({"nvml", id, PowerReason::kAbsent,
                                           "--map: the driver has no " + id,
                                           "see nvidia-smi -L for the ids of devices"});
    }
    return visible;
  }

  void Share(Found& found) {
    PowerDevice& device = found.device;
    if (device.mig) {
      device.shared = true;
      AddNote(device, "split (MIG): the sensors are the whole GPU's");
      return;
    }
    const Sharing sharing = SharingOf(nvml_, found.handle, options_.pid, options_.roots.procfs);
    device.shared = !sharing.others.empty();
    if (device.shared) {
      AddNote(device, "other processes use it (" + std::to_string(sharing.others.size()) +
                          ", the first is " + std::to_string(sharing.others.front()) + ")");
    }
    if (!sharing.note.empty()) AddNote(device, sharing.note);
  }

  uint32_t AddChannel(PowerChannel channel, const Found& found) {
    channel.source = "nvml";
    channel.device = found.device.id;
    channel.in_total = IsPowerOrEnergy(channel) && channel.domain == "gpu";
    taken_.inventory.channels.push_back(std::move(channel));
    return static_cast<uint32_t>(taken_.inventory.channels.size() - 1);
  }

  void Plan(const Found& found) {
    NvmlPlan plan;
    plan.device = found.handle;
    plan.uuid = found.device.id;
    failed_.clear();
    const NvmlReturn energy = PlanEnergy(found, plan);
    const NvmlReturn power = PlanPower(found, plan);
    for (const NvmlCall& call : SlowCalls()) PlanSlow(call, found, plan);
    if (energy != kNvmlSuccess && power != kNvmlSuccess) {
      NoPower(found, power);
    } else {
      if (energy != kNvmlSuccess) failed_[energy].push_back(EnergyCall().function);
      if (power != kNvmlSuccess) failed_[power].push_back(PowerUsageCall().function);
    }
    for (const auto& [result, functions] : failed_) {
      std::string message = found.device.id + ":";
      for (const std::string_view function : functions) {
        message += " " + std::string(function) + ",";
      }
      message.back() = ':';
      Absent(found.device.id, result, message + " " + NvmlErrorText(result),
             std::string(FixOf(result)));
    }
    taken_.plans.push_back(std::move(plan));
  }

  void NoPower(const Found& found, NvmlReturn result) {
    const bool vgpu = found.vgpu && ReasonOf(result) == PowerReason::kUnsupported;
    Absent(found.device.id + " power", result,
           found.device.id + ": " +
               (vgpu ? "a vGPU has no power sensor: " : "no power and no energy: ") +
               std::string(PowerUsageCall().function) + ": " + NvmlErrorText(result),
           vgpu ? "read the power on the host" : std::string(FixOf(result)));
  }

  NvmlReturn PlanEnergy(const Found& found, NvmlPlan& plan) {
    std::array<uint64_t, 2> raw = {};
    const NvmlReturn result = EnergyCall().read(nvml_, found.handle, raw);
    if (result != kNvmlSuccess) return result;
    PowerChannel channel;
    channel.domain = found.whole_module ? "module" : "gpu";
    channel.quantity = "energy_uj";
    channel.kind = ReadingKind::kCumulative;
    channel.note =
        found.whole_module ? "since driver load; CPU and GPU together" : "since driver load";
    channel.prior_period_ns = PriorOf(found.chip, NvmlSensorKind::kEnergy).period_ns;
    channel.max_plausible_mw = MaxPlausibleMw(found);
    plan.calls.push_back({&EnergyCall(), AddChannel(std::move(channel), found), false});
    return kNvmlSuccess;
  }

  int64_t MaxPlausibleMw(const Found& found) const {
    if (found.whole_module) return kMaxModuleMw;
    unsigned limit_mw = 0;
    if (nvml_.power_limit == nullptr ||
        nvml_.power_limit(found.handle, &limit_mw) != kNvmlSuccess || limit_mw == 0) {
      return kMaxDeviceMw;
    }
    return std::min(kPeakOverLimit * int64_t{limit_mw}, kMaxDeviceMw);
  }

  static PowerChannel PowerOf(const Found& found, std::string_view domain, bool average) {
    PowerChannel channel;
    channel.domain = domain;
    channel.quantity = "power_mw";
    channel.kind = average ? ReadingKind::kAverage : ReadingKind::kInstant;
    if (domain != "gpu") return channel;  // nobody measured the others
    const SensorPrior prior = PriorOf(
        found.chip, average ? NvmlSensorKind::kAveragePower : NvmlSensorKind::kInstantPower);
    channel.prior_period_ns = prior.period_ns;
    channel.prior_window_ns = prior.window_ns;
    return channel;
  }

  // Fields where the driver has them, else nvmlDeviceGetPowerUsage.
  NvmlReturn PlanPower(const Found& found, NvmlPlan& plan) {
    std::vector<NvmlPlan::Field> fields;
    for (const unsigned scope : {kNvmlScopeGpu, kNvmlScopeModule, kNvmlScopeMemory}) {
      fields.push_back({kNvmlFieldPowerAverage, scope, 0});
      fields.push_back({kNvmlFieldPowerInstant, scope, 0});
    }
    std::vector<NvmlFieldValue> values;
    if (ReadFields(nvml_, found.handle, fields, &values) != kNvmlSuccess) values.clear();
    bool gpu = false;
    std::optional<uint32_t> instant;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].result != kNvmlSuccess) continue;
      constexpr std::array<std::string_view, 3> kDomains = {"gpu", "module", "gpu_memory"};
      NvmlPlan::Field field = fields[i];
      const bool average = field.field == kNvmlFieldPowerAverage;
      field.channel = AddChannel(PowerOf(found, kDomains[field.scope], average), found);
      if (field.scope == kNvmlScopeGpu) {
        gpu = true;
        if (!average) instant = field.channel;
      }
      plan.fields.push_back(field);
    }
    const NvmlReturn result = gpu ? kNvmlSuccess : PlanPowerUsage(found, plan, &instant);
    if (instant) PlanSamples(found, *instant, plan);
    return result;
  }

  NvmlReturn PlanPowerUsage(const Found& found, NvmlPlan& plan, std::optional<uint32_t>* instant) {
    std::array<uint64_t, 2> raw = {};
    const NvmlReturn result = PowerUsageCall().read(nvml_, found.handle, raw);
    if (result != kNvmlSuccess) return result;
    const std::optional<bool> average = PowerUsageIsAverage(found.chip);
    PowerChannel channel = PowerOf(found, "gpu", average.value_or(true));
    channel.note = !average   ? "instant or the average of 1 s: the chip is not known"
                   : *average ? "average of 1 s"
                              : "";
    const uint32_t place = AddChannel(std::move(channel), found);
    plan.calls.push_back({&PowerUsageCall(), place, false});
    if (average == false) *instant = place;
    return kNvmlSuccess;
  }

  // From here on: what the buffer holds already was before the recording.
  void PlanSamples(const Found& found, uint32_t channel, NvmlPlan& plan) {
    if (!ChangesBetweenPolls(found.chip)) return;
    std::vector<NvmlSample> samples;
    int type = 0;
    const NvmlReturn result = ReadSamples(nvml_, found.handle, 0, &type, &samples);
    if (result != kNvmlSuccess && result != kNvmlNotFound) return;  // idle: none yet
    plan.samples = NvmlPlan::Samples{channel, samples.empty() ? 0 : samples.back().timestamp_us};
    PowerChannel& filled = taken_.inventory.channels[channel];
    filled.note += filled.note.empty() ? "" : "; ";
    filled.note += "between polls: the driver's buffered samples";
  }

  void PlanSlow(const NvmlCall& call, const Found& found, NvmlPlan& plan) {
    std::array<uint64_t, 2> raw = {};
    const NvmlReturn result = call.read(nvml_, found.handle, raw);
    if (result != kNvmlSuccess) {
      std::vector<std::string_view>& functions = failed_[result];
      if (functions.empty() || functions.back() != call.function) {
        functions.push_back(call.function);
      }
      return;
    }
    NvmlPlan::Call planned = {&call, 0, true};
    for (size_t i = 0; i < call.n_quantities(); ++i) {
      PowerChannel channel;
      channel.domain = "gpu";
      channel.quantity = call.quantities[i].name;
      channel.kind = ReadingKind::kGauge;
      channel.slow = true;
      const uint32_t place = AddChannel(std::move(channel), found);
      if (i == 0) planned.first_channel = place;
    }
    plan.calls.push_back(planned);
  }

  const NvmlApi& nvml_;
  const PowerSourceOptions& options_;
  std::vector<Found> found_;
  std::map<NvmlReturn, std::vector<std::string_view>> failed_;  // of the device being planned
  NvmlInventory taken_;
};

}  // namespace

NvmlInventory TakeNvmlInventory(const NvmlApi& nvml, const PowerSourceOptions& options) {
  return Taker(nvml, options).Take();
}

NvmlReturn ReadFields(const NvmlApi& nvml, NvmlDevice device,
                      const std::vector<NvmlPlan::Field>& fields,
                      std::vector<NvmlFieldValue>* values) {
  if (nvml.field_values == nullptr) return kNvmlFunctionNotFound;
  values->assign(fields.size(), NvmlFieldValue{});
  for (size_t i = 0; i < fields.size(); ++i) {
    (*values)[i].field_id = fields[i].field;
    (*values)[i].scope_id = fields[i].scope;
    // A driver that leaves a value untouched has not answered it.
    (*values)[i].result = kNvmlNotSupported;
  }
  return nvml.field_values(device, static_cast<int>(values->size()), values->data());
}

NvmlReturn ReadSamples(const NvmlApi& nvml, NvmlDevice device, uint64_t last_seen_us,
                       int* value_type, std::vector<NvmlSample>* samples) {
  samples->clear();
  if (nvml.samples == nullptr) return kNvmlFunctionNotFound;
  samples->resize(kSampleBuffer);
  unsigned count = kSampleBuffer;
  const NvmlReturn result = nvml.samples(device, kNvmlTotalPowerSamples, last_seen_us, value_type,
                                         &count, samples->data());
  samples->resize(result == kNvmlSuccess ? std::min(count, kSampleBuffer) : 0);
  std::sort(samples->begin(), samples->end(), [](const NvmlSample& a, const NvmlSample& b) {
    return a.timestamp_us < b.timestamp_us;
  });
  return result;
}

namespace {

// Of the namespace that every other is in (PROC_PID_INIT_INO of the kernel).
constexpr std::string_view kFirstPidNamespace = "pid:[4026531836]";
constexpr int kMaxDepth = 10'000;
constexpr unsigned kMaxProcesses = 1 << 16;

// The field after the name in parentheses, which may itself hold any character, and the state.
std::optional<int64_t> ParentOf(int64_t pid, const std::string& procfs) {
  std::ifstream file(procfs + "/" + std::to_string(pid) + "/stat", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || text.size() < name_end + 5) return std::nullopt;
  const char* begin = text.data() + name_end + 4;
  int64_t parent = 0;
  const auto parsed = std::from_chars(begin, text.data() + text.size(), parent);
  if (parsed.ec != std::errc()) return std::nullopt;
  return parent;
}

enum class Kin : uint8_t { kOwn, kOther, kUnknown };

Kin KinOf(int64_t pid, int64_t own_pid, const std::string& procfs) {
  for (int depth = 0; depth < kMaxDepth && pid > 0; ++depth) {
    if (pid == own_pid) return Kin::kOwn;
    const std::optional<int64_t> parent = ParentOf(pid, procfs);
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
      sharing.note = "whether other processes use it is not known: process " + std::to_string(pid) +
                     " on it may be of another pid namespace";
    }
  }
  if (!sharing.others.empty()) sharing.note.clear();
  return sharing;
}

Sharing SharingOf(const NvmlApi& nvml, NvmlDevice device, int64_t own_pid,
                  const std::string& procfs) {
  NvmlReturn result = kNvmlFunctionNotFound;
  std::vector<NvmlProcess> processes(64);
  // More may start between two calls.
  for (int attempt = 0; attempt < 4 && nvml.compute_processes != nullptr; ++attempt) {
    auto count = static_cast<unsigned>(processes.size());
    result = nvml.compute_processes(device, &count, processes.data());
    if (result == kNvmlSuccess) {
      if (count < processes.size()) processes.resize(count);
      break;
    }
    if (result != kNvmlInsufficientSize || count > kMaxProcesses) break;
    processes.resize(size_t{count} + 64);
  }
  if (result != kNvmlSuccess) {
    return {{},
            "whether other processes use it is not known: "
            "nvmlDeviceGetComputeRunningProcesses: " +
                NvmlErrorText(result)};
  }
  std::vector<int64_t> pids;
  for (const NvmlProcess& process : processes) pids.push_back(process.pid);
  return OtherProcesses(pids, own_pid == 0 ? getpid() : own_pid, procfs);
}

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
