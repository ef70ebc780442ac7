// The marks of a device's steps, and the assignment of executions to steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "devices/gpu_runs/host_evidence.h"
#include "timing/analysis.h"

namespace xplane_time {

// An event of the line `Steps`, or a host event with a step_num or a chosen name.
struct StepMark {
  Interval interval;  // profile clock
  std::string name;
};

// Marks by start. Of the marks around an instant, the last one to begin counts.
class StepMarks {
 public:
  StepMarks() = default;
  explicit StepMarks(std::vector<StepMark> marks);
  size_t size() const { return marks_.size(); }
  const StepMark& operator[](size_t at) const { return marks_[at]; }
  std::vector<int64_t> starts_ps() const;
  // kNone: no mark. `near`: the caller's last position; fast if the instant is near it.
  uint32_t Around(int64_t time_ps, size_t* near) const;

 private:
  std::vector<StepMark> marks_;
  std::vector<int64_t> furthest_end_ps_;  // of each and all before it
};

// The reason to read the host. If it is read anyway, its launches are also known.
enum class HostNeed : uint8_t {
  kMarks,     // if the host may mark steps
  kLaunches,  // or if it may have launches
  kAll,       // in any case, also for its activity
};

// The marks of a device, and the launches on its host.
class StepMarking {
 public:
  static absl::StatusOr<StepMarking> Find(const WatchContext& context, HostNeed need);

  const StepMarks& marks() const { return marks_; }
  // Empty: steps are not marked, and functions may define them.
  std::optional<StepSource> marked_by() const { return marked_by_; }
  // Whether the marks are on the clock of the executions.
  bool on_clock() const { return clock_ == Clock::kProfile; }
  // The activity of the host. Null: the host was not read, or the trace has no events of a host.
  const gpu_runs::HostEvidence* host() const { return host_; }

  // When an execution with this id was launched; kNoTimePs: unknown.
  int64_t LaunchPs(int64_t launch_id);
  // The line of that launch (Line::timeline); kNone: unknown.
  uint32_t LaunchLine(int64_t launch_id) const;
  bool has_launches() const { return has_launches_; }  // on the host
  bool any_launch() const { return any_launch_; }      // of an execution that was asked for
  // Whether the trace has events of a host that were not read, and whether they may be launches.
  bool host_is_unread() const { return has_host_ && host_ == nullptr; }
  bool launches_are_unread() const { return may_launch_ && host_is_unread(); }
  uint32_t StepOf(const Execution& execution);  // kNone: no step

 private:
  explicit StepMarking(const WatchContext& context);

  const KindRules* rules_;
  Clock clock_;
  StepMarks marks_;
  std::optional<StepSource> marked_by_;
  const gpu_runs::HostEvidence* host_ = nullptr;
  bool has_host_ = false, may_launch_ = false, has_launches_ = false;
  bool any_launch_ = false;
  gpu_runs::LaunchTable::Place place_;
  size_t near_mark_ = 0;
};

}  // namespace xplane_time
