// DeviceMeter: measures one device, chunk by chunk: its busy time, its runs, its kernels.
// Its memory grows with runs and names, not with executions.
//
// Chunks come in order of start on the profile clock. If a program is measured by the device's own
// clock, the executions of a run must also be in the order of that clock. If they are not
// (`disordered`), the whole device has to be one chunk, which is then sorted. Between runs the
// device's clock may jump.
//
// Self time depends on how the events of the kind's lines may overlap (LineOrder).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "devices/device_kind.h"
#include "saturate.h"
#include "scratch.h"
#include "stats/quantile_sketch.h"
#include "timing/filters.h"
#include "timing/stream_order.h"

namespace xplane_time {

// By start, then the longer one; as in intervals.h.
inline bool Before(const Interval& a, const Interval& b) {
  return a.start_ps != b.start_ps ? a.start_ps < b.start_ps : a.end_ps > b.end_ps;
}

// The clock of each program's executions, and of executions without a program. Empty: they are not
// measured (with --clock device, if they lack this clock).
class ClockPlan {
 public:
  // At first the device clock is expected wherever the device may have one.
  ClockPlan(ClockChoice choice, bool may_have_device_clock);
  ClockPlan() : ClockPlan(ClockChoice::kAuto, false) {}

  std::optional<Clock> Of(uint32_t program) const {
    const size_t place = PlaceOf(program);
    return place < clocks_.size() ? clocks_[place] : first_guess_;
  }

  // The result of each program is at its index plus one, that of executions without a program comes
  // first.
  static size_t PlaceOf(uint32_t program) { return program == kNone ? 0 : size_t{program} + 1; }
  struct Counts {
    uint64_t with = 0, without = 0;  // executions that carry the device clock
  };
  // Learns from the executions of a pass. True if the plan was right for all of them.
  bool Correct(const std::vector<Counts>& counts);
  // Reports the consequences of the plan to the user.
  void Report(const std::vector<Counts>& counts, const DevicePlane& plane,
              Diagnostics* diagnostics) const;

 private:
  std::optional<Clock> Choose(const Counts& counts) const;

  ClockChoice choice_;
  std::optional<Clock> first_guess_;
  std::vector<std::optional<Clock>> clocks_;
};

// NestStack: self times of one timeline, online, without tolerance (intervals.h).
//
// Events come in nesting order. The stack holds those that may still contain something;
// what is inside an event is known when it leaves. Memory: the depth of the nesting.
class NestStack {
 public:
  // Calls covered(tag, children_ps) for every event that contains something and cannot
  // contain this one or any later. Its self time is its length less children_ps.
  template <typename Covered>
  void Add(const Interval& event, uint64_t tag, Covered covered) {
    while (!open_.empty() && open_.back().end_ps < event.end_ps) Pop(covered);
    if (!open_.empty()) {
      Open& parent = open_.back();
      // Children come in order of start: what is covered is known by its end.
      const int64_t from_ps = std::max(event.start_ps, parent.covered_to_ps);
      if (event.end_ps > from_ps) {
        parent.children_ps += event.end_ps - from_ps;
        parent.covered_to_ps = event.end_ps;
      }
    }
    open_.push_back({event.end_ps, event.start_ps, 0, tag});
  }

  template <typename Covered>
  void Finish(Covered covered) {
    while (!open_.empty()) Pop(covered);
  }

 private:
  struct Open {
    int64_t end_ps, covered_to_ps, children_ps;
    uint64_t tag;
  };

  template <typename Covered>
  void Pop(Covered covered) {
    const Open& top = open_.back();
    if (top.children_ps != 0) covered(top.tag, top.children_ps);
    open_.pop_back();
  }

