#include "timing/device_meter.h"

#include <algorithm>
#include <limits>

#include "sort_parts.h"
#include "stats/order_statistics.h"

namespace xplane_time {
namespace {

int64_t ComputeLengthPs(const Interval& interval) { return interval.end_ps - interval.start_ps; }

constexpr size_t kMostOpenRuns = 256;
constexpr size_t kMostOrders = 4096, kLongestOrder = 4096;

uint64_t Total(const RunContents::Counts& counts) {
  uint64_t total = 0;
  for (const auto& [symbol, count] : counts) total += count;
  return total;
}

bool Includes(const RunContents::Counts& whole, const RunContents::Counts& part) {
  auto at = whole.begin();
  return std::all_of(part.begin(), part.end(), [&](const auto& wanted) {
    while (at != whole.end() && at->first < wanted.first) ++at;
    return at != whole.end() && at->first == wanted.first && at->second >= wanted.second;
  });
}

RunContents::Counts CountsOf(std::vector<uint32_t> symbols) {
  std::sort(symbols.begin(), symbols.end());
  RunContents::Counts counts;
  for (const uint32_t symbol : symbols) {
    if (counts.empty() || counts.back().first != symbol) counts.push_back({symbol, 0});
    ++counts.back().second;
  }
  return counts;
}

// Durations of kernels by name, whatever their program; sorted when they are first asked for.
class UsualDurations {
 public:
  UsualDurations(const ExecutionTables& tables, std::span<const KernelCell> cells)
      : tables_(tables), cells_(cells) {}

  // The median of the kernel of this op without its `count` longest; empty if too few are left.
  std::optional<int64_t> MedianOfOthers(uint32_t op, uint64_t count) {
    const std::vector<DurationCount>& upto = SortedOf(tables_.ops[op].kernel);
    const uint64_t total = upto.empty() ? 0 : upto.back().count;
    if (total < count + StreamOrder::kFewOthers) return std::nullopt;
    const uint64_t rank = (total - count - 1) / 2;
    return std::ranges::upper_bound(upto, rank, {}, &DurationCount::count)->value;
  }

 private:
  // With how many are as long or shorter.
  const std::vector<DurationCount>& SortedOf(const std::string& kernel) {
    if (cells_of_.empty()) {
      for (const KernelCell& cell : cells_) {
        cells_of_[tables_.ops[cell.op].kernel].push_back(&cell);
      }
    }
    const auto [found, is_new] = sorted_.try_emplace(kernel);
    std::vector<DurationCount>& sorted = found->second;
    if (!is_new) return sorted;
    for (const KernelCell* cell : cells_of_[kernel]) {
      const std::vector<DurationCount> own = cell->durations.Sorted();
      sorted.insert(sorted.end(), own.begin(), own.end());
    }
    std::ranges::sort(sorted, {}, &DurationCount::value);
    for (size_t i = 1; i < sorted.size(); ++i) sorted[i].count += sorted[i - 1].count;
    return sorted;
  }

