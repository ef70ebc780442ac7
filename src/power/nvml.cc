// NVIDIA GPUs through libnvidia-ml.so.1. docs/power-sensors.md describes the values and their
// sources.
//
// 1. Discovery (Taker): FindDevices lists the devices with their facts (name, MIG, chip, other
//    processes). See maps ordinals to devices (visible_devices.h). For each visible device, each
//    call is tried once. A call that answers becomes a channel and part of the device's NvmlPlan;
//    other calls become absences.
// 2. Reading (NvmlReader): each pass takes the driver's buffered samples, reads all power fields
//    with one call, makes the plain calls and compares GPM samples. Slow channels are read once a
//    second.
// 3. Recovery: if the driver was unloaded, all readings fail until it answers again; then handles
//    are looked up by uuid, and counters count as reset. A lost GPU is asked once a second.
// 4. Times: NVML dates some values with clocks that it does not document. OnMonotonic converts them
//    and rejects dates that are not shortly before the call.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "power/nvml_api.h"
#include "power/nvml_gpm.h"
#include "power/reader.h"
#include "power/sources.h"
#include "power/visible_devices.h"
#include "status.h"

namespace xplane_time::power {
namespace {

// The compute processes on the device. own_pid 0 means this process.
Sharing SharingOf(const NvmlApi& nvml, NvmlDevice device, int64_t own_pid,
                  const std::string& procfs) {
  constexpr unsigned kMostProcesses = 1 << 16;
  std::vector<NvmlProcess> processes(kMostProcesses);
  unsigned count = kMostProcesses;
  const NvmlReturn result = nvml.compute_processes(device, &count, processes.data());
  if (result != kNvmlSuccess) {
    return {{},
            "whether other processes use it is unknown: nvmlDeviceGetComputeRunningProcesses: " +
                NvmlErrorText(result)};
  }
  std::vector<int64_t> pids;
  processes.resize(std::min(count, kMostProcesses));
  for (const NvmlProcess& process : processes) pids.push_back(process.pid);
  return OtherProcesses(pids, own_pid == 0 ? getpid() : own_pid, procfs);
}

// A call that returns a plain number. Power fields and buffered samples have their own times and
// are read differently.
struct NvmlCall {
  std::string_view function;
  std::string_view quantity;  // as in PowerChannel
  int64_t scale;              // from NVML's unit to that of the quantity
  NvmlReturn (*read)(const NvmlApi&, NvmlDevice, uint64_t* raw);
};

// A call that fills its last argument; `kind` are the arguments before it.
template <typename Answer, auto function, int... kind>
NvmlReturn ReadNvmlNumber(const NvmlApi& nvml, NvmlDevice device, uint64_t* raw) {
  Answer answer = 0;
  const NvmlReturn result = (nvml.*function)(device, kind..., &answer);
  *raw = answer;
  return result;
}
template <typename Answer, auto function, auto member>
NvmlReturn ReadMember(const NvmlApi& nvml, NvmlDevice device, uint64_t* raw) {
  Answer answer = {};
  const NvmlReturn result = (nvml.*function)(device, &answer);
  *raw = answer.*member;
  return result;
}

NvmlReturn ReadPstate(const NvmlApi& nvml, NvmlDevice device, uint64_t* raw) {
  const NvmlReturn result =
      ReadNvmlNumber<unsigned, &NvmlApi::performance_state>(nvml, device, raw);
  return result == kNvmlSuccess && *raw == kNvmlPstateUnknown ? kNvmlNotSupported : result;
}

using Long = unsigned long long;
// Millijoules since the driver was loaded, and milliwatts.
constexpr NvmlCall kEnergyCall = {"nvmlDeviceGetTotalEnergyConsumption", "energy_uj", 1000,
                                  ReadNvmlNumber<Long, &NvmlApi::total_energy>};
constexpr NvmlCall kPowerUsageCall = {"nvmlDeviceGetPowerUsage", "power_mw", 1,
                                      ReadNvmlNumber<unsigned, &NvmlApi::power_usage>};

constexpr char kClock[] = "nvmlDeviceGetClockInfo", kMemory[] = "nvmlDeviceGetMemoryInfo",
               kUtilization[] = "nvmlDeviceGetUtilizationRates";
constexpr NvmlCall kSlowCalls[] = {
    {kClock, "clock_sm_mhz", 1, ReadNvmlNumber<unsigned, &NvmlApi::clock, kNvmlClockSm>},
    {kClock, "clock_memory_mhz", 1, ReadNvmlNumber<unsigned, &NvmlApi::clock, kNvmlClockMemory>},
    {"nvmlDeviceGetTemperature", "temperature_mc", 1000,
     ReadNvmlNumber<unsigned, &NvmlApi::temperature, kNvmlTemperatureGpu>},
    {"nvmlDeviceGetCurrentClocksEventReasons", "throttle_reasons", 1,
     ReadNvmlNumber<Long, &NvmlApi::clocks_event_reasons>},
    {"nvmlDeviceGetPerformanceState", "pstate", 1, ReadPstate},
    {"nvmlDeviceGetEnforcedPowerLimit", "power_limit_mw", 1,
     ReadNvmlNumber<unsigned, &NvmlApi::power_limit>},
    {kMemory, "memory_used_bytes", 1, ReadMember<NvmlMemory, &NvmlApi::memory, &NvmlMemory::used>},
    {kMemory, "memory_total_bytes", 1,
     ReadMember<NvmlMemory, &NvmlApi::memory, &NvmlMemory::total>},
    {kUtilization, "utilization_gpu_ppm", 10'000,
     ReadMember<NvmlUtilization, &NvmlApi::utilization, &NvmlUtilization::gpu>},
    {kUtilization, "utilization_memory_ppm", 10'000,
     ReadMember<NvmlUtilization, &NvmlApi::utilization, &NvmlUtilization::memory>},
};

// The calls that read one device. Channels are indices in the inventory.
struct NvmlPlan {
  struct Call {
    const NvmlCall* call = nullptr;
    uint32_t channel = 0;
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
  std::unique_ptr<GpmSampler> gpm = {};  // null if GPM is not read
  uint32_t first_gpm_channel = 0;  // channel of the first of kGpmQuantities; the others follow
  bool lost = false;               // the last call reported that the GPU is lost
};

// More than any device or module draws; the limit for counters of devices that do not report
// theirs.
constexpr int64_t kMaxDeviceMw = 5'000'000;
constexpr int64_t kMaxModuleMw = 20'000'000;
// Short peaks exceed the limit, because the driver enforces it over tens of milliseconds.
constexpr int64_t kPeakOverLimit = 3;
constexpr unsigned kMaxMigInstances = 64;
constexpr unsigned kSampleBuffer = 256;

// Reads all `fields` at once; every value has its own result. kNvmlSuccess if any field may have a
// value.
NvmlReturn ReadFields(const NvmlApi& nvml, NvmlDevice device,
                      const std::vector<NvmlPlan::Field>& fields,
                      std::vector<NvmlFieldValue>* values) {
  values->assign(fields.size(), NvmlFieldValue{});
  for (size_t i = 0; i < fields.size(); ++i) {
    (*values)[i].field_id = fields[i].field;
    (*values)[i].scope_id = fields[i].scope;
    // A value that the driver leaves untouched was not answered.
    (*values)[i].result = kNvmlNotSupported;
  }
  return nvml.field_values(device, static_cast<int>(values->size()), values->data());
}

// Power samples that the driver took after `last_seen_us`, oldest first.
NvmlReturn ReadSamples(const NvmlApi& nvml, NvmlDevice device, uint64_t last_seen_us,
                       int* value_type, std::vector<NvmlSample>* samples) {
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

struct Found {
  NvmlPlan plan;
  PowerDevice device;
  ChipPriors priors;
  bool is_buffered = false;  // its sensor changes between polls; the driver buffers the values
  bool vgpu = false;
  bool whole_module = false;  // its counter includes the CPU and the GPU
};

std::string TextOf(const NvmlFunction<NvmlDevice, char*, unsigned>& function, NvmlDevice device) {
  char text[kNvmlTextSize] = {};
  if (function(device, text, sizeof text) != kNvmlSuccess) return {};
  text[sizeof text - 1] = 0;
  return text;
}

std::string BusIdOf(const NvmlApi& nvml, NvmlDevice device) {
  NvmlPci pci = {};
  if (nvml.pci(device, &pci) != kNvmlSuccess) return {};
  return absl::StrFormat("%08x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
}

NvmlChip ChipOf(const NvmlApi& nvml, NvmlDevice device) {
  NvmlChip chip;
  if (nvml.architecture(device, &chip.architecture) != kNvmlSuccess || chip.architecture == ~0U) {
    chip.architecture = 0;
  }
  if (nvml.compute_capability(device, &chip.major, &chip.minor) != kNvmlSuccess) {
    chip.major = chip.minor = 0;
  }
  return chip;
}

bool IsSplit(const NvmlApi& nvml, NvmlDevice device) {
  unsigned current = 0, pending = 0;
  return nvml.mig_mode(device, &current, &pending) == kNvmlSuccess && current == 1;
}

std::vector<std::string> InstancesOf(const NvmlApi& nvml, NvmlDevice device) {
  std::vector<std::string> instances;
  unsigned most = 0;
  if (nvml.max_mig_devices(device, &most) != kNvmlSuccess) return instances;
  for (unsigned i = 0; i < std::min(most, kMaxMigInstances); ++i) {
    NvmlDevice instance = nullptr;  // empty slots return NOT_FOUND
    if (nvml.mig_device_by_index(device, i, &instance) != kNvmlSuccess) continue;
    if (std::string uuid = TextOf(nvml.uuid, instance); !uuid.empty()) {
      instances.push_back(std::move(uuid));
    }
  }
  return instances;
}

// Discovers the content of an initialized NVML: devices, channels that answer, absences, and the
// calls that fill the channels.
//
// A device gets channels for the calls that answered once; a call that failed becomes an absence
// with its message. Devices that the measured program cannot see stay in the list of devices but
// are not read: their power does not belong to the program, and reading would wake them up. If
// visibility is unknown, all devices are read.
class Taker {
 public:
  Taker(const NvmlApi& nvml, const PowerSourceOptions& options) : nvml_(nvml), options_(options) {}

  PowerInventory Take(std::vector<NvmlPlan>* plans) {
    FindDevices();
    const Visibility visible = See();
    for (size_t i = 0; i < found_.size(); ++i) {
      PowerDevice& device = found_[i].device;
      if (visible.MaySee(i)) {
        Share(found_[i]);
        Plan(found_[i]);
        plans->push_back(std::move(found_[i].plan));
      } else {
        AddNote(
            "not read, because the measured program cannot use it (CUDA_VISIBLE_DEVICES or --map)",
            &device.note);
      }
      taken_.devices.push_back(device);
    }
    return std::move(taken_);
  }

 private:
  void Absent(std::string what, NvmlReturn result, std::string message) {
    taken_.absences.push_back({"nvml", std::move(what), ReasonOf(result), std::move(message),
                               std::string(FixOf(result))});
  }

  static void AddNote(std::string_view text, std::string* note) {
    Append(note, note->empty() ? "" : "; ", text);
  }

  void FindDevices() {
    unsigned count = 0;
    const NvmlReturn result = nvml_.device_count(&count);
    if (result != kNvmlSuccess) {
      Absent("devices", result, "nvmlDeviceGetCount: " + NvmlErrorText(result));
    } else if (count == 0) {
      Absent("devices", kNvmlGpuNotFound, "the NVIDIA driver reports no GPU");
    }
    char driver[kNvmlTextSize] = {};
    if (nvml_.driver_version(driver, sizeof driver) != kNvmlSuccess) driver[0] = 0;
    for (unsigned i = 0; result == kNvmlSuccess && i < count; ++i) FindDevice(i, driver);
  }

  void FindDevice(unsigned index, const char* driver) {
    const std::string what = "GPU " + std::to_string(index);
    Found found;
    NvmlReturn result = nvml_.device_by_index(index, &found.plan.device);
    char uuid[kNvmlTextSize] = {};
    if (result == kNvmlSuccess) result = nvml_.uuid(found.plan.device, uuid, sizeof uuid);
    if (result != kNvmlSuccess) {
      return Absent(what, result, what + ": " + NvmlErrorText(result));
    }
    uuid[sizeof uuid - 1] = 0;
    found.plan.uuid = uuid;
    found.device = {.id = uuid,
                    .name = TextOf(nvml_.name, found.plan.device),
                    .source = "nvml",
                    .index = static_cast<int32_t>(index),
                    .pci_bus_id = BusIdOf(nvml_, found.plan.device),
                    .driver = driver,
                    .mig = IsSplit(nvml_, found.plan.device)};
    const NvmlChip chip = ChipOf(nvml_, found.plan.device);
    found.priors = PriorsOf(chip);
    found.is_buffered = chip.architecture == kNvmlPascal || chip.architecture == kNvmlVolta;
    found.whole_module = found.device.name.find("GH200") != std::string::npos;
    int mode = 0;
    found.vgpu = nvml_.virtualization_mode(found.plan.device, &mode) == kNvmlSuccess &&
                 mode == kNvmlVirtualizationVgpu;
    identities_.push_back({found.device.id, found.device.name, {}, found.device.mig});
    if (found.device.mig) identities_.back().mig_instances = InstancesOf(nvml_, found.plan.device);
    found_.push_back(std::move(found));
  }

  // Sets the ordinals; if they are unknown, adds an absence with the reason.
  Visibility See() {
    Visibility visible = VisibleDevices(identities_, options_.environment, options_.ordinals);
    for (const auto& [ordinal, place] : visible.device_of) {
      std::optional<int32_t>& first = found_[place].device.ordinal;
      if (!first) first = ordinal;
    }
    if (!visible.unknown.empty()) {
      taken_.absences.push_back({"nvml", "ordinals", PowerReason::kUnsupported,
                                 "the ordinals of the GPUs are unknown", visible.unknown});
    }
    for (const std::string& id : visible.not_found) {
      // belongs to another source
      if (!id.starts_with("GPU-") && !id.starts_with("MIG-")) continue;
      taken_.absences.push_back({"nvml", id, PowerReason::kAbsent,
                                 "--map: the driver does not report " + id,
                                 "list the ids of devices with nvidia-smi -L"});
    }
    return visible;
  }

  void Share(Found& found) {
    PowerDevice& device = found.device;
    if (device.mig) {
      device.shared = true;
      AddNote("split (MIG): the sensors measure the whole GPU", &device.note);
      return;
    }
    const Sharing sharing =
        SharingOf(nvml_, found.plan.device, options_.pid, options_.roots.procfs);
    device.shared = !sharing.others.empty();
    if (device.shared) {
      AddNote(Cat("other processes use it (", sharing.others.size(), ", for example ",
                  sharing.others.front(), ")"),
              &device.note);
    }
    if (!sharing.note.empty()) AddNote(sharing.note, &device.note);
  }

  // Returns the index of the new channel.
  uint32_t AddChannel(const Found& found, std::string_view domain, std::string_view quantity,
                      ReadingKind kind, bool slow = false) {
    PowerChannel& channel = taken_.channels.emplace_back();
    channel = {.source = "nvml",
               .device = found.device.id,
               .domain = std::string(domain),
               .quantity = std::string(quantity),
               .kind = kind,
               .slow = slow};
    channel.in_total = IsPowerOrEnergy(channel) && domain == "gpu";
    SensorPrior prior;
    if (quantity == "energy_uj") prior = found.priors.energy;
    if (quantity == "power_mw" && domain == "gpu") {  // other domains have not been measured
      prior = kind == ReadingKind::kAverage ? found.priors.average : found.priors.instant;
    }
    channel.prior_period_ns = prior.period_ns;
    channel.prior_window_ns = prior.window_ns;
    return static_cast<uint32_t>(taken_.channels.size() - 1);
  }

  // Plans the call if it answers.
  NvmlReturn PlanCall(const NvmlCall& call, Found& found, std::string_view domain, ReadingKind kind,
                      bool slow) {
    uint64_t raw = 0;
    const NvmlReturn result = call.read(nvml_, found.plan.device, &raw);
    if (result == kNvmlSuccess) {
      found.plan.calls.push_back(
          {&call, AddChannel(found, domain, call.quantity, kind, slow), slow});
    }
    return result;
  }

  void Plan(Found& found) {
    failed_.clear();
    const NvmlReturn energy = PlanEnergy(found);
    const NvmlReturn power = PlanPower(found);
    for (const NvmlCall& call : kSlowCalls) PlanSlow(call, found);
    if (options_.gpm) PlanGpm(found);
    if (energy != kNvmlSuccess && power != kNvmlSuccess) {
      NoPower(found, power);
    } else {
      if (energy != kNvmlSuccess) failed_[energy].emplace_back(kEnergyCall.function);
      if (power != kNvmlSuccess) failed_[power].emplace_back(kPowerUsageCall.function);
    }
    for (const auto& [result, functions] : failed_) {
      Absent(
          found.device.id, result,
          Cat(found.device.id, ": ", absl::StrJoin(functions, ", "), ": ", NvmlErrorText(result)));
    }
  }

  void NoPower(const Found& found, NvmlReturn result) {
    const bool vgpu = found.vgpu && ReasonOf(result) == PowerReason::kUnsupported;
    Absent(
        found.device.id + " power", result,
        Cat(found.device.id, ": ", vgpu ? "a vGPU has no power sensor" : "neither power nor energy",
            ": ", kPowerUsageCall.function, ": ", NvmlErrorText(result)));
    if (vgpu) taken_.absences.back().fix = "record the power on the host";
  }

  NvmlReturn PlanEnergy(Found& found) {
    const NvmlReturn result = PlanCall(kEnergyCall, found, found.whole_module ? "module" : "gpu",
                                       ReadingKind::kCumulative, /*slow=*/false);
    if (result != kNvmlSuccess) return result;
    PowerChannel& channel = taken_.channels.back();
    channel.note =
        found.whole_module ? "since driver load; CPU and GPU together" : "since driver load";
    channel.max_plausible_mw = MaxPlausibleMw(found);
    return result;
  }

  int64_t MaxPlausibleMw(const Found& found) const {
    if (found.whole_module) return kMaxModuleMw;
    unsigned limit_mw = 0;
    if (nvml_.power_limit(found.plan.device, &limit_mw) != kNvmlSuccess || limit_mw == 0) {
      return kMaxDeviceMw;
    }
    return std::min(kPeakOverLimit * int64_t{limit_mw}, kMaxDeviceMw);
  }

  // Uses fields if the driver has them; otherwise nvmlDeviceGetPowerUsage.
  NvmlReturn PlanPower(Found& found) {
    std::vector<NvmlPlan::Field> fields;
    for (const unsigned scope : {kNvmlScopeGpu, kNvmlScopeModule, kNvmlScopeMemory}) {
      fields.push_back({kNvmlFieldPowerAverage, scope, 0});
      fields.push_back({kNvmlFieldPowerInstant, scope, 0});
    }
    std::vector<NvmlFieldValue> values;
    if (ReadFields(nvml_, found.plan.device, fields, &values) != kNvmlSuccess) values.clear();
    bool gpu = false;
    std::optional<uint32_t> instant;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].result != kNvmlSuccess) continue;
      constexpr std::array<std::string_view, 3> kDomains = {"gpu", "module", "gpu_memory"};
      NvmlPlan::Field field = fields[i];
      const bool average = field.field == kNvmlFieldPowerAverage;
      field.channel = AddChannel(found, kDomains[field.scope], "power_mw",
                                 average ? ReadingKind::kAverage : ReadingKind::kInstant);
      if (field.scope == kNvmlScopeGpu) {
        gpu = true;
        if (!average) instant = field.channel;
      }
      found.plan.fields.push_back(field);
    }
    const NvmlReturn result = gpu ? kNvmlSuccess : PlanPowerUsage(found, &instant);
    if (instant) PlanSamples(found, *instant);
    return result;
  }

