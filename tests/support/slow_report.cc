#include "tests/support/slow_report.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <type_traits>
#include <utility>

namespace xplane_time::testing {
namespace {

struct Execution {
  std::string plane;
  std::optional<int64_t> ordinal;
  std::string kernel, hlo_op;
  std::optional<std::string> function, program_id;
  int64_t start_ps = 0, end_ps = 0;  // profile clock
  std::optional<int64_t> device_start_ps, device_end_ps;
  std::optional<int64_t> run_id, scope;
  std::optional<uint64_t> correlation_id;
  std::optional<int64_t> module;  // TPU: index of the module event
};

struct HostEvent {
  std::string name;
  int64_t line_id = 0;
  int64_t start_ps = 0, end_ps = 0;
  std::optional<uint64_t> correlation_id;
};

struct Module {
  std::string plane;
  std::optional<int64_t> ordinal;
  std::string function, program_id;
  int64_t start_ps = 0, end_ps = 0;
};

// -- Reading ---------------------------------------------------------------

const proto::XStat* FindStat(const proto::XPlane& plane, const proto::XEvent& event,
                             const std::string& name) {
  const auto named = [&](const proto::XStat& stat) {
    auto metadata = plane.stat_metadata().find(stat.metadata_id());
    return metadata != plane.stat_metadata().end() && metadata->second.name() == name;
  };
  for (const proto::XStat& stat : event.stats()) {
    if (named(stat)) return &stat;
  }
  auto metadata = plane.event_metadata().find(event.metadata_id());
  if (metadata == plane.event_metadata().end()) return nullptr;
  for (const proto::XStat& stat : metadata->second.stats()) {
    if (named(stat)) return &stat;
  }
  return nullptr;
}

std::optional<int64_t> IntegerStat(const proto::XPlane& plane, const proto::XEvent& event,
                                   const std::string& name) {
  const proto::XStat* stat = FindStat(plane, event, name);
  if (stat == nullptr) return std::nullopt;
  if (stat->value_case() == proto::XStat::kUint64Value) {
    return static_cast<int64_t>(stat->uint64_value());
  }
  return stat->int64_value();
}

std::optional<std::string> TextStat(const proto::XPlane& plane, const proto::XEvent& event,
                                    const std::string& name) {
  const proto::XStat* stat = FindStat(plane, event, name);
  if (stat == nullptr) return std::nullopt;
  switch (stat->value_case()) {
    case proto::XStat::kRefValue:
      return plane.stat_metadata().at(static_cast<int64_t>(stat->ref_value())).name();
    case proto::XStat::kInt64Value:
      return std::to_string(stat->int64_value());
    case proto::XStat::kUint64Value:
      return std::to_string(stat->uint64_value());
    default:
      return stat->str_value();
  }
}

std::string ShownName(const proto::XPlane& plane, const proto::XEvent& event) {
  auto metadata = plane.event_metadata().find(event.metadata_id());
  if (metadata == plane.event_metadata().end()) {
    return "(event metadata " + std::to_string(event.metadata_id()) + ")";
  }
  return metadata->second.display_name().empty() ? metadata->second.name()
                                                 : metadata->second.display_name();
}

std::optional<int64_t> OrdinalOf(const std::string& plane, const std::string& prefix) {
  if (plane.compare(0, prefix.size(), prefix) != 0) return std::nullopt;
  return std::stoll(plane.substr(prefix.size()));
}

Execution ReadExecution(const proto::XPlane& plane, const proto::XLine& line,
                        const proto::XEvent& event) {
  Execution execution;
  execution.plane = plane.name();
  execution.kernel = ShownName(plane, event);
  execution.hlo_op = TextStat(plane, event, "hlo_op").value_or("");
  execution.function = TextStat(plane, event, "hlo_module");
  if (execution.function) execution.program_id = TextStat(plane, event, "program_id");
  execution.start_ps = line.timestamp_ns() * 1000 + event.offset_ps();
  execution.end_ps = execution.start_ps + event.duration_ps();
  execution.run_id = IntegerStat(plane, event, "run_id");
  execution.scope = IntegerStat(plane, event, "scope_range_id");
  if (auto id = IntegerStat(plane, event, "correlation_id")) {
    execution.correlation_id = static_cast<uint64_t>(*id);
  }
  const auto offset_ps = IntegerStat(plane, event, "device_offset_ps");
  const auto duration_ps = IntegerStat(plane, event, "device_duration_ps");
  if (offset_ps && duration_ps) {
    execution.device_start_ps = *offset_ps;
    execution.device_end_ps = *offset_ps + *duration_ps;
  }
  return execution;
}

// -- Measuring -------------------------------------------------------------

using Intervals = std::vector<std::pair<int64_t, int64_t>>;

// Cuts the axis at every start and end, and checks for each piece whether an interval covers it.
int64_t Union(const Intervals& intervals) {
  std::set<int64_t> cuts;
  for (const auto& [start, end] : intervals) cuts.insert({start, end});
  int64_t covered_ps = 0;
  for (auto cut = cuts.begin(); cut != cuts.end() && std::next(cut) != cuts.end(); ++cut) {
    const bool is_covered =
        std::any_of(intervals.begin(), intervals.end(), [&](const auto& interval) {
          return interval.first <= *cut && *std::next(cut) <= interval.second;
        });
    if (is_covered) covered_ps += *std::next(cut) - *cut;
  }
  return covered_ps;
}

std::pair<int64_t, int64_t> IntervalOn(const std::string& clock, const Execution& execution) {
  if (clock == "device") return {*execution.device_start_ps, *execution.device_end_ps};
  return {execution.start_ps, execution.end_ps};
}

std::string ClockOf(const std::vector<const Execution*>& executions) {
  const bool all = std::all_of(executions.begin(), executions.end(),
                               [](const Execution* e) { return e->device_start_ps.has_value(); });
  return all && !executions.empty() ? "device" : "profile";
}

SlowRun Measure(const std::vector<const Execution*>& members, const std::string& clock) {
  SlowRun run;
  run.clock = clock;
  run.kernels = members.size();
  Intervals intervals;
  for (const Execution* member : members) intervals.push_back(IntervalOn(clock, *member));
  int64_t first_ps = intervals[0].first, last_ps = intervals[0].second, sum_ps = 0;
  for (const auto& [start, end] : intervals) {
    first_ps = std::min(first_ps, start);
    last_ps = std::max(last_ps, end);
    sum_ps += end - start;
  }
  run.start_ps = first_ps;
  run.span_ps = last_ps - first_ps;
  run.active_ps = Union(intervals);
  run.sum_ps = sum_ps;
  return run;
}

// The number of occurrences of each (hlo_op, kernel) in a run.
using Content = std::map<std::pair<std::string, std::string>, int>;

Content ContentOf(const std::vector<const Execution*>& members) {
  Content content;
  for (const Execution* member : members) ++content[{member->hlo_op, member->kernel}];
  return content;
}

bool IsStrictSubset(const Content& part, const Content& whole) {
  return part != whole && std::all_of(part.begin(), part.end(), [&](const auto& entry) {
           auto found = whole.find(entry.first);
           return found != whole.end() && entry.second <= found->second;
         });
}

std::vector<bool> Suspects(const std::vector<Content>& contents) {
  std::vector<bool> suspects(contents.size(), false);
  if (contents.size() < 4) return suspects;
  for (const Content& mode : contents) {
    const auto alike = std::count(contents.begin(), contents.end(), mode);
    if (4 * alike < 3 * static_cast<std::ptrdiff_t>(contents.size())) continue;
    for (size_t i = 0; i < contents.size(); ++i) suspects[i] = IsStrictSubset(contents[i], mode);
  }
  return suspects;
}

// -- Rows ------------------------------------------------------------------

void AddDevices(const std::vector<Execution>& executions, SlowReport* report) {
  std::map<SlowDeviceKey, Intervals> intervals;
  for (const Execution& e : executions) {
    intervals[{e.plane, e.ordinal}].push_back({e.start_ps, e.end_ps});
  }
  for (const auto& [key, of_device] : intervals) {
    SlowDevice device{.first_ps = of_device[0].first, .last_ps = of_device[0].second};
    for (const auto& [start, end] : of_device) {
      ++device.executions;
      device.sum_ps += end - start;
      device.first_ps = std::min(device.first_ps, start);
      device.last_ps = std::max(device.last_ps, end);
    }
    device.busy_ps = Union(of_device);
    report->devices[key] = device;
  }
}

struct SplitRun {
  std::vector<const Execution*> members{};
  int64_t module_start_ps = 0, module_end_ps = 0;  // TPU
};
using Runs = std::vector<SplitRun>;

void AddFunction(const SlowFunctionKey& key, const Runs& runs, SlowReport* report) {
  std::vector<const Execution*> all;
  std::vector<Content> contents;
  for (const SplitRun& run : runs) {
    all.insert(all.end(), run.members.begin(), run.members.end());
    contents.push_back(ContentOf(run.members));
  }
  const std::vector<bool> suspects = Suspects(contents);
  SlowFunction& function = report->functions[key];
  function.clock = ClockOf(all);
  function.kernels_total = all.size();
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].members.empty()) {  // a module without ops: only its own duration is known
      function.runs.push_back({.start_ps = runs[i].module_start_ps,
                               .span_ps = runs[i].module_end_ps - runs[i].module_start_ps});
    } else {
      function.runs.push_back(Measure(runs[i].members, function.clock));
    }
    function.runs.back().suspect = suspects[i];
  }
  std::sort(function.runs.begin(), function.runs.end());
}

