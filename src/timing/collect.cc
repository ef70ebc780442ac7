// CollectExecutions: the events of the selected devices become columns, line by line,
// in parallel; then the lines of each device are joined and ordered.
#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "devices/device_kind.h"
#include "parallel.h"
#include "xplane_time/read.h"
#include "xplane_time/runs.h"

namespace xplane_time {
namespace {

using ScopeParents = absl::flat_hash_map<int64_t, int64_t>;

constexpr std::string_view kScopePlane = "/host:__ScopeRangeCallStack__";

// Child -> parent of the profiler's annotation scopes: stats of a plane of their own,
// keyed by the child's id.
ScopeParents FindScopeParents(const Trace& trace, uint32_t file) {
  ScopeParents parents;
  for (const Plane& plane : trace.planes) {
    if (plane.file != file || !plane.name.starts_with(kScopePlane)) continue;
    for (const Stat& stat : plane.stats) {
      parents[stat.metadata_id] = static_cast<int64_t>(stat.value.bits);
    }
  }
  return parents;
}

int64_t RootScope(const ScopeParents& parents, int64_t scope) {
  for (size_t steps = 0; steps <= parents.size(); ++steps) {  // a damaged tree may have a cycle
    const auto parent = parents.find(scope);
    if (parent == parents.end() || parent->second == 0) break;
    scope = parent->second;
  }
  return scope;
}

// Numbers the ops and programs of one line; views into the trace.
class Interner {
 public:
  explicit Interner(DeviceExecutions* into) : into_(into) {}

  uint32_t Op(const Draft& d) {
    const auto key = std::make_tuple(View(d.kernel), View(d.hlo_op), View(d.tf_op), View(d.scope),
                                     View(d.source), d.flops.value_or(-1),
                                     d.bytes_accessed.value_or(-1), d.is_copy);
    const auto next = static_cast<uint32_t>(into_->ops.size());
    const auto [found, inserted] = ops_.try_emplace(key, next);
    if (inserted) {
      into_->ops.push_back({std::string(d.kernel), std::string(d.hlo_op), std::string(d.tf_op),
                            std::string(d.scope), std::string(d.source), Classify(d), d.flops,
                            d.bytes_accessed});
    }
    return found->second;
  }

  uint32_t Program(const Draft& d) {
    if (d.function.empty()) return kNone;
    const auto key = std::make_tuple(View(d.function), static_cast<int>(d.program_id.type),
                                     d.program_id.bits, View(d.program_id.text));
    const auto next = static_cast<uint32_t>(into_->programs.size());
    const auto [found, inserted] = programs_.try_emplace(key, next);
    if (inserted) into_->programs.push_back({std::string(d.function), ProgramId(d.program_id)});
    return found->second;
  }

 private:
  static absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

  static std::optional<std::string> ProgramId(const StatValue& value) {
    switch (value.type) {
      case StatType::kInt64:
        return std::to_string(static_cast<int64_t>(value.bits));
      case StatType::kUint64:
        return std::to_string(value.bits);
      case StatType::kString:
      case StatType::kRef:
        return std::string(value.text);
      default:
        return std::nullopt;
    }
  }

  DeviceExecutions* into_;
  absl::flat_hash_map<std::tuple<absl::string_view, absl::string_view, absl::string_view,
                                 absl::string_view, absl::string_view, int64_t, int64_t, bool>,
                      uint32_t>
      ops_;
  absl::flat_hash_map<std::tuple<absl::string_view, int, uint64_t, absl::string_view>, uint32_t>
      programs_;
};

// What one line executed on one device (a CPU line may serve several).
struct LinePart {
  explicit LinePart(const DevicePlane& plane) : interner(std::make_unique<Interner>(&rows)) {
    rows.plane = plane;
  }
  DeviceExecutions rows;
  std::vector<std::optional<uint64_t>> flow_id;  // CPU
  std::unique_ptr<Interner> interner;
};

// One line, read and interpreted.
class LineCollector {
 public:
  LineCollector(const Trace& trace, const DevicePlane& device, uint32_t line,
                const ScopeParents& scopes, const Selection& selection)
      : trace_(trace),
        device_(device),
        line_(line),
        scopes_(scopes),
        selection_(selection),
        rules_(RulesOf(device.kind)) {}

  void Read(const CollectOptions& options) {
    min_duration_ps_ = options.min_duration_ps;
    status = VisitEvents(trace_, line_, rules_.stats, &diagnostics, [&](const EventBatch& batch) {
      for (size_t row = 0; row < batch.size(); ++row) Add(batch, row);
      if (options.events_done != nullptr) *options.events_done += batch.size();
      return absl::OkStatus();
    });
  }

