#include "timing/module_paths.h"

#include <algorithm>

#include "saturate.h"
#include "status.h"

namespace xplane_time {

absl::StatusOr<std::unique_ptr<ExecutionWatcher>> ModulePaths::Make(const WatchContext& context,
                                                                    const Filters& filters) {
  const Plane& plane = context.trace.planes[context.plane.plane];
  const KindRules& rules = RulesOf(context.plane.kind);
  const gpu_runs::HostEvidence* evidence = nullptr;
  if (HasStat(plane, rules.in_ranges_stat)) {
    ASSIGN_OR_RETURN(evidence, context.evidence());
  }
  const bool any = evidence != nullptr &&
                   std::ranges::any_of(evidence->ranges.names(),
                                       [](const auto& name) { return !name.module.empty(); });
  if (!any) {
    return FailedPrecondition(context.trace.files[plane.file].path, ": ", plane.name,
                              ": the trace has no nn.Modules; record it with torch.profiler and "
                              "with_modules=True or with_stack=True");
  }
  return std::unique_ptr<ExecutionWatcher>(new ModulePaths(context, *evidence, filters));
}

ModulePaths::ModulePaths(const WatchContext& context, const gpu_runs::HostEvidence& evidence,
                         const Filters& filters)
    : tables_(context.tables),
      filters_(filters),
      launch_id_(*RulesOf(context.plane.kind).launch_id),
      ranges_(evidence.ranges),
      launch_ranges_(context.trace, evidence) {
  for (const auto& name : ranges_.names()) {
    wanted_.push_back(filters.WantsFunction(name.function) ? 1 : 0);
  }
}

bool ModulePaths::Wants(const std::vector<uint32_t>* ranges) const {
  if (!filters_.any_function()) return true;
  return ranges != nullptr && std::ranges::any_of(*ranges, [&](uint32_t range) {
           return wanted_[ranges_.ranges()[range].name] != 0;
         });
}

ModulePaths::Sum* ModulePaths::SumOf(const std::vector<uint32_t>& ranges) {
  path_.clear();
  for (const uint32_t range : ranges) {
    const uint32_t name = ranges_.ranges()[range].name;
    if (!ranges_.names()[name].module.empty()) path_.push_back(name);
  }
  std::ranges::reverse(path_);
  return &sums_[path_];
}

absl::Status ModulePaths::Add(std::span<const Execution> chunk) {
  for (const Execution& execution : chunk) {
    if (!filters_.WantsOp(tables_->ops[execution.op])) continue;
    const std::vector<uint32_t>* const ranges = launch_ranges_.Of(execution.numbers[launch_id_]);
    if (!Wants(ranges)) continue;
    Sum* const sum = ranges == nullptr ? &without_launch_ : SumOf(*ranges);
    ++sum->count;
    sum->total_ps = SaturatingAdd(sum->total_ps, execution.duration_ps);
  }
  return absl::OkStatus();
}

void ModulePaths::Finish() {
  for (const auto& [names, sum] : sums_) {
    std::vector<std::string> path;
    for (const uint32_t name : names) path.push_back(ranges_.names()[name].module);
    Sum& of_path = sums_by_path_[path];
    of_path.count += sum.count;
    of_path.total_ps = SaturatingAdd(of_path.total_ps, sum.total_ps);
  }
}

}  // namespace xplane_time