void AddKernels(const std::vector<Execution>& executions, SlowReport* report) {
  std::map<SlowKernelKey, std::vector<const Execution*>> rows;
  std::map<SlowFunctionKey, std::vector<const Execution*>> programs;
  const auto program_of = [](const Execution& e) {
    return SlowFunctionKey(e.plane, e.ordinal, e.function.value_or(""), e.program_id);
  };
  for (const Execution& e : executions) {
    rows[{e.plane, e.ordinal, e.kernel, e.function, e.program_id}].push_back(&e);
    programs[program_of(e)].push_back(&e);
  }
  for (const auto& [key, members] : rows) {
    SlowKernel& kernel = report->kernels[key];
    kernel.clock = ClockOf(programs[program_of(*members[0])]);
    for (const Execution* member : members) {
      const auto [start_ps, end_ps] = IntervalOn(kernel.clock, *member);
      ++kernel.count;
      kernel.total_ps += end_ps - start_ps;
    }
  }
}

std::map<SlowFunctionKey, std::vector<const Execution*>> ByProgram(
    const std::vector<Execution>& executions) {
  std::map<SlowFunctionKey, std::vector<const Execution*>> programs;
  for (const Execution& e : executions) {
    if (e.function) programs[{e.plane, e.ordinal, *e.function, e.program_id}].push_back(&e);
  }
  return programs;
}