  NvmlReturn PlanPowerUsage(Found& found, std::optional<uint32_t>* instant) {
    const std::optional<bool> average = found.priors.usage_is_average;
    const NvmlReturn result =
        PlanCall(kPowerUsageCall, found, "gpu",
                 average.value_or(true) ? ReadingKind::kAverage : ReadingKind::kInstant, false);
    if (result != kNvmlSuccess) return result;
    const uint32_t place = found.plan.calls.back().channel;
    if (average != false) {
      taken_.channels[place].note =
          average ? "average of 1 s" : "instantaneous or the average of 1 s; the chip is unknown";
    } else {
      *instant = place;
    }
    return result;
  }

  // Skips the samples that the buffer already contains, because they are older than the recording.
  void PlanSamples(Found& found, uint32_t channel) {
    if (!found.is_buffered) return;
    std::vector<NvmlSample> samples;
    int type = 0;
    const NvmlReturn result = ReadSamples(nvml_, found.plan.device, 0, &type, &samples);
    // NOT_FOUND: idle, no samples yet
    if (result != kNvmlSuccess && result != kNvmlNotFound) return;
    found.plan.samples =
        NvmlPlan::Samples{channel, samples.empty() ? 0 : samples.back().timestamp_us};
    AddNote("between polls: the driver's buffered samples", &taken_.channels[channel].note);
  }

