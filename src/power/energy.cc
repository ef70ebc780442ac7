#include "power/energy.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <limits>

namespace xplane_time::power {
namespace {

constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
constexpr int64_t kPjPerUj = 1'000'000;

double AsDouble(absl::int128 pj) { return static_cast<double>(pj); }

}  // namespace

void EnergyFold::Add(int64_t t_ns, int64_t value) {
  if (value < 0 || (!rules_.counter && value > rules_.max_plausible_mw)) {
    ++tally_.jumps;
    return;
  }
  if (rules_.counter) {
    AddCounter(t_ns, value);
  } else {
    AddHeld(t_ns, value);
  }
}

void EnergyFold::Fail(int64_t t_ns, bool reset) {
  if (rules_.counter) {
    reset_ = reset_ || (reset && last_.has_value());
  } else if (!failed_ns_.has_value()) {
    failed_ns_ = t_ns;
  }
}

void EnergyFold::Finish() {
  if (rules_.counter) {
    if (reset_) ++tally_.resets;
    Advance(kForever, {});
    ResolveLate(kForever, /*all=*/true);
    return;
  }
  ShiftHeld({});
  CloseHeld();
  const Point last = held_[1];
  ShiftHeld({});
  tally_after_ = tally_;
  // Nobody asks for what is after the last window, nor does it belong into a plot.
  const int64_t last_edge_ns = edges_.size() == 0 ? last.t_ns : edges_[edges_.size() - 1].t_ns;
  const int64_t to_ns = std::min(
      {last.t_ns + kGapPeriods * rules_.period_ns, failed_ns_.value_or(kForever), last_edge_ns});
  if (last.joined && to_ns > last.t_ns) {
    const EnergyPiece tail = {last.t_ns, to_ns, absl::int128(last.value) * (to_ns - last.t_ns)};
    Advance(kForever, std::span(&tail, 1));
  } else {
    Advance(kForever, {});
  }
}

EnergyPart EnergyFold::Of(uint32_t window) const {
  if (window >= parts_.size()) return {};
  EnergyPart part = parts_[window];
  part.lo_pj = std::max(part.lo_pj, 0.0);
  return part;
}

void EnergyFold::AddCounter(int64_t t_ns, int64_t value) {
  if (!last_.has_value()) return BeginSegment(t_ns, value);
  const Point before = equal_.value_or(*last_);
  if (Suspended(before.t_ns, t_ns)) {
    ++tally_.suspensions;
    return BeginSegment(t_ns, value);
  }
  if (reset_) {
    ++tally_.resets;
    return BeginSegment(t_ns, value);
  }
  absl::int128 delta_uj = absl::int128(value) - before.value;
  const int64_t duration_ns = t_ns - before.t_ns;
  bool wrapped = false;
  if (delta_uj < 0 && rules_.wrap_range.has_value() && before.value <= *rules_.wrap_range) {
    const absl::int128 unwrapped_uj = delta_uj + *rules_.wrap_range + 1;
    wrapped = unwrapped_uj >= 0 && Plausible(unwrapped_uj, duration_ns);
    if (wrapped) delta_uj = unwrapped_uj;
  }
  if (delta_uj < 0 || !Plausible(delta_uj, duration_ns)) {
    ++(delta_uj < 0 ? tally_.resets : tally_.jumps);
    return BeginSegment(t_ns, value);
  }
  const bool gap = duration_ns > kGapPeriods * rules_.period_ns;
  // A counter that did not move has most likely not been updated yet. Where no later reading
  // tells of that time, it is not covered: what was used in it does not show.
  if (!gap && delta_uj == 0 && t_ns - last_->t_ns <= 2 * rules_.update_ns) {
    equal_ = Point{t_ns, value, /*known=*/true};
    return;
  }
  if (wrapped) ++tally_.wraps;
  AddCounterPiece(t_ns, value, delta_uj, gap);
}

void EnergyFold::AddCounterPiece(int64_t t_ns, int64_t value, absl::int128 delta_uj, bool whole) {
  const EnergyPiece piece = {last_->t_ns, t_ns, delta_uj * kPjPerUj, whole};
  equal_.reset();
  last_ = Point{t_ns, value, /*known=*/true};
  if (!whole) largest_step_pj_ = std::max(largest_step_pj_, piece.energy_pj);
  Advance(t_ns, std::span(&piece, 1));
  AddCounterPeak();
  ResolveLate(t_ns, /*all=*/false);
}

void EnergyFold::BeginSegment(int64_t t_ns, int64_t value) {
  Advance(t_ns, {});
  equal_.reset();
  reset_ = false;
  last_ = Point{t_ns, value, /*known=*/true};
  peak_from_ns_ = t_ns;
  peak_from_pj_ = total_pj_;
  ResolveLate(t_ns, /*all=*/false);
}

void EnergyFold::AddCounterPeak() {
  const int64_t duration_ns = last_->t_ns - peak_from_ns_;
  if (duration_ns < kPeakUpdates * rules_.update_ns) return;
  peaks_.Since(peak_from_ns_)
      .Add(AsDouble(total_pj_ - peak_from_pj_) / static_cast<double>(duration_ns));
  peak_from_ns_ = last_->t_ns;
  peak_from_pj_ = total_pj_;
}

void EnergyFold::ShiftHeld(const Point& point) { held_ = {held_[1], held_[2], point}; }

void EnergyFold::AddHeld(int64_t t_ns, int64_t value) {
  Point point = {t_ns, value, /*known=*/true};
  point.failed_ns = failed_ns_;
  if (const Point& before = held_[2]; before.known) {
    point.slept = Suspended(before.t_ns, t_ns);
    if (point.slept) ++tally_.suspensions;
    point.joined = !point.slept && !failed_ns_.has_value() &&
                   t_ns - before.t_ns <= kGapPeriods * rules_.period_ns;
    if (point.joined) largest_step_mw_ = std::max(largest_step_mw_, std::abs(value - before.value));
  }
  failed_ns_.reset();
  point.tally = tally_;
  ShiftHeld(point);
  CloseHeld();
}

void EnergyFold::CloseHeld() {
  const Point &before = held_[0], &here = held_[1], &next = held_[2];
  if (!here.known) return;
  std::array<EnergyPiece, 2> pieces;
  size_t count = 0;
  const auto add = [&](int64_t begin_ns, int64_t end_ns, int64_t power_mw) {
    if (begin_ns >= end_ns) return;
    pieces[count++] = {begin_ns, end_ns, absl::int128(power_mw) * (end_ns - begin_ns)};
  };
  if (here.joined) {
    add(before.t_ns, here.t_ns, before.value);
  } else if (!here.slept) {
    // One reading alone holds over nothing.
    int64_t covered_to_ns = here.t_ns - rules_.period_ns;
    if (edges_.size() > 0) covered_to_ns = std::max(covered_to_ns, edges_[0].t_ns);
    if (here.failed_ns.has_value()) covered_to_ns = here.t_ns;
    if (before.known && before.joined) {
      const int64_t to_ns = std::min({here.t_ns, before.t_ns + kGapPeriods * rules_.period_ns,
                                      here.failed_ns.value_or(kForever)});
      add(before.t_ns, to_ns, before.value);
      covered_to_ns = std::max(covered_to_ns, to_ns);
    } else if (before.known) {
      covered_to_ns = std::max(covered_to_ns, before.t_ns);
    }
    if (next.joined) add(covered_to_ns, here.t_ns, here.value);
  }
  tally_after_ = here.tally;
  Advance(here.t_ns, std::span(pieces.data(), count));
}

bool EnergyFold::Suspended(int64_t from_ns, int64_t to_ns) {
  while (next_suspension_ < suspensions_.size() &&
         suspensions_[next_suspension_].to_ns <= from_ns) {
    ++next_suspension_;
  }
  return next_suspension_ < suspensions_.size() && suspensions_[next_suspension_].from_ns < to_ns;
}

bool EnergyFold::Plausible(absl::int128 delta_uj, int64_t duration_ns) const {
  // All of an update may show in the shortest time.
  const absl::int128 in_ns = absl::int128(duration_ns) + rules_.update_ns;
  return delta_uj * kPjPerUj <= in_ns * rules_.max_plausible_mw;
}

void EnergyFold::Advance(int64_t to_ns, std::span<const EnergyPiece> pieces) {
  peaks_pushed_ = 0;
  if (rules_.counter) tally_after_ = tally_;
  while (next_edge_ < edges_.size() && edges_[next_edge_].t_ns <= to_ns) {
    Meet(edges_[next_edge_++], to_ns, pieces);
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    Commit(pieces[i]);
    if (!rules_.counter && i >= peaks_pushed_) PushHeldPeak(pieces[i]);
  }
  tally_before_ = tally_after_;
}

void EnergyFold::PushHeldPeak(const EnergyPiece& piece) {
  const auto duration_ns = static_cast<double>(piece.end_ns - piece.begin_ns);
  peaks_.Now().Add(AsDouble(piece.energy_pj) / duration_ns);
}

void EnergyFold::Commit(const EnergyPiece& piece) {
  total_pj_ += piece.energy_pj;
  covered_ns_ += piece.end_ns - piece.begin_ns;
  if (pieces_ != nullptr) pieces_->Piece(piece);
}

void EnergyFold::Meet(const WindowEdge& edge, int64_t to_ns, std::span<const EnergyPiece> pieces) {
  while (!rules_.counter && peaks_pushed_ < pieces.size() &&
         pieces[peaks_pushed_].begin_ns < edge.t_ns) {
    PushHeldPeak(pieces[peaks_pushed_++]);
  }
  const Snapshot at = At(edge, to_ns, pieces);
  if (!edge.end) {
    open_.push_back({edge.window, at});
    peaks_.Begin(edge.window, edge.t_ns);
    for (size_t i = 0; i < peaks_pushed_; ++i) {  // what the window has a part of
      if (pieces[i].end_ns > edge.t_ns) PushHeldPeak(pieces[i]);
    }
    if (rules_.counter) late_.push_back({edge.t_ns + LateNs(), edge.window, false, at.pj});
    return;
  }
  const auto open = std::find_if(open_.rbegin(), open_.rend(),
                                 [&](const Open& each) { return each.window == edge.window; });
  if (open == open_.rend()) return;
  const Snapshot& begin = open->at;
  EnergyPart& part = PartOf(edge.window);
  part.covered_ns = at.covered_ns - begin.covered_ns;
  part.energy_pj = AsDouble(at.pj - begin.pj) + at.partial_pj - begin.partial_pj;
  // Both edges in one gap.
  if (part.covered_ns < 0) part.covered_ns = 0, part.energy_pj = 0;
  part.peak_mw = peaks_.End(edge.window)->mw;
  part.resets = at.tally.resets - begin.tally.resets;
  part.wraps = at.tally.wraps - begin.tally.wraps;
  part.jumps = at.tally.jumps - begin.tally.jumps;
  part.suspended = at.tally.suspensions != begin.tally.suspensions;
  if (rules_.counter) {
    // What is late at the begin comes off in ResolveLate, before or after.
    part.lo_pj += AsDouble(at.low_pj - begin.pj);
    late_.push_back({edge.t_ns + LateNs(), edge.window, true, begin.low_pj});
  } else {
    part.lo_pj = part.energy_pj - begin.slack_pj - at.slack_pj;
    part.hi_pj = part.energy_pj + begin.slack_pj + at.slack_pj;
  }
  open_.erase(std::next(open).base());
}

EnergyFold::Snapshot EnergyFold::At(const WindowEdge& edge, int64_t to_ns,
                                    std::span<const EnergyPiece> pieces) const {
  Snapshot at;
  at.pj = at.low_pj = total_pj_;
  at.covered_ns = covered_ns_;
  // What happened somewhere in this span is in every window that has a part of the span.
  at.tally = edge.end || edge.t_ns == to_ns ? tally_after_ : tally_before_;
  for (const EnergyPiece& piece : pieces) {
    const int64_t duration_ns = piece.end_ns - piece.begin_ns;
    const int64_t inside_ns = edge.t_ns - piece.begin_ns;
    if (edge.t_ns >= piece.end_ns) {
      at.pj += piece.energy_pj;
      at.low_pj += piece.energy_pj;
      at.covered_ns += duration_ns;
    } else if (inside_ns <= 0) {
      continue;
    } else if (!piece.whole) {
      at.partial_pj += AsDouble(piece.energy_pj) * static_cast<double>(inside_ns) /
                       static_cast<double>(duration_ns);
      at.covered_ns += inside_ns;
    } else if (!edge.end) {
      at.pj += piece.energy_pj;
      at.covered_ns += duration_ns;
    }
  }
  if (!rules_.counter) at.slack_pj = Slack(edge.t_ns);
  return at;
}

// What the readings around may say too late: their spread, for one update period. Where the two
// that would tell are not there, the largest step if that is more.
double EnergyFold::Slack(int64_t edge_ns) const {
  std::optional<int64_t> least, most;
  int later = 0;
  for (const Point& point : held_) {
    const bool apart = std::abs(point.t_ns - edge_ns) > kGapPeriods * rules_.period_ns;
    if (!point.known || apart) continue;
    least = std::min(least.value_or(point.value), point.value);
    most = std::max(most.value_or(point.value), point.value);
    later += point.t_ns >= edge_ns ? 1 : 0;
  }
  if (!least.has_value()) return 0;
  const int64_t spread_mw = std::max(*most - *least, later < 2 ? largest_step_mw_ : 0);
  return static_cast<double>(spread_mw) * static_cast<double>(rules_.update_ns);
}

void EnergyFold::ResolveLate(int64_t t_ns, bool all) {
  while (!late_.empty() && (all || late_.front().due_ns <= t_ns)) {
    const Late late = late_.front();
    late_.pop_front();
    EnergyPart& part = PartOf(late.window);
    const double known_pj = AsDouble(total_pj_ - late.minus_pj);
    if (!late.end) {
      part.lo_pj -= known_pj;
      continue;
    }
    part.hi_pj = known_pj;
    if (all && part.covered_ns > 0) {  // no later reading: an update may be missing
      part.hi_pj += std::max(
          part.energy_pj / static_cast<double>(part.covered_ns) * static_cast<double>(LateNs()),
          AsDouble(largest_step_pj_));
    }
  }
}

EnergyPart& EnergyFold::PartOf(uint32_t window) {
  if (window >= parts_.size()) parts_.resize(window + 1);
  return parts_[window];
}

}  // namespace xplane_time::power
