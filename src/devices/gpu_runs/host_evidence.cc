#include "devices/gpu_runs/host_evidence.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <span>

#include "absl/strings/str_cat.h"
#include "devices/device_kind.h"
#include "devices/gpu_runs/host_calls.h"
#include "devices/gpu_runs/host_work.h"
#include "parallel.h"
#include "read/plane_index.h"
#include "sort_parts.h"
#include "status.h"
#include "xplane_time/normalize.h"
#include "xplane_time/read.h"

namespace xplane_time::gpu_runs {
namespace {

enum HostColumn : size_t { kCorrelationId, kModuleName, kStepNumber, kOfHost };

using ExecutionList = std::vector<HostEvidence::Execution>;

// All of them by start, with the furthest end so far.
ExecutionList Joined(std::span<const ExecutionList* const> lists) {
  ExecutionList all;
  size_t size = 0;
  for (const ExecutionList* list : lists) size += list->size();
  all.reserve(size);
  for (const ExecutionList* list : lists) all.insert(all.end(), list->begin(), list->end());
  SortParts(all,
            [](const auto& a, const auto& b) { return a.interval.start_ps < b.interval.start_ps; });
  int64_t furthest = kNoTimePs;
  for (HostEvidence::Execution& execution : all) {
    furthest = std::max(furthest, execution.interval.end_ps);
    execution.furthest_end_ps = furthest;
  }
  return all;
}

// The stats and names that are searched on the lines of a host's plane.
struct Wanted {
  // By HostColumn; the last one, that of executions of the host itself, may be missing.
  std::vector<std::string_view> stats = {"correlation_id", "module_name", "step_num"};
  // By entry of its event metadata.
  std::vector<uint8_t> entries, is_execution, of_host;
  // `entries` without executions of the host itself: enough once a line is known to have some.
  std::vector<uint8_t> entries_for_marks;
  struct RangeEntry {
    bool of_process = false;
    std::string_view function = {}, module = {};  // function; empty: unknown
  };
  std::vector<RangeEntry> ranges;  // empty: unknown
  std::vector<HostCall> calls;     // by entry
  bool records_captures = false;
  std::vector<HostWork> work;  // by entry
  // By entry: whether the event shows that the host does something, but not what. Functions of a
  // tracer of Python are left out: they are around everything.
  std::vector<uint8_t> is_unknown_work;
  std::vector<std::string_view> called;  // by entry: the function that it calls, or empty
  bool steps_by_name = false;
  std::vector<uint8_t> marks_step;  // if steps are by name
};

// Parts of a host's line.
struct HostParts {
  uint32_t line;
  std::span<const LinePart> parts;
  std::shared_ptr<const Wanted> wanted;
};

// The values of these stats. Texts are views into the trace.
struct PartEvidence {
  using Executions = absl::flat_hash_map<absl::string_view, ExecutionList>;
  Executions outer, inner;  // by the event's name; if the name is unknown, by its stat
  LaunchTable launches;
  std::vector<HostEvidence::Step> steps;
  std::vector<Interval> input_waits, other_work;
  struct Calls {
    size_t count = 0;
    int64_t end_ps = kNoTimePs;  // of the last outermost call
  };
  absl::flat_hash_map<std::string_view, Calls> calls;  // by function
  struct Range {
    uint32_t entry;
    Interval interval;
  };
  std::vector<Range> ranges;
  // The begins (1) and ends (-1) of stream captures.
  struct CaptureMark {
    int64_t time_ps;
    int step;
  };
  std::vector<CaptureMark> capture_marks;
  int64_t last_synchronization_ps = kNoTimePs, last_end_ps = kNoTimePs;
  std::vector<Interval> extents;  // by part
  bool any_of_host = false;
  // The last mark of a step on the line, and whether the host dispatched anything in it.
  Interval mark = {0, kNoTimePs};
  bool dispatched = false;
};

// What a host does in a marked step after it dispatched its work is not the input of that step:
//
//   |-- ProfilerStep#7 ------------------------| |-- ProfilerStep#8 ---
//    load   launch launch launch  save_metrics
//    input                        other work
//
// Events of unknown names before the first launch may be the input.
void AddAfterDispatch(const Wanted& wanted, uint32_t metadata, bool is_mark,
                      const Interval& interval, PartEvidence* found) {
  if (is_mark) {
    found->mark = interval;
    found->dispatched = false;
    return;
  }
  const bool is_inside =
      interval.start_ps >= found->mark.start_ps && interval.end_ps <= found->mark.end_ps;
  if (!is_inside) return;
  const HostCall call = wanted.calls[metadata];
  found->dispatched |= wanted.work[metadata] == HostWork::kDispatches ||
                       call == HostCall::kLaunchKernel || call == HostCall::kLaunchGraph;
  if (found->dispatched && wanted.is_unknown_work[metadata] != 0) {
    found->other_work.push_back(interval);
  }
}

void AddCall(HostCall call, const Interval& interval, PartEvidence* found) {
  if (call == HostCall::kBeginCapture) found->capture_marks.push_back({interval.start_ps, 1});
  if (call == HostCall::kEndCapture) found->capture_marks.push_back({interval.end_ps, -1});
  if (call == HostCall::kSynchronizeDevice) {
    found->last_synchronization_ps = std::max(found->last_synchronization_ps, interval.start_ps);
  }
}

// Events that lie in the one before are left out: calls of PyTorch's operators nest.
void AddWork(HostWork work, const Interval& interval, PartEvidence* found) {
  if (work == HostWork::kUnknown) return;
  std::vector<Interval>& list =
      work == HostWork::kWaitsForInput ? found->input_waits : found->other_work;
  const bool is_inside = !list.empty() && list.back().start_ps <= interval.start_ps &&
                         interval.end_ps <= list.back().end_ps;
  if (!is_inside) list.push_back(interval);
}

Launched WhatOf(HostCall call) {
  if (call == HostCall::kLaunchKernel) return Launched::kKernel;
  return call == HostCall::kLaunchGraph ? Launched::kGraph : Launched::kOther;
}

void AddSteps(const EventBatch& batch, std::vector<HostEvidence::Step>* steps) {
  for (size_t row = 0; row < batch.size(); ++row) {
    const StatValue number = batch.Stat(kStepNumber, row);
    const int64_t start_ps = batch.start_ps[row];
    if (start_ps == kNoTimePs || !IsInteger(number.type)) continue;
    steps->push_back({{start_ps, start_ps + batch.duration_ps[row]},
                      std::to_string(static_cast<int64_t>(number.bits))});
  }
}

void AddBatch(const Trace& trace, const HostParts& host, const EventBatch& batch,
              PartEvidence* found) {
  const Wanted& wanted = *host.wanted;
  const Line& line = trace.lines[host.line];
  const auto any = [&](size_t column) {
    return !batch.stats[column].empty() || batch.InMetadata(column);
  };
  const bool any_id = any(kCorrelationId), any_module = any(kModuleName);
  const bool any_of_host = batch.stats.size() > kOfHost && any(kOfHost);
  const bool any_step = any(kStepNumber);
  if (!wanted.steps_by_name && any_step) AddSteps(batch, &found->steps);
  for (size_t row = 0; row < batch.size(); ++row) {
    const uint32_t metadata = batch.metadata[row];
    const int64_t start_ps = batch.start_ps[row];
    if (start_ps == kNoTimePs || metadata == kNoMetadata) continue;
    const HostEvidence::Execution execution = {line.timeline,
                                               {start_ps, start_ps + batch.duration_ps[row]}};
    if (wanted.steps_by_name && wanted.marks_step[metadata] != 0) {
      const Plane& plane = trace.planes[line.plane];
      found->steps.push_back({execution.interval, EventName(plane, metadata, 0)});
    }
    AddWork(wanted.work[metadata], execution.interval, found);
    const bool is_mark =
        wanted.marks_step[metadata] != 0 ||
        (!wanted.steps_by_name && any_step && IsInteger(batch.Stat(kStepNumber, row).type));
    AddAfterDispatch(wanted, metadata, is_mark, execution.interval, found);
    if (!wanted.called[metadata].empty()) {
      PartEvidence::Calls& calls = found->calls[wanted.called[metadata]];
      const bool is_inside = calls.end_ps != kNoTimePs && start_ps < calls.end_ps;
      if (!is_inside) calls = {calls.count + 1, execution.interval.end_ps};
    }
    if (!wanted.ranges.empty() && !wanted.ranges[metadata].function.empty()) {
      found->ranges.push_back({metadata, execution.interval});
    }
    if (wanted.is_execution[metadata] != 0) {
      std::string_view name = trace.planes[line.plane].event_metadata.entries[metadata].name;
      name.remove_suffix(kModuleSuffix.size());
      found->outer[Absl(name)].push_back(execution);
    } else if (any_module) {
      const StatValue module = batch.Stat(kModuleName, row);
      const absl::string_view name = Absl(module.text);
      if (!name.empty() && !found->outer.contains(name)) found->inner[name].push_back(execution);
    }
    const uint64_t id = any_id ? batch.Stat(kCorrelationId, row).bits : 0;
    const HostCall call = wanted.calls[metadata];
    if (call > HostCall::kLaunchGraph) AddCall(call, execution.interval, found);
    if (wanted.of_host[metadata] == 0) {
      found->last_end_ps = std::max(found->last_end_ps, execution.interval.end_ps);
    }
    if (id != 0) found->launches.Add(id, {start_ps, line.timeline, WhatOf(call)});
    // With a correlation id it is a launch for another device.
    found->any_of_host |=
        wanted.of_host[metadata] != 0 ||
        (any_of_host && id == 0 && batch.Stat(kOfHost, row).type != StatType::kAbsent);
  }
}

absl::Status ReadParts(const Trace& trace, const HostParts& host, PartEvidence* found) {
  Diagnostics unusual;
  EventReader events(trace, host.wanted->stats, &unusual);
  for (const LinePart& part : host.parts) {
    const Wanted& wanted = *host.wanted;
    const bool marks_only = found->any_of_host;
    events.Start(host.line, {.metadata = marks_only ? wanted.entries_for_marks : wanted.entries,
                             .stats = marks_only ? size_t{kOfHost} : wanted.stats.size(),
                             .part = &part});
    for (;;) {
      ASSIGN_OR_RETURN(const EventBatch batch, events.Next());
      if (batch.size() == 0) break;
      AddBatch(trace, host, batch, found);
    }
    if (!host.wanted->entries.empty()) found->extents.push_back(events.extent());
  }
  found->any_of_host |= !unusual.List().empty();
  return absl::OkStatus();
}

// If two events mark an execution, the outer one is used; the inner one is used if there is no
// outer one.
HostEvidence::Executions ExecutionsIn(std::span<const PartEvidence> parts) {
  absl::flat_hash_map<absl::string_view, std::vector<const ExecutionList*>> outer, inner;
  for (const PartEvidence& part : parts) {
    for (const auto& [module, list] : part.outer) outer[module].push_back(&list);
    for (const auto& [module, list] : part.inner) inner[module].push_back(&list);
  }
  outer.merge(inner);
  HostEvidence::Executions executions;
  for (const auto& [module, lists] : outer) executions.try_emplace(module, Joined(lists));
  return executions;
}

// The names of a plane that are ranges; empty: no ranges.
std::vector<Wanted::RangeEntry> RangeEntries(const Plane& plane) {
  if (!HasStat(plane, kThreadRangeStat) && !HasStat(plane, kProcessRangeStat)) return {};
  absl::flat_hash_map<int64_t, std::string_view> stat_names;
  for (const StatMetadata& stat : plane.stat_metadata.entries) stat_names[stat.id] = stat.name;
  std::vector<Wanted::RangeEntry> ranges;
  for (const EventMetadata& entry : plane.event_metadata.entries) {
    Wanted::RangeEntry& range = ranges.emplace_back();
    for (const Stat& stat :
         std::span(plane.metadata_stats).subspan(entry.first_stat, entry.stat_count)) {
      const auto name = stat_names.find(stat.metadata_id);
      if (name == stat_names.end()) continue;
      if (name->second == kModuleStat) range.module = stat.value.text;
      range.of_process |= name->second == kProcessRangeStat;
      if (name->second == kThreadRangeStat || name->second == kProcessRangeStat) {
        range.function = stat.value.text;
      }
    }
  }
  return ranges;
}

std::vector<const Plane*> FindGpusOfHost(const Trace& trace, const Plane& own) {
  std::vector<const Plane*> gpus;
  const auto index = IndexPlanes(trace);
  for (const uint32_t other : index->OfHost(own)) {
    std::optional<int64_t> ordinal;
    const KindRules* const rules = FindKindOfPlane(trace.planes[other].name, &ordinal);
    if (rules != nullptr && rules->kind == DeviceKind::kGpu) gpus.push_back(&trace.planes[other]);
  }
  return gpus;
}

// The names on the GPUs of a host.
using DeviceNames = absl::flat_hash_set<std::string_view>;
DeviceNames NamesOnDevices(const Trace& trace, const Plane& own) {
  DeviceNames names;
  for (const Plane* const plane : FindGpusOfHost(trace, own)) {
    for (const EventMetadata& entry : plane->event_metadata.entries) {
      names.insert(entry.name);
      names.insert(entry.shown_name());
    }
  }
  return names;
}

// PyTorch's categories: there launches have the names of calls, and captures are recorded.
bool HasCategories(const Plane& plane) { return HasStat(plane, "category"); }

// By entry of a host's plane. The launch of a kernel may have its name: one that the devices know,
// if they executed anything.
std::vector<HostCall> CallsOn(const Plane& plane, const DeviceNames& on_devices) {
  const bool by_kernel = !HasCategories(plane) && HasStat(plane, "correlation_id");
  std::vector<HostCall> calls;
  for (const EventMetadata& entry : plane.event_metadata.entries) {
    HostCall& call = calls.emplace_back(ClassifyHostCall(entry.name));
    if (call != HostCall::kOther || !by_kernel || !MayNameKernel(entry.name)) continue;
    if (on_devices.empty() || on_devices.contains(entry.name)) call = HostCall::kLaunchKernel;
  }
  return calls;
}

std::shared_ptr<const Wanted> WantedOn(const Plane& plane, const DeviceNames& on_devices,
                                       const EvidenceStore::IsStep& is_step) {
  std::optional<int64_t> ignored;
  const KindRules* kind = FindKindOfPlane(plane.name, &ignored);
  auto wanted = std::make_shared<Wanted>();
  const bool executes = kind != nullptr && !kind->needed_stat.empty();
  wanted->entries = EntriesWith(plane, wanted->stats);
  if (executes) wanted->stats.push_back(kind->needed_stat);
  wanted->ranges = RangeEntries(plane);
  wanted->steps_by_name = static_cast<bool>(is_step);
  wanted->of_host.resize(wanted->entries.size());
  if (executes) wanted->of_host = EntriesWorthReading(plane, *kind);
  wanted->calls = CallsOn(plane, on_devices);
  const auto is_capture = [](HostCall call) { return call == HostCall::kBeginCapture; };
  wanted->records_captures = HasCategories(plane) || std::ranges::any_of(wanted->calls, is_capture);
  const bool may_have_marks = wanted->steps_by_name || HasStat(plane, "step_num");
  for (size_t i = 0; i < wanted->entries.size(); ++i) {
    const bool is_execution = plane.event_metadata.entries[i].name.ends_with(kModuleSuffix);
    wanted->is_execution.push_back(is_execution ? 1 : 0);
    const bool is_range = !wanted->ranges.empty() && !wanted->ranges[i].function.empty();
    const bool is_call = wanted->calls[i] > HostCall::kLaunchGraph;
    const std::string_view name = plane.event_metadata.entries[i].shown_name();
    // In PyTorch traces only annotations mark steps.
    const bool may_mark = wanted->ranges.empty() || (is_range && wanted->ranges[i].module.empty());
    const bool marks_step = wanted->steps_by_name && may_mark && is_step(name);
    wanted->marks_step.push_back(marks_step ? 1 : 0);
    wanted->work.push_back(ClassifyHostWork(name));
    wanted->called.push_back(FindCalledFunction(name));
    const bool is_work = wanted->work[i] != HostWork::kUnknown;
    const bool is_unknown_work = may_have_marks && !is_execution && !is_range && !marks_step &&
                                 !is_work && !is_call && wanted->of_host[i] == 0 &&
                                 WithoutPlace(name) == name;
    wanted->is_unknown_work.push_back(is_unknown_work ? 1 : 0);
    if (is_execution || is_range || marks_step || is_work || is_call || is_unknown_work)
      wanted->entries[i] = 1;
  }
  wanted->entries_for_marks = wanted->entries;
  for (size_t i = 0; i < wanted->entries.size(); ++i) wanted->entries[i] |= wanted->of_host[i];
  return wanted;
}

// Parts that are read one after the other.
std::vector<HostParts> PartsOfHost(const Trace& trace, const Plane& own,
                                   const EvidenceStore::IsStep& is_step) {
  constexpr uint64_t kEnoughBytes = uint64_t{1} << 20;
  const DeviceNames on_devices = NamesOnDevices(trace, own);
  std::vector<HostParts> host_parts;
  const auto index = IndexPlanes(trace);
  for (const uint32_t plane_index : index->HostPlanes(own)) {
    const Plane& plane = trace.planes[plane_index];
    const std::shared_ptr<const Wanted> wanted = WantedOn(plane, on_devices, is_step);
    for (uint32_t i = plane.first_line; i < plane.first_line + plane.line_count; ++i) {
      const std::span<const LinePart> parts = trace.lines[i].parts;
      size_t first = 0;
      uint64_t bytes = 0;
      for (size_t end = 1; end <= parts.size(); ++end) {
        bytes += parts[end - 1].bytes.size;
        if (bytes < kEnoughBytes && end < parts.size()) continue;
        host_parts.push_back({i, parts.subspan(first, end - first), wanted});
        first = end;
        bytes = 0;
      }
    }
  }
  return host_parts;
}

size_t CountGpus(const Trace& trace, const Plane& own) {
  return static_cast<size_t>(std::ranges::count_if(
      FindGpusOfHost(trace, own), [&](const Plane* plane) { return HasEvents(trace, *plane); }));
}

absl::flat_hash_map<uint32_t, uint32_t> ThreadsOf(const Trace& trace,
                                                  std::span<const HostParts> hosts) {
  absl::flat_hash_map<uint32_t, uint32_t> threads;
  absl::flat_hash_map<std::pair<uint32_t, int64_t>, uint32_t> first;
  for (const HostParts& host : hosts) {
    const Line& line = trace.lines[host.line];
    if (host.wanted->ranges.empty() || line.display_id == 0) continue;
    threads[line.timeline] =
        first.try_emplace({line.plane, line.display_id}, line.timeline).first->second;
  }
  return threads;
}

void AddRanges(const Trace& trace, const HostParts& host,
               std::span<const PartEvidence::Range> found, HostEvidence* evidence) {
  HostRanges* const ranges = &evidence->ranges;
  const Line& line = trace.lines[host.line];
  absl::flat_hash_map<uint32_t, uint32_t> names;  // by entry
  for (const PartEvidence::Range& each : found) {
    const Wanted::RangeEntry& entry = host.wanted->ranges[each.entry];
    const auto [name, is_new] = names.try_emplace(each.entry, 0);
    if (is_new) {
      name->second = ranges->NameId({std::string(entry.function), std::string(entry.module)});
    }
    const uint32_t owner = entry.of_process ? line.plane : evidence->ThreadOf(line.timeline);
    ranges->Add({{entry.of_process, owner}, name->second, each.interval});
  }
}

// Merges everything except the executions, which are sorted over all parts together.
void MoveInto(const Trace& trace, const HostParts& host, PartEvidence* part,
              HostEvidence* evidence) {
  evidence->launches.AddAll(std::exchange(part->launches, {}));
  evidence->records_captures |= host.wanted->records_captures;
  evidence->last_synchronization_ps =
      std::max(evidence->last_synchronization_ps, part->last_synchronization_ps);
  evidence->last_end_ps = std::max(evidence->last_end_ps, part->last_end_ps);
  AddRanges(trace, host, std::exchange(part->ranges, {}), evidence);
  const auto append = [](auto* from, auto* to) {
    to->insert(to->end(), std::make_move_iterator(from->begin()),
               std::make_move_iterator(from->end()));
    from->clear();
  };
  for (const auto& [function, calls] : part->calls) {
    evidence->calls[absl::StrCat("jit_", Absl(function))] += calls.count;
  }
  append(&part->steps, &evidence->marked_steps);
  append(&part->input_waits, &evidence->input_waits);
  append(&part->other_work, &evidence->other_work);
  if (part->any_of_host) evidence->with_host_executions.insert(host.line);
  for (size_t k = 0; k < part->extents.size(); ++k) {
    evidence->extents[&host.parts[k]] = part->extents[k];
  }
}

// From the marks of each plane, in any order. A capture that begins before the trace, or ends after
// it, has no mark there.
std::vector<HostEvidence::Capture> CapturesIn(const Trace& trace, std::span<const HostParts> hosts,
                                              std::span<const PartEvidence> found) {
  std::map<uint32_t, std::vector<PartEvidence::CaptureMark>> marks;  // by plane
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (found[i].capture_marks.empty()) continue;
    auto& own = marks[trace.lines[hosts[i].line].plane];
    own.insert(own.end(), found[i].capture_marks.begin(), found[i].capture_marks.end());
  }
  std::vector<HostEvidence::Capture> captures;
  for (auto& [plane, own] : marks) {
    std::ranges::stable_sort(own, {}, &PartEvidence::CaptureMark::time_ps);
    int open = 0, fewest = 0;
    for (const auto& mark : own) fewest = std::min(fewest, open += mark.step);
    open = -fewest;  // at the beginning of the trace
    int64_t begin_ps = -kAxisLimitPs;
    for (const auto& mark : own) {
      if (open == 0) begin_ps = mark.time_ps;
      open += mark.step;
      if (open == 0) captures.push_back({plane, {begin_ps, mark.time_ps}});
    }
    if (open > 0) captures.push_back({plane, {begin_ps, kAxisLimitPs}});
  }
  return captures;
}

absl::StatusOr<HostEvidence> Collect(const Trace& trace, const Plane& own, int threads,
                                     const EvidenceStore::IsStep& is_step) {
  const std::vector<HostParts> parts = PartsOfHost(trace, own, is_step);
  std::vector<PartEvidence> found(parts.size());
  std::vector<absl::Status> status(parts.size());
  HostEvidence evidence;
  evidence.device_count = CountGpus(trace, own);
  evidence.threads = ThreadsOf(trace, parts);
  ParallelForThenInOrder(
      parts.size(), threads, [&](size_t i) { status[i] = ReadParts(trace, parts[i], &found[i]); },
      [&](size_t i) { MoveInto(trace, parts[i], &found[i], &evidence); });
  for (const absl::Status& each : status) {
    RETURN_IF_ERROR(each);
  }
  evidence.input_waits = MergeIntervals(std::move(evidence.input_waits));
  evidence.other_work =
      Without(MergeIntervals(std::move(evidence.other_work)), evidence.input_waits);
  evidence.executions = ExecutionsIn(found);
  evidence.captures = CapturesIn(trace, parts, found);
  evidence.launches.Finish();
  evidence.ranges.Order();
  return evidence;
}

}  // namespace

