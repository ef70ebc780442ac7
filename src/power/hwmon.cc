// GPUs of AMD and Intel through hwmon, and what their drivers show beside it.
//
// Only hwmons of GPU drivers are read: others carry the power of batteries, NVMe disks and
// processors. Definitions: Documentation/gpu/amdgpu/thermal.rst and
// Documentation/ABI/testing/sysfs-driver-intel-{i915,xe}-hwmon of the kernel.
#include "power/hwmon.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "power/reader.h"
#include "power/sensor.h"
#include "power/sysfs.h"

namespace xplane_time::power {
namespace {

// What a sensor of a whole socket says holds RAPL's package; the summarizer counts one of both.
constexpr std::string_view kSocketDomain = "socket";

enum class Place : uint8_t { kHwmon, kPciDevice };

// A file and the channel that it is.
struct FileChannel {
  std::string_view file, domain, quantity;
  Scale scale = {};
  Place place = Place::kHwmon;
  ReadingKind kind = ReadingKind::kGauge;
  bool slow = false, in_total = false;
  Sign sign = Sign::kNotNegative;
};

constexpr Scale kMicroToMilli = {1, 1000}, kHzToMhz = {1, 1'000'000}, kPercentToPpm = {10'000, 1};

constexpr FileChannel kAmd[] = {
    {.file = "power1_average",
     .domain = "gpu",
     .quantity = "power_mw",
     .scale = kMicroToMilli,
     .kind = ReadingKind::kAverage,
     .in_total = true},
    {.file = "power1_input",
     .domain = "gpu",
     .quantity = "power_mw",
     .scale = kMicroToMilli,
     .kind = ReadingKind::kInstant,
     .in_total = true},
    {.file = "energy1_input",
     .domain = "gpu",
     .quantity = "energy_uj",
     .kind = ReadingKind::kCumulative,
     .in_total = true},
    {.file = "temp1_input",
     .domain = "gpu",
     .quantity = "temperature_mc",
     .slow = true,
     .sign = Sign::kAny},
    {.file = "freq1_input",
     .domain = "gpu",
     .quantity = "clock_sm_mhz",
     .scale = kHzToMhz,
     .slow = true},
    {.file = "freq2_input",
     .domain = "gpu",
     .quantity = "clock_memory_mhz",
     .scale = kHzToMhz,
     .slow = true},
    {.file = "power1_cap",
     .domain = "gpu",
     .quantity = "power_limit_mw",
     .scale = kMicroToMilli,
     .slow = true},
    {.file = "gpu_busy_percent",
     .domain = "gpu",
     .quantity = "utilization_gpu_ppm",
     .scale = kPercentToPpm,
     .place = Place::kPciDevice},
    {.file = "mem_busy_percent",
     .domain = "gpu",
     .quantity = "utilization_memory_ppm",
     .scale = kPercentToPpm,
     .place = Place::kPciDevice},
    {.file = "mem_info_vram_used",
     .domain = "gpu",
     .quantity = "memory_used_bytes",
     .place = Place::kPciDevice},
    {.file = "mem_info_vram_total",
     .domain = "gpu",
     .quantity = "memory_total_bytes",
     .place = Place::kPciDevice,
     .slow = true},
};

// xe numbers the card 1 and the GPU's package 2, and shows what the chip has; i915 has 1 only.
constexpr FileChannel kIntel[] = {
    {.file = "energy1_input",
     .domain = "gpu",
     .quantity = "energy_uj",
     .kind = ReadingKind::kCumulative,
     .in_total = true},
    {.file = "energy2_input",
     .domain = "gpu_package",
     .quantity = "energy_uj",
     .kind = ReadingKind::kCumulative},
    {.file = "power1_max",
     .domain = "gpu",
     .quantity = "power_limit_mw",
     .scale = kMicroToMilli,
     .slow = true},
    {.file = "power2_max",
     .domain = "gpu_package",
     .quantity = "power_limit_mw",
     .scale = kMicroToMilli,
     .slow = true},
    {.file = "temp2_input",
     .domain = "gpu",
     .quantity = "temperature_mc",
     .slow = true,
     .sign = Sign::kAny},
};

struct Driver {
  std::string_view name, maker;
  const FileChannel* begin;
  const FileChannel* end;
};
constexpr Driver kDrivers[] = {{"amdgpu", "AMD", std::begin(kAmd), std::end(kAmd)},
                               {"i915", "Intel", std::begin(kIntel), std::end(kIntel)},
                               {"xe", "Intel", std::begin(kIntel), std::end(kIntel)}};

const Driver* DriverOf(const std::string& name) {
  const auto* driver = std::find_if(std::begin(kDrivers), std::end(kDrivers),
                                    [&](const Driver& each) { return each.name == name; });
  return driver == std::end(kDrivers) ? nullptr : driver;
}

// "0000:03:00.0".
bool IsPciAddress(std::string_view name) {
  constexpr std::string_view kForm = "hhhh:hh:hh.h";
  if (name.size() != kForm.size()) return false;
  constexpr std::string_view kHex = "0123456789abcdefABCDEF";
  for (size_t i = 0; i < name.size(); ++i) {
    const bool fits =
        kForm[i] == 'h' ? kHex.find(name[i]) != std::string_view::npos : name[i] == kForm[i];
    if (!fits) return false;
  }
  return true;
}

struct Gpu {
  const Driver* driver = nullptr;
  std::string id, hwmon, pci;  // `pci` is the device's directory; empty: unknown
};

Gpu GpuAt(const Driver* driver, const std::string& hwmon, const std::string& number) {
  std::error_code error;
  const std::filesystem::path device = std::filesystem::canonical(hwmon + "/device", error);
  if (error || !IsPciAddress(device.filename().string())) return {driver, number, hwmon, ""};
  return {driver, device.filename().string(), hwmon, device.string()};
}

std::vector<Gpu> FindGpus(const std::string& root) {
  std::vector<Gpu> gpus;
  for (const std::string& number : NamesIn(root)) {
    const std::string hwmon = absl::StrCat(root, "/", number);
    const Driver* driver = DriverOf(ReadText(hwmon + "/name", 256).value.value_or(""));
    if (driver != nullptr) gpus.push_back(GpuAt(driver, hwmon, number));
  }
  // hwmon numbers follow the order of probing; the vendors' tools order by PCI address.
  std::sort(gpus.begin(), gpus.end(), [](const Gpu& a, const Gpu& b) {
    return a.driver != b.driver ? a.driver < b.driver : NaturalLess(a.id, b.id);
  });
  return gpus;
}

std::string NameOf(const Gpu& gpu) {
  std::string name = ReadText(gpu.pci + "/product_name", 256).value.value_or("");
  if (!name.empty()) return name;
  name = std::string(gpu.driver->maker) + " GPU";
  const std::string model = ReadText(gpu.pci + "/device", 256).value.value_or("");
  return model.empty() ? name : name + " " + model;
}

std::string DriverVersion(const PowerRoots& roots, const Gpu& gpu) {
  const std::string name(gpu.driver->name);
  const FileText version = ReadText(roots.sysfs + "/module/" + name + "/version", 256);
  return version.value && !version.value->empty() ? name + " " + *version.value : name;
}

class HwmonReader : public Reader {
 public:
  explicit HwmonReader(const PowerSourceOptions& options) : roots_(options.roots) {}

  std::string_view source() const override { return "hwmon"; }

  PowerInventory Discover() override {
    PowerInventory inventory;
    const std::string root = roots_.sysfs + "/class/hwmon";
    const std::vector<Gpu> gpus = FindGpus(root);
    int32_t index = 0;
    for (size_t i = 0; i < gpus.size(); ++i) {
      if (i > 0 && gpus[i].driver != gpus[i - 1].driver) index = 0;
      Add(gpus[i], index++, &inventory);
    }
    if (gpus.empty()) {
      inventory.absences.push_back({.source = "hwmon",
                                    .what = "gpu",
                                    .reason = PowerReason::kAbsent,
                                    .message = root + ": no hwmon of amdgpu, i915 or xe",
                                    .fix = ""});
    }
    AddTpus(&inventory);
    inventory.channels = ChannelsOf(sensors_);
    return inventory;
  }

  void Read(bool slow, std::vector<Reading>* readings) override {
    ReadSensors(sensors_, slow, readings);
  }

  int64_t default_period_ns() const override { return 50'000'000; }

 private:
  void Add(const Gpu& gpu, int32_t index, PowerInventory* inventory) {
    inventory->devices.push_back({.id = gpu.id,
                                  .name = NameOf(gpu),
                                  .source = "hwmon",
                                  .index = index,
                                  .pci_bus_id = gpu.pci.empty() ? "" : gpu.id,
                                  .driver = DriverVersion(roots_, gpu)});
    const size_t first = sensors_.size();
    const size_t absences = inventory->absences.size();
    for (const FileChannel* each = gpu.driver->begin; each != gpu.driver->end; ++each) {
      AddFile(gpu, *each, inventory);
    }
    if (gpu.driver->name == "amdgpu") AddMetrics(gpu, first);
    CountCardOrPackage(first);
    NoteWholeSocket(gpu, first);
    const bool has_power =
        std::any_of(sensors_.begin() + static_cast<std::ptrdiff_t>(first), sensors_.end(),
                    [](const Sensor& sensor) { return sensor.channel.in_total; });
    if (has_power || inventory->absences.size() > absences) return;
    inventory->absences.push_back(
        {.source = "hwmon",
         .what = gpu.id,
         .reason = PowerReason::kUnsupported,
         .message = gpu.hwmon + ": this GPU shows neither power nor energy",
         .fix = ""});
  }

  void AddFile(const Gpu& gpu, const FileChannel& what, PowerInventory* inventory) {
    const std::string& directory = what.place == Place::kHwmon ? gpu.hwmon : gpu.pci;
    if (directory.empty()) return;
    auto file = std::make_shared<HeldFile>(directory + "/" + std::string(what.file), what.sign);
    const FileNumber first = file->Read();
    if (first.reason == PowerReason::kAbsent) return;
    // A GPU that sleeps answers later.
    if (first.value || first.reason == PowerReason::kNoSamples) {
      sensors_.push_back({ChannelOf(gpu, what), ReadsFile(std::move(file), what.scale)});
      return;
    }
    const bool denied = first.reason == PowerReason::kPermissionDenied;
    inventory->absences.push_back({.source = "hwmon",
                                   .what = gpu.id + " " + std::string(what.quantity),
                                   .reason = first.reason,
                                   .message = FailureText(file->path(), first.reason),
                                   .fix = denied ? "sudo chmod o+r " + file->path() : ""});
  }

  static PowerChannel ChannelOf(const Gpu& gpu, const FileChannel& what) {
    std::optional<int64_t> max_plausible_mw;
    if (what.kind == ReadingKind::kCumulative) {
      for (const char* limit : {"/power1_rated_max", "/power1_max", "/power1_cap"}) {
        if (!max_plausible_mw) max_plausible_mw = PlausibleMw(ReadNumber(gpu.hwmon + limit));
      }
    }
    return {.source = "hwmon",
            .device = gpu.id,
            .domain = std::string(what.domain),
            .quantity = std::string(what.quantity),
            .kind = what.kind,
            .slow = what.slow,
            .in_total = what.in_total,
            .max_plausible_mw = max_plausible_mw,
            .note = std::string(what.file)};
  }

  // The accumulator of gpu_metrics, where hwmon itself has no energy.
  void AddMetrics(const Gpu& gpu, size_t first) {
    const bool has_energy =
        std::any_of(sensors_.begin() + static_cast<std::ptrdiff_t>(first), sensors_.end(),
                    [](const Sensor& sensor) { return sensor.channel.quantity == "energy_uj"; });
    if (has_energy || gpu.pci.empty()) return;
    const std::string path = gpu.pci + "/gpu_metrics";
    if (!ReadGpuMetricsEnergy(path).value) return;
    constexpr FileChannel kAccumulator = {.file = "gpu_metrics",
                                          .domain = "gpu",
                                          .quantity = "energy_uj",
                                          .kind = ReadingKind::kCumulative,
                                          .in_total = true};
    sensors_.push_back({ChannelOf(gpu, kAccumulator), [path] {
                          FileNumber energy_uj = ReadGpuMetricsEnergy(path);
                          const bool gone = energy_uj.reason == PowerReason::kAbsent;
                          return gone ? Unknown<int64_t>(PowerReason::kDeviceLost) : energy_uj;
                        }});
  }

  // The GPU's package is part of the card, and stands for it only where the card has no counter.
  void CountCardOrPackage(size_t first) {
    const auto begin = sensors_.begin() + static_cast<std::ptrdiff_t>(first);
    const bool has_card = std::any_of(begin, sensors_.end(),
                                      [](const Sensor& sensor) { return sensor.channel.in_total; });
    if (has_card) return;
    std::for_each(begin, sensors_.end(), [](Sensor& sensor) {
      sensor.channel.in_total = sensor.channel.quantity == "energy_uj";
    });
  }

  void NoteWholeSocket(const Gpu& gpu, size_t first) {
    if (gpu.driver->name != "amdgpu") return;
    if (ReadNumber(gpu.hwmon + "/power1_cap").reason != PowerReason::kAbsent) return;
    for (size_t i = first; i < sensors_.size(); ++i) {
      if (!sensors_[i].channel.in_total) continue;
      sensors_[i].channel.domain = kSocketDomain;
      sensors_[i].channel.note +=
          "; no power1_cap: an APU, whose sensor covers the CPU too, or "
          "a virtual function";
    }
  }

  // TPUs have no sensor that is public; said only where there is a TPU.
  void AddTpus(PowerInventory* inventory) const {
    // The device ids that JAX knows (jax/_src/hardware_utils.py). Google's network and disk
    // devices have the same vendor.
    constexpr std::string_view kTpus[] = {"0x0027", "0x0056", "0x005e", "0x0062",
                                          "0x0063", "0x006f", "0x0076"};
    const std::string root = roots_.sysfs + "/bus/pci/devices";
    for (const std::string& address : NamesIn(root)) {
      const std::string device = absl::StrCat(root, "/", address);
      if (ReadText(device + "/vendor", 256).value != "0x1ae0") continue;
      const std::string id = ReadText(device + "/device", 256).value.value_or("");
      if (std::find(std::begin(kTpus), std::end(kTpus), id) == std::end(kTpus)) continue;
      inventory->absences.push_back({.source = "hwmon",
                                     .what = "tpu",
                                     .reason = PowerReason::kUnsupported,
                                     .message = device + ": a TPU has no public power sensor",
                                     .fix = ""});
      return;
    }
  }

  const PowerRoots roots_;
  std::vector<Sensor> sensors_;
};

}  // namespace

std::unique_ptr<Reader> NewHwmonReader(const PowerSourceOptions& options) {
  return std::make_unique<HwmonReader>(options);
}

namespace {

uint64_t LittleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[i - 1]);
  return value;
}

constexpr size_t kFieldBytes = sizeof(uint64_t);

// Where the accumulator is; 0: not in this format.
size_t OffsetOf(uint64_t format, uint64_t content) {
  if (format != 1) return 0;
  constexpr size_t kHeaderToVcn = 24, kJpegEngines = 32;
  if (content == 4) return kHeaderToVcn;
  return content == 5 ? kHeaderToVcn + kJpegEngines * sizeof(uint16_t) : 0;
}

}  // namespace