  void PlanSlow(const NvmlCall& call, Found& found) {
    const NvmlReturn result = PlanCall(call, found, "gpu", ReadingKind::kGauge, /*slow=*/true);
    if (result == kNvmlSuccess) return;
    std::vector<std::string>& functions = failed_[result];
    if (functions.empty() || functions.back() != call.function) {
      functions.emplace_back(call.function);
    }
  }

  // Takes the first sample, so that the first pass has means.
  void PlanGpm(Found& found) {
    if (found.device.mig) {
      return NoGpm(found, kNvmlNotSupported, "split (MIG): the counters cover the whole GPU");
    }
    NvmlGpmSupport support = {.version = kNvmlGpmVersion, .is_supported = 0};
    NvmlReturn result = nvml_.gpm_support(found.plan.device, &support);
    if (result == kNvmlSuccess && support.is_supported == 0) result = kNvmlNotSupported;
    if (result != kNvmlSuccess) {
      const bool none = result == kNvmlNotSupported;
      return NoGpm(found, result,
                   none && found.vgpu ? "a vGPU does not support it"
                   : none             ? "requires Hopper or a later GPU"
                                      : "nvmlGpmQueryDeviceSupport: " + NvmlErrorText(result));
    }
    auto gpm = std::make_unique<GpmSampler>(nvml_);
    std::optional<GpmMeans> means;
    result = gpm->Sample(found.plan.device, &means);
    if (result != kNvmlSuccess) {
      return NoGpm(found, result, "nvmlGpmSampleGet: " + NvmlErrorText(result));
    }
    found.plan.gpm = std::move(gpm);
    found.plan.first_gpm_channel = static_cast<uint32_t>(taken_.channels.size());
    for (const GpmQuantity& each : kGpmQuantities) {
      AddChannel(found, "gpu", each.quantity, ReadingKind::kGauge);
      taken_.channels.back().note = "GPM: mean since the previous reading";
    }
  }