// The first element that is not `before`, like std::partition_point. Fast if it is near `place`.
template <typename T, typename Before>
size_t PartitionPointNear(size_t place, std::span<const T> values, const Before& before) {
  // Strides that double, to either side of the place, and a search in between.
  size_t low = std::min(place, values.size()), high = low, stride = 1;
  while (low > 0 && !before(values[low - 1])) {
    high = low - 1;
    low -= std::min(low, std::exchange(stride, 2 * stride));
  }
  stride = 1;
  while (high < values.size() && before(values[high])) {
    low = high + 1;
    high = std::min(values.size(), high + std::exchange(stride, 2 * stride));
  }
  const std::span<const T> between = values.subspan(low, high - low);
  return low + static_cast<size_t>(std::ranges::partition_point(between, before) - between.begin());
}

template <typename Id>
void LaunchList<Id>::Order() {
  const std::span<Entry> entries = entries_.values();
  SortParts(entries, [](const Entry& a, const Entry& b) {
    return a.id != b.id ? a.id < b.id : a.start_ps < b.start_ps;
  });
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i - 1].id != entries[i].id) continue;
    entries[i - 1].line |= kShared;
    entries[i].line |= kShared;
  }
}

template <typename Id>
auto LaunchList<Id>::At(Id id, size_t* place) const -> const Entry* {
  const std::span<const Entry> entries = entries_.values();
  const size_t at =
      PartitionPointNear(*place, entries, [&](const Entry& entry) { return entry.id < id; });
  *place = at;
  return at < entries.size() && entries[at].id == id ? &entries[at] : nullptr;
}

