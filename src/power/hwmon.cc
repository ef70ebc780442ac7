// GPUs of AMD and Intel through hwmon, and further values of their drivers.
//
// Only hwmons of GPU drivers are read; others contain the power of batteries, NVMe disks and
// processors. Definitions: Documentation/gpu/amdgpu/thermal.rst and
// Documentation/ABI/testing/sysfs-driver-intel-{i915,xe}-hwmon of the kernel.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <span>
#include <tuple>

#include "power/reader.h"
#include "power/sources.h"
#include "re2/re2.h"
#include "status.h"

namespace xplane_time::power {
namespace {

enum class Pace : uint8_t { kEach, kSlow };
enum class Attachment : uint8_t { kHwmon, kPciDevice };

// A file and its channel.
struct FileChannel {
  std::string_view file, quantity;
  ReadingKind kind = ReadingKind::kGauge;
  Scale scale = {};
  Pace pace = Pace::kEach;
  Attachment place = Attachment::kHwmon;
  std::string_view domain = "gpu";
};

using enum ReadingKind;
using enum Pace;
using enum Attachment;
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

// xe uses number 1 for the card and 2 for the GPU's package, as far as the chip has them; i915 only
// has 1.
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

struct Gpu {
  const Driver* driver = nullptr;
  std::string id, hwmon, pci;  // `pci` is the device's directory; empty: unknown
};

std::vector<Gpu> FindGpus(const std::string& root) {
  static const RE2 address(R"([[:xdigit:]]{4}:[[:xdigit:]]{2}:[[:xdigit:]]{2}\.[[:xdigit:]])");
  std::vector<Gpu> gpus;
  for (const std::string& number : NamesIn(root)) {
    const std::string hwmon = Cat(root, "/", number);
    const auto* driver = std::ranges::find(kDrivers, TextIn(hwmon + "/name"), &Driver::name);
    if (driver == std::end(kDrivers)) continue;
    std::error_code error;
    const auto device = std::filesystem::canonical(hwmon + "/device", error);
    const std::string id = device.filename().string();
    const bool is_pci = !error && RE2::FullMatch(id, address);
    gpus.push_back({driver, is_pci ? id : number, hwmon, is_pci ? device.string() : ""});
  }
  // hwmon numbers follow the order of probing, but the vendors' tools order by PCI address.
  // Addresses have fixed-width hexadecimal digits, so they sort as text. Ids without an address
  // sort by length first.
  std::ranges::sort(gpus, {}, [](const Gpu& gpu) {
    return std::tuple(gpu.driver, gpu.id.size(), std::string_view(gpu.id));
  });
  return gpus;
}

std::string NameOf(const Gpu& gpu) {
  if (std::string name = TextIn(gpu.pci + "/product_name"); !name.empty()) return name;
  const std::string model = TextIn(gpu.pci + "/device");
  return Cat(gpu.driver->maker, " GPU", model.empty() ? "" : " ", model);
}

std::string DriverVersion(const PowerRoots& roots, const Gpu& gpu) {
  const std::string version = TextIn(Cat(roots.sysfs, "/module/", gpu.driver->name, "/version"));
  return Cat(gpu.driver->name, version.empty() ? "" : " ", version);
}

class HwmonReader : public SensorReader {
 public:
  explicit HwmonReader(const PowerSourceOptions& options)
      : SensorReader("hwmon", /*default_period_ns=*/50'000'000),
        roots_(options.roots),
        ordinals_(options.ordinals) {}

  void Find(PowerInventory* inventory) override {
    const std::string root = roots_.sysfs + "/class/hwmon";
    const std::vector<Gpu> gpus = FindGpus(root);
    std::map<const Driver*, int32_t> next_index;
    for (const Gpu& gpu : gpus) Add(gpu, next_index[gpu.driver]++, inventory);
    for (const auto& [ordinal, id] : ordinals_) SetOrdinal(ordinal, id, &inventory->devices);
    if (gpus.empty()) {
      inventory->absences.push_back({"hwmon", "gpu", PowerReason::kAbsent,
                                     root + ": no hwmon directory of amdgpu, i915 or xe"});
    }
    AddTpus(inventory);
  }

