// Energy of windows from the readings of one channel. docs/power.md has the definitions.
//
//   readings -> pieces (a time span and its energy) -> windows
//
//   counter    c0    c1    c2         c3        held    p0   p1   p2
//   piece      [--a--)[--b--)[---c----)         piece   [p0--)[p1--)[p2------)  at most 3 periods
//   window          (-----------)               window     (----------)
//
// Enters: readings whose times ascend, and the edges of windows, each before a reading at or
// after it enters. Leaves: one EnergyPart a window. A reading costs constant time, an edge
// the logarithm of what SuffixMax keeps; windows that are open at the same time cost nothing
// more. Memory: 150 bytes a window, and the points of one update period. Not thread-safe.
//
// Bounds are of counters only, and of what the readings themselves say of its updates: docs/
// power-bounds.md. Not handled: choosing the period (channel_fold.h does).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"
#include "xplane_time/power.h"

namespace xplane_time::power {

// WindowEdges: where windows begin and end, in the order of time, for folds that meet every
// edge once; Buckets: what each of several overlapping windows holds.

struct WindowEdge {
  int64_t t_ns = 0;
  uint32_t window = 0;
  bool end = false;
};

// By time; at the same time begins come before ends. A fold keeps the index of its next edge,
// so an edge may be inserted only after every edge that a fold has met.
using WindowEdges = std::vector<WindowEdge>;
inline void Insert(const WindowEdge& edge, WindowEdges* edges) {
  const auto place = [](const WindowEdge& each) { return std::pair(each.t_ns, each.end); };
  edges->insert(std::ranges::upper_bound(*edges, place(edge), {}, place), edge);
}

// A time at which the machine slept: somewhere in (from, to].
struct Suspension {
  int64_t from_ns = 0, to_ns = 0, slept_ns = 0;
};

// What each window holds, where windows overlap: one accumulator from every begin of an open
// window to the next begin. What happens goes into one of them; a window is all of them since
// its begin; when it ends, its own goes into the one before.
//
//   windows        a[-----------------]     b[------------------]
//   accumulators  | 0 |       a       |        b                |
//
// So memory is that of the open windows, and something that happens costs the same whatever
// their number; an end costs as many merges as windows began later and are still open.
// `Of` has Merge(const Of& later).
template <typename Of>
class Buckets {
 public:
  Buckets() { buckets_.emplace_back(); }
  void Begin(uint32_t window, int64_t t_ns, const Of& of = {}) {
    buckets_.push_back({window, t_ns, of});
  }
  Of& Now() { return buckets_.back().of; }
  // The one of all windows that began at `t_ns` or before.
  Of& Since(int64_t t_ns) {
    size_t at = buckets_.size() - 1;
    while (at > 0 && buckets_[at].begin_ns > t_ns) --at;
    return buckets_[at].of;
  }
  // Empty: the window is not open.
  std::optional<Of> End(uint32_t window) {
    size_t at = buckets_.size() - 1;
    while (at > 0 && buckets_[at].window != window) --at;
    if (at == 0) return std::nullopt;
    Of all = buckets_[at].of;
    for (size_t later = at + 1; later < buckets_.size(); ++later) all.Merge(buckets_[later].of);
    buckets_[at - 1].of.Merge(buckets_[at].of);
    buckets_.erase(buckets_.begin() + static_cast<std::ptrdiff_t>(at));
    return all;
  }

 private:
  struct Bucket {
    uint32_t window = 0;
    int64_t begin_ns = 0;
    Of of = {};
  };
  std::vector<Bucket> buckets_;  // the first one is of no window
};

// A gap is longer than so many periods.
inline constexpr int64_t kGapPeriods = 3;
// An energy that the log ends too early to bound is estimated from so many steps of its counter.
inline constexpr int kFewSteps = 3;
// The peak of a counter is a mean over at least so many update periods.
inline constexpr int64_t kPeakUpdates = 10;
// Counters and powers above are no device's, where the channel does not say.
inline constexpr int64_t kMostPlausibleMw = 100'000'000;  // 100 kW
inline constexpr double kWPerMw = 1e-3;

struct EnergyRules {
  bool counter = false;   // microjoules that add up; else milliwatts
  int64_t period_ns = 0;  // usual time between readings
  int64_t update_ns = 0;  // how old what a reading says usually may be
  std::optional<int64_t> wrap_range = {};
  int64_t max_plausible_mw = kMostPlausibleMw;
};

// Of one window.
struct EnergyPart {
  double energy_pj = 0;
  double lo_pj = 0, hi_pj = 0;  // where `limits` is an interval or bounds
  EnergyLimits limits = EnergyLimits::kBetweenReadings;
  bool spanned = false;  // counter: read before the window and after it
  int64_t covered_ns = 0;
  std::optional<double> peak_mw = {};
  uint32_t resets = 0, wraps = 0, jumps = 0;
  bool suspended = false;  // a part is missing for that
};

// A span with energy. `whole`: where in it the energy was used is not known, so it counts
// only for windows that hold all of it.
struct EnergyPiece {
  int64_t begin_ns = 0, end_ns = 0;
  absl::int128 energy_pj = 0;
  bool whole = false;
};

// Series: power over the time of a run, in a bounded number of columns. When time runs past
// the last column, neighbours are joined and columns become twice as wide.
class Series {
 public:
  // At most `columns` (2 or more) columns from the first piece on, at first of `column_ns` each.
  Series(int64_t column_ns, size_t columns) : column_ns_(column_ns), most_(columns) {}