// The runs of a map from labels to the members of one run.
template <typename Label>
Runs ValuesOf(const std::map<Label, std::vector<const Execution*>>& runs_by_label) {
  Runs runs;
  for (const auto& [label, members] : runs_by_label) runs.push_back({.members = members});
  return runs;
}

// -- GPU -------------------------------------------------------------------

int64_t RootScope(const proto::XSpace& space, int64_t scope) {
  for (const proto::XPlane& plane : space.planes()) {
    if (plane.name() != "/host:__ScopeRangeCallStack__") continue;
    for (const proto::XStat& stat : plane.stats()) {
      if (stat.metadata_id() == scope) return RootScope(space, stat.int64_value());
    }
  }
  return scope;
}

std::vector<HostEvent> ReadHostEvents(const proto::XSpace& space) {
  std::vector<HostEvent> events;
  for (const proto::XPlane& plane : space.planes()) {
    if (plane.name() != "/host:CPU") continue;
    for (const proto::XLine& line : plane.lines()) {
      for (const proto::XEvent& event : line.events()) {
        const Execution read = ReadExecution(plane, line, event);
        events.push_back({read.kernel, line.id(), read.start_ps, read.end_ps, read.correlation_id});
      }
    }
  }
  return events;
}

// The index in `host` of the host event that executed the kernel's module.
std::optional<size_t> HostExecution(const Execution& kernel, const std::vector<HostEvent>& host) {
  const HostEvent* launch = nullptr;
  for (const HostEvent& event : host) {
    if (kernel.correlation_id && event.correlation_id == kernel.correlation_id) launch = &event;
  }
  if (launch == nullptr) return std::nullopt;
  std::vector<size_t> around;
  for (size_t i = 0; i < host.size(); ++i) {
    if (host[i].name == *kernel.function + ":XLA GPU module" &&
        host[i].start_ps <= launch->start_ps && launch->start_ps < host[i].end_ps) {
      around.push_back(i);
    }
  }
  for (size_t i : around) {
    if (host[i].line_id == launch->line_id) return i;
  }
  return around.size() == 1 ? std::optional(around[0]) : std::nullopt;
}