 private:
  // Sets the ordinal if exactly one device's id begins with `id`.
  static void SetOrdinal(int32_t ordinal, const std::string& id,
                         std::vector<PowerDevice>* devices) {
    const auto is_it = [&id](const PowerDevice& each) { return each.id.starts_with(id); };
    if (id.empty() || std::ranges::count_if(*devices, is_it) != 1) return;
    std::optional<int32_t>& first = std::ranges::find_if(*devices, is_it)->ordinal;
    if (!first) first = ordinal;
  }

  void Add(const Gpu& gpu, int32_t index, PowerInventory* inventory) {
    inventory->devices.push_back({.id = gpu.id,
                                  .name = NameOf(gpu),
                                  .source = "hwmon",
                                  .index = index,
                                  .pci_bus_id = gpu.pci.empty() ? "" : gpu.id,
                                  .driver = DriverVersion(roots_, gpu)});
    const size_t first = sensors_.size(), absences = inventory->absences.size();
    for (const FileChannel& each : gpu.driver->files) AddFile(gpu, each, inventory);
    AddMetrics(gpu, first);
    const std::span<Sensor> own = std::span(sensors_).subspan(first);
    const auto in_total = [](const Sensor& sensor) { return sensor.channel.in_total; };
    // The GPU's package is part of the card. It represents the card only if the card has no
    // counter.
    if (std::ranges::none_of(own, in_total)) {
      for (Sensor& each : own) each.channel.in_total = each.channel.quantity == "energy_uj";
    }
    NoteWholeSocket(gpu, own);
    if (std::ranges::any_of(own, in_total) || inventory->absences.size() > absences) return;
    inventory->absences.push_back({"hwmon", gpu.id, PowerReason::kUnsupported,
                                   gpu.hwmon + ": this GPU reports neither power nor energy"});
  }

  void AddFile(const Gpu& gpu, const FileChannel& what, PowerInventory* inventory) {
    const std::string& directory = what.place == kHwmon ? gpu.hwmon : gpu.pci;
    if (directory.empty()) return;
    const Sign sign = what.quantity == "temperature_mc" ? Sign::kAny : Sign::kNotNegative;
    auto file = std::make_shared<HeldFile>(Cat(directory, "/", what.file), sign);
    const FileNumber first = file->Read();
    if (first.reason == PowerReason::kAbsent) return;
    // A sleeping GPU answers later.
    if (first.value || first.reason == PowerReason::kNoSamples) {
      sensors_.push_back({ChannelOf(gpu, what), ReadsFile(std::move(file), what.scale)});
      return;
    }
    const bool denied = first.reason == PowerReason::kPermissionDenied;
    inventory->absences.push_back(AbsenceOf("hwmon", Cat(gpu.id, " ", what.quantity), file->path(),
                                            first.reason,
                                            denied ? "sudo chmod o+r " + file->path() : ""));
  }

  static PowerChannel ChannelOf(const Gpu& gpu, const FileChannel& what) {
    std::optional<int64_t> max_plausible_mw;
    if (what.kind == kCumulative) {
      for (const char* limit : {"/power1_rated_max", "/power1_max", "/power1_cap"}) {
        if (!max_plausible_mw) max_plausible_mw = PlausibleMw(ReadNumber(gpu.hwmon + limit));
      }
    }
    PowerChannel channel = {.source = "hwmon",
                            .device = gpu.id,
                            .domain = std::string(what.domain),
                            .quantity = std::string(what.quantity),
                            .kind = what.kind,
                            .slow = what.pace == kSlow,
                            .max_plausible_mw = max_plausible_mw,
                            .note = std::string(what.file)};
    channel.in_total = IsPowerOrEnergy(channel) && what.domain == "gpu";
    return channel;
  }

