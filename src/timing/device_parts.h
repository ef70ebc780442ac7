// The parts of a device's time from its first start to its last end, and in its steps. The runs and
// transfers of `where` are omitted, so that a report can afford it.
//
//   compute      |-----|              |---|
//   copy            |------|      |-|            an instant belongs to the highest category that
//                |comp.|copy|idle |c|i|comp.|    runs: compute, collective, copy, other
//
// Memory: the running executions, and that of StepMeter.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "timing/analysis.h"
#include "timing/device_meter.h"
#include "timing/step_meter.h"

namespace xplane_time {

class PartsWatch : public ExecutionWatcher {
 public:
  // Reads no host for its launches alone.
  static absl::StatusOr<std::unique_ptr<ExecutionWatcher>> Make(const WatchContext& context);
  PartsWatch(const WatchContext& context, StepMarking marking)
      : rules_(RulesOf(context.plane.kind)),
        tables_(context.tables),
        nests_(rules_.line_order == LineOrder::kNested),
        clock_(context.clock),
        marking_(std::move(marking)),
        meter_(marking_) {}
  PartsWatch(const PartsWatch&) = delete;
  PartsWatch& operator=(const PartsWatch&) = delete;

  absl::Status Add(std::span<const Execution> chunk) override;
  void Finish() override;
  // After Finish(); empty: no executions, or the device's clock restarted, or it went backwards and
  // the executions did not come in one chunk. The device is not read a second time for this.
  std::optional<DeviceParts> parts() const;
  const StepMarking& marking() const { return marking_; }
  // For a device with parts().
  const StepMeter& steps() const { return meter_; }

 private:
  struct Piece {
    Interval interval;
    uint32_t rank, line;
    uint32_t step, run, program;
    int64_t launch_id;
  };
  struct Part {  // of a piece: when it ran itself
    Interval interval;
    uint32_t rank;
  };
  int64_t FirstLaunch(std::span<const Piece> together);
  void AddMember(const Piece& piece) {
    meter_.AddMember(piece.interval.start_ps, piece.interval.end_ps, piece.step, piece.run,
                     piece.program);
  }
  void AddFlat();
  void AddOwn();
  void AddOwnOfOneLine();

  const KindRules& rules_;
  const std::shared_ptr<const ExecutionTables> tables_;
  const bool nests_;
  const Clock clock_;
  StepMarking marking_;
  StepMeter meter_;
  std::vector<uint32_t> rank_of_op_;
  std::vector<Piece> pieces_;  // of the chunk
  bool went_back_ = false, one_line_ = true;
  std::optional<int64_t> first_ps_;
  int64_t last_start_ps_ = kNoTimePs, last_end_ps_ = kNoTimePs;
  // Used if executions of a line contain each other.
  struct Line {
    OwnIntervals own;
    std::vector<Part> parts;  // of the chunk
  };
  absl::flat_hash_map<uint32_t, Line> lines_;
  std::vector<Part> parts_;  // of all lines
};

}  // namespace xplane_time
