// RAPL, the energy counters of processors: by powercap, else by perf.
//
// One of both ways, not a mixture: their counters begin at different times, and a package
// that was in both would be counted twice.
#include "power/rapl.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "power/powercap.h"

namespace xplane_time::power {
namespace {

// The value of the first line "KEY<blanks>: VALUE" of cpuinfo.
std::string CpuInfo(std::string_view text, std::string_view key) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const size_t colon = line.find(": ");
    if (line.starts_with(key) && colon != std::string_view::npos) {
      return std::string(line.substr(colon + 2));
    }
  }
  return "";
}

bool HasPackage(const std::vector<Sensor>& sensors) {
  return std::any_of(sensors.begin(), sensors.end(),
                     [](const Sensor& sensor) { return sensor.channel.domain == "package"; });
}

class RaplReader : public Reader {
 public:
  RaplReader(const PowerSourceOptions& options, PerfOpen open)
      : roots_(options.roots), open_(std::move(open)) {}

  std::string_view source() const override { return "rapl"; }

  PowerInventory Discover() override {
    PowerInventory inventory;
    const FileText cpu = ReadText(roots_.procfs + "/cpuinfo", 1 << 16);
    sensors_ = PowercapSensors(roots_, &inventory.absences);
    std::string driver = "powercap";
    if (!HasPackage(sensors_)) {
      std::vector<PowerAbsence> perf_absences;
      std::vector<Sensor> by_perf = PerfEnergySensors(roots_, open_, &perf_absences);
      if (HasPackage(by_perf)) {
        sensors_ = std::move(by_perf);
        driver = "perf";
        inventory.absences.clear();  // nothing is missing
      }
      inventory.absences.insert(inventory.absences.end(), perf_absences.begin(),
                                perf_absences.end());
    }
    if (sensors_.empty() && inventory.absences.empty()) {
      inventory.absences.push_back(NothingThere(cpu.value.value_or("")));
    }
    inventory.channels = ChannelsOf(sensors_);
    AddDevices(driver, CpuInfo(cpu.value.value_or(""), "model name"), &inventory);
    return inventory;
  }

  void Read(bool slow, std::vector<Reading>* readings) override {
    ReadSensors(sensors_, slow, readings);
  }

  int64_t default_period_ns() const override { return 10'000'000; }

 private:
  PowerAbsence NothingThere(std::string_view cpuinfo) const {
    PowerAbsence absence = {
        .source = "rapl",
        .what = "powercap",
        .reason = PowerReason::kAbsent,
        .message = roots_.sysfs + "/class/powercap: no zone of intel-rapl, and no perf PMU `power`",
        .fix = "sudo modprobe intel_rapl_msr (Intel since Sandy Bridge, AMD since Zen)"};
    const std::string flags = " " + CpuInfo(cpuinfo, "flags") + " ";
    if (flags.find(" hypervisor ") != std::string::npos) {
      absence.message += "; this is a virtual machine, whose host does not pass RAPL on";
      absence.fix = "record on the host";
    }
    return absence;
  }

  static void AddDevices(const std::string& driver, const std::string& model,
                         PowerInventory* inventory) {
    std::set<std::string> known;
    for (const PowerChannel& channel : inventory->channels) {
      if (!known.insert(channel.device).second) continue;
      inventory->devices.push_back(
          {.id = channel.device, .name = model, .source = "rapl", .driver = driver});
    }
  }

  const PowerRoots roots_;
  const PerfOpen open_;
  std::vector<Sensor> sensors_;
};

}  // namespace

std::unique_ptr<Reader> NewRaplReader(const PowerSourceOptions& options, PerfOpen open) {
  return std::make_unique<RaplReader>(options, std::move(open));
}

std::unique_ptr<Reader> NewRaplReader(const PowerSourceOptions& options) {
  return NewRaplReader(options, OpenPerfEvent);
}

}  // namespace xplane_time::power
