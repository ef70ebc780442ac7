#include "insight/kernels_alike.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>

#include "status.h"
#include "timing/analysis.h"
#include "timing/step_marks.h"

namespace xplane_time::insight {
namespace {

class KernelWatch : public ExecutionWatcher {
 public:
  KernelWatch(const WatchContext& context, const MarkedRuns& runs, StepMarking marking)
      : clock_(context.clock), tables_(context.tables), runs_(runs), marking_(std::move(marking)) {}

  absl::Status Add(std::span<const Execution> chunk) override {
    for (const Execution& each : chunk) {
      if (runs_.program.has_value() && each.program != *runs_.program) continue;
      const uint32_t run = runs_.program.has_value() ? each.run : marking_.StepOf(each);
      if (run >= runs_.by_run.size()) continue;
      if (tables_->ops[each.op].category != Category::kCompute) continue;
      const bool on_device = clock_ == Clock::kDevice && each.has_device_clock();
      const Interval interval = each.IntervalOn(on_device ? Clock::kDevice : Clock::kProfile);
      MarkedTimes& times = kernels[each.op][runs_.by_run[run]];
      times.count += 1;
      times.sum_ps += static_cast<double>(interval.end_ps - interval.start_ps);
    }
    return absl::OkStatus();
  }

  KernelTimes kernels;

 private:
  const Clock clock_;
  const std::shared_ptr<const ExecutionTables> tables_;
  const MarkedRuns& runs_;
  StepMarking marking_;
};

}  // namespace

std::optional<KernelsAlike> CompareKernels(const ExecutionTables& tables,
                                           const KernelTimes& kernels) {
  constexpr double kLeastCount = 3, kTails = 0.05;
  KernelsAlike alike;
  std::vector<std::pair<double, double>> ratios;  // and time
  double all_ps = 0, most_lost_ps = 0;
  for (const auto& [op, times] : kernels) {
    const MarkedTimes &fast = times[MarkedRuns::kFast], &slow = times[MarkedRuns::kSlow];
    if (std::min(fast.count, slow.count) < kLeastCount || fast.sum_ps <= 0) continue;
    ratios.emplace_back(slow.mean_ps() / fast.mean_ps(), fast.sum_ps);
    all_ps += fast.sum_ps;
    const double lost_ps = slow.sum_ps - slow.count * fast.mean_ps();
    if (lost_ps <= most_lost_ps) continue;
    most_lost_ps = lost_ps;
    alike.slowest = tables.ops[op].hlo_op.empty() ? tables.ops[op].kernel : tables.ops[op].hlo_op;
    alike.slowest_ratio = ratios.back().first;
  }
  if (ratios.size() < 2) return std::nullopt;
  alike.kernels = ratios.size();
  std::ranges::sort(ratios);
  double up_to_ps = 0;
  alike.least_ratio = alike.most_ratio = ratios.front().first;
  for (const auto& [ratio, ps] : ratios) {
    if (up_to_ps <= kTails * all_ps) alike.least_ratio = ratio;
    if (up_to_ps <= (1 - kTails) * all_ps) alike.most_ratio = ratio;
    up_to_ps += ps;
  }
  return alike;
}

absl::StatusOr<std::optional<KernelsAlike>> CompareKernels(const Trace& trace,
                                                           const MarkedRuns& runs, int threads) {
  ReportOptions how;
  how.device = runs.device.plane;
  how.step = runs.step;
  how.threads = threads;
  const auto make =
      [&](const WatchContext& context) -> absl::StatusOr<std::unique_ptr<ExecutionWatcher>> {
    ASSIGN_OR_RETURN(StepMarking marking, StepMarking::Find(context, HostNeed::kLaunches));
    return std::make_unique<KernelWatch>(context, runs, std::move(marking));
  };
  ASSIGN_OR_RETURN(const Analysis analysis, AnalyzeAndWatch(trace, how, {}, make));
  for (const DeviceAnalysis& device : analysis.devices) {
    if (device.row.device != runs.device || device.watcher == nullptr) continue;
    return CompareKernels(*device.tables, static_cast<const KernelWatch&>(*device.watcher).kernels);
  }
  return std::nullopt;
}

}  // namespace xplane_time::insight
