#include "timing/lost_runs.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "xplane_time/diagnostics.h"

namespace xplane_time {
namespace {

using gpu_runs::HostEvidence, gpu_runs::Launch;

enum Mark : uint8_t { kWhole, kPending, kLost };

// One host execution of a module.
struct HostExecution {
  uint32_t line;
  Interval interval;
  int64_t furthest_end_ps;  // of this one and all before it in its list
  const std::string* module;
  size_t index;  // among those of the module
};

// Past so many executions that are over before a launch, its owner is unknown.
constexpr size_t kMaxSteps = 1024;

// The host executions of all modules of a host.
class HostExecutions {
 public:
  explicit HostExecutions(const HostEvidence& evidence) {
    for (const auto& [module, executions] : evidence.executions) {
      for (size_t i = 0; i < executions.size(); ++i) {
        all_.push_back({executions[i].line, executions[i].interval, 0, &module, i});
      }
    }
    by_line_ = all_;
    // The order of a hash map must not show.
    std::ranges::sort(all_, {}, [](const HostExecution& each) {
      return std::tuple(each.interval.start_ps, each.line, *each.module, each.index);
    });
    std::ranges::sort(by_line_, {}, [](const HostExecution& each) {
      return std::tuple(each.line, each.interval.start_ps, *each.module, each.index);
    });
    for (size_t i = 0; i < all_.size(); ++i) {
      all_[i].furthest_end_ps = all_[i].interval.end_ps;
      by_line_[i].furthest_end_ps = by_line_[i].interval.end_ps;
      if (i == 0) continue;
      all_[i].furthest_end_ps = std::max(all_[i].interval.end_ps, all_[i - 1].furthest_end_ps);
      if (by_line_[i].line != by_line_[i - 1].line) continue;
      by_line_[i].furthest_end_ps =
          std::max(by_line_[i].interval.end_ps, by_line_[i - 1].furthest_end_ps);
    }
  }

  // The owner of a launch; null: unknown.
  const HostExecution* FindAround(const Launch& launch) const {
    const auto own = std::ranges::upper_bound(
        by_line_, std::pair(launch.line, launch.start_ps), {},
        [](const HostExecution& each) { return std::pair(each.line, each.interval.start_ps); });
    size_t steps = 0;
    for (auto at = own; at != by_line_.begin() && steps < kMaxSteps; ++steps) {
      --at;
      if (at->line != launch.line || at->furthest_end_ps <= launch.start_ps) break;
      if (at->interval.end_ps > launch.start_ps) return &*at;
    }
    const HostExecution* only = nullptr;
    auto at = std::ranges::upper_bound(all_, launch.start_ps, {}, [](const HostExecution& each) {
      return each.interval.start_ps;
    });
    for (steps = 0; at != all_.begin(); ++steps) {
      if (steps == kMaxSteps) return nullptr;
      --at;
      if (at->furthest_end_ps <= launch.start_ps) break;
      if (at->interval.end_ps <= launch.start_ps) continue;
      if (only != nullptr) return nullptr;
      only = &*at;
    }
    return only;
  }

 private:
  std::vector<HostExecution> all_, by_line_;  // by start; by line, then by start
};

// The host executions of a module that own launches without an execution, by index.
struct Owners {
  std::set<size_t> lost, pending;

  // The worst mark of the executions from first to last.
  Mark Worst(size_t first, size_t last) const {
    const auto any = [&](const std::set<size_t>& indices) {
      const auto found = indices.lower_bound(first);
      return found != indices.end() && *found <= last;
    };
    return any(lost) ? kLost : any(pending) ? kPending : kWhole;
  }
};

// By module, for launches of one device. A null device stands for all devices.
using ModuleOwners = std::map<std::pair<std::string, const DeviceAnalysis*>, Owners>;

class LostRuns {
 public:
  LostRuns(const Trace& trace, const HostEvidence& evidence,
           std::span<DeviceAnalysis* const> devices, Analysis* analysis)
      : trace_(trace), evidence_(evidence), devices_(devices), analysis_(analysis) {}

  void FindOwners(std::span<const LostLaunch> lost) {
    const HostExecutions executions(evidence_);
    for (const LostLaunch& each : lost) {
      const Mark mark = each.is_pending ? kPending : kLost;
      bool owned = false;
      if (const HostExecution* const owner = executions.FindAround(each.launch)) {
        Owners& owners = modules_[{*owner->module, each.device}];
        (each.is_pending ? owners.pending : owners.lost).insert(owner->index);
        owned = true;
      }
      const auto add = [&](uint32_t range) {
        Mark& own = ranges_.try_emplace(range, kWhole).first->second;
        own = std::max(own, mark);
        owned = true;
      };
      const Launch& launch = each.launch;
      evidence_.ranges.ForEachAround({false, evidence_.ThreadOf(launch.line)}, launch.start_ps,
                                     add);
      evidence_.ranges.ForEachAround({true, trace_.lines[launch.line].plane}, launch.start_ps, add);
      if (!owned && mark == kLost) ++unowned_[each.device];
    }
  }

