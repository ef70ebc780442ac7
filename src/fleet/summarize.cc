// Summarizes a trace for a fleet: the sums of its report, the partition of device time, and the
// centre (median) of each capture.
//
// 1. The analysis runs with a MeetingWatch on each device. It records when the device was in which
//    synchronizing collectives; waits.cc compares these times between hosts.
// 2. AddKernels, AddFunctions and AddSteps turn the rows of the report into fleet rows, with
//    medians of this capture as centres.
// 3. AddOwnTimes adds the time of runs outside of collectives, from the partition of the device.
// 4. Take merges the rows, which puts them into canonical order.
//
// Hosts are named by the trace or, if it has no host name, by the file's name. Linear in the
// events.
#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "compare/inputs.h"
#include "fleet/rows.h"
#include "insight/reports.h"
#include "insight/where_watch.h"
#include "saturate.h"
#include "status.h"
#include "timing/analysis.h"
#include "xplane_time/where.h"

namespace xplane_time {
namespace {

constexpr uint64_t kPrime = 0x9E3779B97F4A7C15;  // for hashing

// For an even number: the midpoint of the two middle values.
int64_t MedianOf(std::vector<int64_t> values) {
  std::ranges::sort(values);
  return std::midpoint(values[(values.size() - 1) / 2], values[values.size() / 2]);
}

Int128 AtLeastNothing(int64_t ps) { return std::max<int64_t>(ps, 0); }

// Unknown times count as 0 in a sum.
void AddParts(const TimeParts& time, auto* row) {
  const auto add = [](Int128* sum, const std::optional<int64_t>& ps) {
    *sum = fleet::Sum(*sum, AtLeastNothing(ps.value_or(0)));
  };
  add(&row->compute_ps, time.compute_ps);
  add(&row->collective_exposed_ps, time.collective_exposed_ps);
  add(&row->copy_exposed_ps, time.copy_exposed_ps);
  add(&row->other_ps, time.other_ps);
  add(&row->idle_ps, time.idle_ps);
}

// Records when a device was in which collectives. An asynchronous one lasts from its -start to its
// -done.
class MeetingWatch : public ExecutionWatcher {
 public:
  static absl::StatusOr<std::unique_ptr<ExecutionWatcher>> Make(const WatchContext& context) {
    return std::make_unique<MeetingWatch>(context);
  }
  explicit MeetingWatch(const WatchContext& context) : tables_(context.tables) {}

  absl::Status Add(std::span<const Execution> chunk) override {
    LearnOps();
    for (const Execution& each : chunk) {
      if (each.op < meets_.size() && meets_[each.op] && each.start_ps >= 0) AddOne(each);
    }
    return absl::OkStatus();
  }

  struct Key {
    std::string kernel, function;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  // Sorted by start.
  std::map<Key, std::vector<Interval>> Take() {
    for (auto& [key, meetings] : meetings_) {
      std::ranges::sort(meetings, {}, [](const Interval& each) { return each.start_ps; });
    }
    return std::move(meetings_);
  }

 private:
  // In the excluded kinds, some devices may finish before others have begun.
  static bool Meets(const OpInfo& op) {
    constexpr std::string_view kOthers[] = {"permute",   "send", "recv", "broadcast",
                                            "Broadcast", "Send", "Recv", "p2p"};
    return op.category == Category::kCollective &&
           std::ranges::none_of(kOthers, [&](std::string_view word) {
             return op.kernel.find(word) != op.kernel.npos;
           });
  }
  void LearnOps() {
    for (size_t i = meets_.size(); i < tables_->ops.size(); ++i) {
      meets_.push_back(Meets(tables_->ops[i]));
    }
  }
  void AddOne(const Execution& execution) {
    const OpInfo& op = tables_->ops[execution.op];
    const std::string function =
        execution.program == kNone ? "" : tables_->programs[execution.program].function;
    const Interval interval = execution.IntervalOn(Clock::kProfile);
    if (op.is_start) {
      open_[{op.hlo_op, function}].push_back(interval.start_ps);
      return;
    }
    if (op.start_op.empty()) return meetings_[{op.kernel, function}].push_back(interval);
    std::deque<int64_t>& starts = open_[{op.start_op, function}];
    if (starts.empty()) return;
    meetings_[{op.start_op, function}].push_back({starts.front(), interval.end_ps});
    starts.pop_front();
  }

