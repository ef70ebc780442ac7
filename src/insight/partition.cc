#include "insight/partition.h"

#include <algorithm>
#include <numeric>

#include "saturate.h"

namespace xplane_time::insight {
namespace {

// Longer gaps come first, then earlier ones.
bool ComesFirst(const Gap& a, const Gap& b) {
  if (a.length_ps() != b.length_ps()) return a.length_ps() > b.length_ps();
  return a.interval.start_ps < b.interval.start_ps;
}

// Adds what the gap is up to an instant in it.
void AddIdle(const Gap& gap, int64_t until_ps, PartTimes* times) {
  const int64_t start_ps = gap.interval.start_ps;
  if (gap.launch_ps == kNoTimePs) {
    (*times)[kIdleUnknown] += until_ps - start_ps;
    return;
  }
  const int64_t launch_ps = std::min(gap.launch_ps, until_ps);
  (*times)[kIdleHost] += launch_ps - start_ps;
  (*times)[kIdleLaunch] += until_ps - launch_ps;
}

}  // namespace

PartTimes operator-(const PartTimes& a, const PartTimes& b) {
  PartTimes difference;
  for (size_t part = 0; part < kPartCount; ++part) difference[part] = a[part] - b[part];
  return difference;
}

void operator+=(PartTimes& sum, const PartTimes& more) {
  for (size_t part = 0; part < kPartCount; ++part) {
    sum[part] = SaturatingAdd(sum[part], more[part]);
  }
}

int64_t IdlePs(const PartTimes& times) {
  return times[kIdleHost] + times[kIdleLaunch] + times[kIdleUnknown];
}

void Activity::AdvanceTo(int64_t time_ps, PartTimes* times) {
  const int64_t length_ps = time_ps - since_ps;
  since_ps = time_ps;
  if (length_ps == 0) return;
  for (size_t rank = 0; rank < kRankCount; ++rank) {
    if (running[rank] == 0) continue;
    (*times)[rank] += length_ps;
    break;
  }
  if (running[kCollective] + pairs[kCollective] > 0) {
    (*times)[kCollectiveInFlight] += length_ps;
    if (running[kCompute] > 0) (*times)[kCollectiveHidden] += length_ps;
  }
  if (running[kCopy] + pairs[kCopy] > 0) {
    (*times)[kCopyInFlight] += length_ps;
    if (running[kCompute] + running[kCollective] > 0) (*times)[kCopyHidden] += length_ps;
  }
}

PartitionSweep::PartitionSweep(std::shared_ptr<const ExecutionTables> tables, bool nests,
                               size_t steps, LaunchOf launch_of)
    : tables_(std::move(tables)), nests_(nests), launch_of_(std::move(launch_of)) {
  for (size_t i = 0; i < steps; ++i) steps_.push_back({});
}

void PartitionSweep::LearnOps() {
  for (size_t i = rank_of_op_.size(); i < tables_->ops.size(); ++i) {
    const OpInfo& op = tables_->ops[i];
    rank_of_op_.push_back(static_cast<Rank>(RankOfCategory(op.category)));
    const auto next = static_cast<uint32_t>(kernel_ids_.size());
    kernel_of_op_.push_back(kernel_ids_.try_emplace(op.kernel, next).first->second);
  }
  last_transfer_of_op_.resize(tables_->ops.size(), {kNone, kNone});
  if (tells_owners_) last_owner_of_op_.resize(tables_->ops.size(), {kNone, kNone});
}

void PartitionSweep::Add(std::span<const Piece> pieces) {
  LearnOps();
  while (!pieces.empty()) {
    const int64_t start_ps = pieces[0].interval.start_ps;
    size_t together = 1;
    while (together < pieces.size() && pieces[together].interval.start_ps == start_ps) ++together;
    EndUntil(start_ps);
    if (!begun_) {
      begun_ = true;
      first_ps_ = last_ps_ = idle_since_ps_ = activity_.since_ps = start_ps;
    }
    activity_.idle() ? SettleGap(pieces.first(together)) : RecordBusy(start_ps);
    Credit(start_ps);
    activity_.AdvanceTo(start_ps, &times_);
    for (const Piece& piece : pieces.first(together)) Start(piece);
    pieces = pieces.subspan(together);
  }
}

void PartitionSweep::Finish() {
  EndUntil(std::numeric_limits<int64_t>::max());
  std::ranges::sort_heap(gaps_, ComesFirst);
}

// The device was idle until the executions of the group start.
void PartitionSweep::SettleGap(std::span<const Piece> group) {
  const int64_t start_ps = idle_since_ps_, end_ps = group[0].interval.start_ps;
  if (start_ps == end_ps) return RecordIdle({{start_ps, end_ps}});
  Gap found = {.interval = {start_ps, end_ps},
               .profile_end_ps = group[0].profile_start_ps,
               .before = last_ended_,
               .after = {group[0].op, group[0].program}};
  for (const Piece& piece : group) {
    const int64_t of_piece_ps = launch_of_(piece);
    if (of_piece_ps == kNoTimePs) continue;
    if (found.launch_ps != kNoTimePs && found.launch_ps <= of_piece_ps) continue;
    found.launch_ps = of_piece_ps;
    found.launch_id = piece.launch_id;
  }
  if (found.launch_ps != kNoTimePs) {
    found.launch_ps = std::clamp(found.launch_ps, start_ps, end_ps);
  }
  RecordIdle(found);
  AddIdle(found, end_ps, &times_);
  if (watches_host_) AddInput(group, found);
  if (tells_owners_) CreditGap(group[0], found);
  KeepGap(found);
}

void PartitionSweep::KeepGap(const Gap& gap) {
  ++gap_count_;
  gaps_.push_back(gap);
  std::ranges::push_heap(gaps_, ComesFirst);
  if (gaps_.size() <= max_gaps_) return;
  std::ranges::pop_heap(gaps_, ComesFirst);
  gaps_.pop_back();
}

// The last execution to end; of several that end together the first to start.
void PartitionSweep::RememberEnd(const Open& open) {
  if (last_ended_.op != kNone && last_ended_end_ps_ == open.end_ps &&
      last_ended_start_ps_ <= open.start_ps) {
    return;
  }
  last_ended_ = {open.op, open.program};
  last_ended_start_ps_ = open.start_ps;
  last_ended_end_ps_ = open.end_ps;
}

// Records the instants up to `until_ps`, which are not in a gap.
void PartitionSweep::RecordBusy(int64_t until_ps) {
  while (recorded_.size() < instants_ps_.size() && instants_ps_[recorded_.size()] <= until_ps) {
    const int64_t at_ps = std::max(instants_ps_[recorded_.size()], activity_.since_ps);
    Credit(at_ps);
    activity_.AdvanceTo(at_ps, &times_);
    recorded_.push_back(times_);
  }
}

// Records the instants up to the end of the gap, which times_ lacks.
void PartitionSweep::RecordIdle(const Gap& gap) {
  const auto [start_ps, end_ps] = gap.interval;
  while (recorded_.size() < instants_ps_.size() && instants_ps_[recorded_.size()] <= end_ps) {
    const int64_t at_ps = std::max(instants_ps_[recorded_.size()], start_ps);
    activity_.AdvanceTo(at_ps, &times_);  // what is in flight
    PartTimes times = times_;
    AddIdle(gap, at_ps, &times);
    recorded_.push_back(times);
  }
}

void PartitionSweep::Start(const Piece& piece) {
  const int64_t start_ps = piece.interval.start_ps;
  const Rank rank = rank_of_op_[piece.op];
  const bool transfers = rank == kCollective || rank == kCopy;
  const uint32_t transfer = transfers ? TransferOf(piece.op, piece.program) : kNone;
  if (transfers) Count(piece, &transfers_[transfer]);
  const Open open = {.end_ps = piece.interval.end_ps,
                     .run = piece.run,
                     .step = piece.step,
                     .line = piece.line,
                     .transfer = transfer,
                     .pair = piece.start_op != kNone ? transfer : kNone,
                     .rank = rank,
                     .on_stack = nests_,
                     .ended = false,
                     .owner = tells_owners_ ? OwnerOf(piece.op, piece.program) : kNone,
                     .op = piece.op,
                     .program = piece.program,
                     .start_ps = start_ps};
  if (tells_owners_) ++owners_[open.owner].count;
  const uint32_t slot = Allocate(open);
  if (nests_) {
    std::vector<uint32_t>& stack = stacks_[piece.line];
    if (!stack.empty()) SetRunning(stack.back(), -1, start_ps);
    stack.push_back(slot);
  }
  if (piece.run != kNone) BeginRun(piece);
  if (piece.step != kNone) BeginStep(piece.step, start_ps);
  SetRunning(slot, +1, start_ps);
  if (piece.done_op != kNone) {
    SetPairs(rank_of_op_[piece.done_op], TransferOf(piece.done_op, piece.program), piece.run, +1,
             start_ps);
  }
  ends_.push({piece.interval.end_ps, slot});
}

void PartitionSweep::Count(const Piece& piece, TransferState* transfer) const {
  ++transfer->count;
  // XLA's bytes of a copy; each half of a pair states its own part.
  std::optional<int64_t> modelled_bytes;
  const bool may_say = transfer->rank == kCopy && !tables_->ops[piece.op].is_start;
  for (const uint32_t half : {piece.op, piece.start_op}) {
    if (!may_say || half == kNone || !tables_->ops[half].hbm_bytes.has_value()) continue;
    modelled_bytes = SaturatingAdd(modelled_bytes.value_or(0), *tables_->ops[half].hbm_bytes);
  }
  const bool modelled = modelled_bytes.has_value();
  const int64_t bytes = modelled_bytes.value_or(piece.copied_bytes);
  transfer->bytes_modelled |= modelled;
  transfer->bytes_known &= modelled || bytes > 0;
  transfer->bytes = SaturatingAdd(transfer->bytes, bytes);
}

uint32_t PartitionSweep::Allocate(const Open& open) {
  if (free_.empty()) {
    open_.push_back(open);
    return static_cast<uint32_t>(open_.size() - 1);
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  open_[slot] = open;
  return slot;
}

void PartitionSweep::EndUntil(int64_t time_ps) {
  while (!ends_.empty() && ends_.top().end_ps <= time_ps) {
    const End end = ends_.top();
    ends_.pop();
    RecordBusy(end.end_ps);
    Credit(end.end_ps);
    activity_.AdvanceTo(end.end_ps, &times_);
    EndOf(end.slot, end.end_ps);
    last_ps_ = end.end_ps;
    if (activity_.idle()) idle_since_ps_ = end.end_ps;
  }
}

void PartitionSweep::EndOf(uint32_t slot, int64_t time_ps) {
  const Open open = open_[slot];
  RememberEnd(open);
  open_[slot].ended = true;
  if (!nests_) {
    SetRunning(slot, -1, time_ps);
    free_.push_back(slot);
  } else if (std::vector<uint32_t>& stack = stacks_[open.line]; stack.back() == slot) {
    SetRunning(slot, -1, time_ps);
    // Below it are the containing executions, and those that ended while it ran.
    while (!stack.empty() && open_[stack.back()].ended) {
      free_.push_back(stack.back());
      stack.pop_back();
    }
    if (!stack.empty()) SetRunning(stack.back(), +1, time_ps);
  }
  Touch(open, time_ps);
  if (open.pair != kNone) SetPairs(open.rank, open.pair, open.run, -1, time_ps);
}

void PartitionSweep::SetRunning(uint32_t slot, int change, int64_t time_ps) {
  if (tells_owners_) change > 0 ? Link(slot) : Unlink(slot);
  Open& open = open_[slot];
  const auto by = static_cast<uint32_t>(change);
  activity_.running[open.rank] += by;
  if (open.run != kNone) {
    RunState* const run = RunOf(open.run);
    BringUp(run, time_ps);
    run->own.running[open.rank] += by;
  }
  if (open.transfer != kNone) {
    TransferState& transfer = transfers_[open.transfer];
    BringUp(&transfer, time_ps);
    transfer.running += by;
  }
  if (own_times_ == nullptr) return;
  if (change > 0) {
    Resume(&open, time_ps);
  } else {
    Tell(&open, time_ps);
  }
}

void PartitionSweep::Resume(Open* open, int64_t time_ps) {
  open->runs = true;
  open->since_ps = time_ps;
  open->higher_since_ps = HigherPs(open->rank);
  open->higher_of_run_since_ps = HigherOfRunPs(*open);
}

// The times of its run, if it is in one, are up to date.
void PartitionSweep::Tell(Open* open, int64_t time_ps) {
  const int64_t length_ps = time_ps - open->since_ps;
  const int64_t hidden_ps = HigherPs(open->rank) - open->higher_since_ps;
  const int64_t hidden_of_run_ps = HigherOfRunPs(*open) - open->higher_of_run_since_ps;
  open->runs = false;
  if (length_ps == 0 && open->is_told) return;
  own_times_->push_back({.op = open->op,
                         .program = open->program,
                         .run = open->run,
                         .steps_begun = static_cast<uint32_t>(step_order_.size()),
                         .of_device_ps = length_ps - hidden_ps,
                         .hidden_ps = hidden_ps,
                         .of_run_ps = length_ps - hidden_of_run_ps,
                         .executions = open->is_told ? 0u : 1u});
  open->is_told = true;
}

void PartitionSweep::SetPairs(Rank rank, uint32_t transfer, uint32_t run, int change,
                              int64_t time_ps) {
  const auto by = static_cast<uint32_t>(change);
  activity_.pairs[rank] += by;
  RunState* const of_run = RunOf(run);
  BringUp(of_run, time_ps);
  of_run->own.pairs[rank] += by;
  BringUp(&transfers_[transfer], time_ps);
  transfers_[transfer].pairs += by;
}

RunState* PartitionSweep::RunOf(uint32_t run) {
  while (runs_.size() <= run) runs_.push_back({});
  return &runs_.values()[run];
}

// Advances to an instant at which an execution of the run begins or ends. If the device was busy
// while the run had no execution, other functions ran.
void PartitionSweep::BringUp(RunState* run, int64_t time_ps) {
  Extent& extent = run->extent;
  if (run->own.idle()) {
    const PartTimes meanwhile = times_ - extent.at_last_end;
    for (const Part part : {kIdleHost, kIdleLaunch, kIdleUnknown}) {
      run->times[part] += meanwhile[part];
    }
    run->foreign_ps += time_ps - extent.last_end_ps - IdlePs(meanwhile);
  }
  run->own.AdvanceTo(time_ps, &run->times);
  extent.last_end_ps = time_ps;
  extent.at_last_end = times_;
}

void PartitionSweep::BringUp(TransferState* transfer, int64_t time_ps) {
  const int64_t higher_ps = HigherPs(transfer->rank);
  const int64_t length_ps = time_ps - transfer->since_ps;
  const int64_t hidden_ps = higher_ps - transfer->higher_since_ps;
  transfer->since_ps = time_ps;
  transfer->higher_since_ps = higher_ps;
  if (transfer->running + transfer->pairs == 0) return;
  transfer->in_flight_ps += length_ps;
  transfer->hidden_ps += hidden_ps;
  if (transfer->running > 0) transfer->exposed_ps += length_ps - hidden_ps;
}

namespace {

// Parts up to kOtherPart follow Rank.
int64_t HigherIn(const PartTimes& times, Rank rank) {
  return std::accumulate(times.begin(), times.begin() + rank, int64_t{0});
}

}  // namespace

// How long something higher ran so far.
int64_t PartitionSweep::HigherPs(Rank rank) const { return HigherIn(times_, rank); }

int64_t PartitionSweep::HigherOfRunPs(const Open& open) {
  return open.run == kNone ? 0 : HigherIn(RunOf(open.run)->times, open.rank);
}

void PartitionSweep::BeginRun(const Piece& piece) {
  RunState* const run = RunOf(piece.run);
  if (run->extent.begun()) return;
  const int64_t start_ps = piece.interval.start_ps;
  run->extent.start_ps = run->extent.last_end_ps = run->own.since_ps = start_ps;
  run->extent.at_start = run->extent.at_last_end = times_;
}

void PartitionSweep::BeginStep(uint32_t step, int64_t time_ps) {
  const std::span<Extent> steps = steps_.values();
  Extent& extent = steps[step];
  if (extent.begun()) return;
  for (Open& open : open_) {  // the previous step's state ends here
    if (own_times_ == nullptr) break;
    if (!open.runs) continue;
    if (open.run != kNone) BringUp(RunOf(open.run), time_ps);
    Tell(&open, time_ps);
    Resume(&open, time_ps);
  }
  extent.start_ps = extent.last_end_ps = time_ps;
  extent.at_start = extent.at_last_end = times_;
  step_order_.push_back(step);
}

// An execution ends, whether or not it ran itself at last.
void PartitionSweep::Touch(const Open& open, int64_t time_ps) {
  if (open.run != kNone) BringUp(RunOf(open.run), time_ps);
  if (open.step == kNone) return;
  Extent& extent = steps_.values()[open.step];
  extent.last_end_ps = time_ps;
  extent.at_last_end = times_;
}

// ---- owners

// All running executions have had the same state since the last start or end.
void PartitionSweep::Credit(int64_t time_ps) {
  if (!tells_owners_) return;
  for (const uint32_t slot : last_of_rank_) {
    if (slot == kNone) continue;
    owners_[open_[slot].owner].busy_ps += time_ps - activity_.since_ps;
    return;
  }
}

void PartitionSweep::CreditGap(const Piece& piece, const Gap& gap) {
  OwnedTimes& owner = owners_[OwnerOf(piece.op, piece.program)];
  ++owner.gaps;
  const auto [start_ps, end_ps] = gap.interval;
  const bool known = gap.launch_ps != kNoTimePs;
  const int64_t launch_ps = known ? gap.launch_ps : end_ps;
  (known ? owner.idle_host_ps : owner.idle_unknown_ps) += launch_ps - start_ps;
  owner.idle_launch_ps += end_ps - launch_ps;
  HostTimes& doing_ps = known ? owner.host_doing_ps : owner.unknown_doing_ps;
  const HostTimes in_gap_ps = HostTimesIn(gap);
  for (size_t i = 0; i < doing_ps.size(); ++i) doing_ps[i] += in_gap_ps[i];
}

// The host's activity up to the launch of the execution that ends the gap.
HostTimes PartitionSweep::HostTimesIn(const Gap& gap) const {
  // On the profile clock.
  const int64_t shift_ps = SaturatingSub(gap.profile_end_ps, gap.interval.end_ps);
  const int64_t from_ps = SaturatingAdd(gap.interval.start_ps, shift_ps);
  const int64_t to_ps =
      SaturatingAdd(gap.launch_ps == kNoTimePs ? gap.interval.end_ps : gap.launch_ps, shift_ps);
  HostTimes times_ps = {};
  auto at = std::ranges::upper_bound(host_, from_ps, {},
                                     [](const HostInterval& each) { return each.interval.end_ps; });
  for (; at != host_.end() && at->interval.start_ps < to_ps; ++at) {
    times_ps[at->doing] +=
        std::min(at->interval.end_ps, to_ps) - std::max(at->interval.start_ps, from_ps);
  }
  return times_ps;
}

void PartitionSweep::AddInput(std::span<const Piece> group, const Gap& gap) {
  if (gap.launch_ps == kNoTimePs && !waits_unlaunched_) return;
  const HostTimes host_ps = HostTimesIn(gap);
  input_ps_ += host_ps[kHostWaitsForInput];
  const bool begins_step = std::ranges::any_of(group, [this](const Piece& piece) {
    if (piece.step == kNone) return false;
    return steps_.size() <= piece.step || !steps_.values()[piece.step].begun();
  });
  const bool fetches_result = std::ranges::any_of(group, [this](const Piece& piece) {
    const std::string& name = tables_->ops[piece.op].kernel;
    return name.find("DtoH") != name.npos || name.find("D2H") != name.npos ||
           name.find("DeviceToHost") != name.npos;
  });
  if (!begins_step || fetches_result) return;
  const int64_t waited_ps =
      (gap.launch_ps == kNoTimePs ? gap.interval.end_ps : gap.launch_ps) - gap.interval.start_ps;
  input_ps_ += waited_ps - std::accumulate(host_ps.begin(), host_ps.end(), int64_t{0});
}

void PartitionSweep::Link(uint32_t slot) {
  uint32_t& last = last_of_rank_[open_[slot].rank];
  open_[slot].before = last;
  open_[slot].after = kNone;
  if (last != kNone) open_[last].after = slot;
  last = slot;
}

void PartitionSweep::Unlink(uint32_t slot) {
  const Open& open = open_[slot];
  if (open.before != kNone) open_[open.before].after = open.after;
  (open.after != kNone ? open_[open.after].before : last_of_rank_[open.rank]) = open.before;
}

uint32_t PartitionSweep::OwnerOf(uint32_t op, uint32_t program) {
  auto& [last_program, owner] = last_owner_of_op_[op];
  if (last_program == program && owner != kNone) return owner;
  const auto next = static_cast<uint32_t>(owners_.size());
  const auto [found, inserted] = owner_of_.try_emplace({op, program}, next);
  if (inserted) owners_.push_back({.op = op, .program = program, .rank = rank_of_op_[op]});
  last_program = program;
  return owner = found->second;
}

uint32_t PartitionSweep::TransferOf(uint32_t op, uint32_t program) {
  const auto& [last_program, transfer] = last_transfer_of_op_[op];
  return last_program == program && transfer != kNone ? transfer : FindTransfer(op, program);
}

uint32_t PartitionSweep::FindTransfer(uint32_t op, uint32_t program) {
  const Rank rank = rank_of_op_[op];
  const auto next = static_cast<uint32_t>(transfers_.size());
  const auto [found, inserted] = transfer_of_.try_emplace({rank, kernel_of_op_[op], program}, next);
  if (inserted) transfers_.push_back({.rank = rank, .op = op, .program = program});
  last_transfer_of_op_[op] = {program, found->second};
  return found->second;
}

}  // namespace xplane_time::insight