// `kernels` must be in order of start.
Runs SplitByPeriod(const std::vector<const Execution*>& kernels) {
  const auto alike = [&](size_t i, size_t j) {
    return kernels[i]->hlo_op == kernels[j]->hlo_op && kernels[i]->kernel == kernels[j]->kernel;
  };
  size_t period = 1;
  for (;; ++period) {
    if (kernels.size() % period != 0) continue;
    bool repeats = true;
    for (size_t i = period; i < kernels.size(); ++i) repeats = repeats && alike(i, i - period);
    if (repeats) break;
  }
  Runs runs(kernels.size() / period);
  for (size_t i = 0; i < kernels.size(); ++i) runs[i / period].members.push_back(kernels[i]);
  return runs;
}

Runs SplitGpu(const proto::XSpace& space, const std::vector<HostEvent>& host,
              std::vector<const Execution*> kernels) {
  std::map<int64_t, std::vector<const Execution*>> by_scope;
  std::map<std::optional<size_t>, std::vector<const Execution*>> by_host;
  for (const Execution* kernel : kernels) {
    if (kernel->scope) by_scope[RootScope(space, *kernel->scope)].push_back(kernel);
    by_host[HostExecution(*kernel, host)].push_back(kernel);
  }
  if (!by_scope.empty()) return ValuesOf(by_scope);
  if (by_host.count(std::nullopt) == 0) return ValuesOf(by_host);
  std::stable_sort(kernels.begin(), kernels.end(), [](const Execution* a, const Execution* b) {
    return std::tuple(a->start_ps, -a->end_ps) < std::tuple(b->start_ps, -b->end_ps);
  });
  return SplitByPeriod(kernels);
}

// -- TPU -------------------------------------------------------------------

std::vector<Module> ReadModules(const proto::XSpace& space) {
  std::vector<Module> modules;
  for (const proto::XPlane& plane : space.planes()) {
    for (const proto::XLine& line : plane.lines()) {
      if (line.name() != "XLA Modules" && line.name() != "Sparse Core Modules") continue;
      for (const proto::XEvent& event : line.events()) {
        const Execution read = ReadExecution(plane, line, event);
        const size_t parenthesis = read.kernel.rfind('(');
        modules.push_back({.plane = plane.name(),
                           .ordinal = OrdinalOf(plane.name(), "/device:TPU:"),
                           .function = read.kernel.substr(0, parenthesis),
                           .program_id = read.kernel.substr(parenthesis + 1,
                                                            read.kernel.size() - parenthesis - 2),
                           .start_ps = read.start_ps,
                           .end_ps = read.end_ps});
      }
    }
  }
  return modules;
}

void Attribute(const std::vector<Module>& modules, Execution* op) {
  for (size_t i = 0; i < modules.size(); ++i) {
    const Module& module = modules[i];
    if (module.plane != op->plane) continue;
    if (op->start_ps < module.start_ps || op->start_ps >= module.end_ps) continue;
    op->function = module.function;
    op->program_id = module.program_id;
    op->module = static_cast<int64_t>(i);
  }
}

void AddTpuFunctions(const std::vector<Module>& modules, const std::vector<Execution>& ops,
                     SlowReport* report) {
  std::map<SlowFunctionKey, Runs> programs;
  for (size_t i = 0; i < modules.size(); ++i) {
    const Module& module = modules[i];
    SplitRun run{.module_start_ps = module.start_ps, .module_end_ps = module.end_ps};
    for (const Execution& op : ops) {
      if (op.module == static_cast<int64_t>(i)) run.members.push_back(&op);
    }
    programs[{module.plane, module.ordinal, module.function, module.program_id}].push_back(run);
  }
  for (const auto& [key, runs] : programs) AddFunction(key, runs, report);
}

template <typename Value>
std::string Text(const std::optional<Value>& value) {
  if (!value) return "-";
  if constexpr (std::is_same_v<Value, std::string>) {
    return *value;
  } else {
    return std::to_string(*value);
  }
}

}  // namespace

