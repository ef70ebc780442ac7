// GPUs of AMD and Intel through hwmon, and what their drivers show beside it.
//
// Only hwmons of GPU drivers are read: others carry the power of batteries, NVMe disks and
// processors. Definitions: Documentation/gpu/amdgpu/thermal.rst and
// Documentation/ABI/testing/sysfs-driver-intel-{i915,xe}-hwmon of the kernel.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "power/sensor.h"
#include "power/sources.h"
#include "power/sysfs.h"
#include "re2/re2.h"

namespace xplane_time::power {
namespace {

enum class Pace : uint8_t { kEach, kSlow };
enum class Place : uint8_t { kHwmon, kPciDevice };

// A file and the channel that it is.
struct FileChannel {
  std::string_view file, quantity;
  ReadingKind kind = ReadingKind::kGauge;
  Scale scale = {};
  Pace pace = Pace::kEach;
  Place place = Place::kHwmon;
  std::string_view domain = "gpu";

  bool in_total() const {
    return domain == "gpu" && (quantity == "power_mw" || quantity == "energy_uj");
  }
};

using enum ReadingKind;
using enum Pace;
using enum Place;
constexpr Scale kMicroToMilli = {1, 1000}, kHzToMhz = {1, 1'000'000}, kPercentToPpm = {10'000, 1};

constexpr FileChannel kAmd[] = {
    {"power1_average", "power_mw", kAverage, kMicroToMilli},
    {"power1_input", "power_mw", kInstant, kMicroToMilli},
    {"energy1_input", "energy_uj", kCumulative},
    {"temp1_input", "temperature_mc", kGauge, {}, kSlow},
    {"freq1_input", "clock_sm_mhz", kGauge, kHzToMhz, kSlow},
    {"freq2_input", "clock_memory_mhz", kGauge, kHzToMhz, kSlow},
    {"power1_cap", "power_limit_mw", kGauge, kMicroToMilli, kSlow},
    {"gpu_busy_percent", "utilization_gpu_ppm", kGauge, kPercentToPpm, kEach, kPciDevice},
    {"mem_busy_percent", "utilization_memory_ppm", kGauge, kPercentToPpm, kEach, kPciDevice},
    {"mem_info_vram_used", "memory_used_bytes", kGauge, {}, kEach, kPciDevice},
    {"mem_info_vram_total", "memory_total_bytes", kGauge, {}, kSlow, kPciDevice},
};

// xe numbers the card 1 and the GPU's package 2, and shows what the chip has; i915 has 1 only.
constexpr FileChannel kIntel[] = {
    {"energy1_input", "energy_uj", kCumulative},
    {"energy2_input", "energy_uj", kCumulative, {}, kEach, kHwmon, "gpu_package"},
    {"power1_max", "power_limit_mw", kGauge, kMicroToMilli, kSlow},
    {"power2_max", "power_limit_mw", kGauge, kMicroToMilli, kSlow, kHwmon, "gpu_package"},
    {"temp2_input", "temperature_mc", kGauge, {}, kSlow},
};

struct Driver {
  std::string_view name, maker;
  std::span<const FileChannel> files;
};
constexpr Driver kDrivers[] = {
    {"amdgpu", "AMD", kAmd}, {"i915", "Intel", kIntel}, {"xe", "Intel", kIntel}};

const Driver* DriverOf(const std::string& name) {
  const auto* driver = std::find_if(std::begin(kDrivers), std::end(kDrivers),
                                    [&](const Driver& each) { return each.name == name; });
  return driver == std::end(kDrivers) ? nullptr : driver;
}

struct Gpu {
  const Driver* driver = nullptr;
  std::string id, hwmon, pci;  // `pci` is the device's directory; empty: unknown
};

Gpu GpuAt(const Driver* driver, const std::string& hwmon, const std::string& number) {
  static const RE2 address(R"([[:xdigit:]]{4}:[[:xdigit:]]{2}:[[:xdigit:]]{2}\.[[:xdigit:]])");
  std::error_code error;
  const std::filesystem::path device = std::filesystem::canonical(hwmon + "/device", error);
  if (error || !RE2::FullMatch(device.filename().string(), address))
    return {driver, number, hwmon, ""};
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

class HwmonReader : public SensorReader {
 public:
  explicit HwmonReader(const PowerSourceOptions& options)
      : SensorReader("hwmon", /*default_period_ns=*/50'000'000), roots_(options.roots) {}

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
      inventory.absences.push_back(
          {"hwmon", "gpu", PowerReason::kAbsent, root + ": no hwmon of amdgpu, i915 or xe"});
    }
    AddTpus(&inventory);
    inventory.channels = Channels();
    return inventory;
  }

 private:
  void Add(const Gpu& gpu, int32_t index, PowerInventory* inventory) {
    inventory->devices.push_back({.id = gpu.id,
                                  .name = NameOf(gpu),
                                  .source = "hwmon",
                                  .index = index,
                                  .pci_bus_id = gpu.pci.empty() ? "" : gpu.id,
                                  .driver = DriverVersion(roots_, gpu)});
    const size_t first = sensors_.size(), absences = inventory->absences.size();
    for (const FileChannel& each : gpu.driver->files) AddFile(gpu, each, inventory);
    const std::span<Sensor> own = WithMetrics(gpu, first);
    const auto in_total = [](const Sensor& sensor) { return sensor.channel.in_total; };
    // The GPU's package is part of the card, and stands for it only where the card has no counter.
    if (std::none_of(own.begin(), own.end(), in_total)) {
      for (Sensor& each : own) each.channel.in_total = each.channel.quantity == "energy_uj";
    }
    NoteWholeSocket(gpu, own);
    const bool has_power = std::any_of(own.begin(), own.end(), in_total);
    if (has_power || inventory->absences.size() > absences) return;
    inventory->absences.push_back({"hwmon", gpu.id, PowerReason::kUnsupported,
                                   gpu.hwmon + ": this GPU shows neither power nor energy"});
  }

  void AddFile(const Gpu& gpu, const FileChannel& what, PowerInventory* inventory) {
    const std::string& directory = what.place == kHwmon ? gpu.hwmon : gpu.pci;
    if (directory.empty()) return;
    const Sign sign = what.quantity == "temperature_mc" ? Sign::kAny : Sign::kNotNegative;
    auto file = std::make_shared<HeldFile>(directory + "/" + std::string(what.file), sign);
    const FileNumber first = file->Read();
    if (first.reason == PowerReason::kAbsent) return;
    // A GPU that sleeps answers later.
    if (first.value || first.reason == PowerReason::kNoSamples) {
      sensors_.push_back({ChannelOf(gpu, what), ReadsFile(std::move(file), what.scale)});
      return;
    }
    const bool denied = first.reason == PowerReason::kPermissionDenied;
    inventory->absences.push_back(AbsenceOf("hwmon", gpu.id + " " + std::string(what.quantity),
                                            file->path(), first.reason,
                                            denied ? "sudo chmod o+r " + file->path() : ""));
  }

  static PowerChannel ChannelOf(const Gpu& gpu, const FileChannel& what) {
    std::optional<int64_t> max_plausible_mw;
    if (what.kind == kCumulative) {
      for (const char* limit : {"/power1_rated_max", "/power1_max", "/power1_cap"}) {
        if (!max_plausible_mw) max_plausible_mw = PlausibleMw(ReadNumber(gpu.hwmon + limit));
      }
    }
    return {.source = "hwmon",
            .device = gpu.id,
            .domain = std::string(what.domain),
            .quantity = std::string(what.quantity),
            .kind = what.kind,
            .slow = what.pace == kSlow,
            .in_total = what.in_total(),
            .max_plausible_mw = max_plausible_mw,
            .note = std::string(what.file)};
  }

  // The GPU's sensors; where hwmon itself has no energy, also the accumulator of gpu_metrics.
  std::span<Sensor> WithMetrics(const Gpu& gpu, size_t first) {
    const auto own = [&] { return std::span(sensors_).subspan(first); };
    const bool has_energy = std::any_of(own().begin(), own().end(), [](const Sensor& sensor) {
      return sensor.channel.quantity == "energy_uj";
    });
    const std::string path = gpu.pci + "/gpu_metrics";
    if (gpu.driver->name != "amdgpu" || has_energy || gpu.pci.empty() ||
        !ReadGpuMetricsEnergy(path).value) {
      return own();
    }
    sensors_.push_back({ChannelOf(gpu, {"gpu_metrics", "energy_uj", kCumulative}), [path] {
                          FileNumber energy_uj = ReadGpuMetricsEnergy(path);
                          const bool gone = energy_uj.reason == PowerReason::kAbsent;
                          return gone ? Unknown<int64_t>(PowerReason::kDeviceLost) : energy_uj;
                        }});
    return own();
  }

  static void NoteWholeSocket(const Gpu& gpu, std::span<Sensor> sensors) {
    if (gpu.driver->name != "amdgpu") return;
    if (ReadNumber(gpu.hwmon + "/power1_cap").reason != PowerReason::kAbsent) return;
    for (Sensor& each : sensors) {
      if (!each.channel.in_total) continue;
      each.channel.domain = kSocketDomain;
      each.channel.note +=
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
      inventory->absences.push_back({"hwmon", "tpu", PowerReason::kUnsupported,
                                     device + ": a TPU has no public power sensor"});
      return;
    }
  }

  const PowerRoots roots_;
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
