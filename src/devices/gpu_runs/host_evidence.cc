#include "devices/gpu_runs/host_evidence.h"

#include <algorithm>
#include <memory>
#include <span>

#include "parallel.h"
#include "status.h"
#include "xplane_time/read.h"

namespace xplane_time::gpu_runs {
namespace {

constexpr std::string_view kModuleSuffix = ":XLA GPU module";
enum HostColumn : size_t { kCorrelationId, kModuleName };
constexpr std::string_view kStats[] = {"correlation_id", "module_name"};

using Executions = HostEvidence::Executions;

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

absl::StatusOr<HostEvidence> Collect(const Trace& trace, const Plane& own, int threads) {
  const std::vector<HostLine> lines = HostLines(trace, own);
  std::vector<LineEvidence> found(lines.size());
  std::vector<absl::Status> status(lines.size());
  ParallelFor(lines.size(), threads, [&](size_t i) { status[i] = found[i].Read(trace, lines[i]); });
  HostEvidence evidence;
  evidence.device_count = CountGpus(trace, own);
  Executions by_stat;
  for (size_t i = 0; i < lines.size(); ++i) {
    RETURN_IF_ERROR(status[i]);
    found[i].MoveTo(&evidence, &by_stat);
  }
  // Of the two events that mark an execution, the inner one is used where there is no
  // outer one.
  for (auto& [module, list] : by_stat) evidence.executions.try_emplace(module, std::move(list));
  Order(&evidence.executions);
  evidence.launches.Finish();
  return evidence;
}

}  // namespace

std::optional<size_t> HostEvidence::ExecutionOf(const std::string& module, uint64_t correlation_id,
                                                LaunchTable::Place* place) const {
  const auto of_module = executions.find(module);
  if (of_module == executions.end() || correlation_id == 0) return std::nullopt;
  const std::optional<Launch> launch = launches.Find(correlation_id, place);
  if (!launch.has_value()) return std::nullopt;
  const std::vector<Execution>& list = of_module->second;
  const auto begun = std::upper_bound(list.begin(), list.end(), launch->start_ps,
                                      [](int64_t time_ps, const Execution& execution) {
                                        return time_ps < execution.interval.start_ps;
                                      });
  // Past so many that are over before the launch, nothing is known: an execution that is
  // open for very long says little about what it contains.
  constexpr size_t kMostSteps = 1024;
  std::optional<size_t> found;
  size_t count = 0;
  auto at = static_cast<size_t>(begun - list.begin());
  for (size_t steps = 0; at > 0; ++steps) {
    if (steps == kMostSteps) return std::nullopt;
    const Execution& execution = list[--at];
    if (execution.furthest_end_ps <= launch->start_ps) break;
    if (execution.interval.end_ps <= launch->start_ps) continue;
    if (execution.line == launch->line) return at;
    found = at;
    ++count;
  }
  return count == 1 ? found : std::nullopt;
}

EvidenceStore::EvidenceStore(const Trace& trace, const std::vector<DevicePlane>& devices,
                             int threads)
    : trace_(trace), threads_(threads) {
  for (const DevicePlane& device : devices) hosts_[HostOf(device)];
}

absl::StatusOr<const HostEvidence*> EvidenceStore::Of(const DevicePlane& device) {
  Host& host = hosts_.at(HostOf(device));
  // Not std::call_once: what is thrown (out of memory) must get through it.
  const std::lock_guard<std::mutex> lock(host.mutex);
  if (!host.evidence.has_value()) {
    host.evidence = Collect(trace_, trace_.planes[device.plane], threads_);
  }
  if (!host.evidence->ok()) return host.evidence->status();
  return &**host.evidence;
}

ScopeRoots::ScopeRoots(const Trace& trace, uint32_t plane) {
  for (const Plane& scopes : trace.planes) {
    if (scopes.file != trace.planes[plane].file) continue;
    if (!scopes.name.starts_with("/host:__ScopeRangeCallStack__")) continue;
    for (const Stat& stat : scopes.stats) {
      parent_[stat.metadata_id] = static_cast<int64_t>(stat.value.bits);
    }
  }
}

// Remembers the roots of what it passes.
int64_t ScopeRoots::Find(int64_t scope) {
  std::vector<int64_t> path;
  absl::flat_hash_map<int64_t, size_t> place;  // in the path
  int64_t root = scope;
  for (;;) {
    const auto known = root_.find(root);
    if (known != root_.end()) {
      root = known->second;
      break;
    }
    const auto [before, inserted] = place.try_emplace(root, path.size());
    if (!inserted) {
      root = *std::min_element(path.begin() + static_cast<ptrdiff_t>(before->second), path.end());
      break;
    }
    path.push_back(root);
    const auto parent = parent_.find(root);
    if (parent == parent_.end() || parent->second == 0) break;
    root = parent->second;
  }
  for (const int64_t passed : path) root_[passed] = root;
  return root;
}

}  // namespace xplane_time::gpu_runs
