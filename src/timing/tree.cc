// BuildTree: nesting, summed by path of names.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "read/damaged_hosts.h"
#include "saturate.h"
#include "status.h"
#include "timing/analysis.h"
#include "timing/compiled_programs.h"
#include "timing/execution_stream.h"
#include "timing/module_paths.h"
#include "timing/name_scopes.h"
#include "timing/origins.h"
#include "timing/scope_advice.h"

namespace xplane_time {
namespace {

// A node of the summed tree; children by name.
struct Node {
  uint64_t count = 0;
  int64_t total_ps = 0, self_ps = 0;
  uint64_t asynchronous = 0, aggregated = 0;
  SourceLines lines = {};
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

// An event of a timeline to nest.
struct TimelineEvent {
  Interval interval;
  std::string_view name;
  bool asynchronous = false;  // it returned before its body was complete
};
using Timeline = std::vector<TimelineEvent>;

class TreeBuilder {
 public:
  TreeBuilder(const TreeOptions& options, const NameFilter& name, Diagnostics* diagnostics,
              std::vector<TreeRow>* rows)
      : options_(options), name_(name), diagnostics_(diagnostics), rows_(rows) {}

  // The trees of a device's functions: the runs (span), in them the kernels.
  void AddFunctions(const DeviceAnalysis& device, const Filters& filters) {
    struct OneRun {
      const RunSample* sample;
      std::vector<Interval> wanted;
      std::map<uint32_t, Timeline> by_line;
    };
    std::map<uint32_t, OneRun> runs;
    for (const RunSample& sample : device.samples) runs[sample.id].sample = &sample;
    for (const Execution& execution : device.executions) {
      const auto found = runs.find(execution.run);
      const OpInfo& op = device.tables->ops[execution.op];
      if (found == runs.end() || !filters.WantsOp(op)) continue;
      OneRun& run = found->second;
      const Interval interval = execution.IntervalOn(run.sample->clock);
      run.by_line[execution.line].push_back(
          {interval, op.kernel, IsAsynchronous(device, execution, op)});
      if (name_.Matches(op.kernel)) run.wanted.push_back(interval);
    }
    Node top;
    for (const auto& [ignored, run] : runs) {
      Node* function = top.Child(device.tables->programs[run.sample->program].function);
      function->Add(run.sample->span_ps, run.sample->span_ps - UnionLengthPs(run.wanted));
      for (const auto& [line, timeline] : run.by_line) {
        AddTimeline(timeline, {.plane = device.plane.plane, .line = line}, function);
      }
    }
    if (name_.any()) {
      std::erase_if(top.children,
                    [](const auto& function) { return function.second.children.empty(); });
    }
    WriteChildren(top, device.row.device, /*line=*/"");
  }

  // The tree of scopes or sources: the own time of an execution is in the path of its op.
  void AddOrigins(const DeviceAnalysis& device) {
    CompiledPrograms compiled(device, diagnostics_);
    Origins origins(/*with_stacks=*/true, passes());
    Node top;
    for (const KernelCell& cell : device.cells) {
      if (cell.count == 0) continue;
      const OpInfo& op = device.tables->ops[cell.op];
      AddCell(cell, origins.Of(op, compiled.Find(op, cell.program)), &top);
    }
    WriteChildren(top, device.row.device, /*line=*/"");
  }

  // The tree of modules, and executions without a launch.
  void AddModules(const DeviceAnalysis& device) {
    const auto& modules = static_cast<const ModulePaths&>(*device.watcher);
    Node top;
    const auto add = [&](const std::vector<std::string>& path, const ModulePaths::Sum& sum) {
      Node* node = &top;
      for (const std::string& name : path) {
        node = node->Child(name);
        node->count += sum.count;
        node->total_ps = SaturatingAdd(node->total_ps, sum.total_ps);
      }
      node->self_ps = SaturatingAdd(node->self_ps, sum.total_ps);
    };
    for (const auto& [path, sum] : modules.sums()) {
      add(path.empty() ? std::vector<std::string>{"(no module)"} : path, sum);
    }
    if (modules.without_launch().count > 0) {
      add({"(launch not in the trace)"}, modules.without_launch());
    }
    WriteChildren(top, device.row.device, /*line=*/"");
  }

  // The tree of lines of one plane that are one.
  absl::Status AddLines(const Trace& trace, const std::vector<uint32_t>& lines) {
    const uint32_t plane_index = trace.lines[lines[0]].plane;
    const Plane& plane = trace.planes[plane_index];
    Timeline timeline;
    EventNames names(plane);
    for (const uint32_t line : lines) {
      RETURN_IF_ERROR(VisitEvents(trace, line, {}, diagnostics_, [&](const EventBatch& batch) {
        for (size_t i = 0; i < batch.size(); ++i) {
          const int64_t start_ps = batch.start_ps[i];
          if (start_ps == kNoTimePs) continue;
          timeline.push_back({{start_ps, start_ps + batch.duration_ps[i]}, names.Of(batch, i)});
        }
        return absl::OkStatus();
      }));
    }
    Node top;
    AddTimeline(timeline, {.plane = plane_index, .line = lines[0]}, &top);
    const DeviceRef device = {std::string(plane.name), std::nullopt, std::string(plane.host),
                              plane.file};
    WriteChildren(top, device, std::string(trace.lines[lines[0]].shown_name()));
    return absl::OkStatus();
  }