  void NoGpm(const Found& found, NvmlReturn result, std::string why) {
    Absent(Cat(found.device.id, kGpmAbsence), result,
           Cat(found.device.id,
               ": utilization of SMs, tensor cores and DRAM (GPM) is unavailable: ", why));
    PowerAbsence& absence = taken_.absences.back();
    if (absence.reason == PowerReason::kPermissionDenied) {
      absence.fix = "run as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0";
    }
  }

  const NvmlApi& nvml_;
  const PowerSourceOptions& options_;
  std::vector<Found> found_;
  std::vector<GpuIdentity> identities_;                    // of found_
  std::map<NvmlReturn, std::vector<std::string>> failed_;  // of the device that is being planned
  PowerInventory taken_;
};

constexpr int64_t kDefaultPeriodNs = 50'000'000;
constexpr int64_t kMinPeriodNs = 20'000'000;  // 50 Hz; values do not change faster
// No device draws more than 100 kW; all bits set means "not available".
constexpr int64_t kMaxPowerMw = 100'000'000;
// Maximum age of a value at the time of the call. An older date means that the clock was set
// meanwhile.
constexpr int64_t kOldestFieldNs = 2'000'000'000;
constexpr int64_t kOldestSampleNs = 30'000'000'000;
constexpr int64_t kClockSlackNs = 1'000'000;

// Reads the clock between two readings of MONOTONIC; repeats if the thread was interrupted in
// between.
int64_t OffsetFromMonotonic(clockid_t clock) {
  int64_t offset = 0;
  int64_t best = std::numeric_limits<int64_t>::max();
  for (int attempt = 0; attempt < 4 && best > 10'000; ++attempt) {
    const int64_t before = MonotonicNow();
    const int64_t now = NowOf(clock);
    const int64_t took = MonotonicNow() - before;
    if (took >= best) continue;
    best = took;
    offset = now - before - took / 2;
  }
  return offset;
}

// Converts `time_us` of `clock` to CLOCK_MONOTONIC. Empty if it is not shortly before `after_ns`: a
// clock that was set, or another clock, must not yield a wrong time.
std::optional<int64_t> OnMonotonic(uint64_t time_us, clockid_t clock, int64_t after_ns,
                                   int64_t oldest_ns) {
  constexpr uint64_t kMaxUs = uint64_t{1} << 53;
  if (time_us == 0 || time_us > kMaxUs) return std::nullopt;
  const int64_t time_ns = static_cast<int64_t>(time_us) * 1000 - OffsetFromMonotonic(clock);
  if (time_ns > after_ns + kClockSlackNs || time_ns < after_ns - oldest_ns) return std::nullopt;
  return std::min(time_ns, after_ns);
}

// NVML does not document the clock of its samples: usually BOOTTIME, in some drivers the calendar
// clock. These differ by decades, and BOOTTIME differs from MONOTONIC by the suspended time.
std::optional<int64_t> SampleOnMonotonic(uint64_t time_us, int64_t after_ns) {
  for (const clockid_t clock : {CLOCK_BOOTTIME, CLOCK_REALTIME, CLOCK_MONOTONIC}) {
    const std::optional<int64_t> time = OnMonotonic(time_us, clock, after_ns, kOldestSampleNs);
    if (time) return time;
  }
  return std::nullopt;
}

class NvmlReader : public Reader {
 public:
  explicit NvmlReader(PowerSourceOptions options)
      : Reader("nvml", kDefaultPeriodNs, kMinPeriodNs), options_(std::move(options)) {}

