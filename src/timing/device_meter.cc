#include "timing/device_meter.h"

#include <algorithm>
#include <tuple>

#include "devices/device_kind.h"
#include "timing/saturate.h"
#include "xplane_time/nest.h"

namespace xplane_time {
namespace {

constexpr uint64_t kNoPending = 0;

bool Nests(DeviceKind kind) { return kind == DeviceKind::kTpu || kind == DeviceKind::kCpu; }

int64_t Length(const Interval& interval) { return interval.end_ps - interval.start_ps; }

// By start, then the longer one; as in nest.h.
bool Before(const Interval& a, const Interval& b) {
  return a.start_ps != b.start_ps ? a.start_ps < b.start_ps : a.end_ps > b.end_ps;
}

}  // namespace

ClockPlan::ClockPlan(DeviceKind kind, ClockChoice choice, bool may_have_device_clock)
    : kind_(kind), choice_(choice) {
  first_guess_ = Choose({may_have_device_clock ? 1u : 0u, may_have_device_clock ? 0u : 1u});
  unattributed_ = first_guess_;
}

std::optional<Clock> ClockPlan::Choose(const Counts& counts) const {
  const bool device = choice_ != ClockChoice::kProfile && counts.with > 0 && counts.without == 0;
  if (device) return Clock::kDevice;
  if (choice_ == ClockChoice::kDevice) return std::nullopt;
  return Clock::kProfile;
}

bool ClockPlan::Correct(const std::vector<Counts>& counts) {
  std::vector<std::optional<Clock>> right;
  bool as_planned = true;
  for (uint32_t i = 0; i < counts.size(); ++i) {
    const bool last = i + 1 == counts.size();
    right.push_back(Choose(counts[i]));
    const bool any = counts[i].with + counts[i].without > 0;
    as_planned &= !any || right.back() == Of(last ? kNone : i);
  }
  unattributed_ = right.back();
  right.pop_back();
  programs_ = std::move(right);
  return as_planned;
}

void ClockPlan::Report(const std::vector<Counts>& counts, uint32_t plane,
                       Diagnostics* diagnostics) const {
  for (size_t i = 0; i < counts.size(); ++i) {
    const bool any = counts[i].with + counts[i].without > 0;
    const bool program = i + 1 < counts.size();
    if (choice_ == ClockChoice::kDevice && !Choose(counts[i]).has_value() &&
        (any || (program && kind_ == DeviceKind::kTpu))) {
      diagnostics->Count(DiagnosticCode::kNoDeviceClock, {.plane = plane});
    }
    if (choice_ == ClockChoice::kAuto && counts[i].with > 0 && counts[i].without > 0) {
      diagnostics->Count(DiagnosticCode::kMixedClocks, {.plane = plane});
    }
  }
}

DeviceMeter::DeviceMeter(const DevicePlane& plane, std::shared_ptr<const ExecutionTables> tables,
                         std::span<const ModuleEvent> modules, const MeterSettings& settings)
    : plane_(plane),
      tables_(std::move(tables)),
      modules_(modules),
      settings_(settings),
      clock_counts_(1) {}

void DeviceMeter::LearnOps() {
  for (size_t i = symbol_of_op_.size(); i < tables_->ops.size(); ++i) {
    const OpInfo& op = tables_->ops[i];
    op_wanted_.push_back(!settings_.filters->any_op() || settings_.filters->WantsOp(op) ? 1 : 0);
    op_has_body_.push_back(plane_.kind == DeviceKind::kCpu && HasBody(op) ? 1 : 0);
    const auto next = static_cast<uint32_t>(symbols_.size());
    symbol_of_op_.push_back(symbols_.try_emplace({op.hlo_op, op.kernel}, next).first->second);
  }
  cells_of_op_.resize(tables_->ops.size());
  if (clock_counts_.size() < tables_->programs.size() + 1) {
    // The last one stays that of executions in no program.
    clock_counts_.insert(clock_counts_.end() - 1,
                         tables_->programs.size() + 1 - clock_counts_.size(), {});
  }
}

void DeviceMeter::Add(const DeviceExecutions& chunk) {
  LearnOps();
  AddOnProfileClock(chunk);
  OrderByClock(chunk);
  std::vector<uint64_t> tags;
  const bool tolerant = settings_.tolerance_ps > 0 && Nests(plane_.kind);
  if (tolerant) tags.resize(chunk.size());
  for (const uint32_t row : order_) {
    if (plane_.kind == DeviceKind::kTpu) CheckOrder(chunk, row);
    if (chunk.run[row] != kNone) AddToRun(chunk, row);
    const uint32_t cell = AddToKernel(chunk, row);
    if (!Nests(plane_.kind)) {
      AddSelf(cell, Length(intervals_[row]));
    } else if (tolerant) {
      tags[row] = TagOf(chunk, row, cell);
    } else {
      NestRow(chunk, row, TagOf(chunk, row, cell));
    }
  }
  if (tolerant) NestTolerantly(chunk, tags);
  if (chunk.size() > 0) CloseTimelines(chunk.start_ps.back());
}

void DeviceMeter::AddAggregated(const AggregatedExecution& execution) {
  LearnOps();
  const auto count = static_cast<uint64_t>(execution.occurrences);
  totals_.executions += count;
  totals_.sum_ps = SaturatingAdd(totals_.sum_ps, execution.total_ps);
  if (count == 0 || !settings_.clocks->Of(execution.program).has_value()) return;
  KernelCell& cell = cells_[CellOf(execution.op, execution.program)];
  if (!cell.wanted) return;
  cell.count += count;
  cell.aggregated += count;
  cell.total_ps = SaturatingAdd(cell.total_ps, execution.total_ps);
  cell.self_ps = std::nullopt;
}

void DeviceMeter::AddOnProfileClock(const DeviceExecutions& chunk) {
  const bool gpu = plane_.kind == DeviceKind::kGpu;
  totals_.executions += chunk.size();
  for (size_t row = 0; row < chunk.size(); ++row) {
    const int64_t start_ps = chunk.start_ps[row], end_ps = chunk.end_ps(row);
    busy_.Add(start_ps, end_ps);
    totals_.sum_ps = SaturatingAdd(totals_.sum_ps, chunk.duration_ps[row]);
    totals_.last_ps = std::max(totals_.last_ps.value_or(end_ps), end_ps);
    CountClock(chunk, row);
    if (!gpu) continue;
    // Streams are in order by themselves: an overlap is worth a note.
    int64_t& end_of_line = end_of_line_.try_emplace(chunk.line[row], start_ps).first->second;
    if (start_ps < end_of_line && overlaps_++ == 0) {
      first_overlap_ = {.plane = plane_.plane, .line = chunk.line[row]};
    }
    end_of_line = std::max(end_of_line, end_ps);
    if (chunk.program[row] == kNone && !tables_->programs.empty() &&
        chunk.op_info(row).category != Category::kCopy) {
      lost_.push_back({start_ps, chunk.line[row]});
    }
  }
  if (!totals_.first_ps.has_value() && chunk.size() > 0) totals_.first_ps = chunk.start_ps[0];
}

void DeviceMeter::CountClock(const DeviceExecutions& chunk, size_t row) {
  const bool has = !chunk.device_start_ps.empty() && chunk.device_start_ps[row] != kNoTimePs;
  const size_t program = std::min<size_t>(chunk.program[row], clock_counts_.size() - 1);
  ++(has ? clock_counts_[program].with : clock_counts_[program].without);
}

// Run after run on a TPU, and in the order of the clock within a run.
void DeviceMeter::OrderByClock(const DeviceExecutions& chunk) {
  const bool by_run = plane_.kind == DeviceKind::kTpu;
  const auto before = [&](uint32_t a, uint32_t b) {
    if (by_run && chunk.run[a] != chunk.run[b]) return chunk.run[a] < chunk.run[b];
    return Before(intervals_[a], intervals_[b]);
  };
  intervals_.resize(chunk.size());
  clocks_.resize(chunk.size());
  order_.clear();
  bool sorted = true;
  for (uint32_t row = 0; row < chunk.size(); ++row) {
    const std::optional<Clock> clock = settings_.clocks->Of(chunk.program[row]);
    if (!clock.has_value()) continue;
    // Where the plan turns out to be wrong, the pass does not count.
    const bool has = !chunk.device_start_ps.empty() && chunk.device_start_ps[row] != kNoTimePs;
    clocks_[row] = has ? *clock : Clock::kProfile;
    intervals_[row] = ExecutionInterval(chunk, row, clocks_[row]);
    if (!order_.empty()) sorted &= !before(row, order_.back());
    order_.push_back(row);
  }
  if (!sorted) std::stable_sort(order_.begin(), order_.end(), before);
}

// Whether a row comes after those of the chunks before.
void DeviceMeter::CheckOrder(const DeviceExecutions& chunk, size_t row) {
  const uint32_t run = chunk.run[row];
  if (run != kNone && run >= runs_.size()) runs_.resize(run + 1);
  Interval& last = run == kNone ? last_in_no_run_ : runs_[run].last;
  const bool any = last != Interval{} || (run != kNone && runs_[run].executions > 0);
  disordered_ |= any && clocks_[row] == Clock::kDevice && Before(intervals_[row], last);
  last = intervals_[row];
}

void DeviceMeter::AddToRun(const DeviceExecutions& chunk, size_t row) {
  const uint32_t run = chunk.run[row];
  if (run >= runs_.size()) runs_.resize(run + 1);
  RunTimes& times = runs_[run];
  ++times.executions;
  contents_.Add(run, symbol_of_op_[chunk.op[row]]);
  if (op_wanted_[chunk.op[row]] == 0) return;
  const Interval& interval = intervals_[row];
  if (times.kernels++ == 0) {
    times.start_ps = times.covered_to_ps = interval.start_ps;
    times.end_ps = interval.end_ps;
  }
  times.end_ps = std::max(times.end_ps, interval.end_ps);
  times.sum_ps = SaturatingAdd(times.sum_ps, Length(interval));
  const int64_t from_ps = std::max(interval.start_ps, times.covered_to_ps);
  if (interval.end_ps > from_ps) {
    times.active_ps += interval.end_ps - from_ps;
    times.covered_to_ps = interval.end_ps;
  }
}

uint32_t DeviceMeter::CellOf(uint32_t op, uint32_t program) {
  auto& cells = cells_of_op_[op];
  for (const auto& [cell_program, cell] : cells) {
    if (cell_program == program) return cell;
  }
  const auto cell = static_cast<uint32_t>(cells_.size());
  cells.emplace_back(program, cell);
  KernelCell& added = cells_.emplace_back();
  added.op = op;
  added.program = program;
  const Filters& filters = *settings_.filters;
  added.wanted = op_wanted_[op] != 0 &&
                 (program == kNone ? !filters.any_function()
                                   : filters.WantsFunction(tables_->programs[program].function));
  return cell;
}

uint32_t DeviceMeter::AddToKernel(const DeviceExecutions& chunk, size_t row) {
  const uint32_t index = CellOf(chunk.op[row], chunk.program[row]);
  KernelCell& cell = cells_[index];
  if (!cell.wanted) {
    ++left_out_;
    return kNone;
  }
  const int64_t duration_ps = Length(intervals_[row]);
  ++cell.count;
  cell.total_ps = SaturatingAdd(cell.total_ps, duration_ps);
  cell.durations.Add(duration_ps);
  return index;
}

// The cell, and above it a pending body's number.
uint64_t DeviceMeter::TagOf(const DeviceExecutions& chunk, size_t row, uint32_t cell) {
  if (op_has_body_[chunk.op[row]] == 0 || chunk.flow_id[row] == kNoFlow) return cell;
  pending_.push_back({chunk.flow_id[row], chunk.end_ps(row), 0, cell});
  return (uint64_t{pending_.size()} << 32) | cell;
}

void DeviceMeter::AddSelf(uint64_t tag, int64_t self_ps) {
  if (const uint64_t pending = tag >> 32; pending != kNoPending) {
    pending_[pending - 1].self_ps = self_ps;
    return;
  }
  self_ps_ = SaturatingAdd(self_ps_, self_ps);
  const auto cell = static_cast<uint32_t>(tag);
  if (cell == kNone || !cells_[cell].self_ps.has_value()) return;
  cells_[cell].self_ps = SaturatingAdd(*cells_[cell].self_ps, self_ps);
}

DeviceMeter::TimelineKey DeviceMeter::TimelineOf(const DeviceExecutions& chunk,
                                                 size_t row) const {
  const bool by_run = plane_.kind == DeviceKind::kTpu;
  return {chunk.line[row], by_run ? chunk.run[row] : kNone, clocks_[row]};
}

void DeviceMeter::NestRow(const DeviceExecutions& chunk, size_t row, uint64_t tag) {
  const TimelineKey key = TimelineOf(chunk, row);
  auto at = std::find_if(timelines_.rbegin(), timelines_.rend(),
                         [&](const Timeline& timeline) { return timeline.key == key; });
  if (at == timelines_.rend()) {
    timelines_.push_back({key, {}});
    at = timelines_.rbegin();
  }
  at->stack.Add(intervals_[row], tag,
                [&](uint64_t done, int64_t self_ps) { AddSelf(done, self_ps); });
}

// Of the runs of a TPU that are over.
void DeviceMeter::CloseTimelines(int64_t time_ps) {
  std::erase_if(timelines_, [&](Timeline& timeline) {
    const uint32_t run = timeline.key.run;
    if (run == kNone || modules_[run].interval.end_ps > time_ps) return false;
    timeline.stack.Finish([&](uint64_t done, int64_t self_ps) { AddSelf(done, self_ps); });
    return true;
  });
}

void DeviceMeter::NestTolerantly(const DeviceExecutions& chunk,
                                 const std::vector<uint64_t>& tags) {
  std::map<std::tuple<uint32_t, uint32_t, Clock>, std::vector<uint32_t>> timelines;
  for (const uint32_t row : order_) {
    const TimelineKey key = TimelineOf(chunk, row);
    timelines[{key.line, key.run, key.clock}].push_back(row);
  }
  for (const auto& [ignored, rows] : timelines) {
    std::vector<Interval> intervals;
    for (const uint32_t row : rows) intervals.push_back(intervals_[row]);
    const Nesting nesting = Nest(intervals, settings_.tolerance_ps);
    for (size_t i = 0; i < rows.size(); ++i) AddSelf(tags[rows[i]], nesting.self_ps[i]);
  }
}

void DeviceMeter::Finish(const absl::flat_hash_map<uint64_t, int64_t>& completion_ps,
                         Diagnostics* diagnostics) {
  const auto add = [&](uint64_t tag, int64_t self_ps) { AddSelf(tag, self_ps); };
  for (Timeline& timeline : timelines_) timeline.stack.Finish(add);
  uint64_t asynchronous = 0;
  for (const PendingBody& body : pending_) {
    if (!CompletesLater(completion_ps, body.flow_id, body.end_ps)) {
      AddSelf(body.cell, body.self_ps);
      continue;
    }
    ++asynchronous;
    if (body.cell != kNone) cells_[body.cell].self_ps = std::nullopt;
  }
  totals_.busy_ps = busy_.length_ps();
  const Location where = {.plane = plane_.plane};
  diagnostics->Count(DiagnosticCode::kOverlapInStream, first_overlap_, overlaps_);
  diagnostics->Count(DiagnosticCode::kLeftOutByFilter, where, left_out_);
  diagnostics->Count(DiagnosticCode::kAsynchronousBody, where, asynchronous);
}

}  // namespace xplane_time
