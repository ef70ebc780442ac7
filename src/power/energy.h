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
#include <optional>
#include <span>
#include <vector>

#include "absl/numeric/int128.h"
#include "power/windows.h"
#include "xplane_time/power.h"

namespace xplane_time::power {

// A gap is longer than so many periods.
inline constexpr int64_t kGapPeriods = 3;
// An energy that the log ends too early to bound is estimated from so many steps of its counter.
inline constexpr int kFewSteps = 3;
// The peak of a counter is a mean over at least so many update periods.
inline constexpr int64_t kPeakUpdates = 10;
// Counters and powers above are no device's, where the channel does not say.
inline constexpr int64_t kMostPlausibleMw = 100'000'000;  // 100 kW

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

// Gets every piece, in order.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void Piece(const EnergyPiece& piece) = 0;
};

class EnergyFold {
 public:
  // All that is pointed to must outlive the fold; `pieces` may be null.
  EnergyFold(const EnergyRules& rules, const WindowEdges* edges,
             const std::vector<Suspension>* suspensions, PieceSink* pieces)
      : rules_(rules), edges_(*edges), suspensions_(*suspensions), pieces_(pieces) {}

  // Read at `t_ns`, or up to `doubt_ns` before or after it.
  void Add(int64_t t_ns, int64_t value, int64_t doubt_ns = 0);
  // A reading that failed: power is not known from there to the next reading. A counter goes on
  // counting, but not across a `reset`.
  void Fail(int64_t t_ns, bool reset);
  // After the last reading: all edges are met.
  void Finish();
  // Of a window both of whose edges were met.
  EnergyPart Of(uint32_t window) const;

 private:
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
    absl::int128 pj = 0;
    double partial_pj = 0;  // of a piece that the edge cuts
    int64_t covered_ns = 0;
    absl::int128 low_pj = 0;  // counter: at the last reading before
    bool read = false;        // counter: there is one
    Tally tally;
  };
  struct Open {
    uint32_t window = 0;
    Snapshot at;
  };
  // A counter's upper bound at an edge, known once it has been updated after it.
  struct Late {
    int64_t edge_ns = 0;
    uint32_t window = 0;
    bool end = false;
    absl::int128 minus_pj = 0;
  };

  void AddCounter(const Point& point);
  void AddCounterPiece(const Point& point, absl::int128 delta_uj, bool whole);
  void BeginSegment(const Point& point);
  void AddCounterPeak();
  void AddHeld(int64_t t_ns, int64_t value);
  void ShiftHeld(const Point& point);
  // The span up to held_[1]; held_[2] is its next reading, where there is one.
  void CloseHeld();
  bool Suspended(int64_t from_ns, int64_t to_ns);
  bool Plausible(absl::int128 delta_uj, int64_t duration_ns) const;

  // Everything in (the last `to`, to]: meets its edges, then adds its pieces.
  void Advance(int64_t to_ns, std::span<const EnergyPiece> pieces);
  void Meet(const WindowEdge& edge, int64_t to_ns, std::span<const EnergyPiece> pieces);
  Snapshot At(const WindowEdge& edge, int64_t to_ns, std::span<const EnergyPiece> pieces) const;
  void Commit(const EnergyPiece& piece);
  void PushHeldPeak(const EnergyPiece& piece);
  void ResolveLate(int64_t updated_after_ns);
  void EstimateLate();
  EnergyPart& PartOf(uint32_t window);

  const EnergyRules rules_;
  const WindowEdges& edges_;
  const std::vector<Suspension>& suspensions_;
  PieceSink* const pieces_;

  size_t next_edge_ = 0, next_suspension_ = 0;
  absl::int128 total_pj_ = 0;
  int64_t covered_ns_ = 0;
  Tally tally_, tally_before_, tally_after_;  // now; at both ends of the present span
  struct Peak {
    std::optional<double> mw;
    void Add(double power_mw) { mw = std::max(mw.value_or(power_mw), power_mw); }
    void Merge(const Peak& later) {
      if (later.mw.has_value()) Add(*later.mw);
    }
  };
  Buckets<Peak> peaks_;
  size_t peaks_pushed_ = 0;  // pieces of the present span that are in peaks_
  std::vector<Open> open_;
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