  PowerInventory Discover() override {
    PowerAbsence absence;
    nvml_ = OpenNvml(options_.roots.nvml_library, &absence);
    if (nvml_ == nullptr) return {{}, {}, {std::move(absence)}};
    const NvmlReturn result = nvml_->init();
    if (result != kNvmlSuccess) {
      absence.reason = ReasonOf(result);
      absence.message = "nvmlInit: " + NvmlErrorText(result);
      absence.fix = FixOf(result);
      return {{}, {}, {std::move(absence)}};
    }
    nvml_->initialized = true;
    return Taker(*nvml_, options_).Take(&plans_);
  }

  void Read(bool slow, std::vector<Reading>* readings) override {
    if (nvml_ == nullptr || plans_.empty()) return;
    const size_t start = readings->size();
    if (nvml_->initialized) {
      down_.reset();
      for (NvmlPlan& plan : plans_) ReadDevice(plan, slow, readings);
      if (!down_) return;
    }
    // The driver was unloaded, maybe during this pass: discard the pass; counters start again.
    if (nvml_->initialized || slow) down_ = Initialize();
    readings->resize(start);
    for (NvmlPlan& plan : plans_) ReadDevice(plan, slow, readings);
  }

 private:
  // Returns kReset if the driver is back, otherwise the reason of the failure. Called when the
  // driver disappears and once a second afterwards.
  PowerReason Initialize() {
    for (NvmlPlan& plan : plans_) {
      if (plan.gpm != nullptr) plan.gpm->Forget();
    }
    if (nvml_->initialized) nvml_->shutdown();
    const NvmlReturn result = nvml_->init();
    nvml_->initialized = result == kNvmlSuccess;
    if (!nvml_->initialized) {
      const PowerReason reason = ReasonOf(result);
      return reason == PowerReason::kReset ? PowerReason::kAbsent : reason;
    }
    for (NvmlPlan& plan : plans_) FindAgain(plan);
    return PowerReason::kReset;
  }

