#include "insight/where_watch.h"

#include <algorithm>
#include <utility>

#include "read/plane_index.h"
#include "sort_parts.h"
#include "status.h"
#include "xplane_time/read.h"

namespace xplane_time::insight {
namespace {

// Of the plane's line `Steps`.
absl::StatusOr<std::vector<StepMark>> StepLine(const Trace& trace, const Plane& plane) {
  std::vector<StepMark> marks;
  Diagnostics ignored;
  for (uint32_t line = plane.first_line; line < plane.first_line + plane.line_count; ++line) {
    const std::string_view name = trace.lines[line].name;
    if (name != "Steps" && name != "Sparse Core Steps") continue;
    RETURN_IF_ERROR(VisitEvents(trace, line, {}, &ignored, [&](const EventBatch& batch) {
      for (size_t row = 0; row < batch.size(); ++row) {
        const int64_t start_ps = batch.start_ps[row];
        if (start_ps == kNoTimePs) continue;
        marks.push_back({{start_ps, start_ps + batch.duration_ps[row]},
                         EventName(plane, batch.metadata[row], batch.metadata_id[row])});
      }
      return absl::OkStatus();
    }));
  }
  return marks;
}

// Whether the device's host has events with such a stat.
bool HostHasStat(const Trace& trace, const Plane& own, std::string_view stat) {
  const auto index = IndexPlanes(trace);
  return std::ranges::any_of(index->HostPlanes(own),
                             [&](uint32_t plane) { return HasStat(trace.planes[plane], stat); });
}

std::vector<StepMark> HostSteps(const gpu_runs::HostEvidence& evidence) {
  std::vector<StepMark> marks;
  for (const gpu_runs::HostEvidence::Step& step : evidence.marked_steps) {
    marks.push_back({step.interval, std::to_string(step.number)});
  }
  return marks;
}

}  // namespace

StepMarks::StepMarks(std::vector<StepMark> marks) : marks_(std::move(marks)) {
  std::ranges::stable_sort(marks_, {}, [](const StepMark& mark) { return mark.interval.start_ps; });
  int64_t furthest_ps = kNoTimePs;
  for (const StepMark& mark : marks_) {
    furthest_ps = std::max(furthest_ps, mark.interval.end_ps);
    furthest_end_ps_.push_back(furthest_ps);
  }
}

uint32_t StepMarks::Around(int64_t time_ps) const {
  // Past so many that are over, one that goes on says little about what is in it.
  constexpr size_t kMostSteps = 1024;
  const auto after = std::ranges::upper_bound(
      marks_, time_ps, {},
      [](const StepMark& mark) -> const int64_t& { return mark.interval.start_ps; });
  auto at = static_cast<size_t>(after - marks_.begin());
  for (size_t steps = 0; at > 0 && steps < kMostSteps; ++steps) {
    if (furthest_end_ps_[--at] <= time_ps) break;
    if (marks_[at].interval.end_ps > time_ps) return static_cast<uint32_t>(at);
  }
  return kNone;
}

absl::StatusOr<std::unique_ptr<ExecutionWatcher>> WhereWatch::Make(const WatchContext& context) {
  return MakeWatch(context);
}

absl::StatusOr<std::unique_ptr<ExecutionWatcher>> WhereWatch::MakeTellingOwners(
    const WatchContext& context, std::span<const Interval> host_busy) {
  ASSIGN_OR_RETURN(std::unique_ptr<WhereWatch> watch, MakeWatch(context));
  watch->sweep_->TellOwners(host_busy);
  return watch;
}

absl::StatusOr<std::unique_ptr<WhereWatch>> WhereWatch::MakeWatch(const WatchContext& context) {
  const Trace& trace = context.trace;
  const Plane& plane = trace.planes[context.plane.plane];
  const bool launches = RulesOf(context.plane.kind).launch_id.has_value() &&
                        HostHasStat(trace, plane, "correlation_id");
  ASSIGN_OR_RETURN(std::vector<StepMark> marks, StepLine(trace, plane));
  std::optional<StepSource> marked_by;
  if (!marks.empty()) marked_by = StepSource::kStepLine;
  const gpu_runs::HostEvidence* evidence = nullptr;
  if (launches || (marks.empty() && HostHasStat(trace, plane, "step_num"))) {
    ASSIGN_OR_RETURN(evidence, context.evidence());
    const bool known = launches && !evidence->launches.empty();
    if (marks.empty()) {
      marks = HostSteps(*evidence);
      if (!marks.empty()) marked_by = known ? StepSource::kHostLaunch : StepSource::kHostTime;
    }
    if (!known) evidence = nullptr;
  }
  return std::unique_ptr<WhereWatch>(
      new WhereWatch(context, StepMarks(std::move(marks)), marked_by, evidence));
}

WhereWatch::WhereWatch(const WatchContext& context, StepMarks marks,
                       std::optional<StepSource> marked_by, const gpu_runs::HostEvidence* evidence)
    : rules_(RulesOf(context.plane.kind)),
      clock_(context.clock),
      marks_(std::move(marks)),
      marked_by_(marked_by),
      evidence_(evidence),
      first_line_(context.trace.planes[context.plane.plane].first_line),
      sweep_(std::make_unique<PartitionSweep>(
          context.tables, rules_.line_order == LineOrder::kNested, marks_.size(),
          [this](const Piece& piece) { return LaunchPs(piece.launch_id); })) {
  if (rules_.runs_are_events()) {
    pairs_ = std::make_unique<TransferPairs>(context.tables, context.modules);
  }
}

int64_t WhereWatch::LaunchPs(int64_t launch_id) {
  if (evidence_ == nullptr || launch_id == 0) return kNoTimePs;
  const std::optional<gpu_runs::Launch> launch =
      evidence_->launches.FindFirst(static_cast<uint64_t>(launch_id), &place_);
  any_launch_ |= launch.has_value();
  return launch.has_value() ? launch->start_ps : kNoTimePs;
}

uint32_t WhereWatch::StepOf(const Execution& execution) {
  if (marks_.size() == 0) return kNone;
  if (marked_by_ != StepSource::kHostLaunch) return marks_.Around(execution.start_ps);
  const int64_t launch_ps = LaunchPs(execution.numbers[*rules_.launch_id]);
  return launch_ps == kNoTimePs ? kNone : marks_.Around(launch_ps);
}

Piece WhereWatch::PieceOf(const Execution& execution) {
  Piece piece = {.interval = execution.IntervalOn(clock_),
                 .profile_start_ps = execution.start_ps,
                 .op = execution.op,
                 .program = execution.program,
                 .run = execution.run,
                 .line = execution.line,
                 .step = StepOf(execution)};
  if (rules_.launch_id.has_value()) {
    piece.launch_id = execution.numbers[*rules_.launch_id];
    // Those that end a gap are asked for; whether any is known, of the others too.
    if (!any_launch_) LaunchPs(piece.launch_id);
  }
  if (rules_.copied_bytes.has_value()) piece.copied_bytes = execution.numbers[*rules_.copied_bytes];
  return piece;
}

absl::Status WhereWatch::Add(std::span<const Execution> chunk) {
  if (disordered || needs_profile_clock || chunk.empty()) return absl::OkStatus();
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
}

}  // namespace xplane_time::insight
