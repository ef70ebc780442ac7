#include "insight/timeline.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "insight/host_lanes.h"
#include "insight/reports.h"
#include "insight/where_watch.h"
#include "saturate.h"
#include "status.h"
#include "timing/step_summary.h"

namespace xplane_time::insight {
namespace {

void KeepForTimeline(const WatchContext& context, ExecutionWatcher* watch) {
  static_cast<WhereWatch*>(watch)->KeepLines();
  static_cast<WhereWatch*>(watch)->KeepSummary(context);
}

absl::StatusOr<std::unique_ptr<ExecutionWatcher>> MakeWatch(const WatchContext& context) {
  ASSIGN_OR_RETURN(std::unique_ptr<ExecutionWatcher> watch, WhereWatch::Make(context));
  KeepForTimeline(context, watch.get());
  return watch;
}

// Ids of names, and how long what has them took in all.
class Names {
 public:
  uint32_t IdOf(const std::string& name) {
    const auto [known, is_new] = ids_.try_emplace(name, static_cast<uint32_t>(names_.size()));
    if (is_new) names_.push_back(name);
    return known->second;
  }
  void AddTime(uint32_t id, int64_t duration_ps) {
    total_ps_.resize(names_.size());
    total_ps_[id] = SaturatingAdd(total_ps_[id], duration_ps);
  }

  // The longest first; `lanes` follow.
  std::vector<std::string> Ordered(std::vector<TimelineLane>* lanes) && {
    total_ps_.resize(names_.size());
    std::vector<uint32_t> order(names_.size()), place(names_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater(), [&](uint32_t id) { return total_ps_[id]; });
    std::vector<std::string> ordered;
    for (const uint32_t id : order) {
      place[id] = static_cast<uint32_t>(ordered.size());
      ordered.push_back(std::move(names_[id]));
    }
    for (TimelineLane& lane : *lanes) {
      for (uint32_t& name : lane.name) name = place[name];
    }
    return ordered;
  }

 private:
  absl::flat_hash_map<std::string, uint32_t> ids_;
  std::vector<std::string> names_;
  std::vector<int64_t> total_ps_;
};

// Puts a lane in order.
void Sort(TimelineLane* lane) {
  std::vector<uint32_t> order(lane->size());
  std::iota(order.begin(), order.end(), uint32_t{0});
  const auto comes_before = [&](uint32_t a, uint32_t b) {
    if (lane->start_ps[a] != lane->start_ps[b]) return lane->start_ps[a] < lane->start_ps[b];
    return lane->duration_ps[a] > lane->duration_ps[b];
  };
  if (std::ranges::is_sorted(order, comes_before)) return;
  std::ranges::stable_sort(order, comes_before);
  TimelineLane sorted{lane->device, lane->of, lane->line, lane->clock};
  for (const uint32_t i : order) sorted.Add(lane->start_ps[i], lane->duration_ps[i], lane->name[i]);
  *lane = std::move(sorted);
}

// Makes the lanes, device by device.
class Builder {
 public:
  explicit Builder(const Trace& trace) : trace_(trace) {}

  void AddSteps(const DeviceAnalysis& device, std::span<const WhereStep> steps) {
    TimelineLane lane = LaneOf(device, TimelineLane::Of::kSteps);
    for (const WhereStep& step : steps) {
      lane.Add(step.start_ps, step.time.span_ps.value_or(0), names_.IdOf(step.name));
    }
    Keep(std::move(lane));
  }

  // The profile clock is used for a run if its program lacks the lane's clock.
  void AddRuns(const DeviceAnalysis& device) {
    TimelineLane lane = LaneOf(device, TimelineLane::Of::kRuns);
    for (const RunSample& run : device.samples) {
      const std::string& function = device.tables->programs[run.program].function;
      const uint32_t name = names_.IdOf(run.suspect ? function + " (suspect)" : function);
      if (run.clock == lane.clock) {
        lane.Add(run.start_ps, run.span_ps, name);
      } else {
        lane.Add(run.profile.start_ps, run.profile.end_ps - run.profile.start_ps, name);
      }
    }
    Keep(std::move(lane));
  }