template <typename Id>
std::optional<Launch> LaunchList<Id>::FindOnly(Id id, size_t* place) const {
  const Entry* const entry = At(id, place);
  if (entry == nullptr || (entry->line & kShared) != 0) return std::nullopt;
  return entry->launch();
}

template <typename Id>
std::optional<Launch> LaunchList<Id>::FindFirst(Id id, size_t* place) const {
  const Entry* const entry = At(id, place);
  if (entry == nullptr) return std::nullopt;
  return entry->launch();
}

template <typename Id>
std::optional<RepeatedLaunch> LaunchList<Id>::FindRepeated(Id id, int64_t start_ps,
                                                           size_t* place) const {
  const std::span<const Entry> entries = entries_.values();
  const size_t end = PartitionPointNear(*place, entries, [&](const Entry& entry) {
    return entry.id != id ? entry.id < id : entry.start_ps <= start_ps;
  });
  *place = end;
  if (end == 0 || entries[end - 1].id != id || (entries[end - 1].line & kShared) == 0) {
    return std::nullopt;
  }
  const Entry& entry = entries[end - 1];
  const bool is_first = end == 1 || entries[end - 2].id != id;
  return RepeatedLaunch{entry.launch(), end - 1, is_first};
}

template class LaunchList<uint32_t>;
template class LaunchList<uint64_t>;