  // Looks up the device again: handles do not outlive the session, and indices may change.
  void FindAgain(NvmlPlan& plan) {
    if (nvml_->device_by_uuid(plan.uuid.c_str(), &plan.device) != kNvmlSuccess) {
      plan.device = nullptr;
    }
    plan.lost = plan.device == nullptr;
  }

  void ReadDevice(NvmlPlan& plan, bool slow, std::vector<Reading>* readings) {
    // Calls for a lost GPU can take seconds, so it is only asked once a second.
    if (plan.lost && slow && !down_) {
      if (plan.device == nullptr) FindAgain(plan);
      plan.lost = plan.device == nullptr;
    }
    if (plan.samples) ReadBuffer(plan, readings);
    if (!plan.fields.empty()) ReadFieldsOf(plan, readings);
    for (const NvmlPlan::Call& call : plan.calls) {
      if (slow || !call.slow) ReadCall(plan, call, readings);
    }
    if (plan.gpm != nullptr && plan.gpm->IsDue(MonotonicNow())) ReadGpm(plan, readings);
  }

  // The result of a call and its times. Without a device or driver, the call is not made.
  struct Answer {
    NvmlReturn result = kNvmlGpuIsLost;
    PowerReason reason = PowerReason::kDeviceLost;
    int64_t before_ns = MonotonicNow(), after_ns = 0;