  void AddLines(const DeviceAnalysis& device) {
    std::vector<uint32_t> name_of;  // by op
    for (size_t op = 0; op < device.tables->ops.size(); ++op) {
      name_of.push_back(names_.IdOf(device.tables->ops[op].kernel));
    }
    uint32_t line = trace_.planes[device.plane.plane].first_line;
    for (WhereWatch::LineColumns& columns : static_cast<WhereWatch&>(*device.watcher).TakeLines()) {
      if (!columns.start_ps.empty()) device_lines_.insert(line);
      TimelineLane lane = LaneOf(device, TimelineLane::Of::kExecutions);
      lane.line = trace_.lines[line++].shown_name();
      lane.start_ps = std::move(columns.start_ps);
      lane.duration_ps = std::move(columns.duration_ps);
      lane.name = std::move(columns.op);
      for (size_t at = 0; at < lane.size(); ++at) {
        lane.name[at] = name_of[lane.name[at]];
        names_.AddTime(lane.name[at], lane.duration_ps[at]);
      }
      Keep(std::move(lane));
    }
  }

  // After the devices.
  absl::Status AddHosts(std::span<const DeviceAnalysis> devices, int threads) {
    std::set<HostKey> hosts;
    for (const DeviceAnalysis& device : devices) {
      hosts.insert(MakeHostKey(trace_.planes[device.plane.plane]));
    }
    ASSIGN_OR_RETURN(std::vector<HostLane> lanes,
                     ReadHostLanes(trace_, hosts, device_lines_, threads));
    for (HostLane& from : lanes) {
      const Line& line = trace_.lines[from.line];
      const Plane& plane = trace_.planes[line.plane];
      TimelineLane lane;
      lane.device.plane = std::string(plane.name);
      lane.device.host = std::string(plane.host);
      lane.device.input = plane.file;
      lane.of = TimelineLane::Of::kHost;
      lane.line = std::string(line.shown_name());
      lane.start_ps = std::move(from.start_ps);
      lane.duration_ps = std::move(from.duration_ps);
      lane.name = std::move(from.name);
      std::vector<uint32_t> id_of;
      for (const std::string& name : from.names) id_of.push_back(names_.IdOf(name));
      for (uint32_t& name : lane.name) name = id_of[name];
      Keep(std::move(lane));
    }
    return absl::OkStatus();
  }

  Timeline Build() && {
    Timeline timeline{.lanes = std::move(lanes_)};
    timeline.names = std::move(names_).Ordered(&timeline.lanes);
    return timeline;
  }

 private:
  static TimelineLane LaneOf(const DeviceAnalysis& device, TimelineLane::Of of) {
    return {.device = device.row.device, .of = of, .clock = device.watch_clock};
  }

  void Keep(TimelineLane lane) {
    if (lane.size() == 0) return;
    Sort(&lane);
    lanes_.push_back(std::move(lane));
  }