  absl::Status status;
  Diagnostics diagnostics;
  std::map<std::optional<int64_t>, LinePart> parts;      // by ordinal
  absl::flat_hash_map<uint64_t, int64_t> completion_ps;  // by flow id

 private:
  void Add(const EventBatch& batch, size_t row) {
    const Plane& plane = trace_.planes[trace_.lines[line_].plane];
    Draft draft;
    rules_.interpret(batch, row, NameOf(plane, batch, row), &draft);
    if (draft.is_completion && draft.flow_id.has_value() && batch.start_ps[row] != kNoTimePs) {
      completion_ps[*draft.flow_id] = batch.start_ps[row];
    }
    if (!draft.is_execution) return;
    if (device_.kind == DeviceKind::kCpu && draft.ordinal.has_value() &&
        !selection_.WantsOrdinal(*draft.ordinal)) {
      return;
    }
    const auto ordinal = device_.kind == DeviceKind::kCpu ? draft.ordinal : device_.ordinal;
    Append(&parts.try_emplace(ordinal, device_).first->second, batch, row, draft);
  }

  // Lives as long as this collector.
  std::string_view NameOf(const Plane& plane, const EventBatch& batch, size_t row) {
    if (batch.metadata[row] == kNoMetadata) {
      std::string& name = missing_names_[batch.metadata_id[row]];
      if (name.empty()) name = EventName(plane, kNoMetadata, batch.metadata_id[row]);
      return name;
    }
    const EventMetadata& metadata = plane.event_metadata.entries[batch.metadata[row]];
    return metadata.display_name.empty() ? metadata.name : metadata.display_name;
  }

  void Append(LinePart* part, const EventBatch& batch, size_t row, const Draft& draft) {
    DeviceExecutions& to = part->rows;
    const Location where = {.plane = device_.plane, .line = line_, .event = batch.event[row]};
    if (rules_.role(trace_.lines[line_].name) == LineRole::kRun) {
      if (batch.start_ps[row] == kNoTimePs) return;
      const Interval interval{batch.start_ps[row], batch.start_ps[row] + batch.duration_ps[row]};
      to.modules.push_back({interval, part->interner->Program(draft)});
      return;
    }
    if (min_duration_ps_.has_value() && batch.duration_ps[row] < *min_duration_ps_) {
      diagnostics.Count(DiagnosticCode::kLeftOutByMinDuration, where);
      return;
    }
    const uint32_t op = part->interner->Op(draft);
    const bool by_module = device_.kind == DeviceKind::kTpu;  // membership is by time there
    const uint32_t program = by_module ? kNone : part->interner->Program(draft);
    if (batch.start_ps[row] == kNoTimePs) {
      to.aggregated.push_back({op, program, batch.occurrences[row], batch.duration_ps[row]});
      return;
    }
    if (!to.start_ps.empty() && batch.start_ps[row] < to.start_ps.back()) {
      diagnostics.Count(DiagnosticCode::kUnsortedLine, where, unsorted_ ? 0 : 1);
      unsorted_ = true;
    }
    to.start_ps.push_back(batch.start_ps[row]);
    to.duration_ps.push_back(batch.duration_ps[row]);
    to.op.push_back(op);
    to.program.push_back(program);
    to.line.push_back(trace_.lines[line_].timeline);
    AppendKindColumns(part, draft);
  }

  void AppendKindColumns(LinePart* part, const Draft& draft) {
    DeviceExecutions& to = part->rows;
    switch (device_.kind) {
      case DeviceKind::kTpu:
        to.device_start_ps.push_back(draft.device_start_ps);
        to.device_duration_ps.push_back(draft.device_duration_ps);
        break;
      case DeviceKind::kGpu:
        to.correlation_id.push_back(draft.correlation_id);
        to.root_scope_id.push_back(RootScope(scopes_, draft.scope_range_id));
        break;
      case DeviceKind::kCpu:
        to.run_id.push_back(draft.run_id);
        part->flow_id.push_back(draft.flow_id);
        break;
      case DeviceKind::kCustom:
        break;
    }
  }

  const Trace& trace_;
  const DevicePlane& device_;
  const uint32_t line_;
  const ScopeParents& scopes_;
  const Selection& selection_;
  const KindRules& rules_;
  std::optional<int64_t> min_duration_ps_;
  bool unsorted_ = false;
  std::map<int64_t, std::string> missing_names_;  // by metadata id
};

template <typename T>
void AppendColumn(std::vector<T>* to, const std::vector<T>& from) {
  to->insert(to->end(), from.begin(), from.end());
}

// The parts of one device, joined.
class Joiner {
 public:
  Joiner(const DevicePlane& plane, std::optional<int64_t> ordinal) {
    to_.plane = plane;
    to_.ordinal = ordinal;
  }

