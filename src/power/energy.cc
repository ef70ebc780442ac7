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

void EnergyFold::Add(int64_t t_ns, int64_t value, int64_t doubt_ns) {
  if (value < 0 || (!rules_.counter && value > rules_.max_plausible_mw)) {
    ++tally_.jumps;
    return;
  }
  if (rules_.counter) {
    AddCounter({.t_ns = t_ns, .value = value, .known = true, .doubt_ns = doubt_ns});
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
    EstimateLate();
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
  // What was used around a break is in no reading.
  const bool broken = part.resets > 0 || part.jumps > 0 || part.suspended;
  if (rules_.counter && broken) part.limits = EnergyLimits::kBrokenCounter;
  return part;
}

void EnergyFold::AddCounter(const Point& point) {
  const int64_t t_ns = point.t_ns;
  if (!last_.has_value()) return BeginSegment(point);
  const Point before = equal_.value_or(*last_);
  if (Suspended(before.t_ns, t_ns)) {
    ++tally_.suspensions;
    return BeginSegment(point);
  }
  if (reset_) {
    ++tally_.resets;
    return BeginSegment(point);
  }
  absl::int128 delta_uj = absl::int128(point.value) - before.value;
  const int64_t duration_ns = t_ns - last_->t_ns;  // since the last update that shows
  bool wrapped = false;
  if (delta_uj < 0 && rules_.wrap_range.has_value() && before.value <= *rules_.wrap_range) {
    const absl::int128 unwrapped_uj = delta_uj + *rules_.wrap_range + 1;
    wrapped = unwrapped_uj >= 0 && Plausible(unwrapped_uj, duration_ns);
    if (wrapped) delta_uj = unwrapped_uj;
  }
  if (delta_uj < 0 || !Plausible(delta_uj, duration_ns)) {
    ++(delta_uj < 0 ? tally_.resets : tally_.jumps);
    return BeginSegment(point);
  }
  gap_ = gap_ || t_ns - before.t_ns > kGapPeriods * rules_.period_ns;
  // A counter that did not move has not been updated yet, or nobody can tell. Where no later
  // reading tells of that time, it is not covered: what was used in it does not show.
  if (delta_uj == 0) {
    equal_ = point;
    return;
  }
  if (wrapped) ++tally_.wraps;
  AddCounterPiece(point, delta_uj, gap_);
  ResolveLate(before.t_ns - before.doubt_ns);
}

void EnergyFold::AddCounterPiece(const Point& point, absl::int128 delta_uj, bool whole) {
  const EnergyPiece piece = {last_->t_ns, point.t_ns, delta_uj * kPjPerUj, whole};
  equal_.reset();
  gap_ = false;
  last_ = point;
  if (!whole) {
    largest_step_pj_ = std::max(largest_step_pj_, piece.energy_pj);
    steps_ = std::min(steps_ + 1, kFewSteps);
  }
  Advance(point.t_ns, std::span(&piece, 1));
  lower_pj_ = low_pj_;
  low_pj_ = total_pj_;
  low_from_ns_ = point.t_ns + point.doubt_ns;
  AddCounterPeak();
}

void EnergyFold::BeginSegment(const Point& point) {
  const int64_t t_ns = point.t_ns;
  Advance(t_ns, {});
  equal_.reset();
  reset_ = gap_ = false;
  last_ = point;
  low_pj_ = lower_pj_ = total_pj_;
  low_from_ns_ = t_ns + point.doubt_ns;
  peak_from_ns_ = t_ns;
  peak_from_pj_ = total_pj_;
  // No update of this segment tells of the one before. What a window has of this one begins here.
  std::erase_if(late_, [](const Late& each) { return each.end; });
  for (Late& late : late_) late.edge_ns = std::max(late.edge_ns, t_ns);
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
    if (rules_.counter) late_.push_back({edge.t_ns, edge.window, false, at.pj});
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
    part.limits = EnergyLimits::kFewUpdates;  // until there is one after the end
    part.spanned = begin.read && to_ns != kForever;
    late_.push_back({edge.t_ns, edge.window, true, begin.low_pj});
  }
  open_.erase(std::next(open).base());
}

EnergyFold::Snapshot EnergyFold::At(const WindowEdge& edge, int64_t to_ns,
                                    std::span<const EnergyPiece> pieces) const {
  Snapshot at;
  at.pj = total_pj_;
  at.low_pj = edge.t_ns >= low_from_ns_ ? low_pj_ : lower_pj_;
  at.covered_ns = covered_ns_;
  // What happened somewhere in this span is in every window that has a part of the span.
  at.tally = edge.end || edge.t_ns == to_ns ? tally_after_ : tally_before_;
  for (const EnergyPiece& piece : pieces) {
    const int64_t duration_ns = piece.end_ns - piece.begin_ns;
    const int64_t inside_ns = edge.t_ns - piece.begin_ns;
    if (edge.t_ns >= piece.end_ns) {
      at.pj += piece.energy_pj;
      if (last_.has_value() && edge.t_ns >= last_->t_ns + last_->doubt_ns) {
        at.low_pj = total_pj_ + piece.energy_pj;
      }
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
  at.read = last_.has_value() ? edge.t_ns >= low_from_ns_ : edge.t_ns == to_ns;
  return at;
}

// The counter changed between this time and now, so it holds all that was used up to this time.
void EnergyFold::ResolveLate(int64_t updated_after_ns) {
  while (!late_.empty() && late_.front().edge_ns <= updated_after_ns) {
    const Late late = late_.front();
    late_.pop_front();
    EnergyPart& part = PartOf(late.window);
    const double known_pj = AsDouble(total_pj_ - late.minus_pj);
    if (!late.end) {
      part.lo_pj -= known_pj;
    } else {
      part.hi_pj = known_pj;
      part.limits = EnergyLimits::kBounds;
    }
  }
}

// The log ends before the next update: one more step, as large as any, is what it may lack.
void EnergyFold::EstimateLate() {
  for (const Late& late : late_) {
    EnergyPart& part = PartOf(late.window);
    const double known_pj = AsDouble(total_pj_ - late.minus_pj);
    if (!late.end) {
      part.lo_pj -= known_pj;
    } else if (steps_ == kFewSteps) {
      part.hi_pj = known_pj + AsDouble(largest_step_pj_);
      part.limits = EnergyLimits::kInterval;
    }
  }
  late_.clear();
}

EnergyPart& EnergyFold::PartOf(uint32_t window) {
  if (window >= parts_.size()) parts_.resize(window + 1);
  return parts_[window];
}

}  // namespace xplane_time::power
