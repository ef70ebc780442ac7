// StepMeter: what a device's time in its steps went to, in one pass, so that a report can have it.
//
// Steps are marked, or they are the runs of a function. Which function that is turns out at the
// end, so the meter keeps for each program what the device had done when its first run and its last
// run ended. Time between marked steps is measured when the next step begins:
//
//   step         |-- 7 --|       |-- 8 --|
//   device    x    xx  xx   x       xx  x
//                        ^  ^    ^
//            end of 7; another; begin of 8: what happened meanwhile is kept with 8
//
// Memory: 40 bytes a run, 200 bytes a marked step, 270 bytes a program.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "timing/step_marks.h"
#include "timing/steps.h"
#include "xplane_time/report.h"

namespace xplane_time {

// The highest first.
inline constexpr std::array kCategoryRanks = {Category::kCompute, Category::kCollective,
                                              Category::kCopy, Category::kOther};
inline uint32_t RankOfCategory(Category category) {
  return static_cast<uint32_t>(std::ranges::find(kCategoryRanks, category) -
                               kCategoryRanks.begin());
}

// RankedUnion: the time of each rank without a running earlier rank.
class RankedUnion {
 public:
  // At the first start.
  void Begin(int64_t time_ps) {
    at_ps_ = busy_until_ps_ = time_ps;
    until_ps_.fill(time_ps);
  }
  // In order of start.
  void Add(uint32_t rank, const Interval& interval) {
    AdvanceTo(interval.start_ps);
    until_ps_[rank] = std::max(until_ps_[rank], interval.end_ps);
    busy_until_ps_ = std::max(busy_until_ps_, interval.end_ps);
  }
  void AdvanceTo(int64_t time_ps) {
    while (at_ps_ < time_ps) {
      size_t rank = 0;
      while (rank < until_ps_.size() && until_ps_[rank] <= at_ps_) ++rank;
      const int64_t next_ps =
          rank == until_ps_.size() ? time_ps : std::min(time_ps, until_ps_[rank]);
      times_ps_[rank] += next_ps - at_ps_;
      at_ps_ = next_ps;
    }
  }
  int64_t busy_until_ps() const { return busy_until_ps_; }
  // The last is the time without any running rank.
  const std::array<int64_t, kCategoryRanks.size() + 1>& times_ps() const { return times_ps_; }

 private:
  int64_t at_ps_ = 0, busy_until_ps_ = 0;
  std::array<int64_t, kCategoryRanks.size()> until_ps_ = {};  // no execution runs longer
  std::array<int64_t, kCategoryRanks.size() + 1> times_ps_ = {};
};

// The times of a device up to an instant.
struct DeviceTimes {
  std::array<int64_t, kCategoryRanks.size()> ranks_ps = {};
  int64_t idle_host_ps = 0;   // no work was launched yet
  int64_t idle_late_ps = 0;   // launched, but too late to start in time
  int64_t idle_queue_ps = 0;  // launched in time
  int64_t idle_unknown_ps = 0;

  DeviceTimes& operator+=(const DeviceTimes& more) { return Add(more, 1); }
  DeviceTimes& operator-=(const DeviceTimes& less) { return Add(less, -1); }
  int64_t span_ps() const;

 private:
  DeviceTimes& Add(const DeviceTimes& more, int64_t sign);
};

class StepMeter {
 public:
  // `marking` must outlive the executions.
  explicit StepMeter(const StepMarking& marking);

  // In this order, for all executions that start together: Begin(), AddMember() for each of them.
  // AddWork() is for parts of executions that start then or later, in order of their starts.
  // `launch_ps`: the earliest of their launches; kNoTimePs: unknown.
  void Begin(int64_t start_ps, int64_t launch_ps) {
    if (begun_ && start_ps <= std::max(union_.busy_until_ps(), last_begin_ps_)) {
      ended_ = {};
      AdvanceTo(start_ps);
      last_begin_ps_ = start_ps;
    } else {
      BeginAfterGap(start_ps, launch_ps);
    }
  }
  // Whether the device is idle when executions start then; if so, Begin() needs their launch.
  bool is_idle_before(int64_t start_ps) const {
    return begun_ && union_.busy_until_ps() < start_ps;
  }
  // `step`: kNone without marks, or outside of them.
  void AddMember(int64_t start_ps, int64_t end_ps, uint32_t step, uint32_t run, uint32_t program) {
    const uint32_t unit = by_marks_ ? step : run, at = by_marks_ ? 0 : program;
    if (unit == kNone || at == kNone) return;
    const bool continues = unit < units_.size() && units_[unit].start_ps != kNever &&
                           at < groups_.size() && groups_[at].first_unit != unit &&
                           (ended_.is_empty() || marking_.host() == nullptr);
    if (continues) {
      ended_ = {};
      groups_[at].AddBusy(start_ps, end_ps);
      units_[unit].end_ps = std::max(units_[unit].end_ps, end_ps);
      ExtendLast(at, end_ps);
    } else {
      AddMemberAfterChange(start_ps, end_ps, unit, at);
    }
  }
  void AddWork(uint32_t rank, const Interval& part) {
    AdvanceTo(part.start_ps);
    union_.Add(rank, part);
  }
  void Finish() {
    // The last execution may have no length.
    AdvanceTo(std::max(union_.busy_until_ps(), last_begin_ps_));
  }

