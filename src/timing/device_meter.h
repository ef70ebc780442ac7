// DeviceMeter: measures one device, chunk by chunk: its busy time, its runs, its kernels.
// What it keeps grows with runs and names, not with executions.
//
// Chunks come in order of start on the profile clock. Where a program is measured by the
// device's own clock, the executions of a run must come in the order of that clock too;
// if they do not (disordered()), the whole device has to be one chunk, which is then
// sorted. Between runs the device's clock may jump.
//
// Self time: as the events of the kind's lines lie to each other (LineOrder).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "devices/device_kind.h"
#include "devices/executions.h"
#include "scratch.h"
#include "timing/duration_counts.h"
#include "timing/filters.h"
#include "timing/nest_stack.h"
#include "timing/run_contents.h"
#include "saturate.h"
#include "xplane_time/diagnostics.h"
#include "xplane_time/merge.h"
#include "xplane_time/report.h"
#include "xplane_time/select.h"

namespace xplane_time {

// The clock of each program's executions, and of those in no program. Nothing: they are
// not measured (--clock device, and they have none).
class ClockPlan {
 public:
  // At first the device clock is expected wherever the device may have one.
  ClockPlan(ClockChoice choice, bool may_have_device_clock);
  ClockPlan() : ClockPlan(ClockChoice::kAuto, false) {}

  std::optional<Clock> Of(uint32_t program) const {
    if (program == kNone) return unattributed_;
    return program < programs_.size() ? programs_[program] : first_guess_;
  }

  struct Counts {
    uint64_t with = 0, without = 0;  // executions that carry the device clock
  };
  // What the executions of a pass show, programs in order, last: in none. True where the
  // plan was right for all of them.
  bool Correct(const std::vector<Counts>& counts);
  // Tells what the plan means for the user.
  void Report(const std::vector<Counts>& counts, const DevicePlane& plane,
              Diagnostics* diagnostics) const;

 private:
  std::optional<Clock> Choose(const Counts& counts) const;

  ClockChoice choice_;
  std::optional<Clock> first_guess_, unattributed_;
  std::vector<std::optional<Clock>> programs_;
};

// Comes before every execution.
inline constexpr Interval kBeforeAny = {kNoTimePs, kNoTimePs};

// Times of one run over its wanted executions, on its program's clock.
struct RunTimes {
  int64_t start_ps = 0, end_ps = 0, active_ps = 0, sum_ps = 0;
  uint64_t kernels = 0;
  uint64_t executions = 0;  // unwanted ones too
  int64_t covered_to_ps = 0;
  Interval last = kBeforeAny;  // on its clock
};

// The wanted executions of one op in one program.
struct KernelCell {
  uint32_t op = kNone, program = kNone;
  bool wanted = false;
  uint64_t count = 0;  // with those in aggregated events; after Finish(), like the total
  uint64_t aggregated = 0;
  int64_t total_ps = 0;
  int64_t min_ps = 0, max_ps = 0;      // without those in aggregated events
  int64_t children_ps = 0;             // inside the executions
  std::optional<int64_t> self_ps = 0;  // after Finish(), where it is known
  DurationCounts durations;
};

// Distinct durations of a device may take this much memory before they are rounded.
inline constexpr size_t kMostDurationBytes = size_t{256} << 20;

struct MeterSettings {
  const Filters* filters = nullptr;
  const ClockPlan* clocks = nullptr;
  int64_t tolerance_ps = 0;  // above 0: the device must come as one chunk
  size_t most_duration_bytes = kMostDurationBytes;
};

class DeviceMeter {
 public:
  // `settings` and what it points to must outlive the meter.
  DeviceMeter(const DevicePlane& plane, std::shared_ptr<const ExecutionTables> tables,
              std::span<const ModuleEvent> modules, const MeterSettings& settings);

  // `run` and `program` are assigned.
  void Add(const DeviceExecutions& chunk);
  void AddAggregated(const AggregatedExecution& execution);
  void Finish(const Completions& completions, Diagnostics* diagnostics);

  bool disordered() const { return disordered_; }
  const std::vector<ClockPlan::Counts>& clock_counts() const { return clock_counts_; }
  // Its times and counts only.
  const DeviceRow& totals() const { return totals_; }
  std::span<const RunTimes> runs() const { return runs_; }
  RunContents& contents() { return contents_; }
  std::vector<KernelCell> TakeCells() { return std::move(cells_); }
  int64_t self_ps() const { return self_ps_; }
  // Starts and lines of kernels (no copies) in no program, where others are in one.
  struct Lost {
    int64_t start_ps;
    uint32_t line;
  };
  std::span<const Lost> lost() const { return lost_.values(); }

