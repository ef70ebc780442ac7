// What `where` looks at while a device is measured: its partition, its launches, the steps that its
// executions are members of.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "devices/gpu_runs/host_evidence.h"
#include "insight/partition.h"
#include "insight/transfer_pairs.h"
#include "timing/analysis.h"
#include "xplane_time/where.h"

namespace xplane_time::insight {

// What marks a step: an event of the line `Steps`, or a host event with a step_num.
struct StepMark {
  Interval interval;  // profile clock
  std::string name;
};

// Marks by start. Of those around an instant, the last to begin counts.
class StepMarks {
 public:
  explicit StepMarks(std::vector<StepMark> marks);
  size_t size() const { return marks_.size(); }
  const StepMark& operator[](size_t at) const { return marks_[at]; }
  uint32_t Around(int64_t time_ps) const;  // kNone: none

 private:
  std::vector<StepMark> marks_;
  std::vector<int64_t> furthest_end_ps_;  // of each and all before it
};

class WhereWatch : public ExecutionWatcher {
 public:
  static absl::StatusOr<std::unique_ptr<ExecutionWatcher>> Make(const WatchContext& context);
  // The same, and the sweep tells owners. `host_busy`: as PartitionSweep has it.
  static absl::StatusOr<std::unique_ptr<ExecutionWatcher>> MakeTellingOwners(
      const WatchContext& context, std::span<const Interval> host_busy);

  absl::Status Add(std::span<const Execution> chunk) override;
  void Finish() override;
  // Before the first execution.
  void KeepOwnTimes() { sweep_->KeepOwnTimes(); }
  void KeepLines() { keeps_lines_ = true; }
  // What each line of the plane executed, where it is kept.
  struct LineColumns {
    std::vector<int64_t> start_ps, duration_ps;
    std::vector<uint32_t> op;
  };
  std::vector<LineColumns> TakeLines() { return std::move(lines_); }
  // After Finish().
  const PartitionSweep& sweep() const { return *sweep_; }
  bool any_launch() const { return any_launch_; }
  // Empty where nothing marks steps: then functions may.
  std::optional<StepSource> marked_by() const { return marked_by_; }
  const StepMarks& marks() const { return marks_; }
  uint64_t lone_dones() const { return pairs_ == nullptr ? 0 : pairs_->lone_dones(); }

 private:
  static absl::StatusOr<std::unique_ptr<WhereWatch>> MakeWatch(const WatchContext& context);
  WhereWatch(const WatchContext& context, StepMarks marks, std::optional<StepSource> marked_by,
             const gpu_runs::HostEvidence* evidence);
  Piece PieceOf(const Execution& execution);
  uint32_t StepOf(const Execution& execution);
  int64_t LaunchPs(int64_t launch_id);
  void AddToLines();

  const KindRules& rules_;
  const Clock clock_;
  const StepMarks marks_;
  const std::optional<StepSource> marked_by_;
  const gpu_runs::HostEvidence* const evidence_;  // null: no launches
  const uint32_t first_line_;
  bool keeps_lines_ = false;
  std::vector<LineColumns> lines_;
  gpu_runs::LaunchTable::Place place_;
  bool any_launch_ = false;
  int64_t last_start_ps_ = kNoTimePs;
  std::vector<Piece> pieces_, ready_;
  std::unique_ptr<PartitionSweep> sweep_;
  std::unique_ptr<TransferPairs> pairs_;  // null: what runs is all that is in flight
};

}  // namespace xplane_time::insight