  void Add(const LinePart& part, const CollectOptions& options, uint64_t* left_out) {
    const DeviceExecutions& from = part.rows;
    const std::vector<uint32_t> ops = Remap(from.ops, &to_.ops, &op_index_, OpKey);
    const std::vector<uint32_t> programs =
        Remap(from.programs, &to_.programs, &program_index_, ProgramKey);
    const auto program_of = [&](uint32_t id) { return id == kNone ? kNone : programs[id]; };
    for (const ModuleEvent& module : from.modules) {
      to_.modules.push_back({module.interval, program_of(module.program)});
    }
    for (const AggregatedExecution& sum : from.aggregated) {
      to_.aggregated.push_back(
          {ops[sum.op], program_of(sum.program), sum.occurrences, sum.total_ps});
    }
    const size_t base = to_.size();
    for (uint32_t op : from.op) to_.op.push_back(ops[op]);
    for (uint32_t program : from.program) to_.program.push_back(program_of(program));
    AppendColumn(&to_.start_ps, from.start_ps);
    AppendColumn(&to_.duration_ps, from.duration_ps);
    AppendColumn(&to_.line, from.line);
    AppendColumn(&to_.device_start_ps, from.device_start_ps);
    AppendColumn(&to_.device_duration_ps, from.device_duration_ps);
    AppendColumn(&to_.run_id, from.run_id);
    AppendColumn(&to_.correlation_id, from.correlation_id);
    AppendColumn(&to_.root_scope_id, from.root_scope_id);
    AppendColumn(&flow_id_, part.flow_id);
    if (options.max_events.has_value() && to_.size() > *options.max_events) {
      const size_t keep = std::max<size_t>(base, *options.max_events);
      *left_out += to_.size() - keep;
      Resize(keep);
    }
  }

  // Orders the rows by (start, duration descending, file order).
  DeviceExecutions Finish(const absl::flat_hash_map<uint64_t, int64_t>& completion_ps) && {
    MarkAsynchronous(completion_ps);
    const auto before = [&](size_t a, size_t b) {
      return std::pair(to_.start_ps[a], to_.duration_ps[b]) <
             std::pair(to_.start_ps[b], to_.duration_ps[a]);
    };
    std::vector<uint32_t> order(to_.size());
    std::iota(order.begin(), order.end(), 0u);
    if (!std::is_sorted(order.begin(), order.end(), before)) {
      std::stable_sort(order.begin(), order.end(), before);
      Permute(order);
    }
    std::stable_sort(to_.modules.begin(), to_.modules.end(),
                     [](const ModuleEvent& a, const ModuleEvent& b) {
                       return a.interval.start_ps < b.interval.start_ps;
                     });
    return std::move(to_);
  }

 private:
  static std::string OpKey(const OpInfo& op) {
    return absl::StrCat(op.kernel, "\n", op.hlo_op, "\n", op.tf_op, "\n", op.scope, "\n", op.source,
                        "\n", static_cast<int>(op.category), "\n", op.flops.value_or(-1), "\n",
                        op.bytes_accessed.value_or(-1));
  }
  static std::string ProgramKey(const ProgramInfo& program) {
    return absl::StrCat(program.function, "\n", program.program_id.value_or("\n"));
  }

  template <typename Info>
  static std::vector<uint32_t> Remap(const std::vector<Info>& from, std::vector<Info>* to,
                                     absl::flat_hash_map<std::string, uint32_t>* index,
                                     std::string (*key)(const Info&)) {
    std::vector<uint32_t> map;
    for (const Info& info : from) {
      const auto [found, inserted] =
          index->try_emplace(key(info), static_cast<uint32_t>(to->size()));
      if (inserted) to->push_back(info);
      map.push_back(found->second);
    }
    return map;
  }

  template <typename Do>
  void ForEachColumn(Do change) {
    change(&to_.start_ps);
    change(&to_.duration_ps);
    change(&to_.op);
    change(&to_.program);
    change(&to_.line);
    change(&to_.device_start_ps);
    change(&to_.device_duration_ps);
    change(&to_.run_id);
    change(&to_.correlation_id);
    change(&to_.root_scope_id);
    change(&to_.asynchronous);
    change(&flow_id_);
  }

  void Resize(size_t size) {
    ForEachColumn([&](auto* column) {
      if (!column->empty()) column->resize(size);
    });
  }

  void Permute(const std::vector<uint32_t>& order) {
    ForEachColumn([&](auto* column) {
      if (column->empty()) return;
      std::remove_reference_t<decltype(*column)> moved;
      moved.reserve(order.size());
      for (uint32_t row : order) moved.push_back((*column)[row]);
      *column = std::move(moved);
    });
  }