  // After Finish().
  const RankedUnion& work() const { return union_; }
  struct Measured {
    uint64_t steps = 0;    // that have members
    uint64_t timed = 0;    // that are in the following
    int64_t first_ps = 0;  // span of the first step; of its members if its start is unknown
    std::optional<double> median_ps = {};
    std::optional<double> period_ps = {};  // median distance of the starts of consecutive steps
    DeviceTimes times = {};
    // Idle time up to the first execution of a step: all of it; and without dispatches of the host.
    int64_t begin_idle_ps = 0, input_ps = 0;
    int64_t input_between_ps = 0;  // the same between the step and the one before
  };
  // For the marked steps; for the runs of a program. Filters on functions and kernels do not change
  // them.
  Measured MeasureMarked() const;
  Measured MeasureRuns(uint32_t program) const;
  // Without marks: the union of the executions of a program, whatever filters leave out.
  int64_t BusyPs(uint32_t program) const {
    return by_marks_ || program >= groups_.size() ? 0 : groups_[program].busy_ps;
  }
  // Without marks: how many runs of each program have executions.
  std::vector<uint64_t> CountRuns() const;

 private:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  struct Unit {  // a step or a run
    int64_t start_ps = kNever, end_ps = 0;
    int64_t begin_idle_ps = 0, input_ps = 0;
    uint32_t program = kNone;  // of a run
  };
  struct Between {  // a marked step and the end of the previous work
    int64_t from_ps = 0;
    DeviceTimes times = {};
    int64_t input_ps = 0;
  };
  // All marked steps, or the runs of one program.
  struct Group {
    uint32_t first_unit = kNone;
    int64_t first_end_ps = 0, last_end_ps = std::numeric_limits<int64_t>::min();
    DeviceTimes at_first_end = {}, at_last_end = {};
    bool first_pending = false, last_pending = false;
    int64_t busy_ps = 0, busy_until_ps = std::numeric_limits<int64_t>::min();

    // In order of start.
    void AddBusy(int64_t start_ps, int64_t end_ps) {
      if (end_ps <= busy_until_ps) return;
      busy_ps += end_ps - std::max(start_ps, busy_until_ps);
      busy_until_ps = end_ps;
    }
  };
  struct Gap {
    Interval interval = {0, 0};
    int64_t launch_ps = kNoTimePs;  // within it
    bool is_late = false;
    bool is_empty() const { return interval.start_ps >= interval.end_ps; }
  };

  void AdvanceTo(int64_t time_ps) {
    if (pending_ps_ <= time_ps) Record(time_ps);
    union_.AdvanceTo(time_ps);
  }
  void BeginAfterGap(int64_t start_ps, int64_t launch_ps);
  // The first execution of a unit, or one that a gap is before, or of the first unit of its group.
  void AddMemberAfterChange(int64_t start_ps, int64_t end_ps, uint32_t unit, uint32_t at);
  // The group ends with this member, if no later one ends after it.
  void ExtendLast(uint32_t at, int64_t end_ps) {
    Group& group = groups_[at];
    if (end_ps <= group.last_end_ps) return;
    if (!group.first_pending && !group.last_pending) pending_.push_back(at);
    group.last_end_ps = end_ps;
    group.last_pending = true;
    pending_ps_ = std::min(pending_ps_, end_ps);
  }
  void Record(int64_t until_ps);
  DeviceTimes TimesAt(int64_t time_ps) const;
  static void AddIdle(const Gap& gap, int64_t until_ps, DeviceTimes* times);
  void BeginUnit(uint32_t unit, int64_t start_ps, const Group& group);
  int64_t InputPs(int64_t from_ps, int64_t to_ps) const;
  // The time up to which no work was launched, as far as known.
  int64_t WaitedUntil(const Gap& gap) const;
  Measured Measure(const Group& group, std::span<const uint32_t> units, bool marked) const;

  const StepMarking& marking_;
  const bool by_marks_, on_clock_;
  RankedUnion union_;
  bool begun_ = false;
  int64_t first_ps_ = 0, last_begin_ps_ = 0;
  DeviceTimes idle_;  // of gaps that are over
  Gap gap_;           // that is passed, if any
  Gap ended_;         // that ended with the executions at hand, until one of them is a member

  std::vector<Unit> units_;
  std::vector<uint32_t> order_;   // marked steps, as they began
  std::vector<Between> between_;  // by marked step
  std::vector<DeviceTimes> at_marks_;
  std::vector<Group> groups_;      // by program, or the only one
  std::vector<uint32_t> pending_;  // groups
  int64_t next_mark_ps_ = kNever;  // the first that is not in at_marks_
  int64_t pending_ps_ = kNever;    // no time to record before this
};

}  // namespace xplane_time
