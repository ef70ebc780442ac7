// BuildTree: nesting, summed by path of names.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devices/device_kind.h"
#include "read/damaged_hosts.h"
#include "timing/analysis.h"
#include "timing/saturate.h"
#include "xplane_time/nest.h"
#include "xplane_time/read.h"
#include "xplane_time/select.h"

namespace xplane_time {
namespace {

// A node of the summed tree; children by name.
struct Node {
  uint64_t count = 0;
  int64_t total_ps = 0, self_ps = 0;
  uint64_t asynchronous = 0;
  std::map<std::string, Node, std::less<>> children;

  Node* Child(std::string_view name) {
    const auto found = children.find(name);
    return found != children.end() ? &found->second
                                   : &children.emplace(std::string(name), Node{}).first->second;
  }
  void Add(int64_t duration_ps, int64_t own_ps) {
    ++count;
    total_ps = SaturatingAdd(total_ps, duration_ps);
    self_ps = SaturatingAdd(self_ps, own_ps);
  }
};

// One timeline to nest: intervals, their names, and which of them are asynchronous.
struct Timeline {
  std::vector<Interval> intervals;
  std::vector<std::string_view> names;
  std::vector<bool> asynchronous;
};

// Nests a timeline and adds its events below `root`. With a name filter only matching
// events are nested: child time is then that of the matching children.
void AddTimeline(const Timeline& timeline, const NameFilter& filter, int64_t tolerance_ps,
                 const Location& where, Diagnostics* diagnostics, Node* root) {
  std::vector<Interval> intervals;
  std::vector<uint32_t> member;
  for (uint32_t i = 0; i < timeline.intervals.size(); ++i) {
    if (!filter.Matches(timeline.names[i])) continue;
    intervals.push_back(timeline.intervals[i]);
    member.push_back(i);
  }
  const Nesting nesting = Nest(intervals, tolerance_ps);
  diagnostics->Count(DiagnosticCode::kPartialOverlap, where, nesting.partial_overlaps);
  std::vector<Node*> node(member.size(), nullptr);
  // With a tolerance a parent may come after its child in the order.
  for (uint32_t start : nesting.order) {
    std::vector<uint32_t> path;
    for (uint32_t i = start; i != kNoParent && node[i] == nullptr; i = nesting.parent[i]) {
      path.push_back(i);
    }
    for (; !path.empty(); path.pop_back()) {
      const uint32_t i = path.back();
      const uint32_t parent = nesting.parent[i];
      Node* above = parent == kNoParent ? root : node[parent];
      node[i] = above->Child(timeline.names[member[i]]);
      node[i]->Add(intervals[i].end_ps - intervals[i].start_ps, nesting.self_ps[i]);
      node[i]->asynchronous += timeline.asynchronous[member[i]] ? 1 : 0;
    }
  }
}

// A CPU op that returned before its body was complete.
bool IsAsynchronous(const DeviceExecutions& executions, size_t row) {
  if (executions.plane.kind != DeviceKind::kCpu || executions.flow_id[row] == kNoFlow) return false;
  return HasBody(executions.op_info(row)) &&
         CompletesLater(executions.completion_ps, executions.flow_id[row], executions.end_ps(row));
}

class RowWriter {
 public:
  RowWriter(const TreeOptions& options, DeviceRef device, std::string line,
            std::vector<TreeRow>* rows)
      : options_(options), device_(std::move(device)), line_(std::move(line)), rows_(rows) {}

  void Write(const Node& node, const std::string& name, uint32_t depth,
             std::optional<uint32_t> parent) {
    const auto index = static_cast<uint32_t>(rows_->size());
    TreeRow row{.device = device_,
                .line = line_,
                .name = name,
                .depth = depth,
                .parent = parent,
                .count = node.count,
                .total_ps = node.total_ps};
    row.status = node.asynchronous > 0 ? "asynchronous" : "ok";
    if (node.asynchronous == 0) {
      row.self_ps = node.self_ps;
      row.child_ps = node.total_ps - node.self_ps;
    }
    rows_->push_back(std::move(row));
    if (options_.max_depth == 0 || depth + 1 < options_.max_depth) {
      WriteChildren(node, depth + 1, index);
    }
  }