  const Trace& trace_;
  Names names_;
  absl::flat_hash_set<uint32_t> device_lines_;  // with executions
  std::vector<TimelineLane> lanes_;
};

// Takes an analysis with WhereWatches and consumes them; `where` is the report of the same
// analysis.
absl::StatusOr<Timeline> TimelineOf(const Trace& trace, const WhereReport& where, int threads,
                                    Analysis* analysis) {
  Builder builder(trace);
  std::span<const WhereStep> steps = where.steps;  // by device
  auto row = where.devices.begin();                // of the devices that executed something
  for (DeviceAnalysis& device : analysis->devices) {
    if (device.watcher == nullptr) continue;
    if (device.row.executions > 0) {
      builder.AddSteps(device, steps.first(row->steps));
      steps = steps.subspan(row->steps);
      ++row;
    }
    builder.AddRuns(device);
    builder.AddLines(device);
    device.watcher.reset();
  }
  RETURN_IF_ERROR(builder.AddHosts(analysis->devices, threads));
  return std::move(builder).Build();
}

// For steps and parts.
WhereOptions WithoutHost(const ReportOptions& options) {
  WhereOptions where;
  where.threads = options.threads;
  where.step = options.step;
  where.host_of_gaps = false;
  return where;
}

std::optional<DeviceParts> PartsOf(const TimeParts& time) {
  if (!time.span_ps.has_value()) return std::nullopt;
  return DeviceParts{.span_ps = *time.span_ps,
                     .compute_ps = *time.compute_ps,
                     .collective_exposed_ps = *time.collective_exposed_ps,
                     .copy_exposed_ps = *time.copy_exposed_ps,
                     .other_ps = *time.other_ps,
                     .idle_ps = *time.idle_ps};
}

}  // namespace

std::string_view TimelineLane::name_of_lane() const {
  if (of == Of::kSteps) return "steps";
  return of == Of::kRuns ? std::string_view("runs") : line;
}

absl::StatusOr<Timeline> BuildTimeline(const Trace& trace, const ReportOptions& options,
                                       const Diagnostics& reading) {
  ASSIGN_OR_RETURN(Analysis analysis, AnalyzeAndWatch(trace, options, reading, MakeWatch));
  ASSIGN_OR_RETURN(const WhereReport where, WhereOf(trace, &analysis, WithoutHost(options), true));
  return TimelineOf(trace, where, options.threads, &analysis);
}

absl::StatusOr<ReportAndTimeline> BuildReportAndTimeline(const Trace& trace,
                                                         const ReportOptions& options,
                                                         const Diagnostics& reading) {
  ASSIGN_OR_RETURN(Analysis analysis, AnalyzeAndWatch(trace, options, reading, MakeWatch));
  ASSIGN_OR_RETURN(const WhereReport where, WhereOf(trace, &analysis, WithoutHost(options), true));
  ReportAndTimeline both;
  std::vector<std::optional<StepSummary>> steps;  // the timeline takes the watches
  for (const DeviceAnalysis& device : analysis.devices) {
    const auto* const watch = static_cast<const WhereWatch*>(device.watcher.get());
    steps.push_back(watch == nullptr ? std::nullopt
                                     : SummarizeSteps(device, watch->summary(), analysis.filters));
  }
  ASSIGN_OR_RETURN(both.timeline, TimelineOf(trace, where, options.threads, &analysis));
  both.report = ReportOf(trace, options, &analysis);
  auto row = where.devices.begin();
  for (DeviceRow& device : both.report.devices) {
    if (device.executions > 0) device.parts = PartsOf((row++)->time);
  }
  for (size_t i = 0; i < steps.size(); ++i) both.report.devices[i].steps = std::move(steps[i]);
  return both;
}

absl::StatusOr<WhereAndTimeline> FindWhereAndTimeline(const Trace& trace,
                                                      const WhereOptions& options,
                                                      const Diagnostics& reading) {
  const auto watch =
      [&](const WatchContext& context) -> absl::StatusOr<std::unique_ptr<ExecutionWatcher>> {
    ASSIGN_OR_RETURN(std::unique_ptr<ExecutionWatcher> made,
                     WhereWatch::MakeKeepingGaps(context, options.gaps));
    KeepForTimeline(context, made.get());
    return made;
  };
  ASSIGN_OR_RETURN(Analysis analysis, AnalyzeForWhere(trace, options, reading, watch));
  WhereAndTimeline both;
  ASSIGN_OR_RETURN(both.where, WhereOf(trace, &analysis, options, /*keeps_devices=*/true));
  ASSIGN_OR_RETURN(both.timeline, TimelineOf(trace, both.where, options.threads, &analysis));
  return both;
}

}  // namespace xplane_time::insight