    Reading ReadingOf(uint32_t channel) const {
      return {channel, before_ns, after_ns, std::nullopt, reason, std::nullopt};
    }
  };
  Answer Ask(NvmlPlan& plan, auto call) {
    Answer answer;
    if (down_) {
      answer.reason = *down_;
    } else if (!plan.lost) {
      answer.result = call();
      answer.reason = ReasonOf(answer.result);
      Note(plan, answer.result);
    }
    answer.after_ns = MonotonicNow();
    return answer;
  }

  void Note(NvmlPlan& plan, NvmlReturn result) {
    if (result == kNvmlGpuIsLost) plan.lost = true;
    if (plan.lost && plan.gpm != nullptr) plan.gpm->Forget();  // it may come back after a reset
    if (result == kNvmlUninitialized || result == kNvmlDriverNotLoaded) {
      down_ = PowerReason::kAbsent;
    }
  }

  void ReadCall(NvmlPlan& plan, const NvmlPlan::Call& planned, std::vector<Reading>* readings) {
    const NvmlCall& call = *planned.call;
    uint64_t raw = 0;
    const Answer answer = Ask(plan, [&] { return call.read(*nvml_, plan.device, &raw); });
    Reading& reading = readings->emplace_back(answer.ReadingOf(planned.channel));
    if (answer.result != kNvmlSuccess) return;
    SetValue(reading, raw, call.scale, &call == &kPowerUsageCall);
  }