std::optional<size_t> HostEvidence::CountExecutions(const std::string& module) const {
  const auto found = executions.find(module);
  if (found != executions.end()) return found->second.size();
  const auto called = calls.find(module);
  return called == calls.end() ? std::nullopt : std::optional(called->second);
}

const std::vector<HostEvidence::Execution>* HostEvidence::ExecutionsOf(
    const std::string& module) const {
  const auto found = executions.find(module);
  return found == executions.end() ? nullptr : &found->second;
}

std::optional<size_t> HostEvidence::ExecutionAround(const Launch& launch,
                                                    std::span<const Execution> of_module,
                                                    size_t* place) {
  *place = PartitionPointNear(*place, of_module, [&](const Execution& execution) {
    return execution.interval.start_ps <= launch.start_ps;
  });
  // If so many executions ended before the launch, the search stops without a result: an execution
  // that is open for very long says little about what it contains.
  constexpr size_t kMostSteps = 1024;
  std::optional<size_t> found;
  size_t count = 0;
  size_t at = *place;
  for (size_t steps = 0; at > 0; ++steps) {
    if (steps == kMostSteps) return std::nullopt;
    const Execution& execution = of_module[--at];
    if (execution.furthest_end_ps <= launch.start_ps) break;
    if (execution.interval.end_ps <= launch.start_ps) continue;
    if (execution.line == launch.line) return at;
    found = at;
    ++count;
  }
  return count == 1 ? found : std::nullopt;
}