  void Add(const EnergyPiece& piece) {
    // Where in a long gap a counter's energy was used is not known.
    if (piece.whole) return;
    if (columns_.empty()) begin_ns_ = piece.begin_ns;
    const int64_t duration_ns = piece.end_ns - piece.begin_ns;
    const double power_mw = static_cast<double>(piece.energy_pj) / static_cast<double>(duration_ns);
    const auto last_of = [&] {
      return static_cast<size_t>((piece.end_ns - 1 - begin_ns_) / column_ns_);
    };
    while (last_of() >= most_) Widen();
    if (last_of() >= columns_.size()) columns_.resize(last_of() + 1);
    int64_t at_ns = piece.begin_ns;
    while (at_ns < piece.end_ns) {
      const int64_t column = (at_ns - begin_ns_) / column_ns_;
      const int64_t to_ns = std::min(piece.end_ns, begin_ns_ + (column + 1) * column_ns_);
      columns_[static_cast<size_t>(column)].Merge(
          {power_mw * static_cast<double>(to_ns - at_ns), power_mw, power_mw, to_ns - at_ns});
      at_ns = to_ns;
    }
  }

  // `counter`: without extremes. The channel's names are left to the caller.
  PowerSeries Take(bool counter) const {
    PowerSeries series;
    series.begin_ns = begin_ns_;
    series.column_ns = column_ns_;
    for (const Column& column : columns_) {
      PowerColumn& out = series.columns.emplace_back();
      if (column.covered_ns == 0) continue;
      out.covered = static_cast<double>(column.covered_ns) / static_cast<double>(column_ns_);
      out.mean_w = column.energy_pj / static_cast<double>(column.covered_ns) * kWPerMw;
      // Between two updates a counter says nothing of peaks.
      out.min_w = counter ? *out.mean_w : column.min_mw * kWPerMw;
      out.max_w = counter ? *out.mean_w : column.max_mw * kWPerMw;
    }
    return series;
  }

 private:
  struct Column {
    double energy_pj = 0;
    double min_mw = std::numeric_limits<double>::infinity(), max_mw = -min_mw;
    int64_t covered_ns = 0;
    void Merge(const Column& other) {
      min_mw = std::min(min_mw, other.min_mw);
      max_mw = std::max(max_mw, other.max_mw);
      energy_pj += other.energy_pj;
      covered_ns += other.covered_ns;
    }
  };
  void Widen() {
    for (size_t i = 0; 2 * i < columns_.size(); ++i) {
      Column both = columns_[2 * i];
      if (2 * i + 1 < columns_.size()) both.Merge(columns_[2 * i + 1]);
      columns_[i] = both;
    }
    columns_.resize((columns_.size() + 1) / 2);
    column_ns_ *= 2;
  }

  int64_t begin_ns_ = 0, column_ns_;
  size_t most_;
  std::vector<Column> columns_;
};

class EnergyFold {
 public:
  // All that is pointed to must outlive the fold; `series` may be null.
  EnergyFold(const EnergyRules& rules, const WindowEdges* edges,
             const std::vector<Suspension>* suspensions, Series* series)
      : rules_(rules), edges_(*edges), suspensions_(*suspensions), series_(series) {}

