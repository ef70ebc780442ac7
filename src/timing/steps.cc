#include "timing/steps.h"

#include <algorithm>

#include "stats/order_statistics.h"

namespace xplane_time {

std::vector<PlacedStep> PlaceSteps(int64_t first_ps, std::span<const StepMembers> members) {
  std::vector<PlacedStep> steps;
  steps.reserve(members.size());
  int64_t end_ps = first_ps;
  size_t ended_by = 0;
  for (size_t i = 0; i < members.size(); ++i) {
    const StepMembers& own = members[i];
    PlacedStep step = {.interval = {end_ps, end_ps}};
    if (own.mark_start_ps.has_value()) {
      const bool is_mark = *own.mark_start_ps < own.start_ps;
      const int64_t start_ps = is_mark ? *own.mark_start_ps : own.start_ps;
      if (start_ps > end_ps) {
        step.interval.start_ps = start_ps;
        step.begin = is_mark ? PlacedStep::Begin::kMark : PlacedStep::Begin::kMember;
      }
    } else if (i == 0) {
      step.interval.start_ps = own.start_ps;
      step.begin = PlacedStep::Begin::kMember;
    }
    if (i == 0 || own.end_ps > end_ps) {
      end_ps = std::max(end_ps, own.end_ps);
      ended_by = i;
    }
    step.interval.end_ps = end_ps;
    step.ended_by = ended_by;
    steps.push_back(step);
  }
  return steps;
}

std::optional<double> MedianSpan(std::span<const StepMembers> members,
                                 std::span<const PlacedStep> placed) {
  std::vector<double> spans_ps;
  for (const PlacedStep& step : placed.subspan(CountUntimed(members))) {
    spans_ps.push_back(static_cast<double>(step.interval.end_ps - step.interval.start_ps));
  }
  return spans_ps.empty() ? std::nullopt : std::optional(stats::Median(spans_ps));
}

std::optional<double> MedianPeriod(std::span<const StepMembers> members,
                                   std::span<const PlacedStep> placed) {
  std::vector<double> periods_ps;
  for (size_t i = CountUntimed(members) + 1; i < placed.size(); ++i) {
    periods_ps.push_back(static_cast<double>(placed[i].interval.start_ps) -
                         static_cast<double>(placed[i - 1].interval.start_ps));
  }
  return periods_ps.empty() ? std::nullopt : std::optional(stats::Median(periods_ps));
}

}  // namespace xplane_time
