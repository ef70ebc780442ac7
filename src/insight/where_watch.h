// What `where` looks at while a device is measured: its partition, its launches, the steps that its
// executions are members of.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "insight/partition.h"
#include "insight/transfer_pairs.h"
#include "timing/analysis.h"
#include "timing/device_parts.h"
#include "timing/step_marks.h"
#include "xplane_time/where.h"

namespace xplane_time::insight {

class WhereWatch : public ExecutionWatcher {
 public:
  static absl::StatusOr<std::unique_ptr<ExecutionWatcher>> Make(const WatchContext& context);
  // The same, with so many of the longest gaps.
  static absl::StatusOr<std::unique_ptr<ExecutionWatcher>> MakeKeepingGaps(
      const WatchContext& context, size_t gaps);
  // The same, and the sweep tells owners. `host_busy`: as PartitionSweep has it.
  static absl::StatusOr<std::unique_ptr<ExecutionWatcher>> MakeTellingOwners(
      const WatchContext& context, std::span<const Interval> host_busy);

  absl::Status Add(std::span<const Execution> chunk) override;
  void Finish() override;
  // Before the first execution.
  void KeepGaps(size_t count) { sweep_->KeepGaps(count); }
  void KeepOwnTimes() { sweep_->KeepOwnTimes(); }
  void KeepLines() { keeps_lines_ = true; }
  void KeepSummary(const WatchContext& context) {
    summary_ = std::make_unique<PartsWatch>(context, marking_);
  }
  // What each line of the plane executed, where it is kept.
  struct LineColumns {
    std::vector<int64_t> start_ps, duration_ps;
    std::vector<uint32_t> op;
  };
  std::vector<LineColumns> TakeLines() { return std::move(lines_); }
  // After Finish().
  const PartitionSweep& sweep() const { return *sweep_; }
  const StepMarking& marking() const { return marking_; }
  // Of each of the largest gaps: the line of the launch that ends it (Line::timeline), or kNone.
  // The host's evidence is gone when the report is made.
  std::span<const uint32_t> gap_launch_lines() const { return gap_launch_lines_; }
  bool any_launch() const { return marking_.any_launch(); }
  // Where it was asked for.
  const PartsWatch& summary() const { return *summary_; }
  uint64_t lone_dones() const { return pairs_ == nullptr ? 0 : pairs_->lone_dones(); }

 private:
  static absl::StatusOr<std::unique_ptr<WhereWatch>> MakeWatch(const WatchContext& context);
  WhereWatch(const WatchContext& context, StepMarking marking);
  Piece PieceOf(const Execution& execution);
  void AddToLines();

  const KindRules& rules_;
  const Clock clock_;
  StepMarking marking_;
  const uint32_t first_line_;
  bool keeps_lines_ = false;
  std::vector<LineColumns> lines_;
  std::vector<uint32_t> gap_launch_lines_;
  int64_t last_start_ps_ = kNoTimePs;
  std::vector<Piece> pieces_, ready_;
  std::unique_ptr<PartitionSweep> sweep_;
  std::unique_ptr<TransferPairs> pairs_;  // null: what runs is all that is in flight
  std::unique_ptr<PartsWatch> summary_;   // null: not asked for
};

}  // namespace xplane_time::insight