  // By total, descending.
  void WriteChildren(const Node& node, uint32_t depth, std::optional<uint32_t> parent) {
    std::vector<std::pair<const std::string*, const Node*>> children;
    for (const auto& [name, child] : node.children) children.emplace_back(&name, &child);
    std::stable_sort(children.begin(), children.end(), [](const auto& a, const auto& b) {
      return a.second->total_ps > b.second->total_ps;
    });
    for (const auto& [name, child] : children) Write(*child, *name, depth, parent);
  }

 private:
  const TreeOptions& options_;
  DeviceRef device_;
  std::string line_;
  std::vector<TreeRow>* rows_;
};

// The trees of a device's functions: the runs (span), in them the kernels.
void AddFunctionTrees(const DeviceAnalysis& device, const TreeOptions& options,
                      const Filters& filters, const NameFilter& name, Diagnostics* diagnostics,
                      std::vector<TreeRow>* rows) {
  const DeviceExecutions& executions = *device.executions;
  Node top;
  std::map<uint32_t, const RunSample*> sample_of_run;
  for (const RunSample& sample : device.samples) sample_of_run[sample.run] = &sample;
  std::map<std::pair<uint32_t, uint32_t>, Timeline> timelines;  // by run and line
  std::map<uint32_t, std::vector<Interval>> wanted_of_run;
  for (size_t row = 0; row < executions.size(); ++row) {
    const uint32_t run = executions.run[row];
    if (run == kNone || !sample_of_run.contains(run)) continue;
    const OpInfo& op = executions.op_info(row);
    if (!filters.WantsOp(op)) continue;
    Timeline& timeline = timelines[{run, executions.line[row]}];
    timeline.intervals.push_back(ExecutionInterval(executions, row, sample_of_run[run]->clock));
    timeline.names.push_back(op.kernel);
    timeline.asynchronous.push_back(IsAsynchronous(executions, row));
    if (name.Matches(op.kernel)) wanted_of_run[run].push_back(timeline.intervals.back());
  }
  for (const auto& [run, sample] : sample_of_run) {
    Node* function = top.Child(device.tables->programs[sample->program].function);
    function->Add(sample->span_ps, sample->span_ps - UnionLengthPs(wanted_of_run[run]));
  }
  for (const auto& [key, timeline] : timelines) {
    const uint32_t program = sample_of_run[key.first]->program;
    AddTimeline(timeline, name, options.select.tolerance_ps,
                {.plane = device.plane.plane, .line = key.second}, diagnostics,
                top.Child(device.tables->programs[program].function));
  }
  if (name.any()) {
    std::erase_if(top.children,
                  [](const auto& function) { return function.second.children.empty(); });
  }
  RowWriter(options, device.ref, "", rows).WriteChildren(top, 0, std::nullopt);
}

// Where there are no rows, with the way out.
absl::Status NothingToShow(const Trace& trace, const TreeOptions& options) {
  std::string why = options.line.empty() ? "no function with runs" : "no line with events";
  if (!options.name.empty()) {
    why = options.line.empty() ? "no kernel of a function" : "no event of these lines";
    absl::StrAppend(&why, " matches --name ", options.name);
  }
  return absl::FailedPreconditionError(
      absl::StrCat(trace.files[0].path, ": nothing to show: ", why,
                   options.line.empty() ? "; --line PATTERN nests the events of lines, and" : ";",
                   " xplane-time planes lists what is there"));
}

// The trees of the lines that match, on the selected planes.
class LineTrees {
 public:
  LineTrees(const Trace& trace, const TreeOptions& options, NameFilter line, NameFilter name,
            Diagnostics* diagnostics)
      : trace_(trace),
        options_(options),
        line_filter_(std::move(line)),
        name_filter_(std::move(name)),
        diagnostics_(diagnostics) {}

