#include "insight/where_watch.h"

#include <algorithm>
#include <utility>

#include "sort_parts.h"
#include "status.h"

namespace xplane_time::insight {

absl::StatusOr<std::unique_ptr<ExecutionWatcher>> WhereWatch::Make(const WatchContext& context) {
  return MakeWatch(context);
}

absl::StatusOr<std::unique_ptr<ExecutionWatcher>> WhereWatch::MakeKeepingGaps(
    const WatchContext& context, size_t gaps) {
  ASSIGN_OR_RETURN(std::unique_ptr<WhereWatch> watch, MakeWatch(context));
  watch->KeepGaps(gaps);
  return watch;
}

absl::StatusOr<std::unique_ptr<ExecutionWatcher>> WhereWatch::MakeTellingOwners(
    const WatchContext& context, std::span<const Interval> host_busy) {
  ASSIGN_OR_RETURN(std::unique_ptr<WhereWatch> watch, MakeWatch(context));
  watch->sweep_->TellOwners(host_busy);
  watch->KeepSummary(context);
  return watch;
}

absl::StatusOr<std::unique_ptr<WhereWatch>> WhereWatch::MakeWatch(const WatchContext& context) {
  ASSIGN_OR_RETURN(StepMarking marking, StepMarking::Find(context, /*reads_launches=*/true));
  return std::unique_ptr<WhereWatch>(new WhereWatch(context, std::move(marking)));
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
    // Those that end a gap are asked for; whether any is known, of the others too.
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
  }
  SortNearly(pieces_,
             [](const Piece& a, const Piece& b) { return Before(a.interval, b.interval); });
  disordered = pieces_.front().interval.start_ps < last_start_ps_;
  if (disordered) return absl::OkStatus();
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
