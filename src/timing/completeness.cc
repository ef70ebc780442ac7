#include "timing/completeness.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "devices/power_counters.h"
#include "read/plane_index.h"
#include "saturate.h"
#include "status.h"
#include "timing/lost_runs.h"
#include "xplane_time/read.h"

namespace xplane_time {
namespace {

using gpu_runs::HostEvidence, gpu_runs::Launch, gpu_runs::Launched;

std::string TimeText(int64_t ps) {
  constexpr std::array<std::pair<double, const char*>, 4> kUnits = {
      {{1e12, "s"}, {1e9, "ms"}, {1e6, "us"}, {1e3, "ns"}}};
  const auto time = static_cast<double>(ps);
  const auto* const unit =
      std::ranges::find_if(kUnits, [&](const auto& each) { return std::abs(time) >= each.first; });
  const auto& [size, name] = unit == kUnits.end() ? kUnits.back() : *unit;
  return absl::StrFormat("%.3f %s", time / size, name);
}

// Launches of one kind with a common finding.
struct LaunchGroup {
  uint64_t count = 0;
  int64_t first_ps = 0, last_ps = 0;  // their starts

  void Add(int64_t start_ps) {
    first_ps = count == 0 ? start_ps : std::min(first_ps, start_ps);
    last_ps = count == 0 ? start_ps : std::max(last_ps, start_ps);
    ++count;
  }
  std::string When() const {
    return first_ps == last_ps
               ? absl::StrCat("at ", TimeText(first_ps))
               : absl::StrCat("from ", TimeText(first_ps), " to ", TimeText(last_ps));
  }
};

// " in rank1.json", if there are several files.
std::string InFile(const Trace& trace, uint32_t file) {
  if (trace.files.size() < 2) return "";
  return absl::StrCat(" in ", std::filesystem::path(trace.files[file].path).filename().string());
}

// ---- launches of one host ------------------------------------------------------------------

// Which launches of a host are compared with executions.
class ComparedLaunches {
 public:
  explicit ComparedLaunches(const Trace& trace, const HostEvidence& evidence)
      : trace_(trace), evidence_(evidence) {
    bool any_graph = false;
    evidence.launches.ForEach([&](size_t /*index*/, const Launch& launch) {
      any_graph |= launch.what == Launched::kGraph;
    });
    only_graphs_ = any_graph && !evidence.records_captures;
  }

  // Calls visit(index of its id, launch): once for calls of one process with an id, as a call of
  // the runtime and the call of the driver inside of it may have.
  template <typename Visit>
  void ForEach(Visit visit) const {
    std::optional<std::pair<size_t, uint32_t>> last;  // index and plane
    evidence_.launches.ForEach([&](size_t index, const Launch& launch) {
      if (launch.what == Launched::kOther) return;
      if (only_graphs_ && launch.what != Launched::kGraph) return;
      const std::pair<size_t, uint32_t> key = {index, trace_.lines[launch.line].plane};
      if (last == key || IsCaptured(launch)) return;
      last = key;
      visit(index, launch);
    });
  }

 private:
  // Captures are in order, and those of one plane do not overlap.
  bool IsCaptured(const Launch& launch) const {
    using Key = std::pair<uint32_t, int64_t>;
    const auto after = std::ranges::upper_bound(
        evidence_.captures, Key(trace_.lines[launch.line].plane, launch.start_ps), {},
        [](const HostEvidence::Capture& capture) {
          return Key(capture.plane, capture.interval.start_ps);
        });
    if (after == evidence_.captures.begin()) return false;
    const HostEvidence::Capture& last = *std::prev(after);
    return last.plane == trace_.lines[launch.line].plane && launch.start_ps < last.interval.end_ps;
  }

