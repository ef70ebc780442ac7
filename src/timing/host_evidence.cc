// CollectHostEvidence: launches and module executions that the host recorded.
#include "timing/host_evidence.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "parallel.h"
#include "xplane_time/read.h"

namespace xplane_time {
namespace {

constexpr std::string_view kModuleSuffix = ":XLA GPU module";
enum HostColumn : size_t { kCorrelationId, kModuleName };
constexpr std::string_view kStats[] = {"correlation_id", "module_name"};

using Executions = absl::flat_hash_map<std::string, std::vector<HostEvidence::Execution>>;

// Ordered by start, with the furthest end so far.
void Order(Executions* executions) {
  for (auto& [module, list] : *executions) {
    std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
      return a.interval.start_ps < b.interval.start_ps;
    });
    int64_t furthest = kNoTimePs;
    for (HostEvidence::Execution& execution : list) {
      furthest = std::max(furthest, execution.interval.end_ps);
      execution.furthest_end_ps = furthest;
    }
  }
}

// A line of a host, and which of its plane's event metadata name module executions.
struct HostLine {
  uint32_t line;
  std::shared_ptr<const std::vector<bool>> is_execution;
};

// What one line tells.
class LineEvidence {
 public:
  absl::Status Read(const Trace& trace, const HostLine& host) {
    const Line& line = trace.lines[host.line];
    const Plane& plane = trace.planes[line.plane];
    Diagnostics host_events;
    return VisitEvents(trace, host.line, kStats, &host_events, [&](const EventBatch& batch) {
      const bool any_id = !batch.stats[kCorrelationId].empty() || batch.InMetadata(kCorrelationId);
      const bool any_module = !batch.stats[kModuleName].empty() || batch.InMetadata(kModuleName);
      for (size_t row = 0; row < batch.size(); ++row) {
        const uint32_t metadata = batch.metadata[row];
        if (batch.start_ps[row] == kNoTimePs || metadata == kNoMetadata) continue;
        const bool is_execution = (*host.is_execution)[metadata];
        if (is_execution) {
          AddExecution(plane.event_metadata.entries[metadata].name, line, batch, row);
        }
        if (any_module && !is_execution) AddInner(line, batch, row);
        if (any_id) AddLaunch(line, batch, row);
      }
      return absl::OkStatus();
    });
  }

  void MoveTo(HostEvidence* evidence, Executions* by_stat) {
    Append(&outer_, &evidence->executions);
    Append(&inner_, by_stat);
    evidence->launches.AddAll(launches_);
    launches_ = LaunchTable();
  }

 private:
  static Interval IntervalOf(const EventBatch& batch, size_t row) {
    return {batch.start_ps[row], batch.start_ps[row] + batch.duration_ps[row]};
  }

  void AddExecution(std::string_view name, const Line& line, const EventBatch& batch, size_t row) {
    name.remove_suffix(kModuleSuffix.size());
    outer_[std::string(name)].push_back({line.timeline, IntervalOf(batch, row)});
  }

  void AddInner(const Line& line, const EventBatch& batch, size_t row) {
    const StatValue module = batch.Stat(kModuleName, row);
    if (module.text.empty()) return;
    inner_[std::string(module.text)].push_back({line.timeline, IntervalOf(batch, row)});
  }

  void AddLaunch(const Line& line, const EventBatch& batch, size_t row) {
    const uint64_t id = batch.Stat(kCorrelationId, row).bits;
    if (id != 0) launches_.Add(id, {batch.start_ps[row], line.timeline});
  }

  static void Append(Executions* from, Executions* to) {
    for (auto& [module, list] : *from) {
      auto& all = (*to)[module];
      all.insert(all.end(), list.begin(), list.end());
    }
    from->clear();
  }

  Executions outer_, inner_;  // by the event's name, by its stat
  LaunchTable launches_;
};

std::vector<HostLine> HostLines(const Trace& trace, const Plane& own) {
  std::vector<HostLine> lines;
  for (const Plane& plane : trace.planes) {
    if (plane.file != own.file || plane.host != own.host) continue;
    if (!plane.name.starts_with("/host:")) continue;
    auto is_execution = std::make_shared<std::vector<bool>>();
    for (const EventMetadata& metadata : plane.event_metadata.entries) {
      is_execution->push_back(metadata.name.ends_with(kModuleSuffix));
    }
    for (uint32_t i = 0; i < plane.line_count; ++i) {
      lines.push_back({plane.first_line + i, is_execution});
    }
  }
  return lines;
}

size_t CountGpus(const Trace& trace, const Plane& own) {
  size_t count = 0;
  for (const DevicePlane& other : FindDevicePlanes(trace)) {
    const Plane& plane = trace.planes[other.plane];
    if (plane.file != own.file || plane.host != own.host || other.kind != DeviceKind::kGpu) {
      continue;
    }
    const auto lines = std::span(trace.lines).subspan(plane.first_line, plane.line_count);
    count += std::any_of(lines.begin(), lines.end(),
                         [](const Line& line) { return line.event_count > 0; });
  }
  return count;
}

}  // namespace

absl::StatusOr<HostEvidence> CollectHostEvidence(const Trace& trace, const DevicePlane& device,
                                                 int threads) {
  const Plane& own = trace.planes[device.plane];
  const std::vector<HostLine> lines = HostLines(trace, own);
  std::vector<LineEvidence> found(lines.size());
  std::vector<absl::Status> status(lines.size());
  ParallelFor(lines.size(), threads, [&](size_t i) { status[i] = found[i].Read(trace, lines[i]); });
  HostEvidence evidence;
  evidence.device_count = CountGpus(trace, own);
  Executions by_stat;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!status[i].ok()) return status[i];
    found[i].MoveTo(&evidence, &by_stat);
  }
  // Of the two events that mark an execution, the inner one is used where there is no
  // outer one.
  for (auto& [module, list] : by_stat) evidence.executions.try_emplace(module, std::move(list));
  Order(&evidence.executions);
  evidence.launches.Finish();
  return evidence;
}

}  // namespace xplane_time