 private:
  Passes passes() const { return options_.fold ? Passes::kFolded : Passes::kApart; }

  void AddCell(const KernelCell& cell, const Origin& origin, Node* top) const {
    std::vector<std::string_view> path;
    if (options_.by == TreeBy::kScope) path = ScopePath(origin.scope, passes());
    if (options_.by == TreeBy::kSource) path.assign(origin.stack.begin(), origin.stack.end());
    if (path.empty()) path = {options_.by == TreeBy::kScope ? kNoScope : kNoSource};
    Node* node = top;
    for (const std::string_view name : path) {
      node = node->Child(name);
      node->count += cell.count;
      node->total_ps = SaturatingAdd(node->total_ps, cell.known_self_ps);
    }
    node->self_ps = SaturatingAdd(node->self_ps, cell.known_self_ps);
    node->asynchronous += cell.asynchronous;
    node->aggregated += cell.aggregated;
    node->lines.Add(origin.lines);
  }

  static bool IsAsynchronous(const DeviceAnalysis& device, const Execution& execution,
                             const OpInfo& op) {
    const auto has_body = RulesOf(device.plane.kind).has_body;
    if (has_body == nullptr || !has_body(op)) return false;
    const int64_t flow = execution.numbers[Execution::kFlowId];
    return flow != kNoFlow && CompletesLater(device.completions, flow, execution.end_ps());
  }

  // Nests a timeline and adds its events below `root`. With a name filter only matching
  // events are nested: child time is then that of the matching children.
  void AddTimeline(const Timeline& timeline, const Location& where, Node* root) {
    std::vector<Interval> intervals;
    std::vector<const TimelineEvent*> events;
    for (const TimelineEvent& event : timeline) {
      if (!name_.Matches(event.name)) continue;
      intervals.push_back(event.interval);
      events.push_back(&event);
    }
    const Nesting nesting = Nest(intervals, options_.select.tolerance_ps);
    diagnostics_->Count(DiagnosticCode::kPartialOverlap, where, nesting.partial_overlaps);
    std::vector<Node*> node(events.size(), nullptr);
    std::vector<uint32_t> depth(events.size(), 0);
    // With a tolerance a parent may come after its child in the order.
    for (const uint32_t start : nesting.order) {
      std::vector<uint32_t> path;
      for (uint32_t i = start; i != kNoParent && node[i] == nullptr; i = nesting.parent[i]) {
        path.push_back(i);
      }
      for (; !path.empty(); path.pop_back()) {
        const uint32_t i = path.back();
        const uint32_t parent = nesting.parent[i];
        Node* above = parent == kNoParent ? root : node[parent];
        depth[i] = parent == kNoParent ? 0 : depth[parent] + 1;
        if (depth[i] >= kMostLevels) {  // its time is in the row above
          node[i] = above;
          continue;
        }
        node[i] = above->Child(events[i]->name);
        node[i]->Add(intervals[i].end_ps - intervals[i].start_ps, nesting.self_ps[i]);
        node[i]->asynchronous += events[i]->asynchronous ? 1 : 0;
      }
    }
  }

  // A deeper tree is unreadable, and the stack is limited.
  static constexpr uint32_t kMostLevels = 4096;

  // By total, descending.
  void WriteChildren(const Node& node, const DeviceRef& device, const std::string& line,
                     uint32_t depth = 0, std::optional<uint32_t> parent = std::nullopt) {
    std::vector<std::pair<const std::string*, const Node*>> children;
    for (const auto& [name, child] : node.children) children.emplace_back(&name, &child);
    std::stable_sort(children.begin(), children.end(), [](const auto& a, const auto& b) {
      return a.second->total_ps > b.second->total_ps;
    });
    for (const auto& [name, child] : children) {
      const auto index = static_cast<uint32_t>(rows_->size());
      TreeRow& row = rows_->emplace_back();
      row.device = device;
      row.line = line;
      row.name = *name;
      row.depth = depth;
      row.parent = parent;
      row.count = child->count;
      row.total_ps = child->total_ps;
      row.status = child->asynchronous > 0 ? "asynchronous"
                   : child->aggregated > 0 ? "aggregated"
                                           : "ok";
      row.lines = child->lines.lines;
      row.lines_cut = child->lines.cut;
      if (row.status == "ok") {
        row.self_ps = child->self_ps;
        row.child_ps = child->total_ps - child->self_ps;
      }
      if (options_.max_depth == 0 || depth + 1 < options_.max_depth) {
        WriteChildren(*child, device, line, depth + 1, index);
      }
    }
  }