  const std::shared_ptr<const ExecutionTables> tables_;
  std::vector<bool> meets_;  // by op
  std::map<Key, std::deque<int64_t>> open_;
  std::map<Key, std::vector<Interval>> meetings_;
};

// File names of the profilers: HOST.xplane.pb, HOST_PID.TIME.pt.trace.json.
std::string HostOfPath(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  const auto drop = [&name](const std::string_view suffix) {
    const bool has = name.size() > suffix.size() && name.ends_with(suffix);
    if (has) name.resize(name.size() - suffix.size());
    return has;
  };
  const auto drop_number = [&name](char before) {
    const size_t last = name.find_last_not_of("0123456789");
    const bool has =
        last != name.npos && last > 0 && name[last] == before && last + 1 < name.size();
    if (has) name.resize(last);
  };
  drop(".gz");
  if (drop(".pt.trace.json")) {
    drop_number('.');
    drop_number('_');
    return name;
  }
  for (const std::string_view suffix : {".xplane.pb", ".xspace.pb", ".pb", ".json"}) {
    if (drop(suffix)) break;
  }
  return name;
}

// On the host's clock. Times of normalized captures count from the profile's start.
int64_t BaseNsOf(const TraceFile& file) {
  return file.base_ns != 0 ? file.base_ns
                           : static_cast<int64_t>(file.profile_start_unix_ns.value_or(0));
}

class Summarizer {
 public:
  Summarizer(const Trace& trace, const std::string& host) : trace_(trace), host_(host) {}

  // Consumes the device's watcher.
  void AddMeetings(DeviceAnalysis* device);
  // Call while the report is made; `cells` do not outlive the analysis.
  void AddKernels(const DeviceAnalysis& device, std::span<const KernelOfCells> kernels);
  void AddReport(const Report& report);
  // The devices have WhereWatch watchers. `skip_runs`: runs of each function that do not count.
  void AddOwnTimes(const DeviceAnalysis& device, uint64_t skip_runs);
  void AddWhere(const WhereReport& where);

  // In canonical order.
  absl::StatusOr<FleetSummary> Take() {
    FleetMerger merger({});
    RETURN_IF_ERROR(merger.Add(sums_));
    return merger.Take();
  }
  FleetSummary& sums() { return sums_; }

 private:
  using DeviceKey = std::pair<uint32_t, std::string>;  // input, name
  static DeviceKey KeyOf(const DeviceRef& device) { return {device.input, DeviceName(device)}; }

  NameId IdOf(const std::string& name) { return names_.IdOf(name); }
  // `told` is the host name in the trace.
  std::string HostOf(const std::string& told, uint32_t input) const {
    if (!host_.empty()) return host_;
    return told.empty() ? HostOfPath(trace_.files[input].path) : told;
  }
  template <typename Row>
  Row RowOf(const DeviceRef& device) {
    Row row;
    row.host = IdOf(HostOf(device.host, device.input));
    row.device = IdOf(DeviceName(device));
    if constexpr (requires { row.model; }) row.model = models_[KeyOf(device)];
    return row;
  }
  void AddFunctions(const Report& report);
  void AddSteps(std::span<const WhereStep> steps);

