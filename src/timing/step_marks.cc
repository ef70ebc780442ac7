#include "timing/step_marks.h"

#include <algorithm>
#include <utility>

#include "read/plane_index.h"
#include "status.h"
#include "xplane_time/read.h"

namespace xplane_time {
namespace {

// The plane's line `Steps`.
absl::StatusOr<std::vector<StepMark>> ReadStepLine(const Trace& trace, const Plane& plane) {
  std::vector<StepMark> marks;
  Diagnostics ignored;
  for (uint32_t line = plane.first_line; line < plane.first_line + plane.line_count; ++line) {
    const std::string_view name = trace.lines[line].name;
    if (name != "Steps" && name != "Sparse Core Steps") continue;
    RETURN_IF_ERROR(VisitEvents(trace, line, {}, &ignored, [&](const EventBatch& batch) {
      for (size_t row = 0; row < batch.size(); ++row) {
        const int64_t start_ps = batch.start_ps[row];
        if (start_ps == kNoTimePs) continue;
        marks.push_back({{start_ps, start_ps + batch.duration_ps[row]},
                         EventName(plane, batch.metadata[row], batch.metadata_id[row])});
      }
      return absl::OkStatus();
    }));
  }
  return marks;
}

// Whether one of the planes of the device's host fulfils the condition.
bool AnyHostPlane(const Trace& trace, const Plane& own, const auto& condition) {
  const auto index = IndexPlanes(trace);
  return std::ranges::any_of(index->HostPlanes(own),
                             [&](uint32_t plane) { return condition(trace.planes[plane]); });
}

// Whether the device's host has events with this stat.
bool HostHasStat(const Trace& trace, const Plane& own, std::string_view stat) {
  return AnyHostPlane(trace, own, [&](const Plane& plane) { return HasStat(plane, stat); });
}

std::vector<StepMark> HostMarks(const gpu_runs::HostEvidence& evidence) {
  std::vector<StepMark> marks;
  for (const gpu_runs::HostEvidence::Step& step : evidence.marked_steps) {
    marks.push_back({step.interval, step.name});
  }
  return marks;
}

}  // namespace

StepMarks::StepMarks(std::vector<StepMark> marks) : marks_(std::move(marks)) {
  std::ranges::stable_sort(marks_, {}, [](const StepMark& mark) { return mark.interval.start_ps; });
  int64_t furthest_ps = kNoTimePs;
  for (const StepMark& mark : marks_) {
    furthest_ps = std::max(furthest_ps, mark.interval.end_ps);
    furthest_end_ps_.push_back(furthest_ps);
  }
}

std::vector<int64_t> StepMarks::starts_ps() const {
  std::vector<int64_t> starts_ps;
  for (const StepMark& mark : marks_) starts_ps.push_back(mark.interval.start_ps);
  return starts_ps;
}

uint32_t StepMarks::Around(int64_t time_ps, size_t* near) const {
  // Behind so many marks that are over, an earlier one that goes on is not searched for.
  constexpr size_t kMaxSteps = 1024;
  const auto has_begun = [&](size_t i) { return marks_[i].interval.start_ps <= time_ps; };
  const auto are_begun = [&](size_t count) {
    return (count == 0 || has_begun(count - 1)) && (count == marks_.size() || !has_begun(count));
  };
  size_t at = std::min(*near, marks_.size());  // how many have begun
  if (!are_begun(at)) {
    const auto after = std::ranges::upper_bound(
        marks_, time_ps, {},
        [](const StepMark& mark) -> const int64_t& { return mark.interval.start_ps; });
    at = static_cast<size_t>(after - marks_.begin());
  }
  *near = at;
  for (size_t steps = 0; at > 0 && steps < kMaxSteps; ++steps) {
    if (furthest_end_ps_[--at] <= time_ps) break;
    if (marks_[at].interval.end_ps > time_ps) return static_cast<uint32_t>(at);
  }
  return kNone;
}

StepMarking::StepMarking(const WatchContext& context)
    : rules_(&RulesOf(context.plane.kind)), clock_(context.clock) {}

absl::StatusOr<StepMarking> StepMarking::Find(const WatchContext& context, HostNeed need) {
  const Trace& trace = context.trace;
  const Plane& plane = trace.planes[context.plane.plane];
  StepMarking found(context);
  std::vector<StepMark> marks;
  if (!context.steps_by_name) {
    ASSIGN_OR_RETURN(marks, ReadStepLine(trace, plane));
  }
  if (!marks.empty()) found.marked_by_ = StepSource::kStepLine;
  const bool may_mark =
      marks.empty() && (context.steps_by_name || HostHasStat(trace, plane, "step_num"));
  found.may_launch_ =
      found.rules_->launch_id.has_value() && HostHasStat(trace, plane, "correlation_id");
  const bool wants_launches = need != HostNeed::kMarks || context.evidence_is_read;
  // A host without events proves nothing, such as that it dispatched no work.
  found.has_host_ =
      AnyHostPlane(trace, plane, [&](const Plane& of_host) { return HasEvents(trace, of_host); });
  if (found.has_host_ &&
      (may_mark || (found.may_launch_ && wants_launches) || need == HostNeed::kAll)) {
    ASSIGN_OR_RETURN(found.host_, context.evidence());
    found.has_launches_ = found.may_launch_ && !found.host_->launches.empty();
    if (may_mark) marks = HostMarks(*found.host_);
    if (may_mark && !marks.empty()) {
      found.marked_by_ = found.has_launches_ ? StepSource::kHostLaunch : StepSource::kHostTime;
    }
  }
  found.marks_ = StepMarks(std::move(marks));
  return found;
}

int64_t StepMarking::LaunchPs(int64_t launch_id) {
  if (!has_launches_ || launch_id == 0) return kNoTimePs;
  const std::optional<gpu_runs::Launch> launch =
      host_->launches.FindFirst(static_cast<uint64_t>(launch_id), &place_);
  any_launch_ |= launch.has_value();
  return launch.has_value() ? launch->start_ps : kNoTimePs;
}

uint32_t StepMarking::LaunchLine(int64_t launch_id) const {
  if (!has_launches_ || launch_id == 0) return kNone;
  gpu_runs::LaunchTable::Place place;
  const std::optional<gpu_runs::Launch> launch =
      host_->launches.FindFirst(static_cast<uint64_t>(launch_id), &place);
  return launch.has_value() ? launch->line : kNone;
}

uint32_t StepMarking::StepOf(const Execution& execution) {
  if (marks_.size() == 0) return kNone;
  if (marked_by_ != StepSource::kHostLaunch) return marks_.Around(execution.start_ps, &near_mark_);
  const int64_t launch_ps = LaunchPs(execution.numbers[*rules_->launch_id]);
  return launch_ps == kNoTimePs ? kNone : marks_.Around(launch_ps, &near_mark_);
}

}  // namespace xplane_time