  const TreeOptions& options_;
  const NameFilter& name_;
  Diagnostics* diagnostics_;
  std::vector<TreeRow>* rows_;
};

// The error for empty results, with advice.
absl::Status NothingToShow(const Trace& trace, const TreeOptions& options,
                           const Diagnostics& reading) {
  if (!options.select.scope.empty() && options.line.empty()) {
    return FailedPrecondition(trace.files[0].path, ": empty tree: no execution matches --scope ",
                              options.select.scope, ScopeAdvice(trace, options.select, reading));
  }
  if (options.by != TreeBy::kNesting) {
    return FailedPrecondition(trace.files[0].path,
                              ": empty tree: the filters exclude every execution;"
                              " xplane-time kernels lists the kernels");
  }
  std::string why = options.line.empty() ? "no function with runs" : "no line with events";
  if (!options.name.empty()) {
    why = options.line.empty() ? "no kernel of a function" : "no event of these lines";
    absl::StrAppend(&why, " matches --name ", options.name);
  }
  const bool has_ranges = std::ranges::any_of(
      trace.planes, [](const Plane& plane) { return HasStat(plane, gpu_runs::kInRangesStat); });
  std::string_view instead = ";";
  if (options.line.empty()) {
    instead = has_ranges ? "; --by module shows the nn.Modules, --line PATTERN nests the events of "
                           "lines, and"
                         : "; --line PATTERN nests the events of lines, and";
  }
  return FailedPrecondition(trace.files[0].path, ": empty tree: ", why, instead,
                            " xplane-time planes lists the lines");
}

absl::Status AddLineTrees(const Trace& trace, const TreeOptions& options, TreeBuilder* trees,
                          Diagnostics* diagnostics, std::vector<TreeRow>* rows) {
  ASSIGN_OR_RETURN(const NameFilter line, NameFilter::Compile("--line", options.line));
  ASSIGN_OR_RETURN(const std::vector<uint32_t> lines,
                   SelectLines(trace, options.select.device, line));
  std::map<std::pair<uint32_t, int64_t>, std::vector<uint32_t>> timelines;  // equal ids are one
  for (const uint32_t i : lines) timelines[{trace.lines[i].plane, trace.lines[i].id}].push_back(i);
  DamagedHosts damaged(trace);
  for (const auto& [plane_and_id, of_one_id] : timelines) {
    const uint32_t file = trace.planes[plane_and_id.first].file;
    const auto add = [&, &of_one_id = of_one_id] { return trees->AddLines(trace, of_one_id); };
    RETURN_IF_ERROR(damaged.Read(file, add));
  }
  std::erase_if(*rows, [&](const TreeRow& row) { return damaged.Has(row.device.input); });
  if (rows->empty()) RETURN_IF_ERROR(damaged.First());
  damaged.Note(diagnostics);
  return absl::OkStatus();
}

absl::Status AddOriginTrees(const Trace& trace, const TreeOptions& options,
                            const Diagnostics& reading, TreeBuilder* trees,
                            Diagnostics* diagnostics) {
  ASSIGN_OR_RETURN(const Analysis analysis, Analyze(trace, options.select, reading));
  *diagnostics = analysis.diagnostics;
  for (const DeviceAnalysis& device : analysis.devices) trees->AddOrigins(device);
  return absl::OkStatus();
}

absl::Status AddModuleTrees(const Trace& trace, const TreeOptions& options,
                            const Diagnostics& reading, TreeBuilder* trees,
                            Diagnostics* diagnostics) {
  ASSIGN_OR_RETURN(const Filters filters, Filters::Compile(options.select));
  const auto make = [&](const WatchContext& context) {
    return ModulePaths::Make(context, filters);
  };
  ASSIGN_OR_RETURN(const Analysis analysis, AnalyzeAndWatch(trace, options.select, reading, make));
  *diagnostics = analysis.diagnostics;
  for (const DeviceAnalysis& device : analysis.devices) trees->AddModules(device);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TreeReport> BuildTree(const Trace& trace, const TreeOptions& options,
                                     const Diagnostics& reading) {
  TreeReport report;
  report.inputs = DescribeInputs(trace);
  ASSIGN_OR_RETURN(const NameFilter name, NameFilter::Compile("--name", options.name));
  Diagnostics diagnostics = reading;
  TreeBuilder trees(options, name, &diagnostics, &report.rows);
  report.by = options.by;
  if (options.by == TreeBy::kModule) {
    RETURN_IF_ERROR(AddModuleTrees(trace, options, reading, &trees, &diagnostics));
  } else if (options.by != TreeBy::kNesting) {
    RETURN_IF_ERROR(AddOriginTrees(trace, options, reading, &trees, &diagnostics));
  } else if (options.line.empty()) {
    ASSIGN_OR_RETURN(const Analysis analysis,
                     Analyze(trace, options.select, reading, Keep::kExecutions));
    diagnostics = analysis.diagnostics;
    for (const DeviceAnalysis& device : analysis.devices) {
      trees.AddFunctions(device, analysis.filters);
    }
  } else {
    RETURN_IF_ERROR(AddLineTrees(trace, options, &trees, &diagnostics, &report.rows));
  }
  report.diagnostics = DescribeDiagnostics(trace, diagnostics);
  if (report.rows.empty()) return NothingToShow(trace, options, reading);
  return report;
}

}  // namespace xplane_time