  const Trace& trace_;
  const HostEvidence& evidence_;
  bool only_graphs_ = false;
};

// The devices of one host, which share its launches.
struct HostDevices {
  const HostEvidence* evidence = nullptr;
  std::vector<DeviceAnalysis*> devices;  // with a LaunchCheck
  size_t with_events = 0;
};

// Launches without an execution from this time on may be of kernels that still waited when the
// recording ended; `lost` is in order of start and not empty. A host launches ahead, so a stream
// may have many at its end. They wait for one kernel at most whose record is missing because it had
// not ended: from the last end on the stream, or the first of these launches, to the end of the
// recording it must be plausible as one kernel's time: a few times as long as the longest
// execution, or a small part of the recording.
int64_t FindPending(const HostDevices& host, const std::vector<Launch>& lost) {
  constexpr int64_t kTimesLongest = 10, kPartOfAll = 20;
  int64_t end_ps = host.evidence->last_end_ps, begin_ps = lost.front().start_ps, longest_ps = 0;
  std::vector<LaunchCheck::Stream> streams = {{}};  // a launch that has no execution yet
  for (const DeviceAnalysis* device : host.devices) {
    if (!device->row.first_ps.has_value() || !device->row.last_ps.has_value()) continue;
    begin_ps = std::min(begin_ps, *device->row.first_ps);
    end_ps = std::max(end_ps, *device->row.last_ps);
    longest_ps = std::max(longest_ps, device->launches->longest_ps());
    streams.insert(streams.end(), device->launches->streams().begin(),
                   device->launches->streams().end());
  }
  const int64_t plausible_ps =
      std::max(std::min(longest_ps, kAxisLimitPs / kTimesLongest) * kTimesLongest,
               SaturatingSub(end_ps, begin_ps) / kPartOfAll);
  int64_t pending_ps = kAxisLimitPs;
  for (const LaunchCheck::Stream& stream : streams) {
    const auto first = std::ranges::upper_bound(lost, stream.last_launch_ps, {}, &Launch::start_ps);
    if (first == lost.end()) continue;
    const int64_t waits_from_ps = std::max(first->start_ps, stream.last_end_ps);
    if (SaturatingSub(end_ps, waits_from_ps) <= plausible_ps)
      pending_ps = std::min(pending_ps, first->start_ps);
  }
  // After the host has waited for the device, earlier launches are not pending.
  const bool one_device = host.evidence->device_count == 1;
  return one_device ? std::max(pending_ps, host.evidence->last_synchronization_ps) : pending_ps;
}

// The device that executes the launches of a host line, inferred from its other launches.
class DeviceOfLines {
 public:
  DeviceOfLines(const Trace& trace, const HostDevices& host) : trace_(trace) {
    for (const DeviceAnalysis* device : host.devices) {
      for (const uint32_t line : device->launches->launching_lines()) {
        Tell(&of_line_, line, device);
        Tell(&of_plane_, trace.lines[line].plane, device);
      }
    }
    if (host.devices.size() == 1) only_ = host.devices[0];
  }

  // Null: unknown.
  const DeviceAnalysis* Find(uint32_t line) const {
    if (only_ != nullptr) return only_;
    const auto by_line = of_line_.find(line);
    if (by_line != of_line_.end()) return by_line->second;
    const auto by_plane = of_plane_.find(trace_.lines[line].plane);
    return by_plane == of_plane_.end() ? nullptr : by_plane->second;
  }

 private:
  using Devices = std::map<uint32_t, const DeviceAnalysis*>;  // null: several
  static void Tell(Devices* devices, uint32_t key, const DeviceAnalysis* device) {
    const auto [found, is_new] = devices->try_emplace(key, device);
    if (!is_new && found->second != device) found->second = nullptr;
  }

