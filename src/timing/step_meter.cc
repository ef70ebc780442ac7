#include "timing/step_meter.h"

#include <numeric>
#include <utility>

namespace xplane_time {
namespace {

// Drivers start a kernel 3 to 15 us after its launch call begins. A device that idles for an
// execution which was launched longer ago than this waits for something else.
constexpr int64_t kMaxLaunchPs = int64_t{20'000'000};

int64_t CoveredPs(std::span<const Interval> merged, int64_t from_ps, int64_t to_ps) {
  int64_t covered_ps = 0;
  auto at = std::ranges::upper_bound(merged, from_ps, {}, &Interval::end_ps);
  for (; at != merged.end() && at->start_ps < to_ps; ++at) {
    covered_ps += std::min(at->end_ps, to_ps) - std::max(at->start_ps, from_ps);
  }
  return covered_ps;
}

}  // namespace

DeviceTimes& DeviceTimes::Add(const DeviceTimes& more, int64_t sign) {
  for (size_t rank = 0; rank < ranks_ps.size(); ++rank)
    ranks_ps[rank] += sign * more.ranks_ps[rank];
  idle_host_ps += sign * more.idle_host_ps;
  idle_late_ps += sign * more.idle_late_ps;
  idle_queue_ps += sign * more.idle_queue_ps;
  idle_unknown_ps += sign * more.idle_unknown_ps;
  return *this;
}

int64_t DeviceTimes::span_ps() const {
  return std::accumulate(ranks_ps.begin(), ranks_ps.end(), int64_t{0}) + idle_host_ps +
         idle_late_ps + idle_queue_ps + idle_unknown_ps;
}

StepMeter::StepMeter(const StepMarking& marking)
    : marking_(marking),
      by_marks_(marking.marked_by().has_value()),
      on_clock_(by_marks_ && marking.on_clock()) {
  if (!by_marks_) return;
  groups_.resize(1);
  units_.resize(marking.marks().size());
  if (!on_clock_) return;
  between_.resize(marking.marks().size());
  if (marking.marks().size() > 0) next_mark_ps_ = marking.marks()[0].interval.start_ps;
  pending_ps_ = next_mark_ps_;
}

void StepMeter::BeginAfterGap(int64_t start_ps, int64_t launch_ps) {
  if (!begun_) {
    begun_ = true;
    first_ps_ = start_ps;
    union_.Begin(start_ps);
  } else {
    // Executions of length 0 also end a gap.
    const int64_t idle_since_ps = std::max(union_.busy_until_ps(), last_begin_ps_);
    gap_.interval = {idle_since_ps, start_ps};
    if (launch_ps != kNoTimePs) {
      gap_.launch_ps = std::clamp(launch_ps, idle_since_ps, start_ps);
      gap_.is_late = launch_ps > idle_since_ps || launch_ps >= start_ps - kMaxLaunchPs;
    }
  }
  AdvanceTo(start_ps);
  AddIdle(gap_, start_ps, &idle_);
  ended_ = std::exchange(gap_, Gap());
  last_begin_ps_ = start_ps;
}

// Adds what the gap is up to an instant.
void StepMeter::AddIdle(const Gap& gap, int64_t until_ps, DeviceTimes* times) {
  const int64_t start_ps = gap.interval.start_ps;
  if (gap.is_empty() || until_ps <= start_ps) return;
  if (gap.launch_ps == kNoTimePs) {
    times->idle_unknown_ps += until_ps - start_ps;
    return;
  }
  const int64_t launch_ps = std::min(gap.launch_ps, until_ps);
  times->idle_host_ps += launch_ps - start_ps;
  (gap.is_late ? times->idle_late_ps : times->idle_queue_ps) += until_ps - launch_ps;
}

// The union is at the same instant. The gap at hand is not in idle_ yet.
DeviceTimes StepMeter::TimesAt(int64_t time_ps) const {
  DeviceTimes times = idle_;
  for (size_t rank = 0; rank < times.ranks_ps.size(); ++rank) {
    times.ranks_ps[rank] = union_.times_ps()[rank];
  }
  AddIdle(gap_, time_ps, &times);
  return times;
}

// Records what is pending up to an instant, in order.
void StepMeter::Record(int64_t until_ps) {
  // Usually this is just the end of the latest execution.
  if (pending_.size() == 1) {
    Group& group = groups_[pending_[0]];
    if (!group.first_pending && group.last_end_ps <= until_ps &&
        group.last_end_ps < next_mark_ps_) {
      union_.AdvanceTo(group.last_end_ps);
      group.at_last_end = TimesAt(group.last_end_ps);
      group.last_pending = false;
      pending_.clear();
      pending_ps_ = next_mark_ps_;
    }
  }
  while (pending_ps_ <= until_ps) {
    // Earlier pending entries may have been postponed.
    int64_t next_ps = next_mark_ps_;
    for (const uint32_t at : pending_) {
      const Group& group = groups_[at];
      if (group.first_pending) next_ps = std::min(next_ps, group.first_end_ps);
      if (group.last_pending) next_ps = std::min(next_ps, group.last_end_ps);
    }
    pending_ps_ = next_ps;
    if (next_ps > until_ps) return;
    union_.AdvanceTo(next_ps);
    const DeviceTimes times = begun_ ? TimesAt(next_ps) : DeviceTimes();
    if (next_mark_ps_ == next_ps) {
      at_marks_.push_back(times);
      const StepMarks& marks = marking_.marks();
      next_mark_ps_ =
          at_marks_.size() < marks.size() ? marks[at_marks_.size()].interval.start_ps : kNever;
    }
    std::erase_if(pending_, [&](uint32_t at) {
      Group& group = groups_[at];
      if (group.first_pending && group.first_end_ps <= next_ps) {
        group.first_pending = false;
        group.at_first_end = times;
      }
      if (group.last_pending && group.last_end_ps <= next_ps) {
        group.last_pending = false;
        group.at_last_end = times;
      }
      return !group.first_pending && !group.last_pending;
    });
  }
}

void StepMeter::AddMemberAfterChange(int64_t start_ps, int64_t end_ps, uint32_t unit, uint32_t at) {
  if (units_.size() <= unit) units_.resize(size_t{unit} + 1);
  if (groups_.size() <= at) groups_.resize(size_t{at} + 1);
  Unit& own = units_[unit];
  Group& group = groups_[at];
  group.AddBusy(start_ps, end_ps);
  if (own.start_ps == kNever) {
    BeginUnit(unit, start_ps, group);
    own.start_ps = start_ps;
    own.end_ps = end_ps;
    own.program = at;
  } else if (!ended_.is_empty() && marking_.host() != nullptr && marking_.on_clock()) {
    own.input_ps +=
        CoveredPs(marking_.host()->input_waits, ended_.interval.start_ps, WaitedUntil(ended_));
  }
  ended_ = {};
  own.end_ps = std::max(own.end_ps, end_ps);
  const bool is_first = group.first_unit == kNone;
  if (is_first) group.first_unit = unit;
  ExtendLast(at, end_ps);
  if (unit == group.first_unit && (is_first || end_ps > group.first_end_ps)) {
    if (!group.first_pending && !group.last_pending) pending_.push_back(at);
    group.first_end_ps = end_ps;
    group.first_pending = true;
    pending_ps_ = std::min(pending_ps_, end_ps);
  }
}

// The idle time up to the first execution, and the events since the previous step.
void StepMeter::BeginUnit(uint32_t unit, int64_t start_ps, const Group& group) {
  if (by_marks_) order_.push_back(unit);
  int64_t begin_ps = start_ps;
  if (on_clock_) {
    begin_ps = std::min(begin_ps, marking_.marks()[unit].interval.start_ps);
    Between& between = between_[unit];
    between.from_ps = group.first_unit == kNone ? first_ps_ : group.last_end_ps;
    if (begin_ps > between.from_ps) {
      between.times = begin_ps < start_ps ? at_marks_[unit] : TimesAt(start_ps);
      if (group.first_unit != kNone) between.times -= group.at_last_end;
    }
  }
  if (ended_.is_empty()) return;
  const int64_t from_ps = ended_.interval.start_ps, to_ps = WaitedUntil(ended_);
  const int64_t own_ps = on_clock_ ? std::clamp(begin_ps, from_ps, to_ps) : from_ps;
  units_[unit].begin_idle_ps = to_ps - own_ps;
  units_[unit].input_ps = InputPs(own_ps, to_ps);
  if (on_clock_ && group.first_unit != kNone) between_[unit].input_ps = InputPs(from_ps, own_ps);
}

int64_t StepMeter::WaitedUntil(const Gap& gap) const {
  if (gap.launch_ps != kNoTimePs) return gap.launch_ps;
  return marking_.has_launches() ? gap.interval.start_ps : gap.interval.end_ps;
}

// That part in which the host waited for input.
int64_t StepMeter::InputPs(int64_t from_ps, int64_t to_ps) const {
  const gpu_runs::HostEvidence* const host = marking_.host();
  if (host == nullptr || !marking_.on_clock()) return 0;
  // Without marks, the start of a step of the loop is unknown, so only events with names of input
  // count.
  if (!by_marks_) return CoveredPs(host->input_waits, from_ps, to_ps);
  return to_ps - from_ps - CoveredPs(host->other_work, from_ps, to_ps);
}

StepMeter::Measured StepMeter::Measure(const Group& group, std::span<const uint32_t> units,
                                       bool marked) const {
  Measured found;
  found.steps = units.size();
  if (units.empty()) return found;
  std::vector<StepMembers> members;
  for (const uint32_t unit : units) {
    members.push_back({units_[unit].start_ps, units_[unit].end_ps});
    if (marked) members.back().mark_start_ps = marking_.marks()[unit].interval.start_ps;
  }
  const std::vector<PlacedStep> placed = PlaceSteps(first_ps_, members);
  const size_t untimed = CountUntimed(members);
  found.timed = units.size() - untimed;
  found.first_ps = untimed > 0 ? members[0].end_ps - members[0].start_ps
                               : placed[0].interval.end_ps - placed[0].interval.start_ps;
  if (found.timed == 0) return found;
  found.median_ps = MedianSpan(members, placed);
  found.period_ps = MedianPeriod(members, placed);
  found.times = group.at_last_end;
  if (untimed > 0) found.times -= group.at_first_end;
  for (size_t i = untimed; i < units.size(); ++i) {
    found.begin_idle_ps += units_[units[i]].begin_idle_ps;
    found.input_ps += units_[units[i]].input_ps;
    if (!marked) continue;
    // Unless a step before went on after this one began.
    const Between& between = between_[units[i]];
    const int64_t previous_end_ps = i == 0 ? first_ps_ : placed[i - 1].interval.end_ps;
    if (between.from_ps != previous_end_ps) continue;
    found.times -= between.times;
    found.input_between_ps += between.input_ps;
  }
  return found;
}

StepMeter::Measured StepMeter::MeasureMarked() const {
  return Measure(groups_[0], order_, on_clock_);
}

std::vector<uint64_t> StepMeter::CountRuns() const {
  std::vector<uint64_t> counts(groups_.size());
  if (by_marks_) return counts;
  for (const Unit& unit : units_) {
    if (unit.program < counts.size()) ++counts[unit.program];
  }
  return counts;
}

StepMeter::Measured StepMeter::MeasureRuns(uint32_t program) const {
  std::vector<uint32_t> units;
  for (uint32_t run = 0; run < units_.size(); ++run) {
    if (units_[run].program == program) units.push_back(run);
  }
  if (units.empty() || program >= groups_.size()) return {};
  const uint32_t first = groups_[program].first_unit;  // of several that start together
  std::ranges::stable_sort(
      units, {}, [&](uint32_t run) { return std::pair(units_[run].start_ps, run != first); });
  return Measure(groups_[program], units, /*marked=*/false);
}

}  // namespace xplane_time
