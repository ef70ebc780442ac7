// Energy of windows from the readings of one channel. docs/power.md has the definitions.
//
//   readings -> pieces (a time span and its energy) -> windows
//
//   counter    c0    c1    c2         c3        held    p0   p1   p2
//   piece      [--a--)[--b--)[---c----)         piece   [p0--)[p1--)[p2------)  at most 3 periods
//   window          (-----------)               window     (----------)
//
// Input: readings with ascending times, and the edges of windows, each before any reading at or
// after it. Output: one EnergyPart for each window. A reading costs constant time, and so does an
// edge, except for merges of windows that overlap (Buckets). Memory: 150 bytes for each window, and
// the points of one update period. Not thread-safe.
//
// Only counters get bounds; they follow from the updates that the readings show
// (docs/power-bounds.md). Choosing the period is the task of channel_fold.h.
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

// WindowEdges: the begins and ends of windows in order of time, for folds that process every edge
// once. Buckets: accumulates values of overlapping windows.

struct WindowEdge {
  int64_t t_ns = 0;
  uint32_t window = 0;
  bool end = false;
};

// Sorted by time; at the same time, begins come before ends. A fold keeps the index of its next
// edge, so an edge may only be inserted after every edge that a fold has processed.
using WindowEdges = std::vector<WindowEdge>;
inline void Insert(const WindowEdge& edge, WindowEdges* edges) {
  const auto place = [](const WindowEdge& each) { return std::pair(each.t_ns, each.end); };
  edges->insert(std::ranges::upper_bound(*edges, place(edge), {}, place), edge);
}

// The machine slept for slept_ns somewhere in (from, to].
struct Suspension {
  int64_t from_ns = 0, to_ns = 0, slept_ns = 0;
};

// Accumulates values for windows that may overlap. Each begin of an open window starts an
// accumulator. New values go into the last accumulator. The value of a window is the merge of all
// accumulators since its begin. When a window ends, its own accumulator is merged into the previous
// one.
//
//   windows        a[-----------------]     b[------------------]
//   accumulators  | 0 |       a       |        b                |
//
// So memory is proportional to the open windows, and adding a value costs the same for any number
// of windows. An end costs as many merges as windows that began later and are still open. `Of` must
// have Merge(const Of& later).
template <typename Of>
class Buckets {
 public:
  Buckets() { buckets_.emplace_back(); }
  void Begin(uint32_t window, int64_t t_ns, const Of& of = {}) {
    buckets_.push_back({window, t_ns, of});
  }
  Of& Now() { return buckets_.back().of; }
  // The accumulator shared by all windows that began at or before `t_ns`.
  Of& Since(int64_t t_ns) {
    size_t at = buckets_.size() - 1;
    while (at > 0 && buckets_[at].begin_ns > t_ns) --at;
    return buckets_[at].of;
  }
  // Empty if the window is not open.
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
  std::vector<Bucket> buckets_;  // the first one belongs to no window
};

// A gap is longer than this many periods.
inline constexpr int64_t kGapPeriods = 3;
// The log may end before the upper bound of an energy is known. The bound is then estimated from at
// least this many steps of the counter.
inline constexpr int kFewSteps = 3;
// The peak of a counter is a mean over at least this many update periods.
inline constexpr int64_t kPeakUpdates = 10;
// Larger counter increases and powers are implausible, unless the channel states another limit.
inline constexpr int64_t kMostPlausibleMw = 100'000'000;  // 100 kW
inline constexpr double kWPerMw = 1e-3;

struct EnergyRules {
  bool counter = false;   // cumulative microjoules; otherwise milliwatts
  int64_t period_ns = 0;  // usual time between readings
  int64_t update_ns = 0;  // usual age of a value when it is read
  std::optional<int64_t> wrap_range = {};
  int64_t max_plausible_mw = kMostPlausibleMw;
};

// The energy of one window.
struct EnergyPart {
  double energy_pj = 0;
  double lo_pj = 0, hi_pj = 0;  // valid if `limits` is an interval or bounds
  EnergyLimits limits = EnergyLimits::kBetweenReadings;
  bool spanned = false;  // counter: read before the window and after it
  int64_t covered_ns = 0;
  std::optional<double> peak_mw = {};
  uint32_t resets = 0, wraps = 0, jumps = 0;
  bool suspended = false;  // a part is missing because the machine slept
};

// A span with energy. If `whole`, the distribution of the energy over the span is unknown. Then it
// counts only for windows that contain the whole span.
struct EnergyPiece {
  int64_t begin_ns = 0, end_ns = 0;
  absl::int128 energy_pj = 0;
  bool whole = false;
};

// Power over the time of a run, in a bounded number of columns. When time exceeds the last column,
// adjacent columns are merged and columns become twice as wide.
class Series {
 public:
  // At most `columns` (2 or more) columns from the first piece on, initially `column_ns` wide.
  Series(int64_t column_ns, size_t columns) : column_ns_(column_ns), most_(columns) {}