  std::vector<Open> open_;
};

// OwnIntervals: when the events of one timeline ran themselves: an instant is that of the running
// event that began last.
//
//   a |-------------|        a: [0, 4), [9, 14)
//   b     |----|             b: [4, 9)
//     0   4    9    14
//
// Events come in nesting order; emit(tag, interval) as soon as a part is known, in no order.
class OwnIntervals {
 public:
  template <typename Emit>
  void Add(const Interval& event, uint32_t tag, Emit emit) {
    SettleUntil(event.start_ps, emit);
    open_.push_back({event.start_ps, event.end_ps, tag});
  }
  // Adds all parts up to the start of the next events.
  template <typename Emit>
  void SettleUntil(int64_t time_ps, Emit emit) {
    Leave(time_ps, emit);
    if (open_.empty() || open_.back().from_ps >= time_ps) return;
    emit(open_.back().tag, Interval{open_.back().from_ps, time_ps});
    open_.back().from_ps = time_ps;
  }
  template <typename Emit>
  void Finish(Emit emit) {
    Leave(std::numeric_limits<int64_t>::max(), emit);
  }

 private:
  struct Open {
    int64_t from_ps, end_ps;  // what is not emitted yet
    uint32_t tag;
  };

  // Adds events that end by then.
  template <typename Emit>
  void Leave(int64_t by_ps, Emit emit) {
    while (!open_.empty() && open_.back().end_ps <= by_ps) {
      const Open top = open_.back();
      open_.pop_back();
      if (top.from_ps < top.end_ps) emit(top.tag, Interval{top.from_ps, top.end_ps});
      if (open_.empty()) return;
      open_.back().from_ps = std::max({open_.back().from_ps, top.from_ps, top.end_ps});
    }
  }

  std::vector<Open> open_;
};

using DurationCount = stats::CountedValue;  // `value`: picoseconds

// The median of `count` durations, by the rule of Percentile (aggregate.h).
double CountedMedian(std::span<const DurationCount> sorted, uint64_t count);

// DurationCounts: how often each duration occurred (stats/quantile_sketch.h). Rounded ones keep
// their leading bits only; count, total, minimum and maximum stay exact.
class DurationCounts {
 public:
  void Add(int64_t duration_ps, uint64_t times = 1) {
    if (rounded()) exact_.Add(duration_ps, times);
    counts_.Add(duration_ps, times);
  }

  // Of all durations; the total saturates.
  struct Sum {
    uint64_t count = 0;
    int64_t total_ps = 0;
    int64_t min_ps = 0, max_ps = 0;  // if the count is not 0

    void Add(int64_t duration_ps, uint64_t times);
  };
  Sum Total() const;

  // From now on (and for all before) only the leading `bits` of each duration are kept.
  void Round(int bits) {
    exact_ = Total();
    counts_.Round(bits);
  }
  bool rounded() const { return counts_.rounded(); }
  size_t memory_bytes() const { return counts_.memory_bytes(); }
  std::vector<DurationCount> Sorted() const { return counts_.Sorted(); }  // ascending

 private:
  stats::ValueCounts counts_;
  Sum exact_;  // if durations are rounded
};

// RunContents: which ops each run executed, and which runs lack some.
//
// Runs of a program mostly execute the same ops: contents are kept once, as counts, and a
// run holds the number of its content. The ops of runs that may go on are kept as they
// come, as far as those of all runs are few.
class RunContents {
 public:
  using Counts = std::vector<std::pair<uint32_t, uint64_t>>;  // by symbol

  // The ops of a run so far, for appending `more`: symbols, equal for ops that are the
  // same to the program. Valid until the next call.
  std::vector<uint32_t>* Open(uint32_t run, size_t more) {
    if (run != current_run_ || buffered_ >= kMostBuffered) SwitchTo(run);
    buffered_ += more;
    return current_;
  }

  // The input of Suspects(): the ops so far. Runs may continue afterwards.
  void Settle();

  // Marks the runs, all of one program, that lack ops: their ops are a strict subset of the modal
  // run's. Requires at least 4 runs, and at least 3/4 of them with the mode; of tied modes the
  // larger one. After Settle().
  std::vector<bool> Suspects(std::span<const uint32_t> runs) const;

 private:
  using Symbols = std::vector<uint32_t>;
  static constexpr uint32_t kNoRun = ~uint32_t{0};
  static constexpr uint64_t kMostBuffered = uint64_t{1} << 21;

