#include "timing/device_parts.h"

#include "sort_parts.h"

namespace xplane_time {

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
    pieces_[i] = {execution.IntervalOn(clock_), rank_of_op_[execution.op], execution.line};
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
    for (const Piece& piece : pieces_) union_.Add(piece.rank, piece.interval);
  }
  return absl::OkStatus();
}

// Its parts are known in order.
void PartsWatch::AddOwnOfOneLine() {
  OwnIntervals& own = lines_[pieces_[0].line].own;
  const auto add = [this](uint32_t rank, const Interval& part) { union_.Add(rank, part); };
  for (const Piece& piece : pieces_) own.Add(piece.interval, piece.rank, add);
}

// What ran itself, up to where the next executions start.
void PartsWatch::AddOwn() {
  for (size_t i = 0; i < pieces_.size();) {
    const uint32_t line_id = pieces_[i].line;
    Line& line = lines_[line_id];
    const auto keep = [&](uint32_t rank, const Interval& own) {
      line.parts.push_back({own, rank, line_id});
    };
    for (; i < pieces_.size() && pieces_[i].line == line_id; ++i) {
      line.own.Add(pieces_[i].interval, pieces_[i].rank, keep);
    }
  }
  pieces_.clear();
  for (auto& [line_id, line] : lines_) {
    line.own.SettleUntil(last_start_ps_, [&, &line = line](uint32_t rank, const Interval& own) {
      line.parts.push_back({own, rank, 0});
    });
    pieces_.insert(pieces_.end(), line.parts.begin(), line.parts.end());
    line.parts.clear();
  }
  SortParts(pieces_, [](const Piece& a, const Piece& b) {
    return a.interval.start_ps < b.interval.start_ps;
  });
  for (const Piece& own : pieces_) union_.Add(own.rank, own.interval);
}

void PartsWatch::Finish() {
  if (nests_ && first_ps_.has_value()) {
    last_start_ps_ = std::numeric_limits<int64_t>::max();
    pieces_.clear();
    AddOwn();
  }
  union_.Finish();
}

std::optional<DeviceParts> PartsWatch::parts() const {
  if (!first_ps_.has_value() || went_back_) return std::nullopt;
  const auto& times_ps = union_.times_ps();
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
