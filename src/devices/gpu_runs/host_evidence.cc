#include "devices/gpu_runs/host_evidence.h"

#include <algorithm>
#include <memory>
#include <span>

#include "devices/device_kind.h"
#include "parallel.h"
#include "sort_parts.h"
#include "status.h"
#include "xplane_time/read.h"

namespace xplane_time::gpu_runs {
namespace {

constexpr std::string_view kModuleSuffix = ":XLA GPU module";
enum HostColumn : size_t { kCorrelationId, kModuleName, kStepNumber };
constexpr std::string_view kStats[] = {"correlation_id", "module_name", "step_num"};

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

// A part of a host's lines, and what is known of its plane's event metadata.
struct HostPart {
  uint32_t line;
  const LinePart* part;
  struct Entries {
    std::vector<uint8_t> is_execution, wanted;  // by entry
  };
  std::shared_ptr<const Entries> entries;
};

// What one part tells. Texts are views into the trace.
struct PartEvidence {
  using Executions = absl::flat_hash_map<absl::string_view, std::vector<HostEvidence::Execution>>;
  Executions outer, inner;  // by the event's name, by its stat
  LaunchTable launches;
  std::vector<HostEvidence::Step> steps;
};

void AddSteps(const EventBatch& batch, std::vector<HostEvidence::Step>* steps) {
  for (size_t row = 0; row < batch.size(); ++row) {
    const StatValue number = batch.Stat(kStepNumber, row);
    const int64_t start_ps = batch.start_ps[row];
    if (start_ps == kNoTimePs || !IsInteger(number.type)) continue;
    steps->push_back(
        {{start_ps, start_ps + batch.duration_ps[row]}, static_cast<int64_t>(number.bits)});
  }
}

absl::Status ReadPart(const Trace& trace, const HostPart& host, PartEvidence* found) {
  const Line& line = trace.lines[host.line];
  const Plane& plane = trace.planes[line.plane];
  const EventChoice choice = {
      .metadata = host.entries->wanted, .stats = std::size(kStats), .part = host.part};
  Diagnostics host_events;
  const auto visit = [&](const EventBatch& batch) {
    const auto any = [&](size_t column) {
      return !batch.stats[column].empty() || batch.InMetadata(column);
    };
    const bool any_id = any(kCorrelationId), any_module = any(kModuleName);
    if (any(kStepNumber)) AddSteps(batch, &found->steps);
    for (size_t row = 0; row < batch.size(); ++row) {
      const uint32_t metadata = batch.metadata[row];
      const int64_t start_ps = batch.start_ps[row];
      if (start_ps == kNoTimePs || metadata == kNoMetadata) continue;
      const HostEvidence::Execution execution = {line.timeline,
                                                 {start_ps, start_ps + batch.duration_ps[row]}};
      if (host.entries->is_execution[metadata] != 0) {
        std::string_view name = plane.event_metadata.entries[metadata].name;
        name.remove_suffix(kModuleSuffix.size());
        found->outer[Absl(name)].push_back(execution);
      } else if (any_module) {
        const StatValue module = batch.Stat(kModuleName, row);
        if (!module.text.empty()) found->inner[Absl(module.text)].push_back(execution);
      }
      const uint64_t id = any_id ? batch.Stat(kCorrelationId, row).bits : 0;
      if (id != 0) found->launches.Add(id, {start_ps, line.timeline});
    }
    return absl::OkStatus();
  };
  return VisitEvents(trace, host.line, kStats, &host_events, visit, choice);
}

void Append(const PartEvidence::Executions& from, Executions* to) {
  for (const auto& [module, list] : from) {
    auto& all = (*to)[module];
    all.insert(all.end(), list.begin(), list.end());
  }
}

std::vector<HostPart> HostParts(const Trace& trace, const Plane& own) {
  std::vector<HostPart> parts;
  for (const Plane& plane : trace.planes) {
    if (plane.file != own.file || plane.host != own.host) continue;
    if (!plane.name.starts_with("/host:")) continue;
    auto entries = std::make_shared<HostPart::Entries>();
    entries->wanted = EntriesWith(plane, kStats);
    for (const EventMetadata& metadata : plane.event_metadata.entries) {
      const bool is_execution = metadata.name.ends_with(kModuleSuffix);
      if (is_execution) entries->wanted[entries->is_execution.size()] = 1;
      entries->is_execution.push_back(is_execution ? 1 : 0);
    }
    for (uint32_t i = plane.first_line; i < plane.first_line + plane.line_count; ++i) {
      for (const LinePart& part : trace.lines[i].parts) parts.push_back({i, &part, entries});
    }
  }
  return parts;
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
  const std::vector<HostPart> parts = HostParts(trace, own);
  std::vector<PartEvidence> found(parts.size());
  std::vector<absl::Status> status(parts.size());
  ParallelFor(parts.size(), threads,
              [&](size_t i) { status[i] = ReadPart(trace, parts[i], &found[i]); });
  HostEvidence evidence;
  evidence.device_count = CountGpus(trace, own);
  Executions by_stat;
  for (size_t i = 0; i < parts.size(); ++i) {
    RETURN_IF_ERROR(status[i]);
    const PartEvidence part = std::exchange(found[i], {});
    Append(part.outer, &evidence.executions);
    Append(part.inner, &by_stat);
    evidence.launches.AddAll(part.launches);
    evidence.marked_steps.insert(evidence.marked_steps.end(), part.steps.begin(), part.steps.end());
  }
  // Of the two events that mark an execution, the inner one is used where there is no
  // outer one.
  for (auto& [module, list] : by_stat) evidence.executions.try_emplace(module, std::move(list));
  Order(&evidence.executions);
  evidence.launches.Finish();
  return evidence;
}

}  // namespace

template <typename Id>
void LaunchList<Id>::Order() {
  const std::span<Entry> entries = entries_.values();
  SortParts(entries, [](const Entry& a, const Entry& b) { return a.id < b.id; });
  size_t count = 0;
  for (const Entry& entry : entries) {
    if (count > 0 && entries[count - 1].id == entry.id) {
      Entry& first = entries[count - 1];
      first = {std::min(first.start_ps, entry.start_ps), first.id, kAmbiguous};
    } else {
      entries[count++] = entry;
    }
  }
  entries_.Shrink(count);
}

template <typename Id>
auto LaunchList<Id>::At(Id id, size_t* place) const -> const Entry* {
  const std::span<const Entry> entries = entries_.values();
  const auto before = [&](const Entry& entry) { return entry.id < id; };
  // Strides that double, to either side of the place, and a search in between.
  size_t low = std::min(*place, entries.size()), high = low, stride = 1;
  while (low > 0 && !before(entries[low - 1])) {
    high = low - 1;
    low -= std::min(low, std::exchange(stride, 2 * stride));
  }
  stride = 1;
  while (high < entries.size() && before(entries[high])) {
    low = high + 1;
    high = std::min(entries.size(), high + std::exchange(stride, 2 * stride));
  }
  const auto at = static_cast<size_t>(
      std::partition_point(entries.begin() + static_cast<std::ptrdiff_t>(low),
                           entries.begin() + static_cast<std::ptrdiff_t>(high), before) -
      entries.begin());
  *place = at;
  return at < entries.size() && entries[at].id == id ? &entries[at] : nullptr;
}

template <typename Id>
std::optional<Launch> LaunchList<Id>::Find(Id id, size_t* place) const {
  const Entry* const entry = At(id, place);
  if (entry == nullptr || entry->line == kAmbiguous) return std::nullopt;
  return Launch{entry->start_ps, entry->line};
}

template <typename Id>
std::optional<int64_t> LaunchList<Id>::EarliestStartPs(Id id, size_t* place) const {
  const Entry* const entry = At(id, place);
  return entry == nullptr ? std::nullopt : std::optional(entry->start_ps);
}

template class LaunchList<uint32_t>;
template class LaunchList<uint64_t>;

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
