// RAPL, the energy counters of processors: by powercap, else by perf.
//
// One of both ways, not a mixture: their counters begin at different times, and a package
// that was in both would be counted twice.
#include "power/rapl.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

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

namespace {

constexpr std::string_view kPrefix = "intel-rapl";

struct Zone {
  std::string id;    // intel-rapl:0:1
  std::string path;  // its directory
  FileText name;     // package-0
  bool masked = false;
};

std::string_view ControlType(std::string_view id) { return id.substr(0, id.find(':')); }

std::string_view ParentOf(std::string_view id) {
  const size_t last = id.rfind(':');
  return last == id.find(':') ? std::string_view() : id.substr(0, last);
}

bool IsZone(std::string_view name) {
  return name.starts_with(kPrefix) && name.find(':') != std::string_view::npos;
}

// MSR zones come before their MMIO twins, of which then only the unknown ones count.
bool ZoneLess(std::string_view a, std::string_view b) {
  const std::string_view x = ControlType(a), y = ControlType(b);
  return x != y ? x < y : NaturalLess(a, b);
}

// A link of the class directory that leads nowhere: a container hides what is behind it.
bool LeadsNowhere(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) == 0 || errno != ENOENT) return false;
  return lstat(path.c_str(), &status) == 0;
}

std::vector<Zone> FindZones(const std::string& root) {
  std::map<std::string, std::string, bool (*)(std::string_view, std::string_view)> paths(ZoneLess);
  std::vector<std::pair<std::string, std::string>> to_visit = {{"", root}};
  while (!to_visit.empty()) {
    const auto [parent, directory] = std::move(to_visit.back());
    to_visit.pop_back();
    for (const std::string& name : NamesIn(directory)) {
      // Subzones are in the class directory and in their parents; links lead back from there.
      if (!IsZone(name) || (!parent.empty() && ParentOf(name) != parent)) continue;
      const std::string path = absl::StrCat(directory, "/", name);
      if (paths.try_emplace(name, path).second) to_visit.emplace_back(name, path);
    }
  }
  std::vector<Zone> zones;
  zones.reserve(paths.size());
  for (const auto& [id, path] : paths) {
    zones.push_back({id, path, ReadText(path + "/name", 256), LeadsNowhere(path)});
  }
  return zones;
}

// What a zone measures: ("package-0", "dram").
struct Meaning {
  std::string device, domain;
  bool in_total = false;
};

std::optional<Meaning> MeaningOf(const Zone& zone, const std::map<std::string, Zone>& zones) {
  if (!zone.name.value || zone.name.value->empty()) return std::nullopt;
  const std::string& name = *zone.name.value;
  const std::string_view parent = ParentOf(zone.id);
  if (parent.empty()) {
    const bool is_package = name.starts_with("package");
    return Meaning{name, is_package ? "package" : name, is_package};
  }
  const auto above = zones.find(std::string(parent));
  if (above == zones.end()) return std::nullopt;
  std::optional<Meaning> meaning = MeaningOf(above->second, zones);
  if (!meaning) return std::nullopt;
  // Only what hangs on a package itself: below dram it would be counted twice.
  meaning->in_total = name == "dram" && meaning->domain == "package";
  meaning->domain = name;
  return meaning;
}

std::optional<int64_t> MaxPlausibleMw(const Zone& zone, const std::map<std::string, Zone>& zones) {
  int64_t sustained_uw = 0;
  for (const std::string& file : NamesIn(zone.path)) {
    if (!file.starts_with("constraint_") || !file.ends_with("_max_power_uw")) continue;
    const FileNumber limit = ReadNumber(zone.path + "/" + file);
    sustained_uw = std::max(sustained_uw, limit.value.value_or(0));
  }
  if (sustained_uw > 0) return PlausibleMw({sustained_uw, PowerReason::kKnown});
  // A part does not draw more than the whole.
  const auto above = zones.find(std::string(ParentOf(zone.id)));
  return above == zones.end() ? std::nullopt : MaxPlausibleMw(above->second, zones);
}