  void SwitchTo(uint32_t run);
  void CloseAll();
  void GoOn(uint32_t run, const Symbols& more);
  uint32_t NumberOf(const Symbols& in_order);
  uint32_t NumberOf(Counts counts);

  struct OpenRun {
    uint32_t run = kNoRun;
    Symbols symbols;  // since it was opened
  };
  std::deque<OpenRun> open_;  // the first open_count_ of them; the others wait for reuse
  size_t open_count_ = 0;
  std::vector<uint32_t> open_of_run_;  // + 1; 0: not open
  uint32_t current_run_ = kNoRun;
  Symbols* current_ = nullptr;  // in open_
  uint64_t buffered_ = 0;
  std::vector<uint32_t> content_of_run_;  // + 1; 0: not yet
  // Runs that went on after they were closed, and all that is in them.
  absl::flat_hash_map<uint32_t, absl::flat_hash_map<uint32_t, uint64_t>> growing_;
  std::map<Counts, uint32_t> number_of_content_;
  std::vector<const Counts*> contents_;
  uint32_t nothing_ = 0;  // the content of runs without executions; set by Settle()
  absl::flat_hash_map<Symbols, uint32_t> number_of_order_;  // as executed: a shortcut
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

  // A wanted execution; they come in order of start.
  void Add(const Interval& interval) {
    if (kernels++ == 0) {
      start_ps = covered_to_ps = interval.start_ps;
      end_ps = interval.end_ps;
    }
    end_ps = std::max(end_ps, interval.end_ps);
    sum_ps = SaturatingAdd(sum_ps, interval.end_ps - interval.start_ps);
    const int64_t from_ps = std::max(interval.start_ps, covered_to_ps);
    if (interval.end_ps > from_ps) {
      active_ps += interval.end_ps - from_ps;
      covered_to_ps = interval.end_ps;
    }
  }
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
  std::optional<int64_t> self_ps = 0;  // after Finish(), if known
  int64_t known_self_ps = 0;           // the same of those of which it is
  uint64_t asynchronous = 0;           // those whose bodies end after them, of which it is not
  // Copies: the total bytes of copies with a known size, and the number of these copies.
  int64_t copied_bytes = 0;
  uint64_t copies_told = 0;
  uint64_t impossible = 0;  // executions whose duration cannot be right (timing/completeness.h)
  DurationCounts durations;
};

// Distinct durations of a device may take this much memory before they are rounded.
inline constexpr size_t kMostDurationBytes = size_t{256} << 20;

struct MeterSettings {
  const Filters* filters = nullptr;
  const ClockPlan* clocks = nullptr;
  int64_t tolerance_ps = 0;  // above 0: the device must come as one chunk
  size_t most_duration_bytes = kMostDurationBytes;
  bool keeps_intervals = false;
  bool functions_are_ranges = false;  // of executions without a program (timing/range_runs.h)
};

class DeviceMeter {
 public:
  // `settings` and the objects it points to must outlive the meter.
  DeviceMeter(const DevicePlane& plane, std::shared_ptr<const ExecutionTables> tables,
              std::span<const ModuleEvent> modules, const MeterSettings& settings);

  // `run` and `program` are assigned. If not empty, for each execution: whether it is in a wanted
  // function, if this does not depend on its program.
  using Chunk = std::span<const Execution>;
  void Add(Chunk chunk, std::span<const uint8_t> in_function = {});
  void AddAggregated(const AggregatedExecution& execution);
  void Finish(const Completions& completions, Diagnostics* diagnostics);