  void MarkRuns() {
    for (DeviceAnalysis* const device : devices_) {
      MarkSamples(device->samples, device,
                  [&](const RunSample& sample) { return MarkOfRun(*device, sample); });
      MarkSamples(device->ranges, device, [&](const RunSample& sample) {
        const auto found = ranges_.find(sample.id);
        return found == ranges_.end() ? kWhole : found->second;
      });
    }
  }

  void DoubtRuns(uint64_t compared) {
    constexpr uint64_t kPartOfAll = 100;
    const auto any_device = unowned_.find(nullptr);
    for (DeviceAnalysis* const device : devices_) {
      const auto own = unowned_.find(device);
      const uint64_t count = (own == unowned_.end() ? 0 : own->second) +
                             (any_device == unowned_.end() ? 0 : any_device->second);
      if (count <= compared / devices_.size() / kPartOfAll) continue;
      for (RunSample& sample : device->samples) {
        const std::string& function = device->tables->programs[sample.program].function;
        sample.in_doubt = evidence_.ExecutionsOf(function) == nullptr;
      }
    }
  }

  // Functions that lost launches and that no device executed.
  void CountLostFunctions() {
    std::set<std::string> executed;
    for (const DeviceAnalysis* const device : devices_) {
      for (size_t i = 0; i < device->tables->programs.size(); ++i) {
        executed.insert(device->tables->programs[i].function);
      }
    }
    const Plane& plane = trace_.planes[devices_.front()->plane.plane];
    for (const auto& [key, owners] : modules_) {
      if (executed.contains(key.first) || owners.lost.empty()) continue;
      const uint64_t count = owners.lost.size();
      uint64_t& lost = analysis_->lost_functions[MakeHostKey(plane)][key.first];
      lost = std::max(lost, count);
    }
  }

 private:
  Mark MarkOfRun(const DeviceAnalysis& device, const RunSample& sample) {
    const auto runs = device.launches->runs();
    if (sample.id >= runs.size() || runs[sample.id].first_ps == kNoTimePs) return kWhole;
    const LaunchCheck::RunLaunches& run = runs[sample.id];
    const std::string& function = device.tables->programs[sample.program].function;
    Mark worst = kWhole;
    for (const DeviceAnalysis* const of : {&device, static_cast<const DeviceAnalysis*>(nullptr)}) {
      const auto found = modules_.find({function, of});
      if (found == modules_.end()) continue;
      const std::vector<HostEvidence::Execution>& executions = *evidence_.ExecutionsOf(function);
      const auto first =
          HostEvidence::ExecutionAround({run.first_ps, run.line}, executions, &place_);
      const auto last = HostEvidence::ExecutionAround({run.last_ps, run.line}, executions, &place_);
      if (!first.has_value()) continue;
      const size_t end = std::max(*first, last.value_or(*first));
      worst = std::max(worst, found->second.Worst(*first, end));
    }
    return worst;
  }

  // `samples`: in order of their programs.
  template <typename Samples, typename MarkOf>
  void MarkSamples(Samples& samples, const DeviceAnalysis* device, MarkOf mark_of) {
    if (modules_.empty() && ranges_.empty()) return;
    uint64_t newly_suspect = 0;
    std::vector<Mark> marks;
    for (size_t begin = 0, end = 0; begin < samples.size(); begin = end) {
      marks.clear();
      bool any_lost = false, any_whole = false;
      for (; end < samples.size() && samples[end].program == samples[begin].program; ++end) {
        const Mark mark = samples[end].has_active ? mark_of(samples[end]) : kWhole;
        marks.push_back(mark);
        any_lost |= mark == kLost;
        any_whole |= mark == kWhole && samples[end].has_active && !samples[end].suspect;
      }
      for (size_t i = begin; i < end; ++i) {
        const Mark mark = marks[i - begin];
        if (mark == kWhole || (mark == kPending && !any_lost && !any_whole)) continue;
        newly_suspect += samples[i].suspect ? 0 : 1;
        samples[i].suspect = samples[i].incomplete = true;
      }
    }
    analysis_->diagnostics.Count(DiagnosticCode::kSuspectRun, {.plane = device->plane.plane},
                                 newly_suspect);
  }

  const Trace& trace_;
  const HostEvidence& evidence_;
  const std::span<DeviceAnalysis* const> devices_;
  Analysis* const analysis_;
  ModuleOwners modules_;
  absl::flat_hash_map<uint32_t, Mark> ranges_;         // by range
  std::map<const DeviceAnalysis*, uint64_t> unowned_;  // numbers of lost launches
  size_t place_ = 0;
};

}  // namespace

void MarkLostRuns(const Trace& trace, const HostEvidence& evidence,
                  std::span<DeviceAnalysis* const> devices, std::span<const LostLaunch> lost,
                  uint64_t compared, Analysis* analysis) {
  LostRuns runs(trace, evidence, devices, analysis);
  runs.FindOwners(lost);
  runs.MarkRuns();
  runs.DoubtRuns(compared);
  runs.CountLostFunctions();
}

}  // namespace xplane_time
