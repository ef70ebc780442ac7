// The watcher of `where`, used while a device is measured: its partition, its launches, and its
// steps with their executions.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
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
  // The same, with input_ps() and so many of the longest gaps.
  static absl::StatusOr<std::unique_ptr<ExecutionWatcher>> MakeKeepingGaps(
      const WatchContext& context, size_t gaps);
  // The same, and the sweep determines owners. `compiling`: intervals of compilation on the host,
  // merged.
  static absl::StatusOr<std::unique_ptr<ExecutionWatcher>> MakeTellingOwners(
      const WatchContext& context, std::span<const Interval> compiling);

  absl::Status Add(std::span<const Execution> chunk) override;
  void Finish() override;
  // Before the first execution.
  void KeepGaps(size_t count) { sweep_->KeepGaps(count); }
  void KeepOwnTimes() { sweep_->KeepOwnTimes(); }
  void KeepLines() { keeps_lines_ = true; }
  void KeepSummary(const WatchContext& context) {
    summary_ = std::make_unique<PartsWatch>(context, marking_);
  }
  // The executions of each line of the plane, if KeepLines() was called.
  struct LineColumns {
    std::vector<int64_t> start_ps, duration_ps;
    std::vector<uint32_t> op;
  };
  std::vector<LineColumns> TakeLines() { return std::move(lines_); }
  // After Finish().
  const PartitionSweep& sweep() const { return *sweep_; }
  const StepMarking& marking() const { return marking_; }
  // For each of the largest gaps: the line of the launch that ends it (Line::timeline), or kNone.
  // The host's evidence no longer exists when the report is made.
  std::span<const uint32_t> gap_launch_lines() const { return gap_launch_lines_; }
  bool any_launch() const { return marking_.any_launch(); }
  // PartitionSweep::input_ps. Empty: the trace has no host, or it was not asked for.
  std::optional<int64_t> input_ps() const {
    return knows_host_ ? std::optional(sweep_->input_ps()) : std::nullopt;
  }
  uint64_t executions_outside_steps() const { return outside_steps_; }
  // Executions before the first one whose launch is known, and how long they took together.
  uint64_t early_executions() const { return early_executions_; }
  int64_t early_ps() const { return early_.length_ps(); }
  // For a watch with owners on a device without programs and step marks: the durations of
  // executions by op. Ops with more than kMaxDurations executions are omitted.
  static constexpr size_t kMaxDurations = size_t{1} << 14;
  const absl::flat_hash_map<uint32_t, std::vector<int64_t>>& durations_ps() const {
    return durations_ps_;
  }
  // Only if requested.
  const PartsWatch& summary() const { return *summary_; }
  uint64_t lone_dones() const { return pairs_ == nullptr ? 0 : pairs_->lone_dones(); }

 private:
  static absl::StatusOr<std::unique_ptr<WhereWatch>> MakeWatch(const WatchContext& context,
                                                               HostNeed need);
  WhereWatch(const WatchContext& context, StepMarking marking);
  void WatchHost(std::span<const Interval> compiling);
  Piece PieceOf(const Execution& execution);
  void AddToLines();
  void AddEarly();
  void KeepDuration(const Piece& piece);

  const KindRules& rules_;
  const Clock clock_;
  StepMarking marking_;
  const uint32_t first_line_;
  bool keeps_lines_ = false, knows_host_ = false;
  std::vector<LineColumns> lines_;
  std::vector<uint32_t> gap_launch_lines_;
  int64_t last_start_ps_ = kNoTimePs;
  uint64_t outside_steps_ = 0, early_executions_ = 0;
  UnionLength early_;
  bool keeps_durations_ = false, first_launch_is_known_ = false;
  absl::flat_hash_map<uint32_t, std::vector<int64_t>> durations_ps_;
  std::vector<Piece> pieces_, ready_;
  std::unique_ptr<PartitionSweep> sweep_;
  std::unique_ptr<TransferPairs> pairs_;  // null: what runs is all that is in flight
  std::unique_ptr<PartsWatch> summary_;   // null: not asked for
};

// The watcher of a device that was measured with a WhereWatch.
inline const WhereWatch& GetWatch(const DeviceAnalysis& device) {
  return static_cast<const WhereWatch&>(*device.watcher);
}

}  // namespace xplane_time::insight