  void Add(const EnergyPiece& piece) {
    // The distribution of a counter's energy over a long gap is unknown.
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

  // `counter`: without extremes. The caller sets the channel's names.
  PowerSeries Take(bool counter) const {
    PowerSeries series;
    series.begin_ns = begin_ns_;
    series.column_ns = column_ns_;
    for (const Column& column : columns_) {
      PowerColumn& out = series.columns.emplace_back();
      if (column.covered_ns == 0) continue;
      out.covered = static_cast<double>(column.covered_ns) / static_cast<double>(column_ns_);
      out.mean_w = column.energy_pj / static_cast<double>(column.covered_ns) * kWPerMw;
      // A counter does not show peaks between two updates.
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
  // All pointers must outlive the fold; `series` may be null.
  EnergyFold(const EnergyRules& rules, const WindowEdges* edges,
             const std::vector<Suspension>* suspensions, Series* series)
      : rules_(rules), edges_(*edges), suspensions_(*suspensions), series_(series) {}

  // A reading at `t_ns`; the time may be wrong by `doubt_ns` in both directions.
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

  // A failed reading: the power is unknown from there to the next reading. A counter continues,
  // except across a `reset`.
  void Fail(int64_t t_ns, bool reset) {
    if (rules_.counter) {
      reset_ = reset_ || (reset && last_.has_value());
    } else if (!failed_ns_.has_value()) {
      failed_ns_ = t_ns;
    }
  }

  // Call after the last reading. Processes all remaining edges.
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
    // The time after the last window belongs neither to a window nor to the plot.
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

  // The energy of a window, if both of its edges have been processed.
  EnergyPart Of(uint32_t window) const {
    if (window >= parts_.size()) return {};
    EnergyPart part = parts_[window];
    part.lo_pj = std::max(part.lo_pj, 0.0);
    // No reading contains the energy that was used around a break.
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
    bool joined = false;                    // in the same segment as the previous reading
    bool slept = false;                     // the machine slept since the previous reading
    std::optional<int64_t> failed_ns = {};  // time of the first failed reading since the previous
                                            // one
    Tally tally = {};                       // held: counts up to this point
  };
  // The sums before an edge.
  struct Snapshot {
    int64_t t_ns = 0;  // time of the edge
    absl::int128 pj = 0;
    double partial_pj = 0;  // energy of the part of a piece that lies before the edge
    int64_t covered_ns = 0;
    absl::int128 low_pj = 0;  // counter: energy at the last reading before the edge
    bool read = false;        // counter: whether such a reading exists
    Tally tally;
  };
  // State of an open window: the sums before it, and the peak in it.
  struct Inside {
    Snapshot begin;
    std::optional<double> peak_mw = {};
    void AddPeak(std::optional<double> power_mw) { peak_mw = std::max(peak_mw, power_mw); }
    void AddPeak(const EnergyPiece& held) {
      AddPeak(AsDouble(held.energy_pj) / static_cast<double>(held.end_ns - held.begin_ns));
    }
    void Merge(const Inside& later) { AddPeak(later.peak_mw); }
  };
  // A counter's upper bound at an edge. It is known once the counter has been updated after the
  // edge.
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
    const int64_t duration_ns = t_ns - last_->t_ns;  // since the last visible update
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
    // An unchanged counter has not been updated yet, or its update is too small to see. If no later
    // reading shows the energy of that time, the time is not covered.
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
    // No update of this segment belongs to the previous one. The windows' share of this segment
    // begins here.
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

  // Closes the span up to held_[1]. held_[2] is the next reading, if there is one.
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
      // A single reading does not hold over any time.
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
    // An entire update may become visible within the shortest time.
    const absl::int128 in_ns = absl::int128(duration_ns) + rules_.update_ns;
    return delta_uj * kPjPerUj <= in_ns * rules_.max_plausible_mw;
  }

  // Processes the edges in (the last `to`, to], then adds the pieces.
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
    for (const EnergyPiece& piece : pieces) {  // pieces that overlap the window
      const bool overlaps = piece.begin_ns < edge.t_ns && piece.end_ns > begin.t_ns;
      if (!rules_.counter && overlaps) inside->AddPeak(piece);
    }
    EnergyPart& part = PartOf(edge.window);
    part.covered_ns = at.covered_ns - begin.covered_ns;
    part.energy_pj = AsDouble(at.pj - begin.pj) + at.partial_pj - begin.partial_pj;
    // Both edges lie in one gap.
    if (part.covered_ns < 0) part.covered_ns = 0, part.energy_pj = 0;
    part.peak_mw = inside->peak_mw;
    part.resets = at.tally.resets - begin.tally.resets;
    part.wraps = at.tally.wraps - begin.tally.wraps;
    part.jumps = at.tally.jumps - begin.tally.jumps;
    part.suspended = at.tally.suspensions != begin.tally.suspensions;
    if (rules_.counter) {
      // ResolveLate subtracts the energy that was published late at the begin, before or after
      // this.
      part.lo_pj += AsDouble(at.low_pj - begin.pj);
      part.limits = EnergyLimits::kFewUpdates;  // until an update comes after the end
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
    // An event somewhere in this span counts for every window that overlaps the span.
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

  // Sets the upper bounds of edges before `updated_after_ns`: the counter changed after that time,
  // so it contains all energy up to it. If the argument is empty, the log ends before the next
  // update. Then one more step, as large as the largest one, is added, if kFewSteps steps are
  // known.
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
  Tally tally_, tally_before_, tally_after_;  // now; at both ends of the current span
  Buckets<Inside> open_;
  std::vector<EnergyPart> parts_;

  bool reset_ = false;                // counter: since the last point
  std::optional<int64_t> failed_ns_;  // held: since the last reading

  // Counter: the last point, and a later reading with the same value.
  std::optional<Point> last_, equal_;
  // For the last two points up to which edges have been processed: the time from which the newer
  // one had certainly been read, the energy up to it, and the energy up to the older one.
  int64_t low_from_ns_ = 0;
  absl::int128 low_pj_ = 0, lower_pj_ = 0;
  bool gap_ = false;                  // since the last point
  absl::int128 largest_step_pj_ = 0;  // between two points without a gap
  int steps_ = 0;                     // number of such steps, up to kFewSteps
  int64_t peak_from_ns_ = 0;
  absl::int128 peak_from_pj_ = 0;
  std::deque<Late> late_;

  std::array<Point, 3> held_ = {};  // the last three readings, the newest last
};

}  // namespace xplane_time::power
