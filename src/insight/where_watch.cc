#include "insight/where_watch.h"

#include <algorithm>
#include <utility>

#include "sort_parts.h"
#include "status.h"

namespace xplane_time::insight {
namespace {

// In order. At an instant the first of these counts: compiling, waiting for input, other work.
std::vector<HostInterval> HostIntervals(const gpu_runs::HostEvidence& host,
                                        std::span<const Interval> compiling) {
  std::vector<HostInterval> all;
  const auto add = [&all](std::span<const Interval> intervals, HostDoing doing) {
    for (const Interval& each : intervals) all.push_back({each, doing});
  };
  const std::vector<Interval> compiles(compiling.begin(), compiling.end());
  add(compiles, kHostCompiles);
  add(gpu_runs::Without(host.input_waits, compiles), kHostWaitsForInput);
  add(gpu_runs::Without(host.other_work, compiles), kHostWorks);
  std::ranges::sort(all, {}, [](const HostInterval& each) { return each.interval.start_ps; });
  return all;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExecutionWatcher>> WhereWatch::Make(const WatchContext& context) {
  return MakeWatch(context, HostNeed::kLaunches);
}

absl::StatusOr<std::unique_ptr<ExecutionWatcher>> WhereWatch::MakeKeepingGaps(
    const WatchContext& context, size_t gaps) {
  ASSIGN_OR_RETURN(std::unique_ptr<WhereWatch> watch, MakeWatch(context, HostNeed::kAll));
  watch->WatchHost({});
  watch->KeepGaps(gaps);
  return watch;
}

absl::StatusOr<std::unique_ptr<ExecutionWatcher>> WhereWatch::MakeTellingOwners(
    const WatchContext& context, std::span<const Interval> compiling) {
  ASSIGN_OR_RETURN(std::unique_ptr<WhereWatch> watch, MakeWatch(context, HostNeed::kAll));
  watch->WatchHost(compiling);
  watch->sweep_->TellOwners();
  watch->keeps_durations_ = !watch->marking_.marked_by().has_value();
  watch->KeepSummary(context);
  return watch;
}

absl::StatusOr<std::unique_ptr<WhereWatch>> WhereWatch::MakeWatch(const WatchContext& context,
                                                                  HostNeed need) {
  ASSIGN_OR_RETURN(StepMarking marking, StepMarking::Find(context, need));
  return std::unique_ptr<WhereWatch>(new WhereWatch(context, std::move(marking)));
}

void WhereWatch::WatchHost(std::span<const Interval> compiling) {
  knows_host_ = marking_.host() != nullptr;
  if (!knows_host_) return;
  sweep_->WatchHost(HostIntervals(*marking_.host(), compiling),
                    /*waits_unlaunched=*/!marking_.has_launches());
}

WhereWatch::WhereWatch(const WatchContext& context, StepMarking marking)
    : rules_(RulesOf(context.plane.kind)),
      clock_(context.clock),
      marking_(std::move(marking)),
      first_line_(context.trace.planes[context.plane.plane].first_line),
      sweep_(std::make_unique<PartitionSweep>(
          context.tables, rules_.line_order == LineOrder::kNested, marking_.marks().size(),
          [this](const Piece& piece) { return marking_.LaunchPs(piece.launch_id); })) {
  if (marking_.on_clock()) sweep_->RecordAt(marking_.marks().starts_ps());
  if (rules_.runs_are_events()) {
    pairs_ = std::make_unique<TransferPairs>(context.tables, context.modules);
  }
}

Piece WhereWatch::PieceOf(const Execution& execution) {
  Piece piece = {.interval = execution.IntervalOn(clock_),
                 .profile_start_ps = execution.start_ps,
                 .op = execution.op,
                 .program = execution.program,
                 .run = execution.run,
                 .line = execution.line,
                 .step = marking_.StepOf(execution)};
  if (rules_.launch_id.has_value()) {
    piece.launch_id = execution.numbers[*rules_.launch_id];
    // The launches of executions that end a gap are looked up later. The others are looked up only
    // until any launch is known.
    if (!any_launch()) marking_.LaunchPs(piece.launch_id);
  }
  if (rules_.copied_bytes.has_value()) piece.copied_bytes = execution.numbers[*rules_.copied_bytes];
  return piece;
}

absl::Status WhereWatch::Add(std::span<const Execution> chunk) {
  if (disordered || needs_profile_clock || chunk.empty()) return absl::OkStatus();
  if (summary_ != nullptr) RETURN_IF_ERROR(summary_->Add(chunk));
  pieces_.clear();
  for (const Execution& execution : chunk) {
    if (clock_ == Clock::kDevice) {
      needs_profile_clock =
          !execution.has_device_clock() || GoesBack(execution.IntervalOn(clock_).start_ps);
      if (needs_profile_clock) return absl::OkStatus();
    }
    pieces_.push_back(PieceOf(execution));
    outside_steps_ += pieces_.back().step == kNone ? 1 : 0;
    if (keeps_durations_ && execution.program == kNone) KeepDuration(pieces_.back());
  }
  SortNearly(pieces_,
             [](const Piece& a, const Piece& b) { return Before(a.interval, b.interval); });
  disordered = pieces_.front().interval.start_ps < last_start_ps_;
  if (disordered) return absl::OkStatus();
  if (marking_.has_launches() && !first_launch_is_known_) AddEarly();
  last_start_ps_ = pieces_.back().interval.start_ps;
  if (keeps_lines_) AddToLines();
  if (pairs_ == nullptr) {
    sweep_->Add(pieces_);
    return absl::OkStatus();
  }
  ready_.clear();
  pairs_->Add(pieces_, &ready_);
  sweep_->Add(ready_);
  return absl::OkStatus();
}

void WhereWatch::AddEarly() {
  for (const Piece& piece : pieces_) {
    first_launch_is_known_ = marking_.LaunchPs(piece.launch_id) != kNoTimePs;
    if (first_launch_is_known_) return;
    ++early_executions_;
    early_.Add(piece.interval.start_ps, piece.interval.end_ps);
  }
}

void WhereWatch::KeepDuration(const Piece& piece) {
  std::vector<int64_t>& of_op = durations_ps_[piece.op];
  if (of_op.size() <= kMaxDurations) {
    of_op.push_back(piece.interval.end_ps - piece.interval.start_ps);
  }
}

void WhereWatch::AddToLines() {
  for (const Piece& piece : pieces_) {
    const size_t at = piece.line - first_line_;
    if (at >= lines_.size()) lines_.resize(at + 1);
    lines_[at].start_ps.push_back(piece.interval.start_ps);
    lines_[at].duration_ps.push_back(piece.interval.end_ps - piece.interval.start_ps);
    lines_[at].op.push_back(piece.op);
  }
}

void WhereWatch::Finish() {
  if (pairs_ != nullptr) {
    ready_.clear();
    pairs_->Finish(&ready_);
    sweep_->Add(ready_);
  }
  sweep_->Finish();
  for (const Gap& gap : sweep_->largest_gaps()) {
    gap_launch_lines_.push_back(marking_.LaunchLine(gap.launch_id));
  }
  if (summary_ != nullptr) summary_->Finish();
}

}  // namespace xplane_time::insight