  static void SetValue(Reading& reading, std::optional<uint64_t> raw, int64_t scale, bool power) {
    if (raw) reading.value = Scaled(*raw, scale);
    if (power && reading.value && *reading.value > kMaxPowerMw) reading.value.reset();
    if (!reading.value) reading.reason = PowerReason::kImplausible;
  }

  void ReadFieldsOf(NvmlPlan& plan, std::vector<Reading>* readings) {
    const Answer answer =
        Ask(plan, [&] { return ReadFields(*nvml_, plan.device, plan.fields, &values_); });
    for (size_t i = 0; i < plan.fields.size(); ++i) {
      Reading& reading = readings->emplace_back(answer.ReadingOf(plan.fields[i].channel));
      if (answer.result != kNvmlSuccess) continue;
      const NvmlFieldValue& value = values_[i];
      Note(plan, value.result);
      reading.reason = ReasonOf(value.result);
      if (value.result != kNvmlSuccess) continue;
      SetValue(reading, RawOf(value.value, value.value_type), 1, true);
      if (value.timestamp_us <= 0) continue;
      reading.sampled_ns = OnMonotonic(static_cast<uint64_t>(value.timestamp_us), CLOCK_REALTIME,
                                       answer.after_ns, kOldestFieldNs);
    }
  }

  // Reads the driver's samples since the last pass. The absence of new samples is no error, because
  // the channel's own poll follows.
  void ReadBuffer(NvmlPlan& plan, std::vector<Reading>* readings) {
    if (plan.lost || down_) return;
    int type = 0;
    Answer answer = Ask(plan, [&] {
      return ReadSamples(*nvml_, plan.device, plan.samples->last_seen_us, &type, &samples_);
    });
    answer.reason = PowerReason::kKnown;
    for (const NvmlSample& sample : samples_) {
      if (sample.timestamp_us <= plan.samples->last_seen_us) continue;
      plan.samples->last_seen_us = sample.timestamp_us;
      const std::optional<int64_t> time = SampleOnMonotonic(sample.timestamp_us, answer.after_ns);
      if (!time) continue;  // a value without a known time fills no gap
      Reading& reading = readings->emplace_back(answer.ReadingOf(plan.samples->channel));
      SetValue(reading, RawOf(sample.value, type), 1, true);
      reading.sampled_ns = time;
    }
  }

  // A mean is dated in the middle of its interval.
  void ReadGpm(NvmlPlan& plan, std::vector<Reading>* readings) {
    std::optional<GpmMeans> means;
    const Answer answer = Ask(plan, [&] { return plan.gpm->Sample(plan.device, &means); });
    if (answer.result == kNvmlSuccess && !means) return;  // the first sample after a failure
    for (size_t i = 0; i < kGpmQuantities.size(); ++i) {
      Reading& reading = readings->emplace_back(
          answer.ReadingOf(plan.first_gpm_channel + static_cast<uint32_t>(i)));
      if (!means) continue;
      reading.value = means->of[i].ppm;
      reading.reason = means->of[i].reason;
      reading.sampled_ns = means->begin_ns + (means->end_ns - means->begin_ns) / 2;
    }
  }

  const PowerSourceOptions options_;
  std::unique_ptr<NvmlApi> nvml_;
  std::vector<NvmlPlan> plans_;
  std::vector<NvmlFieldValue> values_;  // kept to reuse the storage
  std::vector<NvmlSample> samples_;
  std::optional<PowerReason> down_;  // why NVML is not initialized, or kReset if it was initialized
                                     // again in this pass
};

}  // namespace

std::unique_ptr<Reader> NewNvmlReader(const PowerSourceOptions& options) {
  return std::make_unique<NvmlReader>(options);
}

}  // namespace xplane_time::power