SlowReport BuildSlowGpuReport(const proto::XSpace& space) {
  std::vector<Execution> executions;
  for (const proto::XPlane& plane : space.planes()) {
    const auto ordinal = OrdinalOf(plane.name(), "/device:GPU:");
    if (!ordinal) continue;
    for (const proto::XLine& line : plane.lines()) {
      if (line.name().compare(0, 8, "Stream #") != 0) continue;
      for (const proto::XEvent& event : line.events()) {
        executions.push_back(ReadExecution(plane, line, event));
        executions.back().ordinal = ordinal;
      }
    }
  }
  const std::vector<HostEvent> host = ReadHostEvents(space);
  SlowReport report;
  AddDevices(executions, &report);
  for (const auto& [key, kernels] : ByProgram(executions)) {
    AddFunction(key, SplitGpu(space, host, kernels), &report);
  }
  AddKernels(executions, &report);
  return report;
}

SlowReport BuildSlowTpuReport(const proto::XSpace& space) {
  const std::vector<Module> modules = ReadModules(space);
  std::vector<Execution> ops;
  for (const proto::XPlane& plane : space.planes()) {
    for (const proto::XLine& line : plane.lines()) {
      if (line.name() != "XLA Ops" && line.name() != "Sparse Core Ops") continue;
      for (const proto::XEvent& event : line.events()) {
        ops.push_back(ReadExecution(plane, line, event));
        ops.back().ordinal = OrdinalOf(plane.name(), "/device:TPU:");
        Attribute(modules, &ops.back());
      }
    }
  }
  SlowReport report;
  AddDevices(ops, &report);
  AddTpuFunctions(modules, ops, &report);
  AddKernels(ops, &report);
  return report;
}

SlowReport BuildSlowCpuReport(const proto::XSpace& space) {
  std::vector<Execution> thunks;
  for (const proto::XPlane& plane : space.planes()) {
    if (plane.name() != "/host:CPU") continue;
    for (const proto::XLine& line : plane.lines()) {
      for (const proto::XEvent& event : line.events()) {
        const Execution read = ReadExecution(plane, line, event);
        if (read.hlo_op.empty() || read.correlation_id) continue;
        if (read.kernel.compare(0, 5, "end: ") == 0) continue;
        thunks.push_back(read);
        thunks.back().ordinal = IntegerStat(plane, event, "device_ordinal");
      }
    }
  }
  SlowReport report;
  AddDevices(thunks, &report);
  for (const auto& [key, of_program] : ByProgram(thunks)) {
    std::map<int64_t, std::vector<const Execution*>> by_run_id;
    for (const Execution* thunk : of_program) by_run_id[thunk->run_id.value()].push_back(thunk);
    AddFunction(key, ValuesOf(by_run_id), &report);
  }
  AddKernels(thunks, &report);
  return report;
}

std::ostream& operator<<(std::ostream& out, const SlowReport& report) {
  for (const auto& [key, row] : report.devices) {
    out << "device " << std::get<0>(key) << ' ' << Text(std::get<1>(key)) << ": executions "
        << row.executions << " busy " << row.busy_ps << " sum " << row.sum_ps << " first "
        << row.first_ps << " last " << row.last_ps << '\n';
  }
  for (const auto& [key, row] : report.functions) {
    const auto& [plane, ordinal, function, program_id] = key;
    out << "function " << plane << ' ' << Text(ordinal) << ' ' << function << '('
        << Text(program_id) << ") " << row.clock << " kernels " << row.kernels_total << '\n';
    for (const SlowRun& run : row.runs) {
      out << "  run at " << run.start_ps << " span " << run.span_ps << " active "
          << Text(run.active_ps) << " sum " << Text(run.sum_ps) << " kernels " << run.kernels << ' '
          << run.clock << (run.suspect ? " suspect" : "") << '\n';
    }
  }
  for (const auto& [key, row] : report.kernels) {
    const auto& [plane, ordinal, kernel, function, program_id] = key;
    out << "kernel " << plane << ' ' << Text(ordinal) << ' ' << kernel << ' ' << Text(function)
        << '(' << Text(program_id) << "): count " << row.count << " total " << row.total_ps << ' '
        << row.clock << '\n';
  }
  return out;
}

}  // namespace xplane_time::testing