std::optional<Launch> LaunchesInOrder::Of(uint64_t correlation_id, int64_t start_ps,
                                          uint32_t program) {
  if (correlation_id == 0) return std::nullopt;
  const auto only = launches_.FindOnly(correlation_id, &place_);
  // With several devices, each may have had some of the launches.
  if (only.has_value() || device_count_ > 1) return only;
  const auto latest = launches_.FindRepeated(correlation_id, start_ps, &place_);
  if (!latest.has_value() && !launches_.FindFirst(correlation_id, &place_).has_value()) {
    return std::nullopt;
  }
  Repeated& so_far = repeated_[correlation_id];
  if (!so_far.tells) return std::nullopt;
  so_far.tells = latest.has_value() && Continues(*latest, &so_far);
  if (!so_far.tells) {
    wrong_.insert(so_far.programs.begin(), so_far.programs.end());
    return std::nullopt;
  }
  if (std::ranges::find(so_far.programs, program) == so_far.programs.end()) {
    so_far.programs.push_back(program);
  }
  return latest->launch;
}

// False: a launch has more or fewer executions than those before.
bool LaunchesInOrder::Continues(const RepeatedLaunch& next, Repeated* so_far) const {
  if (so_far->executions == 0) {
    *so_far = {.place = next.place, .executions = 1};
    return next.is_first;
  }
  if (next.place != so_far->place) {
    const bool as_many = so_far->of_each == 0 || so_far->of_each == so_far->executions;
    if (next.place != so_far->place + 1 || !as_many) return false;
    so_far->place = next.place;
    so_far->of_each = std::exchange(so_far->executions, 0);
  }
  ++so_far->executions;
  return so_far->of_each == 0 || so_far->executions <= so_far->of_each;
}