  // If hwmon itself has no energy, use the accumulator of gpu_metrics.
  void AddMetrics(const Gpu& gpu, size_t first) {
    const bool has_energy = std::ranges::any_of(
        std::span(sensors_).subspan(first),
        [](const Sensor& sensor) { return sensor.channel.quantity == "energy_uj"; });
    const std::string path = gpu.pci + "/gpu_metrics";
    if (gpu.driver->name != "amdgpu" || has_energy || gpu.pci.empty()) return;
    if (!ReadGpuMetricsEnergy(path).value) return;
    sensors_.push_back({ChannelOf(gpu, {"gpu_metrics", "energy_uj", kCumulative}), [path] {
                          FileNumber energy_uj = ReadGpuMetricsEnergy(path);
                          const bool gone = energy_uj.reason == PowerReason::kAbsent;
                          return gone ? PowerReason::kDeviceLost : energy_uj;
                        }});
  }

  static void NoteWholeSocket(const Gpu& gpu, std::span<Sensor> sensors) {
    if (gpu.driver->name != "amdgpu") return;
    if (ReadNumber(gpu.hwmon + "/power1_cap").reason != PowerReason::kAbsent) return;
    for (Sensor& each : sensors) {
      if (!each.channel.in_total) continue;
      each.channel.domain = kSocketDomain;
      each.channel.note +=
          "; no power1_cap: an APU with a sensor that includes the CPU, or a virtual function";
    }
  }

  // TPUs have no public sensor. The absence is only reported if there is a TPU.
  void AddTpus(PowerInventory* inventory) const {
    // The device ids that JAX knows (jax/_src/hardware_utils.py). Google's network and disk devices
    // have the same vendor.
    constexpr std::string_view kTpus[] = {"0x0027", "0x0056", "0x005e", "0x0062",
                                          "0x0063", "0x006f", "0x0076"};
    const std::string root = roots_.sysfs + "/bus/pci/devices";
    for (const std::string& address : NamesIn(root)) {
      const std::string device = Cat(root, "/", address);
      if (TextIn(device + "/vendor") != "0x1ae0") continue;
      if (std::ranges::count(kTpus, TextIn(device + "/device")) == 0) continue;
      inventory->absences.push_back({"hwmon", "tpu", PowerReason::kUnsupported,
                                     device + ": a TPU has no public power sensor"});
      return;
    }
  }

  const PowerRoots roots_;
  const std::map<int32_t, std::string> ordinals_;
};

}  // namespace

std::unique_ptr<Reader> NewHwmonReader(const PowerSourceOptions& options) {
  return std::make_unique<HwmonReader>(options);
}

FileNumber ReadGpuMetricsEnergy(const std::string& path) {
  const FileText bytes = ReadBytes(path, 4096);
  if (!bytes.value) return bytes.reason;
  const std::string& table = *bytes.value;
  if (table.size() < 4) return PowerReason::kUnsupported;
  const auto number = [&](size_t offset, size_t size) {
    uint64_t value = 0;
    std::memcpy(&value, table.data() + offset, size);  // little-endian, like all machines with such
                                                       // a GPU
    return value;
  };
  const uint64_t size = number(0, 2), format = number(2, 1), content = number(3, 1);
  // The offset from the header to the activity of the VCN engines and, in 1.5, of the JPEG engines.
  constexpr size_t kHeaderToVcn = 24, kJpegEngines = 32;
  const size_t offset = kHeaderToVcn + (content == 5 ? kJpegEngines * sizeof(uint16_t) : 0);
  if (format != 1 || (content != 4 && content != 5) || size > table.size() ||
      size < offset + sizeof(uint64_t)) {
    return PowerReason::kUnsupported;
  }
  const uint64_t count = number(offset, sizeof(uint64_t));
  // 1e6 / 2^16 = 15625 / 1024, in two parts to avoid overflow. The limit also rejects all bits set.
  if (count / 1024 > std::numeric_limits<int64_t>::max() / 15625 - 1) {
    return PowerReason::kUnsupported;
  }
  return static_cast<int64_t>(count / 1024 * 15625 + count % 1024 * 15625 / 1024);
}

}  // namespace xplane_time::power