  // Read at `t_ns`, or up to `doubt_ns` before or after it.
  void Add(int64_t t_ns, int64_t value, int64_t doubt_ns = 0) {
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

  // A reading that failed: power is not known from there to the next reading. A counter goes on
  // counting, but not across a `reset`.
  void Fail(int64_t t_ns, bool reset) {
    if (rules_.counter) {
      reset_ = reset_ || (reset && last_.has_value());
    } else if (!failed_ns_.has_value()) {
      failed_ns_ = t_ns;
    }
  }

  // After the last reading: all edges are met.
  void Finish() {
    if (rules_.counter) {
      if (reset_) ++tally_.resets;
      Advance(kForever, {});
      ResolveLate(std::nullopt);
      return;
    }
    ShiftHeld({});
    CloseHeld();
    const Point last = held_[1];
    ShiftHeld({});
    tally_after_ = tally_;
    // Nobody asks for what is after the last window, nor does it belong into a plot.
    const int64_t last_edge_ns = edges_.empty() ? last.t_ns : edges_.back().t_ns;
    const int64_t to_ns = std::min(
        {last.t_ns + kGapPeriods * rules_.period_ns, failed_ns_.value_or(kForever), last_edge_ns});
    if (last.joined && to_ns > last.t_ns) {
      const EnergyPiece tail = {last.t_ns, to_ns, absl::int128(last.value) * (to_ns - last.t_ns)};
      Advance(kForever, std::span(&tail, 1));
    } else {
      Advance(kForever, {});
    }
  }

  // Of a window both of whose edges were met.
  EnergyPart Of(uint32_t window) const {
    if (window >= parts_.size()) return {};
    EnergyPart part = parts_[window];
    part.lo_pj = std::max(part.lo_pj, 0.0);
    // What was used around a break is in no reading.
    const bool broken = part.resets > 0 || part.jumps > 0 || part.suspended;
    if (rules_.counter && broken) part.limits = EnergyLimits::kBrokenCounter;
    return part;
  }

 private:
  static constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kPjPerUj = 1'000'000;
  static double AsDouble(absl::int128 pj) { return static_cast<double>(pj); }

  struct Tally {
    uint32_t resets = 0, wraps = 0, jumps = 0, suspensions = 0;
  };
  struct Point {
    int64_t t_ns = 0, value = 0;
    bool known = false;
    int64_t doubt_ns = 0;
    bool joined = false;                    // with the reading before: of the same segment
    bool slept = false;                     // the machine did, since the reading before
    std::optional<int64_t> failed_ns = {};  // when the first reading failed since the one before
    Tally tally = {};                       // held: up to here
  };
  // What was before an edge.
  struct Snapshot {
    int64_t t_ns = 0;  // the edge's
    absl::int128 pj = 0;
    double partial_pj = 0;  // of a piece that the edge cuts
    int64_t covered_ns = 0;
    absl::int128 low_pj = 0;  // counter: at the last reading before
    bool read = false;        // counter: there is one
    Tally tally;
  };
  // Of an open window: what was before it, and the peak in it.
  struct Inside {
    Snapshot begin;
    std::optional<double> peak_mw = {};
    void AddPeak(std::optional<double> power_mw) { peak_mw = std::max(peak_mw, power_mw); }
    void AddPeak(const EnergyPiece& held) {
      AddPeak(AsDouble(held.energy_pj) / static_cast<double>(held.end_ns - held.begin_ns));
    }
    void Merge(const Inside& later) { AddPeak(later.peak_mw); }
  };
  // A counter's upper bound at an edge, known once it has been updated after it.
  struct Late {
    int64_t edge_ns = 0;
    uint32_t window = 0;
    bool end = false;
    absl::int128 minus_pj = 0;
  };

  void AddCounter(const Point& point) {
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

  void AddCounterPiece(const Point& point, absl::int128 delta_uj, bool whole) {
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

  void BeginSegment(const Point& point) {
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

  void AddCounterPeak() {
    const int64_t duration_ns = last_->t_ns - peak_from_ns_;
    if (duration_ns < kPeakUpdates * rules_.update_ns) return;
    open_.Since(peak_from_ns_)
        .AddPeak(AsDouble(total_pj_ - peak_from_pj_) / static_cast<double>(duration_ns));
    peak_from_ns_ = last_->t_ns;
    peak_from_pj_ = total_pj_;
  }

  void ShiftHeld(const Point& point) { held_ = {held_[1], held_[2], point}; }

  void AddHeld(int64_t t_ns, int64_t value) {
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

  // The span up to held_[1]; held_[2] is its next reading, where there is one.
  void CloseHeld() {
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
      if (!edges_.empty()) covered_to_ns = std::max(covered_to_ns, edges_[0].t_ns);
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

  bool Suspended(int64_t from_ns, int64_t to_ns) {
    while (next_suspension_ < suspensions_.size() &&
           suspensions_[next_suspension_].to_ns <= from_ns) {
      ++next_suspension_;
    }
    return next_suspension_ < suspensions_.size() && suspensions_[next_suspension_].from_ns < to_ns;
  }

  bool Plausible(absl::int128 delta_uj, int64_t duration_ns) const {
    // All of an update may show in the shortest time.
    const absl::int128 in_ns = absl::int128(duration_ns) + rules_.update_ns;
    return delta_uj * kPjPerUj <= in_ns * rules_.max_plausible_mw;
  }

  // Everything in (the last `to`, to]: meets its edges, then adds its pieces.
  void Advance(int64_t to_ns, std::span<const EnergyPiece> pieces) {
    if (rules_.counter) tally_after_ = tally_;
    while (next_edge_ < edges_.size() && edges_[next_edge_].t_ns <= to_ns) {
      Meet(edges_[next_edge_++], to_ns, pieces);
    }
    for (const EnergyPiece& piece : pieces) {
      total_pj_ += piece.energy_pj;
      covered_ns_ += piece.end_ns - piece.begin_ns;
      if (series_ != nullptr) series_->Add(piece);
      if (!rules_.counter) open_.Since(piece.end_ns - 1).AddPeak(piece);
    }
    tally_before_ = tally_after_;
  }

  void Meet(const WindowEdge& edge, int64_t to_ns, std::span<const EnergyPiece> pieces) {
    const Snapshot at = At(edge, to_ns, pieces);
    if (!edge.end) {
      open_.Begin(edge.window, edge.t_ns, {.begin = at});
      if (rules_.counter) late_.push_back({edge.t_ns, edge.window, false, at.pj});
      return;
    }
    std::optional<Inside> inside = open_.End(edge.window);
    if (!inside.has_value()) return;
    const Snapshot& begin = inside->begin;
    for (const EnergyPiece& piece : pieces) {  // what the window has a part of
      const bool overlaps = piece.begin_ns < edge.t_ns && piece.end_ns > begin.t_ns;
      if (!rules_.counter && overlaps) inside->AddPeak(piece);
    }
    EnergyPart& part = PartOf(edge.window);
    part.covered_ns = at.covered_ns - begin.covered_ns;
    part.energy_pj = AsDouble(at.pj - begin.pj) + at.partial_pj - begin.partial_pj;
    // Both edges in one gap.
    if (part.covered_ns < 0) part.covered_ns = 0, part.energy_pj = 0;
    part.peak_mw = inside->peak_mw;
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
  }

  Snapshot At(const WindowEdge& edge, int64_t to_ns, std::span<const EnergyPiece> pieces) const {
    Snapshot at;
    at.t_ns = edge.t_ns;
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
  // Without one the log ends before the next update: one more step, as large as any, is what it may
  // lack.
  void ResolveLate(std::optional<int64_t> updated_after_ns) {
    for (; !late_.empty(); late_.pop_front()) {
      const Late& late = late_.front();
      if (updated_after_ns.has_value() && late.edge_ns > *updated_after_ns) return;
      EnergyPart& part = PartOf(late.window);
      const double known_pj = AsDouble(total_pj_ - late.minus_pj);
      if (!late.end) {
        part.lo_pj -= known_pj;
      } else if (updated_after_ns.has_value()) {
        part.hi_pj = known_pj;
        part.limits = EnergyLimits::kBounds;
      } else if (steps_ == kFewSteps) {
        part.hi_pj = known_pj + AsDouble(largest_step_pj_);
        part.limits = EnergyLimits::kInterval;
      }
    }
  }

  EnergyPart& PartOf(uint32_t window) {
    if (window >= parts_.size()) parts_.resize(window + 1);
    return parts_[window];
  }

  const EnergyRules rules_;
  const WindowEdges& edges_;
  const std::vector<Suspension>& suspensions_;
  Series* const series_;

  size_t next_edge_ = 0, next_suspension_ = 0;
  absl::int128 total_pj_ = 0;
  int64_t covered_ns_ = 0;
  Tally tally_, tally_before_, tally_after_;  // now; at both ends of the present span
  Buckets<Inside> open_;
  std::vector<EnergyPart> parts_;

  bool reset_ = false;                // counter: since the last point
  std::optional<int64_t> failed_ns_;  // held: since the last reading

  // Counter: the last point, and a later reading that is equal to it.
  std::optional<Point> last_, equal_;
  // Of the last two points that edges have been met up to: from when on it was surely read, and
  // what was used up to it, and up to the one before.
  int64_t low_from_ns_ = 0;
  absl::int128 low_pj_ = 0, lower_pj_ = 0;
  bool gap_ = false;                  // since the last point
  absl::int128 largest_step_pj_ = 0;  // between two points that are no gap apart
  int steps_ = 0;                     // between such points, up to kFewSteps
  int64_t peak_from_ns_ = 0;
  absl::int128 peak_from_pj_ = 0;
  std::deque<Late> late_;

  std::array<Point, 3> held_ = {};  // the last three readings, the newest last
};

}  // namespace xplane_time::power