void LaunchRanges::Find(int64_t correlation_id) {
  last_id_ = correlation_id;
  found_ = false;
  ranges_.clear();
  if (correlation_id == 0) return;
  const auto launch = evidence_.launches.FindFirst(static_cast<uint64_t>(correlation_id), &place_);
  if (!launch.has_value()) return;
  found_ = true;
  const auto add = [&](uint32_t range) { ranges_.push_back(range); };
  evidence_.ranges.ForEachAround({false, evidence_.ThreadOf(launch->line)}, launch->start_ps, add);
  evidence_.ranges.ForEachAround({true, trace_.lines[launch->line].plane}, launch->start_ps, add);
}

std::vector<Interval> Without(const std::vector<Interval>& all,
                              const std::vector<Interval>& taken) {
  std::vector<Interval> left;
  auto next = taken.begin();
  for (Interval each : all) {
    while (next != taken.end() && next->end_ps <= each.start_ps) ++next;
    for (auto at = next; at != taken.end() && at->start_ps < each.end_ps; ++at) {
      if (at->start_ps > each.start_ps) left.push_back({each.start_ps, at->start_ps});
      each.start_ps = std::min(at->end_ps, each.end_ps);
    }
    if (each.start_ps < each.end_ps) left.push_back(each);
  }
  return left;
}

