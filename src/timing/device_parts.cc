#include "timing/device_parts.h"

#include "sort_parts.h"
#include "status.h"

namespace xplane_time {

absl::StatusOr<std::unique_ptr<ExecutionWatcher>> PartsWatch::Make(const WatchContext& context) {
  ASSIGN_OR_RETURN(StepMarking marking, StepMarking::Find(context, HostNeed::kMarks));
  return std::make_unique<PartsWatch>(context, std::move(marking));
}

absl::Status PartsWatch::Add(std::span<const Execution> chunk) {
  if (went_back_ || needs_profile_clock || chunk.empty()) return absl::OkStatus();
  for (size_t i = rank_of_op_.size(); i < tables_->ops.size(); ++i) {
    rank_of_op_.push_back(RankOfCategory(tables_->ops[i].category));
  }
  pieces_.resize(chunk.size());
  for (size_t i = 0; i < chunk.size(); ++i) {
    const Execution& execution = chunk[i];
    if (clock_ == Clock::kDevice) {
      needs_profile_clock = !execution.has_device_clock();
      went_back_ = !needs_profile_clock && GoesBack(execution.IntervalOn(clock_).start_ps);
      if (went_back_ || needs_profile_clock) return absl::OkStatus();
    }
    pieces_[i] = {
        .interval = execution.IntervalOn(clock_),
        .rank = rank_of_op_[execution.op],
        .line = execution.line,
        .step = marking_.StepOf(execution),
        .run = execution.run,
        .program = execution.program,
        .launch_id = rules_.launch_id.has_value() ? execution.numbers[*rules_.launch_id] : 0};
    last_end_ps_ = std::max(last_end_ps_, pieces_[i].interval.end_ps);
    one_line_ &= execution.line == chunk[0].line;
  }
  one_line_ &= lines_.empty() || lines_.contains(chunk[0].line);
  SortNearly(pieces_,
             [](const Piece& a, const Piece& b) { return Before(a.interval, b.interval); });
  const int64_t start_ps = pieces_.front().interval.start_ps;
  went_back_ = start_ps < last_start_ps_;
  if (went_back_) return absl::OkStatus();
  if (!first_ps_.has_value()) first_ps_ = start_ps;
  last_start_ps_ = pieces_.back().interval.start_ps;
  if (nests_ && one_line_) {
    AddOwnOfOneLine();
  } else if (nests_) {
    AddOwn();
  } else {
    AddFlat();
  }
  return absl::OkStatus();
}

int64_t PartsWatch::FirstLaunch(std::span<const Piece> together) {
  int64_t first_ps = kNoTimePs;
  for (const Piece& piece : together) {
    const int64_t launch_ps = marking_.LaunchPs(piece.launch_id);
    if (launch_ps == kNoTimePs) continue;
    first_ps = first_ps == kNoTimePs ? launch_ps : std::min(first_ps, launch_ps);
  }
  return first_ps;
}

void PartsWatch::AddFlat() {
  for (std::span<const Piece> rest = pieces_; !rest.empty();) {
    const int64_t start_ps = rest[0].interval.start_ps;
    size_t together = 1;
    while (together < rest.size() && rest[together].interval.start_ps == start_ps) ++together;
    const std::span<const Piece> group = rest.first(together);
    const bool needs_launch = marking_.has_launches() && meter_.is_idle_before(start_ps);
    meter_.Begin(start_ps, needs_launch ? FirstLaunch(group) : kNoTimePs);
    for (const Piece& piece : group) {
      AddMember(piece);
      meter_.AddWork(piece.rank, piece.interval);
    }
    rest = rest.subspan(together);
  }
}

// Its parts are known in order.
void PartsWatch::AddOwnOfOneLine() {
  OwnIntervals& own = lines_[pieces_[0].line].own;
  const auto add = [this](uint32_t rank, const Interval& part) { meter_.AddWork(rank, part); };
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const Piece& piece = pieces_[i];
    own.Add(piece.interval, piece.rank, add);
    const int64_t start_ps = piece.interval.start_ps;
    if (i == 0 || pieces_[i - 1].interval.start_ps < start_ps) meter_.Begin(start_ps, kNoTimePs);
    AddMember(piece);
  }
}

// Adds own times up to the start of the next executions.
void PartsWatch::AddOwn() {
  for (size_t i = 0; i < pieces_.size();) {
    const uint32_t line_id = pieces_[i].line;
    Line& line = lines_[line_id];
    const auto keep = [&](uint32_t rank, const Interval& own) {
      line.parts.push_back({own, rank});
    };
    for (; i < pieces_.size() && pieces_[i].line == line_id; ++i) {
      line.own.Add(pieces_[i].interval, pieces_[i].rank, keep);
    }
  }
  parts_.clear();
  for (auto& [line_id, line] : lines_) {
    line.own.SettleUntil(last_start_ps_, [&, &line = line](uint32_t rank, const Interval& own) {
      line.parts.push_back({own, rank});
    });
    parts_.insert(parts_.end(), line.parts.begin(), line.parts.end());
    line.parts.clear();
  }
  SortParts(parts_,
            [](const Part& a, const Part& b) { return a.interval.start_ps < b.interval.start_ps; });
  // Executions that start with a part come before it.
  size_t at = 0;
  const auto begin_until = [&](int64_t time_ps) {
    for (; at < pieces_.size() && pieces_[at].interval.start_ps <= time_ps; ++at) {
      const int64_t start_ps = pieces_[at].interval.start_ps;
      if (at == 0 || pieces_[at - 1].interval.start_ps < start_ps) {
        meter_.Begin(start_ps, kNoTimePs);
      }
      AddMember(pieces_[at]);
    }
  };
  for (const Part& part : parts_) {
    begin_until(part.interval.start_ps);
    meter_.AddWork(part.rank, part.interval);
  }
  begin_until(last_start_ps_);
}

void PartsWatch::Finish() {
  if (nests_ && first_ps_.has_value()) {
    last_start_ps_ = std::numeric_limits<int64_t>::max();
    pieces_.clear();
    AddOwn();
  }
  meter_.Finish();
}

std::optional<DeviceParts> PartsWatch::parts() const {
  if (!first_ps_.has_value() || went_back_) return std::nullopt;
  const auto& times_ps = meter_.work().times_ps();
  DeviceParts parts = {.span_ps = last_end_ps_ - *first_ps_,
                       .compute_ps = times_ps[0],
                       .collective_exposed_ps = times_ps[1],
                       .copy_exposed_ps = times_ps[2],
                       .other_ps = times_ps[3]};
  parts.idle_ps = parts.span_ps - parts.compute_ps - parts.collective_exposed_ps -
                  parts.copy_exposed_ps - parts.other_ps;
  return parts;
}

}  // namespace xplane_time
