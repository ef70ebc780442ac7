#include "timing/range_runs.h"

#include <algorithm>

namespace xplane_time {

RangeRuns::RangeRuns(const Trace& trace, const gpu_runs::HostEvidence& evidence,
                     const KindRules& rules, const ExecutionTables& tables, const Filters& filters)
    : evidence_(evidence),
      launch_ranges_(trace, evidence),
      launch_id_(*rules.launch_id),
      tables_(tables),
      filters_(filters),
      runs_(evidence.ranges.ranges().size()) {
  for (const auto& name : ranges().names()) {
    name_wanted_.push_back(filters.WantsFunction(name.function) ? 1 : 0);
  }
}

bool RangeRuns::Wants(uint32_t op) {
  while (op_wanted_.size() <= op) {
    op_wanted_.push_back(filters_.WantsOp(tables_.ops[op_wanted_.size()]) ? 1 : 0);
  }
  return op_wanted_[op] != 0;
}

bool RangeRuns::AnyWanted(const std::vector<uint32_t>* in) const {
  return in != nullptr && std::ranges::any_of(*in, [&](uint32_t range) {
           return name_wanted_[ranges().ranges()[range].name] != 0;
         });
}

void RangeRuns::Add(std::span<const Execution> chunk) {
  in_function_.clear();
  for (const Execution& execution : chunk) {
    const std::vector<uint32_t>* const ranges = launch_ranges_.Of(execution.numbers[launch_id_]);
    if (filters_.any_function()) in_function_.push_back(AnyWanted(ranges) ? 1 : 0);
    if (ranges == nullptr) continue;
    const bool wanted = Wants(execution.op);
    for (const uint32_t range : *ranges) {
      OneRun& run = runs_[range];
      if (run.profile.end_ps == Run::kUnset) run.profile.start_ps = execution.start_ps;
      run.profile.end_ps = std::max(run.profile.end_ps, execution.end_ps());
      ++run.times.executions;
      if (wanted) run.times.Add({execution.start_ps, execution.end_ps()});
    }
  }
}

}  // namespace xplane_time