  void MarkAsynchronous(const absl::flat_hash_map<uint64_t, int64_t>& completion_ps) {
    if (to_.plane.kind != DeviceKind::kCpu) return;
    to_.asynchronous.assign(to_.size(), 0);
    for (size_t row = 0; row < to_.size(); ++row) {
      const std::string& op = to_.ops[to_.op[row]].hlo_op;
      const bool has_body = op.starts_with("call") || op.starts_with("while") ||
                            op.starts_with("conditional") || op.starts_with("cond");
      if (!has_body || !flow_id_[row].has_value()) continue;
      // A synchronous body is complete before its op returns. A marker that is missing
      // comes after the trace's end.
      const auto completion = completion_ps.find(*flow_id_[row]);
      to_.asynchronous[row] = !completion_ps.empty() && (completion == completion_ps.end() ||
                                                         completion->second > to_.end_ps(row));
    }
  }

  DeviceExecutions to_;
  std::vector<std::optional<uint64_t>> flow_id_;
  absl::flat_hash_map<std::string, uint32_t> op_index_, program_index_;
};

// Streams are in order by themselves: an overlap is worth a note.
void CountStreamOverlaps(const DeviceExecutions& device, Diagnostics* diagnostics) {
  if (device.plane.kind != DeviceKind::kGpu) return;
  absl::flat_hash_map<uint32_t, int64_t> end_of_line;
  for (size_t row = 0; row < device.size(); ++row) {
    int64_t& end = end_of_line.try_emplace(device.line[row], device.start_ps[row]).first->second;
    if (device.start_ps[row] < end) {
      diagnostics->Count(DiagnosticCode::kOverlapInStream,
                         {.plane = device.plane.plane, .line = device.line[row]});
    }
    end = std::max(end, device.end_ps(row));
  }
}

// Joins the lines of one plane into its devices.
std::vector<DeviceExecutions> JoinPlane(const DevicePlane& plane,
                                        std::span<const LineCollector> lines,
                                        const CollectOptions& options, Diagnostics* diagnostics) {
  std::map<std::optional<int64_t>, Joiner> joiners;
  absl::flat_hash_map<uint64_t, int64_t> completion_ps;
  uint64_t left_out = 0;
  if (plane.kind != DeviceKind::kCpu) joiners.try_emplace(plane.ordinal, plane, plane.ordinal);
  for (const LineCollector& line : lines) {
    diagnostics->Merge(line.diagnostics);
    completion_ps.insert(line.completion_ps.begin(), line.completion_ps.end());
    for (const auto& [ordinal, part] : line.parts) {
      joiners.try_emplace(ordinal, plane, ordinal).first->second.Add(part, options, &left_out);
    }
  }
  diagnostics->Count(DiagnosticCode::kLeftOutByMaxEvents, {.plane = plane.plane}, left_out);
  std::vector<DeviceExecutions> devices;
  for (auto& [ordinal, joiner] : joiners) {
    devices.push_back(std::move(joiner).Finish(completion_ps));
    CountStreamOverlaps(devices.back(), diagnostics);
  }
  return devices;
}

}  // namespace

absl::StatusOr<std::vector<DeviceExecutions>> CollectExecutions(const Trace& trace,
                                                                const Selection& selection,
                                                                const CollectOptions& options,
                                                                Diagnostics* diagnostics) {
  std::map<uint32_t, ScopeParents> scopes;  // by file
  for (const DevicePlane& device : selection.planes) {
    const uint32_t file = trace.planes[device.plane].file;
    if (!scopes.contains(file)) scopes[file] = FindScopeParents(trace, file);
  }
  std::vector<LineCollector> lines;
  std::vector<size_t> first_line;  // of each selected plane, in `lines`
  for (const DevicePlane& device : selection.planes) {
    const Plane& plane = trace.planes[device.plane];
    first_line.push_back(lines.size());
    for (uint32_t line = plane.first_line; line < plane.first_line + plane.line_count; ++line) {
      const LineRole role = RulesOf(device.kind).role(trace.lines[line].name);
      if (role != LineRole::kExecution && role != LineRole::kRun) continue;
      lines.emplace_back(trace, device, line, scopes[plane.file], selection);
    }
  }
  first_line.push_back(lines.size());
  ParallelFor(lines.size(), options.threads, [&](size_t i) { lines[i].Read(options); });
  for (const LineCollector& line : lines) {
    if (!line.status.ok()) return line.status;
  }
  std::vector<DeviceExecutions> devices;
  for (size_t i = 0; i < selection.planes.size(); ++i) {
    const std::span<const LineCollector> own(lines.data() + first_line[i],
                                             first_line[i + 1] - first_line[i]);
    for (DeviceExecutions& device : JoinPlane(selection.planes[i], own, options, diagnostics)) {
      devices.push_back(std::move(device));
    }
  }
  return devices;
}

}  // namespace xplane_time