  const Trace& trace_;
  const std::string host_;
  FleetSummary sums_;
  fleet::NameTable names_{&sums_.names};
  std::map<DeviceKey, NameId> models_;
  std::vector<uint32_t> meeting_inputs_;  // the input of each row of sums_.meetings
  using FunctionKey = std::tuple<uint32_t, std::string, std::string>;  // input, device, function
  std::map<FunctionKey, size_t> functions_;                            // indices
  std::map<DeviceKey, size_t> devices_;                                // indices
};

void Summarizer::AddKernels(const DeviceAnalysis& device, std::span<const KernelOfCells> kernels) {
  const std::string model = compare::ModelOf(trace_.planes[device.plane.plane]);
  models_[KeyOf(device.row.device)] =
      IdOf(model.empty() ? std::string(DeviceKindName(device.plane.kind)) : model);
  for (const auto& [kernel, cells] : kernels) {
    FleetKernel& row = sums_.kernels.emplace_back(RowOf<FleetKernel>(kernel.device));
    row.kernel = IdOf(kernel.kernel);
    row.function = IdOf(kernel.function.value_or(""));
    row.category = kernel.category;
    row.captures = 1;
    row.time = {.count = kernel.count,
                .total_ps = AtLeastNothing(kernel.total_ps),
                .min_ps = kernel.min_ps,
                .max_ps = kernel.max_ps};
    if (kernel.self_ps.has_value()) {
      row.self_known = 1;
      row.self_ps = AtLeastNothing(*kernel.self_ps);
    }
    for (const size_t cell : cells) {
      for (const DurationCount& each : device.cells[cell].durations.Sorted()) {
        row.time.durations.Add(DurationHistogram::NumberOf(each.value), each.count);
      }
    }
  }
}

void Summarizer::AddMeetings(DeviceAnalysis* device) {
  const std::unique_ptr<ExecutionWatcher> watcher = std::move(device->watcher);
  if (watcher == nullptr) return;
  const DeviceRef& place = device->row.device;
  for (const auto& [key, meetings] : static_cast<MeetingWatch&>(*watcher).Take()) {
    FleetMeetings& row = sums_.meetings.emplace_back(RowOf<FleetMeetings>(place));
    row.kernel = IdOf(key.kernel);
    row.function = IdOf(key.function);
    row.base_ns = BaseNsOf(trace_.files[place.input]);
    for (const Interval& each : meetings) {
      row.enters_ps.push_back(each.start_ps);
      row.lengths_ps.push_back(each.end_ps - each.start_ps);
    }
  }
  meeting_inputs_.resize(sums_.meetings.size(), place.input);
}

void Summarizer::AddReport(const Report& report) {
  for (const InputRow& input : report.inputs) {
    FleetCapture& capture = sums_.captures.emplace_back();
    const auto place = static_cast<uint32_t>(&input - report.inputs.data());
    capture = {.path = input.path,
               .host = HostOf(input.host, place),
               .bytes = input.bytes,
               .start_unix_ns = trace_.files[place].profile_start_unix_ns};
  }
  for (const Line& line : trace_.lines) {
    FleetCapture& capture = sums_.captures[trace_.planes[line.plane].file];
    capture.events = fleet::Sum(capture.events, line.event_count);
  }
  for (const DeviceRow& device : report.devices) {
    uint64_t& content = sums_.captures[device.device.input].content;
    for (const int64_t value :
         {static_cast<int64_t>(device.executions), device.busy_ps, device.sum_ps,
          device.first_ps.value_or(0), device.last_ps.value_or(0),
          trace_.files[device.device.input].base_ns}) {
      content = (content ^ static_cast<uint64_t>(value)) * kPrime;
      content ^= content >> 32;
    }
    devices_[KeyOf(device.device)] = sums_.devices.size();
    FleetDevice& row = sums_.devices.emplace_back(RowOf<FleetDevice>(device.device));
    row.kind = device.kind;
    row.captures = 1;
    row.executions = device.executions;
    row.busy_ps = AtLeastNothing(device.busy_ps);
  }
  for (size_t i = 0; i < sums_.meetings.size(); ++i) {
    sums_.meetings[i].content = sums_.captures[meeting_inputs_[i]].content;
  }
  for (const DiagnosticRow& row : report.diagnostics) {
    const bool is_left_out = row.code == DiagnosticName(DiagnosticCode::kHostLeftOut);
    if (is_left_out) sums_.failures.push_back({report.inputs[0].path, row.message});
    uint64_t& count = sums_.diagnostics[{row.code, row.severity}];
    count = fleet::Sum(count, row.count);
  }
  AddFunctions(report);
}

void Summarizer::AddFunctions(const Report& report) {
  // All programs with the same name are one function.
  std::map<FunctionKey, std::pair<FleetFunction, std::vector<int64_t>>> functions;  // and runs
  for (const FunctionRow& function : report.functions) {
    if (!function.device.has_value()) continue;
    const auto [found, is_new] = functions.try_emplace(
        {function.device->input, DeviceName(*function.device), function.function});
    FleetFunction& row = found->second.first;
    if (is_new) {
      row = RowOf<FleetFunction>(*function.device);
      row.function = IdOf(function.function);
      row.is_range = function.is_range;
    }
    const uint64_t left_out = function.suspect_runs + function.dropped_samples;
    row.left_out += left_out;
    row.runs += function.runs - left_out;
  }
  for (const SampleRow& run : report.samples) {
    const auto found = functions.find({run.device.input, DeviceName(run.device), run.function});
    if (run.suspect || found == functions.end()) continue;
    auto& [row, runs_ps] = found->second;
    row.span_ps = fleet::Sum(row.span_ps, AtLeastNothing(run.span_ps));
    if (!run.active_ps.has_value()) continue;
    row.active.Add(*run.active_ps);
    runs_ps.push_back(*run.active_ps);
  }
  for (auto& [key, function] : functions) {
    auto& [row, runs_ps] = function;
    if (!runs_ps.empty()) row.centres_ps = {MedianOf(std::move(runs_ps))};
    functions_[key] = sums_.functions.size();
    sums_.functions.push_back(std::move(row));
  }
}

// The times of the runs or steps of a capture, outside of exposed collectives.
class OwnTimes {
 public:
  void Add(int64_t busy_ps, int64_t idle_ps, int64_t collective_ps) {
    has_collectives_ |= collective_ps > 0;
    if (collective_ps > 0 && busy_ps == 0) return only_idle_ps_.push_back(idle_ps);
    own_ps_.push_back(SaturatingAdd(busy_ps, idle_ps));
    busy_ps_.push_back(busy_ps);
  }
  OwnCentres Take() {
    if (own_ps_.empty()) {
      own_ps_ = std::move(only_idle_ps_);
      busy_ps_.resize(own_ps_.size());
    }
    if (own_ps_.empty()) return {};
    return {.own_ps = {MedianOf(std::move(own_ps_))},
            .busy_ps = {MedianOf(std::move(busy_ps_))},
            .captures_with_collectives = has_collectives_ ? 1U : 0U};
  }