FileNumber ReadGpuMetricsEnergy(const std::string& path) {
  const FileText bytes = ReadBytes(path, 4096);
  if (!bytes.value) return Unknown<int64_t>(bytes.reason);
  const std::string_view table = *bytes.value;
  if (table.size() < 4) return Unknown<int64_t>(PowerReason::kUnsupported);
  const size_t offset =
      OffsetOf(LittleEndian(table.substr(2, 1)), LittleEndian(table.substr(3, 1)));
  const uint64_t size = LittleEndian(table.substr(0, 2));
  if (offset == 0 || size > table.size() || size < offset + kFieldBytes) {
    return Unknown<int64_t>(PowerReason::kUnsupported);
  }
  const uint64_t count = LittleEndian(table.substr(offset, kFieldBytes));
  if (count == std::numeric_limits<uint64_t>::max()) {
    return Unknown<int64_t>(PowerReason::kUnsupported);
  }
  // 1e6 / 2^16 = 15625 / 1024, in two parts so that nothing overflows.
  const uint64_t energy_uj = count / 1024 * 15625 + count % 1024 * 15625 / 1024;
  if (count / 1024 > std::numeric_limits<int64_t>::max() / 15625 - 1) {
    return Unknown<int64_t>(PowerReason::kUnsupported);
  }
  return {static_cast<int64_t>(energy_uj), PowerReason::kKnown};
}

}  // namespace xplane_time::power