  absl::Status AddPlane(uint32_t plane_index, std::vector<TreeRow>* rows) {
    const Plane& plane = trace_.planes[plane_index];
    std::map<int64_t, std::vector<uint32_t>> timelines;  // lines with equal ids are one
    for (uint32_t i = plane.first_line; i < plane.first_line + plane.line_count; ++i) {
      if (line_filter_.Matches(trace_.lines[i].shown_name())) {
        timelines[trace_.lines[i].id].push_back(i);
      }
    }
    for (const auto& [id, lines] : timelines) {
      if (absl::Status status = AddTimelineOf(plane_index, lines, rows); !status.ok()) {
        return status;
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status AddTimelineOf(uint32_t plane_index, const std::vector<uint32_t>& lines,
                             std::vector<TreeRow>* rows) {
    const Plane& plane = trace_.planes[plane_index];
    Timeline timeline;
    std::map<int64_t, std::string> missing_names;
    for (uint32_t line : lines) {
      absl::Status status =
          VisitEvents(trace_, line, {}, diagnostics_, [&](const EventBatch& batch) {
            for (size_t i = 0; i < batch.size(); ++i) {
              if (batch.start_ps[i] == kNoTimePs) continue;
              timeline.intervals.push_back(
                  {batch.start_ps[i], batch.start_ps[i] + batch.duration_ps[i]});
              timeline.names.push_back(NameOf(plane, batch, i, &missing_names));
            }
            return absl::OkStatus();
          });
      if (!status.ok()) return status;
    }
    if (timeline.intervals.empty()) return absl::OkStatus();
    timeline.asynchronous.assign(timeline.intervals.size(), false);
    Node top;
    AddTimeline(timeline, name_filter_, options_.select.tolerance_ps,
                {.plane = plane_index, .line = lines[0]}, diagnostics_, &top);
    const DeviceRef ref{std::string(plane.name), std::nullopt, std::string(plane.host), plane.file};
    RowWriter(options_, ref, std::string(trace_.lines[lines[0]].shown_name()), rows)
        .WriteChildren(top, 0, std::nullopt);
    return absl::OkStatus();
  }

  static std::string_view NameOf(const Plane& plane, const EventBatch& batch, size_t row,
                                 std::map<int64_t, std::string>* missing_names) {
    if (batch.metadata[row] == kNoMetadata) {
      std::string& name = (*missing_names)[batch.metadata_id[row]];
      if (name.empty()) name = EventName(plane, kNoMetadata, batch.metadata_id[row]);
      return name;
    }
    const EventMetadata& metadata = plane.event_metadata.entries[batch.metadata[row]];
    return metadata.display_name.empty() ? metadata.name : metadata.display_name;
  }

  const Trace& trace_;
  const TreeOptions& options_;
  NameFilter line_filter_, name_filter_;
  Diagnostics* diagnostics_;
};

// Planes are in the order of their files, so a file's rows are the last ones.
absl::Status AddLineTrees(const Trace& trace, std::span<const uint32_t> planes, LineTrees* trees,
                          Diagnostics* diagnostics, std::vector<TreeRow>* rows) {
  DamagedHosts damaged(trace);
  for (const uint32_t plane : planes) {
    const uint32_t file = trace.planes[plane].file;
    if (damaged.Has(file)) continue;
    absl::Status status = trees->AddPlane(plane, rows);
    if (status.ok()) continue;
    if (status = damaged.LeaveOut(file, status); !status.ok()) return status;
    std::erase_if(*rows, [&](const TreeRow& row) { return row.device.input == file; });
  }
  if (rows->empty() && damaged.any()) return damaged.First();
  damaged.Note(diagnostics);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TreeReport> BuildTree(const Trace& trace, const TreeOptions& options,
                                     const Diagnostics& reading) {
  TreeReport report;
  report.inputs = DescribeInputs(trace);
  auto name = NameFilter::Compile("--name", options.name);
  if (!name.ok()) return name.status();
  if (options.line.empty()) {
    auto analysis = Analyze(trace, options.select, reading, Keep::kExecutions);
    if (!analysis.ok()) return analysis.status();
    for (const DeviceAnalysis& device : analysis->devices) {
      AddFunctionTrees(device, options, analysis->filters, *name, &analysis->diagnostics,
                       &report.rows);
    }
    report.diagnostics = DescribeDiagnostics(trace, analysis->diagnostics);
  } else {
    auto line = NameFilter::Compile("--line", options.line);
    if (!line.ok()) return line.status();
    Diagnostics diagnostics = reading;
    LineTrees trees(trace, options, *line, *name, &diagnostics);
    auto planes = SelectPlanes(trace, options.select.device);
    if (!planes.ok()) return planes.status();
    const absl::Status status = AddLineTrees(trace, *planes, &trees, &diagnostics, &report.rows);
    if (!status.ok()) return status;
    report.diagnostics = DescribeDiagnostics(trace, diagnostics);
  }
  if (report.rows.empty()) return NothingToShow(trace, options);
  return report;
}

}  // namespace xplane_time