absl::StatusOr<HostEvidence> ReadHost(const Trace& trace, uint32_t plane, int threads) {
  return Collect(trace, trace.planes[plane], threads, /*is_step=*/nullptr);
}

bool MayLaunch(const Plane& plane) {
  return HasStat(plane, "correlation_id") &&
         std::ranges::any_of(CallsOn(plane, DeviceNames()), [](HostCall call) {
           return call == HostCall::kLaunchKernel || call == HostCall::kLaunchGraph;
         });
}

EvidenceStore::EvidenceStore(const Trace& trace, const std::vector<DevicePlane>& devices,
                             int threads, IsStep is_step)
    : trace_(trace), threads_(threads), is_step_(std::move(is_step)) {
  for (const DevicePlane& device : devices) {
    const auto asks = RulesOf(device.kind).asks_host;
    const Plane& plane = trace.planes[device.plane];
    hosts_[HostOf(device)].asked |= asks != nullptr && HasEvents(trace, plane) && asks(plane);
  }
}

absl::StatusOr<const HostEvidence*> EvidenceStore::Of(const DevicePlane& device) {
  Host& host = hosts_.at(HostOf(device));
  // Not std::call_once: what is thrown (out of memory) must get through it.
  const std::lock_guard<std::mutex> lock(host.mutex);
  if (!host.evidence.has_value()) {
    host.evidence = Collect(trace_, trace_.planes[device.plane], threads_, is_step_);
  }
  if (!host.evidence->ok()) return host.evidence->status();
  return &**host.evidence;
}

PartExtents EvidenceStore::TakeExtents() {
  PartExtents all;
  for (auto& [key, host] : hosts_) {
    if (host.evidence.has_value() && host.evidence->ok()) all.merge((*host.evidence)->extents);
  }
  return all;
}

ScopeRoots::ScopeRoots(const Trace& trace, uint32_t plane) {
  const auto index = IndexPlanes(trace);
  for (const uint32_t scopes : index->ScopePlanes(trace.planes[plane].file)) {
    for (const Stat& stat : trace.planes[scopes].stats) {
      parent_[stat.metadata_id] = static_cast<int64_t>(stat.value.bits);
    }
  }
}

// Stores the roots of visited scopes.
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