  const Trace& trace_;
  Devices of_line_, of_plane_;
  const DeviceAnalysis* only_ = nullptr;
};

void AddLostLaunches(const Trace& trace, const HostDevices& host, Analysis* analysis) {
  const ComparedLaunches compared(trace, *host.evidence);
  std::vector<Launch> lost;
  uint64_t launches_compared = 0;
  compared.ForEach([&](size_t index, const Launch& launch) {
    ++launches_compared;
    const bool has_executed = std::ranges::any_of(
        host.devices,
        [index](const DeviceAnalysis* device) { return device->launches->has_executed(index); });
    if (!has_executed) lost.push_back(launch);
  });
  analysis->launches_compared += launches_compared;
  if (lost.empty()) return;
  std::ranges::stable_sort(lost, {}, &Launch::start_ps);
  const int64_t pending_ps = FindPending(host, lost);
  const DeviceOfLines devices(trace, host);
  std::map<std::tuple<uint32_t, bool, Launched>, LaunchGroup> groups;  // by plane
  std::vector<LostLaunch> found;
  for (const Launch& launch : lost) {
    const DeviceAnalysis* const device = devices.Find(launch.line);
    found.push_back({launch, device, launch.start_ps >= pending_ps});
    const uint32_t plane = device != nullptr ? device->plane.plane : trace.lines[launch.line].plane;
    groups[{plane, launch.start_ps >= pending_ps, launch.what}].Add(launch.start_ps);
  }
  for (const auto& [key, group] : groups) {
    const auto& [plane, is_pending, what] = key;
    analysis->diagnostics.Note(
        is_pending ? DiagnosticCode::kLaunchAtEnd : DiagnosticCode::kLaunchWithoutExecution,
        absl::StrCat(what == Launched::kGraph ? "graphs" : "kernels", " launched ", group.When(),
                     InFile(trace, trace.planes[plane].file)),
        {.plane = plane}, group.count);
  }
  MarkLostRuns(trace, *host.evidence, host.devices, found, launches_compared, analysis);
}

void AddLaunches(const Trace& trace, bool all_executions, Analysis* analysis) {
  std::vector<HostDevices> hosts;
  for (DeviceAnalysis& device : analysis->devices) {
    if (device.launches == nullptr) continue;
    const LaunchCheck& check = *device.launches;
    const uint32_t plane = device.plane.plane;
    analysis->diagnostics.Count(DiagnosticCode::kWithoutLaunch, {.plane = plane},
                                check.without_launch());
    if (const LaunchCheck::Early& early = check.early(); early.count > 0) {
      analysis->diagnostics.Note(DiagnosticCode::kStartsBeforeLaunch,
                                 absl::StrCat("by up to ", TimeText(early.most_ps),
                                              InFile(trace, trace.planes[plane].file)),
                                 {.plane = plane, .line = early.line}, early.count);
    }
    auto host = std::ranges::find(hosts, &check.evidence(), &HostDevices::evidence);
    if (host == hosts.end())
      host = hosts.insert(hosts.end(), HostDevices{&check.evidence(), {}, 0});
    host->devices.push_back(&device);
    host->with_events += HasEvents(trace, trace.planes[plane]) ? 1 : 0;
  }
  for (const HostDevices& host : hosts) {
    if (all_executions && host.with_events >= host.evidence->device_count) {
      AddLostLaunches(trace, host, analysis);
    }
  }
}

// ---- hosts without executions ---------------------------------------------------------------

struct IdleHost {
  uint32_t plane;  // of the host, with launches
  LaunchGroup launches;
};

// Hosts that launched kernels, and on whose devices the trace has no event.
std::vector<IdleHost> FindIdleHosts(const Trace& trace, int threads) {
  std::set<HostKey> with_devices;
  for (const DevicePlane& device : FindDevicePlanes(trace)) {
    const Plane& plane = trace.planes[device.plane];
    const bool is_host = plane.name.starts_with("/host:");
    if (!is_host && HasEvents(trace, plane)) with_devices.insert(MakeHostKey(plane));
  }
  std::set<HostKey> seen;
  std::vector<IdleHost> idle;
  for (uint32_t i = 0; i < trace.planes.size(); ++i) {
    const Plane& plane = trace.planes[i];
    const HostKey key = MakeHostKey(plane);
    if (!plane.name.starts_with("/host:") || with_devices.contains(key) || seen.contains(key)) {
      continue;
    }
    if (!gpu_runs::MayLaunch(plane)) continue;
    seen.insert(key);
    const auto evidence = gpu_runs::ReadHost(trace, i, threads);
    if (!evidence.ok()) continue;  // whoever reads the host for its times reports the damage
    IdleHost host = {i, {}};
    ComparedLaunches(trace, *evidence).ForEach([&](size_t /*index*/, const Launch& launch) {
      host.launches.Add(launch.start_ps);
    });
    if (host.launches.count > 0) idle.push_back(host);
  }
  return idle;
}

void AddIdleHosts(const Trace& trace, int threads, Analysis* analysis) {
  for (const IdleHost& host : FindIdleHosts(trace, threads)) {
    const Plane& plane = trace.planes[host.plane];
    analysis->launches_compared += host.launches.count;
    analysis->diagnostics.Note(
        DiagnosticCode::kLaunchWithoutExecution,
        absl::StrCat("kernels launched ", host.launches.When(), InFile(trace, plane.file),
                     plane.host.empty() ? "" : absl::StrCat(" by host ", Absl(plane.host)),
                     ", which has no executions at all"),
        {.plane = host.plane}, host.launches.count);
  }
}

// ---- impossible durations, counters -------------------------------------------------------

// The latest end of any event of the host of a device; empty: it has no events.
std::optional<int64_t> LastEventOfHost(const Trace& trace, const Plane& own) {
  std::optional<int64_t> last_ps;
  const auto planes = IndexPlanes(trace);
  for (const uint32_t index : planes->HostPlanes(own)) {
    const Plane& plane = trace.planes[index];
    for (uint32_t line = plane.first_line; line < plane.first_line + plane.line_count; ++line) {
      Diagnostics unusual;
      VisitEvents(trace, line, {}, &unusual, [&](const EventBatch& batch) {
        for (size_t row = 0; row < batch.size(); ++row) {
          if (batch.start_ps[row] == kNoTimePs) continue;
          const int64_t end_ps = batch.start_ps[row] + batch.duration_ps[row];
          last_ps = std::max(last_ps.value_or(end_ps), end_ps);
        }
        return absl::OkStatus();
      }).IgnoreError();
    }
  }
  return last_ps;
}

// The last execution of a stream, if the host recorded no event that late. Without a host, the end
// of the recording is unknown.
bool OutlastsHost(const Trace& trace, const Plane& plane, const StreamOrder::Found& found) {
  const std::optional<int64_t> last_ps = LastEventOfHost(trace, plane);
  if (!last_ps.has_value()) return false;
  const Interval others = {found.others.start_ps, std::max(found.others.end_ps, *last_ps)};
  return StreamOrder::IsFarBeyond(found.start_ps + found.duration_ps, others);
}

void AddImpossible(const Trace& trace, DeviceAnalysis* device, Diagnostics* diagnostics) {
  const Plane& plane = trace.planes[device->plane.plane];
  for (const auto& [found, index] : device->impossible) {
    if (found.is_last && !OutlastsHost(trace, plane, found)) continue;
    KernelCell& cell = device->cells[index];
    cell.impossible += found.count;
    // The name of a kernel may be long: it comes last.
    const std::string contradiction =
        found.is_last
            ? "everything else in the trace ends long before it"
            : absl::StrCat(found.later, " later executions of its stream overlap it by up to ",
                           TimeText(found.overlap_ps));
    diagnostics->Note(
        DiagnosticCode::kImpossibleDuration,
        absl::StrCat(TimeText(found.duration_ps), " on ",
                     Absl(trace.lines[found.key.line].shown_name()), InFile(trace, plane.file),
                     ", although ", contradiction, ": ", device->tables->ops[cell.op].kernel),
        {.plane = device->plane.plane, .line = found.key.line}, found.count);
  }
}

// Samples of counters but those of power, which `energy` reads.
void AddCounters(const Trace& trace, const DevicePlane& device, Diagnostics* diagnostics) {
  const Plane& plane = trace.planes[device.plane];
  std::vector<uint8_t> is_counter;
  for (const EventMetadata& entry : plane.event_metadata.entries) {
    is_counter.push_back(IsPowerCounter(entry.name) ? 0 : 1);
  }
  for (uint32_t line = plane.first_line; line < plane.first_line + plane.line_count; ++line) {
    if (trace.lines[line].event_count == 0) continue;
    if (RulesOf(device.kind).role(trace.lines[line].name) != LineRole::kCounter) continue;
    uint64_t samples = 0;
    Diagnostics unusual;
    VisitEvents(trace, line, {}, &unusual, [&](const EventBatch& batch) {
      for (const uint32_t entry : batch.metadata) {
        samples += entry == kNoMetadata || is_counter[entry] != 0 ? 1 : 0;
      }
      return absl::OkStatus();
    }).IgnoreError();
    diagnostics->Count(DiagnosticCode::kCountersNotRead, {.plane = device.plane, .line = line},
                       samples);
  }
}

}  // namespace

void AddCompleteness(const Trace& trace, const Selection& selection, const ReportOptions& options,
                     Analysis* analysis) {
  const bool all_executions =
      options.min_duration_ps.value_or(0) <= 0 && !options.max_events.has_value();
  AddLaunches(trace, all_executions, analysis);
  const bool all_devices = selection.text.empty() || selection.text == "all";
  if (all_devices) AddIdleHosts(trace, options.threads, analysis);
  for (DeviceAnalysis& device : analysis->devices) {
    device.launches.reset();
    AddImpossible(trace, &device, &analysis->diagnostics);
  }
  std::set<uint32_t> planes;  // a host has several devices
  for (const DeviceAnalysis& device : analysis->devices) {
    const bool is_new = planes.insert(device.plane.plane).second;
    if (is_new && !RulesOf(device.plane.kind).is_host) {
      AddCounters(trace, device.plane, &analysis->diagnostics);
    }
  }
}

std::string DescribeLostLaunches(const Trace& trace, int threads) {
  std::string text;
  for (const IdleHost& host : FindIdleHosts(trace, threads)) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", host.launches.count, " launches of kernels",
                    InFile(trace, trace.planes[host.plane].file), " (", host.launches.When(),
                    ") have no execution: the profiler lost the records of the kernels");
  }
  return text;
}

}  // namespace xplane_time
