// RAPL, the energy counters of processors, through powercap or else through perf.
//
// Only one of both is used: their counters begin at different times, and a package in both would be
// counted twice.
#include <linux/perf_event.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "power/reader.h"
#include "status.h"

namespace xplane_time::power {
namespace {

// RAPL through the kernel's powercap tree, for Intel and AMD.
//
//   SYSFS/class/powercap/intel-rapl:0        name "package-0", energy_uj, max_energy_range_uj
//                        intel-rapl:0:0      name "core" (uncore, dram), part of the package
//                        intel-rapl:1        name "psys": the board, packages included
//                        intel-rapl-mmio:0   the same package over MMIO: not counted twice
//
// Definitions: Documentation/power/powercap/powercap.rst of the kernel.

constexpr std::string_view kPrefix = "intel-rapl";

struct Zone {
  std::string id;    // intel-rapl:0:1
  std::string path;  // directory of the zone
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

// Sorts MSR zones before their MMIO twins; then twins of known zones are skipped.
bool ZoneLess(const std::string& a, const std::string& b) {
  const std::string_view x = ControlType(a), y = ControlType(b);
  return x != y ? x < y : NaturalLess(a, b);
}

// True for a dangling link of the class directory: a container hides its target.
bool LeadsNowhere(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) == 0 || errno != ENOENT) return false;
  return lstat(path.c_str(), &status) == 0;
}

// By id.
using Zones = std::map<std::string, Zone, bool (*)(const std::string&, const std::string&)>;

Zones FindZones(const std::string& root) {
  Zones zones(ZoneLess);
  std::vector<std::pair<std::string, std::string>> to_visit = {{"", root}};
  while (!to_visit.empty()) {
    const auto [parent, directory] = std::move(to_visit.back());
    to_visit.pop_back();
    for (const std::string& id : NamesIn(directory)) {
      // Subzones appear in the class directory and in their parents; links lead back from there.
      if (!IsZone(id) || (!parent.empty() && ParentOf(id) != parent)) continue;
      const std::string path = Cat(directory, "/", id);
      const auto [at, is_new] = zones.try_emplace(id);
      if (!is_new) continue;
      at->second = {id, path, ReadText(path + "/name", 256), LeadsNowhere(path)};
      to_visit.emplace_back(id, path);
    }
  }
  return zones;
}

// The quantity that a zone measures: ("package-0", "dram").
struct Meaning {
  std::string device, domain;
  bool in_total = false;
};

std::optional<Meaning> MeaningOf(const Zone& zone, const Zones& zones) {
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
  // Only direct parts of a package count; parts of dram would be counted twice.
  meaning->in_total = name == "dram" && meaning->domain == "package";
  meaning->domain = name;
  return meaning;
}

std::optional<int64_t> MaxPlausibleMw(const Zone& zone, const Zones& zones) {
  int64_t sustained_uw = 0;
  for (const std::string& file : NamesIn(zone.path)) {
    if (!file.starts_with("constraint_") || !file.ends_with("_max_power_uw")) continue;
    const FileNumber limit = ReadNumber(zone.path + "/" + file);
    sustained_uw = std::max(sustained_uw, limit.value.value_or(0));
  }
  if (sustained_uw > 0) return PlausibleMw(sustained_uw);
  // A part does not draw more than the whole.
  const auto above = zones.find(std::string(ParentOf(zone.id)));
  return above == zones.end() ? std::nullopt : MaxPlausibleMw(above->second, zones);
}

// One absence for all files with the same reason and fix.
PowerAbsence Denied(const std::vector<std::string>& paths, std::string_view why, std::string fix) {
  const std::string more = paths.size() > 1 ? Cat(" and ", paths.size() - 1, " more") : "";
  return {"rapl", "powercap", PowerReason::kPermissionDenied, Cat(paths.front(), more, why),
          std::move(fix)};
}

// The readable counters; packages and their dram are in the total. Adds the unreadable ones to
// `absences`, grouped by fix. Linear in the number of zones.
std::vector<Sensor> PowercapSensors(const PowerRoots& roots, std::vector<PowerAbsence>* absences) {
  const std::string root = roots.sysfs + "/class/powercap";
  const Zones zones = FindZones(root);
  std::vector<Sensor> sensors;
  std::set<std::pair<std::string, std::string>> known;
  std::vector<std::string> denied, masked;
  for (const auto& [id, zone] : zones) {
    if (zone.masked) {
      masked.push_back(zone.path);
      continue;
    }
    const std::optional<Meaning> meaning = MeaningOf(zone, zones);
    if (!meaning) {
      const PowerReason reason = zone.name.value ? PowerReason::kUnsupported : zone.name.reason;
      absences->push_back(AbsenceOf("rapl", id, zone.path + "/name", reason));
      continue;
    }
    if (known.contains({meaning->device, meaning->domain})) continue;  // the MMIO twin
    auto energy = std::make_shared<HeldFile>(zone.path + "/energy_uj");
    const FileNumber first = energy->Read();
    if (first.reason == PowerReason::kPermissionDenied) {
      denied.push_back(energy->path());
    } else if (!first.value) {
      absences->push_back(AbsenceOf("rapl", id, energy->path(), first.reason));
    } else {
      known.emplace(meaning->device, meaning->domain);
      const FileNumber range = ReadNumber(zone.path + "/max_energy_range_uj");
      sensors.push_back({{.source = "rapl",
                          .device = meaning->device,
                          .domain = meaning->domain,
                          .quantity = "energy_uj",
                          .kind = ReadingKind::kCumulative,
                          .in_total = meaning->in_total,
                          .wrap_range = range.value.value_or(0) > 0 ? range.value : std::nullopt,
                          .max_plausible_mw = MaxPlausibleMw(zone, zones),
                          .note = std::string(ControlType(id))},
                         ReadsFile(std::move(energy))});
    }
  }
  if (!denied.empty()) {
    absences->push_back(
        Denied(denied, ": permission denied; since Linux 5.10, only root can read it",
               "sudo chmod o+r " + root +
                   "/intel-rapl*/energy_uj (until the next boot), or permanently with a udev rule: "
                   "SUBSYSTEM==\"powercap\", ACTION==\"add\", RUN+=\"/bin/chmod o+r "
                   "/sys%p/energy_uj\"; to allow only a group, use chgrp and g+r"));
  }
  if (!masked.empty()) {
    absences->push_back(Denied(
        masked, ": dangling link; containers hide /sys/devices/virtual/powercap",
        "start the container with --security-opt systempaths=unconfined, or record on the host"));
  }
  return sensors;
}

// RAPL through the kernel's perf PMU `power`, for machines whose powercap is missing or unreadable.
//
//   SYSFS/bus/event_source/devices/power/type            22
//                                        cpumask         0,18: one cpu of each package
//                                        events/energy-pkg         event=0x02
//                                        events/energy-pkg.scale   2.3283064365386962890625e-10
//                                        events/energy-pkg.unit    Joules
//
// The kernel extends these counters to 64 bits, so they do not wrap. They begin with the reader.

struct PerfDomain {
  std::string_view event, name;
  bool in_total = false, once = false;  // once: one counter for the board instead of one for each
                                        // package
};
constexpr PerfDomain kPerfDomains[] = {{"energy-pkg", "package", true, false},
                                       {"energy-ram", "dram", true, false},
                                       {"energy-cores", "core", false, false},
                                       {"energy-gpu", "uncore", false, false},
                                       {"energy-psys", "psys", false, true}};

// Reads a 64-bit counter with units of `joules_per_count`.
FileNumber ReadPerf(const Descriptor& counter, double joules_per_count) {
  uint64_t count = 0;
  // perf has no pread.
  const ssize_t n = TEMP_FAILURE_RETRY(read(counter.get(), &count, sizeof(count)));
  if (n < 0) return ReasonOfRead(errno);
  // A short read means that the event is in error because its cpu is offline.
  if (n != sizeof(count)) return PowerReason::kDeviceLost;
  const double energy_uj = static_cast<double>(count) * (joules_per_count * 1e6);
  if (!(energy_uj < 9e18)) return PowerReason::kUnsupported;
  return static_cast<int64_t>(std::llround(energy_uj));
}

// Parses "0,18-19". Empty if it is not such a list.
std::vector<int> CpusIn(const std::string& text) {
  constexpr int64_t kMost = 8192;
  std::vector<int> cpus;
  const std::vector<std::string> ranges = absl::StrSplit(text, ',');
  for (const std::string& range : ranges) {
    const size_t dash = std::min(range.find('-'), range.size());
    const FileNumber first = NumberIn(range.substr(0, dash));
    const FileNumber last = dash == range.size() ? first : NumberIn(range.substr(dash + 1));
    if (!first.value || !last.value || *last.value >= kMost) return {};
    for (int64_t cpu = *first.value; cpu <= *last.value; ++cpu) {
      cpus.push_back(static_cast<int>(cpu));
    }
    if (cpus.size() > kMost) return {};
  }
  return cpus;
}

struct Package {
  int cpu = 0;
  std::string device;
};

// Names packages like powercap, so that both ways yield the same devices.
std::vector<Package> PackagesOf(const PowerRoots& roots, const std::vector<int>& cpus) {
  const auto topology = [&](int cpu, std::string_view what) {
    return ReadNumber(Cat(roots.sysfs, "/devices/system/cpu/cpu", cpu, "/topology/", what)).value;
  };
  std::map<std::optional<int64_t>, int> dies_of;  // by package
  for (const int cpu : cpus) ++dies_of[topology(cpu, "physical_package_id")];
  std::vector<Package> packages;
  for (const int cpu : cpus) {
    const auto package = topology(cpu, "physical_package_id"), die = topology(cpu, "die_id");
    std::string device = package ? Cat("package-", *package) : Cat("package-of-cpu-", cpu);
    if (package && die && dies_of[package] > 1) Append(&device, "-die-", *die);
    packages.push_back({cpu, std::move(device)});
  }
  return packages;
}

PowerAbsence NotOpened(const PowerRoots& roots, const std::string& event, int error) {
  const PowerReason reason = ReasonOfOpen(error);
  std::string message = Cat("perf_event_open of ", event, ": ", std::strerror(error));
  if (reason != PowerReason::kPermissionDenied) return {"rapl", event, reason, message};
  const FileNumber paranoid =
      ReadNumber(roots.procfs + "/sys/kernel/perf_event_paranoid", Sign::kAny);
  if (paranoid.value) Append(&message, "; kernel.perf_event_paranoid is ", *paranoid.value);
  return {"rapl", event, reason, message,
          "sudo sysctl kernel.perf_event_paranoid=0, or sudo setcap cap_perfmon+ep on the "
          "program; a container needs --cap-add PERFMON"};
}

struct PerfEvent {
  uint64_t config = 0;
  double scale = 0;
};

std::optional<PerfEvent> ReadPerfEvent(const std::string& path) {
  PerfEvent event;
  const std::string text = TextIn(path);
  const bool is_known = text.starts_with("event=0x") &&
                        absl::SimpleHexAtoi(text.substr(text.find('=') + 1), &event.config) &&
                        absl::SimpleAtod(TextIn(path + ".scale"), &event.scale) &&
                        event.scale > 0 && event.scale < 1 && TextIn(path + ".unit") == "Joules";
  return is_known ? std::optional(event) : std::nullopt;
}

// Adds neither sensors nor absences if the PMU does not exist.
std::vector<Sensor> PerfEnergySensors(const PowerRoots& roots, const PerfOpen& open,
                                      std::vector<PowerAbsence>* absences) {
  std::vector<Sensor> sensors;
  const std::string pmu = roots.sysfs + "/bus/event_source/devices/power";
  const FileNumber type = ReadNumber(pmu + "/type");
  if (type.reason == PowerReason::kAbsent) return sensors;
  const std::vector<int> cpus = CpusIn(TextIn(pmu + "/cpumask"));
  if (!type.value || *type.value > std::numeric_limits<uint32_t>::max() || cpus.empty()) {
    const std::string file = pmu + (cpus.empty() ? "/cpumask" : "/type");
    absences->push_back(AbsenceOf("rapl", "perf", file, PowerReason::kUnsupported));
    return sensors;
  }
  const std::vector<Package> packages = PackagesOf(roots, cpus);
  for (const PerfDomain& domain : kPerfDomains) {
    const std::string path = Cat(pmu, "/events/", domain.event);
    if (ReadText(path).reason == PowerReason::kAbsent) continue;
    const std::string what = Cat("power/", domain.event, "/");
    const std::optional<PerfEvent> event = ReadPerfEvent(path);
    if (!event) {
      absences->push_back(
          {"rapl", what, PowerReason::kUnsupported, path + ": no event with a scale in Joules"});
      continue;
    }
    for (const Package& package : packages) {
      const int fd = open(static_cast<uint32_t>(*type.value), event->config, package.cpu);
      if (fd < 0) {
        absences->push_back(NotOpened(roots, what, -fd));
        break;  // the others fail in the same way
      }
      sensors.push_back({{.source = "rapl",
                          .device = domain.once ? std::string(domain.name) : package.device,
                          .domain = std::string(domain.name),
                          .quantity = "energy_uj",
                          .kind = ReadingKind::kCumulative,
                          .in_total = domain.in_total,
                          .note = "perf event; counts since it was opened"},
                         [counter = std::make_shared<Descriptor>(fd), scale = event->scale] {
                           return ReadPerf(*counter, scale);
                         }});
      if (domain.once) break;
    }
  }
  return sensors;
}

int OpenPerfEvent(uint32_t type, uint64_t config, int cpu) {
  perf_event_attr attributes = {};
  attributes.size = sizeof(attributes);
  attributes.type = type;
  attributes.config = config;
  constexpr int kAllProcesses = -1, kNoGroup = -1;
  const long fd =
      syscall(SYS_perf_event_open, &attributes, kAllProcesses, cpu, kNoGroup, PERF_FLAG_FD_CLOEXEC);
  return fd < 0 ? -errno : static_cast<int>(fd);
}

// A value of cpuinfo; empty if it is missing.
std::string CpuInfo(std::string_view text, std::string_view key) {
  const std::string_view value = LineOf(text, key).value_or("");
  return std::string(value.substr(value.starts_with(' ') ? 1 : 0));
}

bool HasPackage(const std::vector<Sensor>& sensors) {
  return std::ranges::any_of(sensors,
                             [](const Sensor& each) { return each.channel.domain == "package"; });
}

class RaplReader : public SensorReader {
 public:
  RaplReader(const PowerSourceOptions& options, PerfOpen open)
      : SensorReader("rapl", /*default_period_ns=*/10'000'000),
        roots_(options.roots),
        open_(std::move(open)) {}

