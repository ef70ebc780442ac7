#include "power/perf_energy.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>

namespace xplane_time::power {
namespace {

struct Domain {
  std::string_view event, name;
  bool in_total = false, once = false;  // once: of the board, not of each package
};
constexpr Domain kDomains[] = {{"energy-pkg", "package", true, false},
                               {"energy-ram", "dram", true, false},
                               {"energy-cores", "core", false, false},
                               {"energy-gpu", "uncore", false, false},
                               {"energy-psys", "psys", false, true}};

// A counter of 64 bits in units of `joules_per_count`.
class PerfCounter {
 public:
  PerfCounter(int fd, double joules_per_count) : file_(fd), scale_(joules_per_count * 1e6) {}

  FileNumber Read() const {
    uint64_t count = 0;
    ssize_t n;
    do {
      n = read(file_.get(), &count, sizeof(count));  // perf has no pread
    } while (n < 0 && errno == EINTR);
    if (n < 0) return Unknown<int64_t>(ReasonOfRead(errno));
    // Shorter: the event is in error, its cpu is gone.
    if (n != sizeof(count)) return Unknown<int64_t>(PowerReason::kDeviceLost);
    const double energy_uj = static_cast<double>(count) * scale_;
    if (!(energy_uj < 9e18)) return Unknown<int64_t>(PowerReason::kUnsupported);
    return {static_cast<int64_t>(std::llround(energy_uj)), PowerReason::kKnown};
  }

 private:
  Descriptor file_;
  double scale_;
};

// "event=0x02".
std::optional<uint64_t> ConfigIn(std::string_view text) {
  constexpr std::string_view kKey = "event=0x";
  if (!text.starts_with(kKey)) return std::nullopt;
  text.remove_prefix(kKey.size());
  uint64_t config = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, config, 16);
  if (error != std::errc() || stop != end) return std::nullopt;
  return config;
}

std::optional<double> ScaleIn(std::string_view text) {
  double scale = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, scale);
  if (error != std::errc() || stop != end || !(scale > 0) || !(scale < 1)) return std::nullopt;
  return scale;
}

// "0,18-19". Nothing where it is no such list.
std::vector<int> CpusIn(std::string_view text) {
  constexpr int64_t kMost = 8192;
  std::vector<int> cpus;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view range = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
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

// Named as powercap names them, so that both ways give the same devices.
std::vector<Package> PackagesOf(const PowerRoots& roots, const std::vector<int>& cpus) {
  struct Place {
    std::optional<int64_t> package, die;
  };
  std::vector<Place> places;
  for (const int cpu : cpus) {
    const std::string topology =
        roots.sysfs + "/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    places.push_back({ReadNumber(topology + "physical_package_id").value,
                      ReadNumber(topology + "die_id").value});
  }
  std::vector<Package> packages;
  for (size_t i = 0; i < cpus.size(); ++i) {
    const Place& place = places[i];
    Package package = {cpus[i], "package-of-cpu-" + std::to_string(cpus[i])};
    if (place.package) {
      package.device = "package-" + std::to_string(*place.package);
      const auto dies = std::count_if(places.begin(), places.end(), [&](const Place& each) {
        return each.package == place.package;
      });
      if (dies > 1 && place.die) package.device += "-die-" + std::to_string(*place.die);
    }
    packages.push_back(std::move(package));
  }
  return packages;
}

PowerAbsence Unusable(std::string what, PowerReason reason, std::string message,
                      std::string fix = "") {
  return {.source = "rapl",
          .what = std::move(what),
          .reason = reason,
          .message = std::move(message),
          .fix = std::move(fix)};
}

PowerAbsence NotOpened(const PowerRoots& roots, const std::string& event, int error) {
  const PowerReason reason = ReasonOfOpen(error);
  std::string message = "perf_event_open of " + event + ": " + std::strerror(error);
  if (reason != PowerReason::kPermissionDenied) return Unusable(event, reason, message);
  const FileNumber paranoid =
      ReadNumber(roots.procfs + "/sys/kernel/perf_event_paranoid", Sign::kAny);
  if (paranoid.value) {
    message += "; kernel.perf_event_paranoid is " + std::to_string(*paranoid.value);
  }
  return Unusable(event, reason, message,
                  "sudo sysctl kernel.perf_event_paranoid=0, or sudo setcap cap_perfmon+ep on the "
                  "program; a container needs --cap-add PERFMON");
}

PowerChannel ChannelOf(const Domain& domain, const Package& package) {
  return {.source = "rapl",
          .device = domain.once ? std::string(domain.name) : package.device,
          .domain = std::string(domain.name),
          .quantity = "energy_uj",
          .kind = ReadingKind::kCumulative,
          .in_total = domain.in_total,
          .note = "perf, since the reader began"};
}

struct Event {
  uint64_t config = 0;
  double scale = 0;
};

std::optional<Event> ReadEvent(const std::string& path) {
  const std::optional<uint64_t> config = ConfigIn(ReadText(path).value.value_or(""));
  const std::optional<double> scale = ScaleIn(ReadText(path + ".scale").value.value_or(""));
  if (!config || !scale || ReadText(path + ".unit").value != "Joules") return std::nullopt;
  return Event{*config, *scale};
}

}  // namespace

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

std::vector<Sensor> PerfEnergySensors(const PowerRoots& roots, const PerfOpen& open,
                                      std::vector<PowerAbsence>* absences) {
  std::vector<Sensor> sensors;
  const std::string pmu = roots.sysfs + "/bus/event_source/devices/power";
  const FileNumber type = ReadNumber(pmu + "/type");
  if (type.reason == PowerReason::kAbsent) return sensors;
  const std::vector<int> cpus = CpusIn(ReadText(pmu + "/cpumask").value.value_or(""));
  if (!type.value || *type.value > std::numeric_limits<uint32_t>::max() || cpus.empty()) {
    const std::string file = pmu + (cpus.empty() ? "/cpumask" : "/type");
    absences->push_back(
        Unusable("perf", PowerReason::kUnsupported, FailureText(file, PowerReason::kUnsupported)));
    return sensors;
  }
  const std::vector<Package> packages = PackagesOf(roots, cpus);
  for (const Domain& domain : kDomains) {
    const std::string path = pmu + "/events/" + std::string(domain.event);
    if (ReadText(path).reason == PowerReason::kAbsent) continue;
    const std::string what = "power/" + std::string(domain.event) + "/";
    const std::optional<Event> event = ReadEvent(path);
    if (!event) {
      absences->push_back(
          Unusable(what, PowerReason::kUnsupported, path + ": no event with a scale in Joules"));
      continue;
    }
    for (const Package& package : packages) {
      const int fd = open(static_cast<uint32_t>(*type.value), event->config, package.cpu);
      if (fd < 0) {
        absences->push_back(NotOpened(roots, what, -fd));
        break;  // the others fail alike
      }
      const auto counter = std::make_shared<PerfCounter>(fd, event->scale);
      sensors.push_back({ChannelOf(domain, package), [counter] { return counter->Read(); }});
      if (domain.once) break;
    }
  }
  return sensors;
}

}  // namespace xplane_time::power