  const ExecutionTables& tables_;
  const std::span<const KernelCell> cells_;
  absl::flat_hash_map<std::string_view, std::vector<const KernelCell*>> cells_of_;
  std::map<std::string_view, std::vector<DurationCount>> sorted_;
};

}  // namespace

double CountedMedian(std::span<const DurationCount> sorted, uint64_t count) {
  return stats::Between(stats::CountedAtRank(sorted, (count - 1) / 2).value,
                        stats::CountedAtRank(sorted, count / 2).value, 0.5);
}

void DurationCounts::Sum::Add(int64_t duration_ps, uint64_t times) {
  int64_t together_ps = 0;
  if (__builtin_mul_overflow(duration_ps, times, &together_ps)) {
    together_ps = std::numeric_limits<int64_t>::max();
  }
  total_ps = SaturatingAdd(total_ps, together_ps);
  min_ps = count == 0 ? duration_ps : std::min(min_ps, duration_ps);
  max_ps = count == 0 ? duration_ps : std::max(max_ps, duration_ps);
  count += times;
}

DurationCounts::Sum DurationCounts::Total() const {
  if (rounded()) return exact_;
  Sum sum;
  counts_.ForEach([&sum](const DurationCount& each) { sum.Add(each.value, each.count); });
  return sum;
}

void RunContents::SwitchTo(uint32_t run) {
  if (open_count_ >= kMostOpenRuns || buffered_ >= kMostBuffered) CloseAll();
  if (run >= open_of_run_.size()) open_of_run_.resize(run + 1, 0);
  if (open_of_run_[run] == 0) {
    if (open_count_ == open_.size()) open_.emplace_back();
    open_[open_count_++].run = run;
    open_of_run_[run] = static_cast<uint32_t>(open_count_);
  }
  current_run_ = run;
  current_ = &open_[open_of_run_[run] - 1].symbols;
}

void RunContents::CloseAll() {
  for (size_t i = 0; i < open_count_; ++i) {
    OpenRun& opened = open_[i];
    if (opened.run >= content_of_run_.size()) content_of_run_.resize(opened.run + 1, 0);
    uint32_t& content = content_of_run_[opened.run];
    if (content == 0) {
      content = NumberOf(opened.symbols) + 1;
    } else {
      GoOn(opened.run, opened.symbols);
    }
    opened.symbols.clear();
    open_of_run_[opened.run] = 0;
  }
  open_count_ = 0;
  current_run_ = kNoRun;
  current_ = nullptr;
  buffered_ = 0;
}

// A run that was closed continues. Its earlier part is counted separately, and is not examined
// again until the end.
void RunContents::GoOn(uint32_t run, const Symbols& more) {
  const auto [found, inserted] = growing_.try_emplace(run);
  if (inserted) {
    for (const auto& [symbol, count] : *contents_[content_of_run_[run] - 1]) {
      found->second[symbol] = count;
    }
  }
  for (const uint32_t symbol : more) ++found->second[symbol];
}

uint32_t RunContents::NumberOf(const Symbols& in_order) {
  if (in_order.size() > kLongestOrder) return NumberOf(CountsOf(in_order));
  const auto known = number_of_order_.find(in_order);
  if (known != number_of_order_.end()) return known->second;
  const uint32_t number = NumberOf(CountsOf(in_order));
  if (number_of_order_.size() >= kMostOrders) number_of_order_.clear();
  number_of_order_.emplace(in_order, number);
  return number;
}

uint32_t RunContents::NumberOf(Counts counts) {
  const auto next = static_cast<uint32_t>(contents_.size());
  const auto [found, inserted] = number_of_content_.try_emplace(std::move(counts), next);
  if (inserted) contents_.push_back(&found->first);
  return found->second;
}

void RunContents::Settle() {
  CloseAll();
  for (const auto& [run, counts] : growing_) {
    Counts sorted(counts.begin(), counts.end());
    std::sort(sorted.begin(), sorted.end());
    content_of_run_[run] = NumberOf(std::move(sorted)) + 1;
  }
  growing_.clear();
  nothing_ = NumberOf(Counts());
}

std::vector<bool> RunContents::Suspects(std::span<const uint32_t> runs) const {
  std::vector<bool> suspect(runs.size(), false);
  if (runs.size() < 4) return suspect;
  const auto content = [&](uint32_t run) {
    const bool known = run < content_of_run_.size() && content_of_run_[run] != 0;
    return known ? content_of_run_[run] - 1 : nothing_;
  };
  absl::flat_hash_map<uint32_t, size_t> count;
  for (const uint32_t run : runs) ++count[content(run)];
  const auto mode = std::max_element(count.begin(), count.end(), [&](const auto& a, const auto& b) {
    return std::pair(a.second, Total(*contents_[a.first])) <
           std::pair(b.second, Total(*contents_[b.first]));
  });
  if (mode->second * 4 < runs.size() * 3) return suspect;
  const Counts& whole = *contents_[mode->first];
  absl::flat_hash_map<uint32_t, bool> lacks;
  for (const auto& [number, times] : count) {
    lacks[number] = number != mode->first && Includes(whole, *contents_[number]);
  }
  for (size_t i = 0; i < runs.size(); ++i) suspect[i] = lacks[content(runs[i])];
  return suspect;
}

ClockPlan::ClockPlan(ClockChoice choice, bool may_have_device_clock) : choice_(choice) {
  first_guess_ = Choose({may_have_device_clock ? 1u : 0u, may_have_device_clock ? 0u : 1u});
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
  for (const Counts& each : counts) {
    const bool any = each.with + each.without > 0;
    const auto program = static_cast<uint32_t>(right.size()) - 1;  // kNone in the first place
    right.push_back(Choose(each));
    as_planned &= !any || right.back() == Of(program);
  }
  clocks_ = std::move(right);
  return as_planned;
}

void ClockPlan::Report(const std::vector<Counts>& counts, const DevicePlane& plane,
                       Diagnostics* diagnostics) const {
  const Location where = {.plane = plane.plane};
  for (size_t place = 0; place < counts.size(); ++place) {
    const auto [with, without] = counts[place];
    const bool program = place > 0;
    if (choice_ == ClockChoice::kDevice && !Choose(counts[place]).has_value() &&
        (with + without > 0 || (program && RulesOf(plane.kind).runs_are_events()))) {
      diagnostics->Count(DiagnosticCode::kNoDeviceClock, where);
    }
    if (choice_ == ClockChoice::kAuto && with > 0 && without > 0) {
      diagnostics->Count(DiagnosticCode::kMixedClocks, where);
    }
  }
}

DeviceMeter::DeviceMeter(const DevicePlane& plane, std::shared_ptr<const ExecutionTables> tables,
                         std::span<const ModuleEvent> modules, const MeterSettings& settings)
    : plane_(plane),
      rules_(RulesOf(plane.kind)),
      tables_(std::move(tables)),
      modules_(modules),
      settings_(settings),
      stream_order_(rules_.launch_id) {
  runs.reserve(modules_.size());
}

void DeviceMeter::LearnOps() {
  for (size_t i = symbol_of_op_.size(); i < tables_->ops.size(); ++i) {
    const OpInfo& op = tables_->ops[i];
    op_wanted_.push_back(!settings_.filters->any_op() || settings_.filters->WantsOp(op) ? 1 : 0);
    op_has_body_.push_back(rules_.has_body != nullptr && rules_.has_body(op) ? 1 : 0);
    symbol_of_op_.push_back(op.symbol);
  }
  last_cell_of_op_.resize(tables_->ops.size(), {kNone, kNone});
  clock_counts.resize(tables_->programs.size() + 1);
}

void DeviceMeter::Add(Chunk chunk, std::span<const uint8_t> in_function) {
  if (chunk.empty()) return;
  in_function_ = in_function;
  LearnOps();
  AddOnProfileClock(chunk);
  if (rules_.line_order == LineOrder::kQueued) WatchStreams(chunk);
  SetIntervals(chunk);
  OrderByClock(chunk);
  AddRunByRun(chunk);
  if (++chunks_ % 256 == 0) LimitDurations();
  if (settings_.tolerance_ps > 0 && nests()) NestTolerantly(chunk);
  if (settings_.keeps_intervals) KeepIntervals(chunk);
  if (!rules_.runs_are_events()) return;
  for (auto& [line, open] : timelines_) {
    std::erase_if(
        open, [&](Timeline& timeline) { return CloseIfOver(chunk.back().start_ps, &timeline); });
  }
}

void DeviceMeter::AddAggregated(const AggregatedExecution& execution) {
  LearnOps();
  const auto count = static_cast<uint64_t>(execution.occurrences);
  totals.executions += count;
  totals.sum_ps = SaturatingAdd(totals.sum_ps, execution.total_ps);
  if (count == 0 || !settings_.clocks->Of(execution.program).has_value()) return;
  KernelCell& cell = cells[CellOf(execution.op, execution.program)];
  if (!cell.wanted) return;
  cell.count += count;
  cell.aggregated += count;
  cell.total_ps = SaturatingAdd(cell.total_ps, execution.total_ps);
  cell.self_ps = std::nullopt;
}

void DeviceMeter::AddOnProfileClock(Chunk chunk) {
  totals.executions += chunk.size();
  UnionLength busy = busy_;
  int64_t sum_ps = totals.sum_ps, last_ps = totals.last_ps.value_or(chunk[0].end_ps());
  for (const Execution& execution : chunk) {
    busy.Add(execution.start_ps, execution.end_ps());
    sum_ps = SaturatingAdd(sum_ps, execution.duration_ps);
    last_ps = std::max(last_ps, execution.end_ps());
  }
  busy_ = busy;
  totals.sum_ps = sum_ps;
  totals.last_ps = last_ps;
  if (!totals.first_ps.has_value()) totals.first_ps = chunk[0].start_ps;
}

// Streams execute one thing after the other: an overlap is worth a note.
void DeviceMeter::WatchStreams(Chunk chunk) {
  for (const Execution& each : chunk) {
    stream_order_.Add(each);
    if (each.program == kNone && !tables_->programs.empty() &&
        tables_->ops[each.op].category != Category::kCopy) {
      lost.push_back({each.start_ps, each.line});
    }
  }
}

// The rows that are measured, as they come, and their times on the clocks of programs.
// Counts which rows have the device clock.
void DeviceMeter::SetIntervals(Chunk chunk) {
  const bool may_have = !rules_.device_clock_stat.empty();
  intervals_.resize(chunk.size());
  clocks_.resize(chunk.size());
  order_.resize(chunk.size());
  size_t count = 0;
  for (uint32_t row = 0; row < chunk.size();) {
    const uint32_t program = chunk[row].program;
    const std::optional<Clock> clock = settings_.clocks->Of(program);
    const uint32_t first = row;
    uint64_t with = 0;
    for (; row < chunk.size() && chunk[row].program == program; ++row) {
      const Execution& execution = chunk[row];
      const bool has = may_have && execution.has_device_clock();
      // If the plan turns out to be wrong, the pass is invalid.
      clocks_[row] = has && clock == Clock::kDevice ? Clock::kDevice : Clock::kProfile;
      intervals_[row] = execution.IntervalOn(clocks_[row]);
      with += has ? 1 : 0;
      order_[count] = row;
      count += clock.has_value() ? 1 : 0;
    }
    ClockPlan::Counts& counts = clock_counts[ClockPlan::PlaceOf(program)];
    counts.with += with;
    counts.without += row - first - with;
  }
  order_.resize(count);
}

// Run by run if runs are events, and in the order of the clock within a run. Rows are mostly in
// order, or a few places off if starts are equal on the profile clock.
void DeviceMeter::OrderByClock(Chunk chunk) {
  const bool by_run = rules_.runs_are_events();
  SortNearly(order_, [&](uint32_t a, uint32_t b) {
    if (by_run && chunk[a].run != chunk[b].run) return chunk[a].run < chunk[b].run;
    return Before(intervals_[a], intervals_[b]);
  });
}

void DeviceMeter::AddRunByRun(Chunk chunk) {
  tags_.resize(chunk.size());
  const bool nests_here = nests() && settings_.tolerance_ps == 0;
  const Rows order(order_);
  for (size_t first = 0; first < order.size();) {
    const uint32_t run = chunk[order[first]].run;
    size_t end = first;
    while (end < order.size() && chunk[order[end]].run == run) ++end;
    const Rows rows = order.subspan(first, end - first);
    first = end;
    if (run == kNone) {
      CheckOrder(rows, &last_in_no_run_);
    } else {
      AddToRun(chunk, rows, run);
    }
    AddToKernels(chunk, rows);
    if (rules_.has_body != nullptr) MarkBodies(chunk, rows);
    if (nests_here) NestRows(chunk, rows);
  }
}

// Rows of a run come in the order of the device's clock, in one chunk and from one to the
// next.
void DeviceMeter::CheckOrder(Rows rows, Interval* last) {
  if (clocks_[rows[0]] != Clock::kDevice) return;
  disordered |= Before(intervals_[rows[0]], *last);
  *last = intervals_[rows.back()];
}

void DeviceMeter::AddToRun(Chunk chunk, Rows rows, uint32_t run) {
  if (run >= runs.size()) runs.resize(run + 1);
  CheckOrder(rows, &runs[run].last);
  std::vector<uint32_t>* symbols = contents.Open(run, rows.size());
  RunTimes times = runs[run];
  times.executions += rows.size();
  size_t at = symbols->size();
  symbols->resize(at + rows.size());
  for (const uint32_t row : rows) {
    (*symbols)[at++] = symbol_of_op_[chunk[row].op];
    if (op_wanted_[chunk[row].op] != 0) times.Add(intervals_[row]);
  }
  runs[run] = times;
}

uint32_t DeviceMeter::FindCell(uint32_t op, uint32_t program) {
  const auto next = static_cast<uint32_t>(cells.size());
  const auto [found, inserted] = cell_of_.try_emplace(std::pair(op, program), next);
  if (inserted) {
    KernelCell& added = cells.emplace_back();
    added.op = op;
    added.program = program;
    if (kept_bits_ != 0) added.durations.Round(kept_bits_);
    const Filters& filters = *settings_.filters;
    added.wanted = op_wanted_[op] != 0 &&
                   (program == kNone ? !filters.any_function() || settings_.functions_are_ranges
                                     : filters.WantsFunction(tables_->programs[program].function));
  }
  last_cell_of_op_[op] = {program, found->second};
  return found->second;
}

void DeviceMeter::AddToKernels(Chunk chunk, Rows rows) {
  int64_t own_ps = self_ps;
  for (const uint32_t row : rows) {
    const int64_t length_ps = ComputeLengthPs(intervals_[row]);
    own_ps = SaturatingAdd(own_ps, length_ps);
    const uint32_t index = CellOf(chunk[row].op, chunk[row].program);
    KernelCell& cell = cells[index];
    const bool wanted = cell.wanted && (in_function_.empty() || in_function_[row] != 0);
    tags_[row] = wanted ? index : kNone;
    if (wanted) {
      cell.durations.Add(length_ps);
    } else {
      ++left_out_;
    }
  }
  self_ps = own_ps;
  if (rules_.copied_bytes.has_value()) AddCopies(chunk, rows);
}

void DeviceMeter::AddCopies(Chunk chunk, Rows rows) {
  for (const uint32_t row : rows) {
    const int64_t bytes = chunk[row].numbers[*rules_.copied_bytes];
    if (bytes == 0 || tags_[row] == kNone) continue;
    KernelCell& cell = cells[tags_[row]];
    cell.copied_bytes = SaturatingAdd(cell.copied_bytes, bytes);
    ++cell.copies_told;
  }
}

void DeviceMeter::LimitDurations() {
  constexpr int kFirstBits = 24, kFewestBits = 8;
  size_t bytes = 0;
  for (const KernelCell& cell : cells) bytes += cell.durations.memory_bytes();
  if (bytes <= settings_.most_duration_bytes || kept_bits_ == kFewestBits) return;
  kept_bits_ = kept_bits_ == 0 ? kFirstBits : kept_bits_ - 4;
  for (KernelCell& cell : cells) cell.durations.Round(kept_bits_);
}

// Ops whose self time is known only when their completion is.
void DeviceMeter::MarkBodies(Chunk chunk, Rows rows) {
  for (const uint32_t row : rows) {
    const int64_t flow = chunk[row].numbers[Execution::kFlowId];
    if (op_has_body_[chunk[row].op] == 0 || flow == kNoFlow) continue;
    const auto cell = static_cast<uint32_t>(tags_[row]);
    pending_.push_back({flow, intervals_[row], 0, cell});
    tags_[row] = (uint64_t{pending_.size()} << 32) | cell;
  }
}

NestStack* DeviceMeter::StackOf(const TimelineKey& key, std::vector<Timeline>* open) {
  for (size_t i = open->size(); i-- > 0;) {
    if ((*open)[i].key == key) return &(*open)[i].stack;
  }
  if (spare_.empty()) spare_.emplace_back();
  open->push_back({key, std::move(spare_.back())});
  spare_.pop_back();
  return &open->back().stack;
}

void DeviceMeter::NestRows(Chunk chunk, Rows rows) {
  const auto cover = [&](uint64_t tag, int64_t children_ps) { Cover(tag, children_ps); };
  for (size_t i = 0; i < rows.size();) {
    const TimelineKey key = TimelineOf(chunk, rows[i]);
    std::vector<Timeline>* open = &timelines_[key.line];
    // Rows are in the order of runs: no row in this chunk or later continues an earlier run.
    if (!open->empty() && open->back().key.run != key.run &&
        CloseIfOver(chunk.back().start_ps, &open->back())) {
      open->pop_back();
    }
    NestStack* stack = StackOf(key, open);
    do {
      stack->Add(intervals_[rows[i]], tags_[rows[i]], cover);
    } while (++i < rows.size() && chunk[rows[i]].line == key.line && clocks_[rows[i]] == key.clock);
  }
}

// If its run has ended.
bool DeviceMeter::CloseIfOver(int64_t time_ps, Timeline* timeline) {
  const uint32_t run = timeline->key.run;
  if (run == kNone || modules_[run].interval.end_ps > time_ps) return false;
  timeline->stack.Finish([&](uint64_t tag, int64_t children_ps) { Cover(tag, children_ps); });
  spare_.push_back(std::move(timeline->stack));
  return true;
}

void DeviceMeter::NestTolerantly(Chunk chunk) {
  std::map<TimelineKey, std::vector<uint32_t>> timelines;
  for (const uint32_t row : order_) timelines[TimelineOf(chunk, row)].push_back(row);
  for (const auto& [ignored, rows] : timelines) {
    std::vector<Interval> intervals;
    for (const uint32_t row : rows) intervals.push_back(intervals_[row]);
    const Nesting nesting = Nest(intervals, settings_.tolerance_ps);
    for (size_t i = 0; i < rows.size(); ++i) Cover(tags_[rows[i]], nesting.child_ps[i]);
  }
}

// Of the wanted and measured executions.
void DeviceMeter::KeepIntervals(Chunk chunk) {
  ran.resize(cells.size());
  const auto keep = [&](uint32_t cell, const Interval& interval) {
    if (cell != kNone) ran[cell].push_back(interval);
  };
  for (uint32_t row = 0; row < chunk.size(); ++row) {
    const Execution& execution = chunk[row];
    if (!settings_.clocks->Of(execution.program).has_value()) continue;
    const Interval interval = {execution.start_ps, execution.end_ps()};
    const auto cell = static_cast<uint32_t>(tags_[row]);
    if (nests()) {
      own_[execution.line].Add(interval, cell, keep);
    } else {
      keep(cell, interval);
    }
  }
}

void DeviceMeter::FinishStreams(Diagnostics* diagnostics) {
  UsualDurations usual(*tables_, cells);
  const auto median = [&](const StreamOrder::Key& key, uint64_t count) -> StreamOrder::Median {
    const auto own = cell_of_.find(std::pair(key.op, key.program));
    if (own == cell_of_.end() || !cells[own->second].wanted) return {.is_known = false};
    return {.duration_ps = usual.MedianOfOthers(key.op, count)};
  };
  for (const StreamOrder::Found& found : stream_order_.Finish(median)) {
    impossible.push_back({found, cell_of_.at(std::pair(found.key.op, found.key.program))});
  }
  diagnostics->Count(DiagnosticCode::kOverlapInStream,
                     {.plane = plane_.plane, .line = stream_order_.first_overlap()},
                     stream_order_.overlaps());
  diagnostics->Count(DiagnosticCode::kCopiedExecution,
                     {.plane = plane_.plane, .line = stream_order_.first_copy()},
                     stream_order_.copies());
}

void DeviceMeter::Finish(const Completions& completions, Diagnostics* diagnostics) {
  const auto cover = [&](uint64_t tag, int64_t children_ps) { Cover(tag, children_ps); };
  for (auto& [line, open] : timelines_) {
    for (Timeline& timeline : open) timeline.stack.Finish(cover);
  }
  uint64_t asynchronous = 0;
  ran.resize(settings_.keeps_intervals ? cells.size() : 0);
  for (auto& [line, own] : own_) {
    own.Finish([&](uint32_t cell, const Interval& interval) {
      if (cell != kNone) ran[cell].push_back(interval);
    });
  }
  for (const PendingBody& body : pending_) {
    if (!CompletesLater(completions, body.flow_id, body.interval.end_ps)) {
      Cover(body.cell, body.children_ps);
      continue;
    }
    ++asynchronous;
    self_ps = SaturatingSub(self_ps, ComputeLengthPs(body.interval));
    if (body.cell == kNone) continue;
    KernelCell& cell = cells[body.cell];
    cell.self_ps = std::nullopt;
    ++cell.asynchronous;
    cell.children_ps = SaturatingAdd(cell.children_ps, ComputeLengthPs(body.interval));
  }
  for (KernelCell& cell : cells) {
    const DurationCounts::Sum sum = cell.durations.Total();
    cell.count += sum.count;
    cell.total_ps = SaturatingAdd(cell.total_ps, sum.total_ps);
    const bool saturated = sum.total_ps == std::numeric_limits<int64_t>::max();
    if (saturated) cell.self_ps = std::nullopt;  // what is left of it is not known
    cell.known_self_ps = SaturatingSub(sum.total_ps, cell.children_ps);
    if (cell.self_ps.has_value()) cell.self_ps = cell.known_self_ps;
    cell.min_ps = sum.min_ps;
    cell.max_ps = sum.max_ps;
  }
  totals.busy_ps = busy_.length_ps();
  const Location where = {.plane = plane_.plane};
  if (rules_.line_order == LineOrder::kQueued) FinishStreams(diagnostics);
  diagnostics->Count(DiagnosticCode::kLeftOutByFilter, where, left_out_);
  diagnostics->Count(DiagnosticCode::kAsynchronousBody, where, asynchronous);
  diagnostics->Count(DiagnosticCode::kRoundedDurations, where, kept_bits_ == 0 ? 0 : cells.size());
}

}  // namespace xplane_time