  void Find(PowerInventory* inventory) override {
    const std::string cpu = ReadText(roots_.procfs + "/cpuinfo", 1 << 16).value.value_or("");
    sensors_ = PowercapSensors(roots_, &inventory->absences);
    std::string driver = "powercap";
    if (!HasPackage(sensors_)) {
      std::vector<PowerAbsence> perf_absences;
      std::vector<Sensor> by_perf = PerfEnergySensors(roots_, open_, &perf_absences);
      if (HasPackage(by_perf)) {
        sensors_ = std::move(by_perf);
        driver = "perf";
        inventory->absences.clear();  // perf measures everything
      }
      std::ranges::move(perf_absences, std::back_inserter(inventory->absences));
    }
    if (sensors_.empty() && inventory->absences.empty()) {
      inventory->absences.push_back(NothingThere(cpu));
    }
    std::set<std::string> known;
    for (const Sensor& each : sensors_) {
      if (!known.insert(each.channel.device).second) continue;
      inventory->devices.push_back({.id = each.channel.device,
                                    .name = CpuInfo(cpu, "model name"),
                                    .source = "rapl",
                                    .driver = driver});
    }
  }

 private:
  PowerAbsence NothingThere(std::string_view cpuinfo) const {
    PowerAbsence absence = {
        "rapl", "powercap", PowerReason::kAbsent,
        roots_.sysfs + "/class/powercap: no zone of intel-rapl, and no perf PMU `power`",
        "sudo modprobe intel_rapl_msr (Intel since Sandy Bridge, AMD since Zen)"};
    const std::string flags = " " + CpuInfo(cpuinfo, "flags") + " ";
    if (flags.find(" hypervisor ") != std::string::npos) {
      absence.message += "; this virtual machine has no access to the RAPL of its host";
      absence.fix = "record on the host";
    }
    return absence;
  }

  const PowerRoots roots_;
  const PerfOpen open_;
};

}  // namespace

std::unique_ptr<Reader> NewRaplReader(const PowerSourceOptions& options, PerfOpen open) {
  return std::make_unique<RaplReader>(options, std::move(open));
}

std::unique_ptr<Reader> NewRaplReader(const PowerSourceOptions& options) {
  return NewRaplReader(options, OpenPerfEvent);
}

}  // namespace xplane_time::power