 private:
  struct TimelineKey {
    uint32_t line;
    uint32_t run;  // where runs are events
    Clock clock;
    friend bool operator==(const TimelineKey&, const TimelineKey&) = default;
  };
  struct Timeline {
    TimelineKey key;
    NestStack stack;
  };
  struct PendingBody {  // of an op that may end before its body does
    uint64_t flow_id;
    Interval interval;
    int64_t children_ps;
    uint32_t cell;
  };

  bool nests() const { return rules_.line_order == LineOrder::kNested; }
  void LearnOps();
  void AddOnProfileClock(const DeviceExecutions& chunk);
  void WatchStreams(const DeviceExecutions& chunk);
  void SetIntervals(const DeviceExecutions& chunk);
  void OrderByClock(const DeviceExecutions& chunk);
  void AddRunByRun(const DeviceExecutions& chunk);
  using Rows = std::span<const uint32_t>;  // a part of order_
  void CheckOrder(Rows rows, Interval* last);
  void AddToRun(const DeviceExecutions& chunk, Rows rows, uint32_t run);
  void AddToKernels(const DeviceExecutions& chunk, Rows rows);
  void LimitDurations();
  void MarkBodies(const DeviceExecutions& chunk, Rows rows);
  TimelineKey TimelineOf(const DeviceExecutions& chunk, size_t row) const {
    return {chunk.line[row], rules_.runs_are_events() ? chunk.run[row] : kNone, clocks_[row]};
  }
  NestStack* StackOf(const TimelineKey& key, std::vector<Timeline>* open);
  void NestRows(const DeviceExecutions& chunk, Rows rows);
  void NestTolerantly(const DeviceExecutions& chunk);
  bool CloseIfOver(int64_t time_ps, Timeline* timeline);
  // What is inside an execution is not its own time.
  void Cover(uint64_t tag, int64_t children_ps) {
    if (const uint64_t pending = tag >> 32; pending != 0) {
      pending_[pending - 1].children_ps += children_ps;
      return;
    }
    self_ps_ = SaturatingSub(self_ps_, children_ps);
    const auto index = static_cast<uint32_t>(tag);
    if (index == kNone) return;
    cells_[index].children_ps = SaturatingAdd(cells_[index].children_ps, children_ps);
  }
  uint32_t CellOf(uint32_t op, uint32_t program) {
    const std::pair<uint32_t, uint32_t>& last = last_cell_of_op_[op];
    return last.first == program && last.second != kNone ? last.second : FindCell(op, program);
  }
  uint32_t FindCell(uint32_t op, uint32_t program);

  const DevicePlane plane_;
  const KindRules& rules_;
  const std::shared_ptr<const ExecutionTables> tables_;
  const std::span<const ModuleEvent> modules_;  // by run
  const MeterSettings& settings_;
  bool disordered_ = false;

  DeviceRow totals_;
  UnionLength busy_;
  std::vector<ClockPlan::Counts> clock_counts_;
  absl::flat_hash_map<uint32_t, int64_t> end_of_line_;
  ScratchVector<Lost> lost_;
  uint64_t overlaps_ = 0;
  Location first_overlap_;

  // By op, as ops appear.
  std::vector<uint8_t> op_wanted_;
  std::vector<uint32_t> symbol_of_op_;
  std::vector<uint8_t> op_has_body_;
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> cell_of_;  // op, program
  std::vector<std::pair<uint32_t, uint32_t>> last_cell_of_op_;

  // Of the chunk: intervals on the programs' clocks and their order: where runs are events
  // run by run, then by these clocks.
  std::vector<Interval> intervals_;
  std::vector<Clock> clocks_;
  std::vector<uint32_t> order_;  // without those of programs that are not measured
  std::vector<uint64_t> tags_;   // the cell (or kNone), and above it a pending body
  Interval last_in_no_run_ = kBeforeAny;

  std::vector<RunTimes> runs_;
  RunContents contents_;
  std::vector<KernelCell> cells_;
  uint64_t chunks_ = 0;
  int kept_bits_ = 0;  // of durations; 0: all
  uint64_t left_out_ = 0;

  absl::flat_hash_map<uint32_t, std::vector<Timeline>> timelines_;  // open ones, by line
  std::vector<NestStack> spare_;                                    // for later ones
  std::vector<PendingBody> pending_;
  int64_t self_ps_ = 0;
};

}  // namespace xplane_time