  // The results. Complete after Finish(), but the first two are known before.
  bool disordered = false;
  std::vector<ClockPlan::Counts> clock_counts;
  DeviceRow totals;  // times and counts only
  std::vector<RunTimes> runs;
  RunContents contents;
  std::vector<KernelCell> cells;
  // By cell, with keeps_intervals: when its executions ran themselves, on the profile clock.
  std::vector<std::vector<Interval>> ran;
  int64_t self_ps = 0;  // of all executions
  // Starts and lines of kernels (no copies) without a program, if other kernels have one.
  struct Lost {
    int64_t start_ps;
    uint32_t line;
  };
  ScratchVector<Lost> lost;
  // For kinds with queues as lines: impossible durations, with their cells.
  struct Impossible {
    StreamOrder::Found found;
    uint32_t cell;
  };
  std::vector<Impossible> impossible;

 private:
  struct TimelineKey {
    uint32_t line;
    uint32_t run;  // if runs are events
    Clock clock;
    friend auto operator<=>(const TimelineKey&, const TimelineKey&) = default;
  };
  struct Timeline {
    TimelineKey key;
    NestStack stack;
  };
  struct PendingBody {  // of an op that may end before its body does
    int64_t flow_id;
    Interval interval;
    int64_t children_ps;
    uint32_t cell;
  };

  bool nests() const { return rules_.line_order == LineOrder::kNested; }
  void LearnOps();
  void AddOnProfileClock(Chunk chunk);
  void WatchStreams(Chunk chunk);
  void SetIntervals(Chunk chunk);
  void OrderByClock(Chunk chunk);
  void AddRunByRun(Chunk chunk);
  using Rows = std::span<const uint32_t>;  // a part of order_
  void CheckOrder(Rows rows, Interval* last);
  void AddToRun(Chunk chunk, Rows rows, uint32_t run);
  void AddToKernels(Chunk chunk, Rows rows);
  void AddCopies(Chunk chunk, Rows rows);
  void LimitDurations();
  void MarkBodies(Chunk chunk, Rows rows);
  TimelineKey TimelineOf(Chunk chunk, size_t row) const {
    return {chunk[row].line, rules_.runs_are_events() ? chunk[row].run : kNone, clocks_[row]};
  }
  NestStack* StackOf(const TimelineKey& key, std::vector<Timeline>* open);
  void NestRows(Chunk chunk, Rows rows);
  void NestTolerantly(Chunk chunk);
  void KeepIntervals(Chunk chunk);
  bool CloseIfOver(int64_t time_ps, Timeline* timeline);
  void FinishStreams(Diagnostics* diagnostics);
  // Nested executions do not count as own time.
  void Cover(uint64_t tag, int64_t children_ps) {
    if (const uint64_t pending = tag >> 32; pending != 0) {
      pending_[pending - 1].children_ps += children_ps;
      return;
    }
    self_ps = SaturatingSub(self_ps, children_ps);
    const auto index = static_cast<uint32_t>(tag);
    if (index == kNone) return;
    cells[index].children_ps = SaturatingAdd(cells[index].children_ps, children_ps);
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

  UnionLength busy_;
  StreamOrder stream_order_;

  // By op, as ops appear.
  std::vector<uint8_t> op_wanted_;
  std::vector<uint32_t> symbol_of_op_;
  std::vector<uint8_t> op_has_body_;
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, uint32_t> cell_of_;  // op, program
  std::vector<std::pair<uint32_t, uint32_t>> last_cell_of_op_;

  // For the chunk: intervals on the programs' clocks and their order: run by run if runs are
  // events, then by these clocks.
  std::vector<Interval> intervals_;
  std::vector<Clock> clocks_;
  std::vector<uint32_t> order_;  // without those of programs that are not measured
  std::span<const uint8_t> in_function_;
  std::vector<uint64_t> tags_;  // the cell (or kNone), and above it a pending body
  Interval last_in_no_run_ = kBeforeAny;

  uint64_t chunks_ = 0;
  int kept_bits_ = 0;  // of durations; 0: all
  uint64_t left_out_ = 0;

  absl::flat_hash_map<uint32_t, std::vector<Timeline>> timelines_;  // open ones, by line
  std::vector<NestStack> spare_;                                    // for later ones
  absl::flat_hash_map<uint32_t, OwnIntervals> own_;                 // by line
  std::vector<PendingBody> pending_;
};

}  // namespace xplane_time