 private:
  std::vector<int64_t> own_ps_, busy_ps_;
  // The first run of a function that consists of collectives has no work before it in the capture.
  // So it counts only if no run of the function has work before it.
  std::vector<int64_t> only_idle_ps_;
  bool has_collectives_ = false;
};

// A host may come late to a collective because it starts a run late, or because it takes longer for
// another function before it. So the time of a run with collectives begins at the end of the
// previous run with collectives. For other runs, and for the first one with collectives, only the
// idle time of the device before the run is added.
void Summarizer::AddOwnTimes(const DeviceAnalysis& device, uint64_t skip_runs) {
  using insight::RunState, insight::operator-;
  const auto* const watch = static_cast<const insight::WhereWatch*>(device.watcher.get());
  if (watch == nullptr) return;
  const std::span<const RunState> states = watch->sweep().runs();
  std::vector<const RunSample*> runs;
  for (const RunSample& sample : device.samples) {
    if (sample.id < states.size() && states[sample.id].extent.begun()) runs.push_back(&sample);
  }
  std::ranges::stable_sort(runs, {},
                           [&](const RunSample* run) { return states[run->id].extent.start_ps; });
  const DeviceRef& place = device.row.device;
  std::map<std::string, OwnTimes> functions;
  const auto sum_busy_ps = [](const insight::PartTimes& times) {
    return times[insight::kComputePart] + times[insight::kCopyExposed] + times[insight::kOtherPart];
  };
  // The earlier runs that end last: of all runs, and of those with collectives.
  const insight::Extent *last = nullptr, *last_collective = nullptr;
  for (const RunSample* run : runs) {
    const RunState& state = states[run->id];
    const insight::Extent& extent = state.extent;
    const int64_t collective_ps = state.times[insight::kCollectiveInFlight];
    int64_t busy_ps = sum_busy_ps(state.times), idle_ps = insight::IdlePs(state.times);
    const bool follows_collective = collective_ps > 0 && last_collective != nullptr &&
                                    last_collective->last_end_ps <= extent.start_ps;
    if (follows_collective) {
      const insight::PartTimes between = extent.at_start - last_collective->at_last_end;
      busy_ps = SaturatingAdd(busy_ps, sum_busy_ps(between));
      idle_ps = SaturatingAdd(idle_ps, insight::IdlePs(between));
    } else if (last != nullptr && last->last_end_ps <= extent.start_ps) {
      idle_ps = SaturatingAdd(idle_ps, insight::IdlePs(extent.at_start - last->at_last_end));
    }
    const auto keep_last = [&extent](const insight::Extent** of) {
      if (*of == nullptr || (*of)->last_end_ps < extent.last_end_ps) *of = &extent;
    };
    keep_last(&last);
    if (collective_ps > 0) keep_last(&last_collective);
    if (run->suspect || run->ordinal < skip_runs) continue;
    functions[device.tables->programs[run->program].function].Add(busy_ps, idle_ps, collective_ps);
  }
  for (auto& [function, times] : functions) {
    const auto row = functions_.find({place.input, DeviceName(place), function});
    if (row != functions_.end()) sums_.functions[row->second].own = times.Take();
  }
}

void Summarizer::AddSteps(std::span<const WhereStep> steps) {
  FleetSteps row = RowOf<FleetSteps>(steps[0].device);
  CaptureCentres spans_ps;
  OwnTimes own;
  for (const WhereStep& step : steps) {
    const TimeParts& time = step.time;
    if (!time.span_ps.has_value() || !time.compute_ps.has_value()) continue;
    row.span.Add(*time.span_ps);
    spans_ps.push_back(*time.span_ps);
    own.Add(*time.compute_ps + *time.copy_exposed_ps + *time.other_ps, *time.idle_ps,
            *time.collective_ps);
    AddParts(time, &row);
  }
  if (spans_ps.empty()) return;
  row.centres_ps = {MedianOf(std::move(spans_ps))};
  row.own = own.Take();
  sums_.steps.push_back(std::move(row));
}

void Summarizer::AddWhere(const WhereReport& where) {
  std::map<DeviceKey, std::vector<WhereStep>> steps;
  for (const WhereDevice& device : where.devices) {
    const auto of_report = devices_.find(KeyOf(device.device));
    if (of_report != devices_.end()) {
      FleetDevice& row = sums_.devices[of_report->second];
      row.span_ps = AtLeastNothing(device.time.span_ps.value_or(0));
      AddParts(device.time, &row);
    }
    // Runs of a function already have rows.
    if (device.step_source.value_or(StepSource::kFunction) == StepSource::kFunction) continue;
    steps[KeyOf(device.device)];
  }
  for (const WhereStep& step : where.steps) {
    const auto of_device = steps.find(KeyOf(step.device));
    if (of_device != steps.end()) of_device->second.push_back(step);
  }
  for (const auto& [device, of_device] : steps) {
    if (!of_device.empty()) AddSteps(of_device);
  }
  for (const WhereTransfer& transfer : where.transfers) {
    if (transfer.category != Category::kCollective) continue;
    FleetCollective& row = sums_.collectives.emplace_back(RowOf<FleetCollective>(transfer.device));
    row.kernel = IdOf(transfer.kernel);
    row.count = transfer.count;
    row.exposed_ps = AtLeastNothing(transfer.exposed_ps);
    row.hidden_ps = AtLeastNothing(transfer.hidden_ps);
    row.in_flight_ps = AtLeastNothing(transfer.in_flight_ps);
  }
}

}  // namespace

absl::StatusOr<FleetSummary> SummarizeTrace(const Trace& trace, const ReportOptions& options,
                                            const Diagnostics& reading, const std::string& host) {
  ReportOptions all = options;
  all.samples = true;
  all.parts = all.by_variant = false;
  Summarizer summarizer(trace, host);
  ASSIGN_OR_RETURN(Analysis analysis, AnalyzeAndWatch(trace, all, reading, MeetingWatch::Make));
  for (DeviceAnalysis& device : analysis.devices) summarizer.AddMeetings(&device);
  summarizer.AddReport(ReportOf(
      trace, all, &analysis, [&](const DeviceAnalysis& device, std::span<KernelOfCells> kernels) {
        summarizer.AddKernels(device, kernels);
      }));
  const WhereOptions of_where = {.device = all.device,
                                 .categories = all.categories,
                                 .threads = all.threads,
                                 .host_of_gaps = false,
                                 .gaps = 0};
  const auto watch = [](const WatchContext& context) {
    return insight::WhereWatch::MakeKeepingGaps(context, /*gaps=*/0);
  };
  ASSIGN_OR_RETURN(Analysis parts, insight::AnalyzeForWhere(trace, of_where, reading, watch));
  for (const DeviceAnalysis& device : parts.devices) {
    summarizer.AddOwnTimes(device, all.skip_runs);
  }
  ASSIGN_OR_RETURN(const WhereReport where,
                   insight::WhereOf(trace, &parts, of_where, /*keeps_devices=*/false));
  summarizer.AddWhere(where);
  summarizer.sums().options = compare::ValuesOf(options);
  return summarizer.Take();
}

}  // namespace xplane_time