PowerChannel ChannelOf(const Zone& zone, const Meaning& meaning,
                       const std::map<std::string, Zone>& zones) {
  const FileNumber range = ReadNumber(zone.path + "/max_energy_range_uj");
  return {.source = "rapl",
          .device = meaning.device,
          .domain = meaning.domain,
          .quantity = "energy_uj",
          .kind = ReadingKind::kCumulative,
          .in_total = meaning.in_total,
          .wrap_range = range.value.value_or(0) > 0 ? range.value : std::nullopt,
          .max_plausible_mw = MaxPlausibleMw(zone, zones),
          .note = std::string(ControlType(zone.id))};
}

// Failures of one reason that one fix helps, said once.
struct Failures {
  std::vector<std::string> paths;
  std::string Text() const {
    std::string text = paths.front();
    if (paths.size() > 1) text += " and " + std::to_string(paths.size() - 1) + " more";
    return text;
  }
};

void AddDenied(const std::string& root, const Failures& denied,
               std::vector<PowerAbsence>* absences) {
  absences->push_back(
      {.source = "rapl",
       .what = "powercap",
       .reason = PowerReason::kPermissionDenied,
       .message = denied.Text() + ": permission denied; only root reads it since Linux 5.10",
       .fix = "sudo chmod o+r " + root +
              "/intel-rapl*/energy_uj (until the next boot), or for good a udev rule: "
              "SUBSYSTEM==\"powercap\", ACTION==\"add\", RUN+=\"/bin/chmod o+r "
              "/sys%p/energy_uj\"; with chgrp and g+r for a group only"});
}

void AddMasked(const Failures& masked, std::vector<PowerAbsence>* absences) {
  absences->push_back({.source = "rapl",
                       .what = "powercap",
                       .reason = PowerReason::kPermissionDenied,
                       .message = masked.Text() + ": a link that leads nowhere; containers hide "
                                                  "/sys/devices/virtual/powercap",
                       .fix = "start the container with --security-opt systempaths=unconfined, or "
                              "record on the host"});
}

void AddFailure(const Zone& zone, const std::string& path, PowerReason reason,
                std::vector<PowerAbsence>* absences) {
  absences->push_back({.source = "rapl",
                       .what = zone.id,
                       .reason = reason,
                       .message = FailureText(path, reason),
                       .fix = ""});
}

}  // namespace

std::vector<Sensor> PowercapSensors(const PowerRoots& roots, std::vector<PowerAbsence>* absences) {
  const std::string root = roots.sysfs + "/class/powercap";
  std::map<std::string, Zone> zones;
  const std::vector<Zone> in_order = FindZones(root);
  for (const Zone& zone : in_order) zones.emplace(zone.id, zone);

  std::vector<Sensor> sensors;
  std::set<std::pair<std::string, std::string>> known;
  Failures denied, masked;
  for (const Zone& zone : in_order) {
    if (zone.masked) {
      masked.paths.push_back(zone.path);
      continue;
    }
    const std::optional<Meaning> meaning = MeaningOf(zone, zones);
    if (!meaning) {
      const PowerReason reason = zone.name.value ? PowerReason::kUnsupported : zone.name.reason;
      AddFailure(zone, zone.path + "/name", reason, absences);
      continue;
    }
    if (known.contains({meaning->device, meaning->domain})) continue;  // the MMIO twin
    auto energy = std::make_shared<HeldFile>(zone.path + "/energy_uj");
    const FileNumber first = energy->Read();
    if (first.reason == PowerReason::kPermissionDenied) {
      denied.paths.push_back(energy->path());
    } else if (!first.value) {
      AddFailure(zone, energy->path(), first.reason, absences);
    } else {
      known.emplace(meaning->device, meaning->domain);
      sensors.push_back({ChannelOf(zone, *meaning, zones), ReadsFile(std::move(energy))});
    }
  }
  if (!denied.paths.empty()) AddDenied(root, denied, absences);
  if (!masked.paths.empty()) AddMasked(masked, absences);
  return sensors;
}

}  // namespace xplane_time::power
