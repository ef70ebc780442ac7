// All that is folded of one channel: its readings as they are, and their energy.
//
// Enters: readings whose times ascend, and the edges of windows before them. Leaves: for each
// window a ReadingPart, and for power and energy an EnergyPart. The first readings are kept
// until the period can be estimated from them. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/numeric/int128.h"
#include "power/energy.h"
#include "power/windows.h"
#include "stats/quantile_sketch.h"
#include "xplane_time/power.h"

namespace xplane_time::power {

struct Sample {
  int64_t t_ns = 0;
  int64_t value = 0;
  PowerReason reason = PowerReason::kKnown;  // not kNone: the value is not known
  int64_t doubt_ns = 0;                      // it was read up to so long before or after
};

// Of the readings in [begin, end] of a window. Power that no device has is not known.
struct ReadingPart {
  uint64_t n = 0, unknown = 0;
  PowerReason reason = PowerReason::kKnown;  // of the last one that is not known
  int64_t longest_gap_ns = 0;                // of the window, without a reading
  double sum = 0;
  int64_t min = 0, max = 0;  // where n is not 0
  std::optional<double> median = {};
  int64_t first_ns = 0, last_ns = 0, first = 0, last = 0;  // where n is not 0
  double trapezoid = 0;  // the sum of (v0 + v1) / 2 (t1 - t0) over neighbours
};

class ReadingFold {
 public:
  ReadingFold(const WindowEdges* edges, bool with_median)
      : edges_(*edges), with_median_(with_median) {}

  void Add(const Sample& sample);
  void Finish();
  ReadingPart Of(uint32_t window) const {
    return window < parts_.size() ? parts_[window] : ReadingPart();
  }

 private:
  struct Readings {
    uint64_t n = 0, unknown = 0;
    PowerReason reason = PowerReason::kKnown;
    int64_t longest_gap_ns = 0;
    absl::int128 sum = 0, twice_trapezoid = 0;
    Sample first, last;
    int64_t min = 0, max = 0;
    stats::QuantileSketch counts;
    void Merge(const Readings& later);
  };
  void Meet(const WindowEdge& edge);

  const WindowEdges& edges_;
  const bool with_median_;
  size_t next_edge_ = 0;
  std::optional<Sample> last_;
  Buckets<Readings> buckets_;
  std::vector<int64_t> begins_;  // of windows, by number
  std::vector<ReadingPart> parts_;
};

// The usual time between readings and how old what they say may be, of the first ones.
struct Rhythm {
  int64_t period_ns = 0, update_ns = 0;
};
// At least kRhythmSpacings spacings give the period, their lower median; with fewer it is
// `expected_ns` where that is not 0. A counter's update period is the lower median of the
// times between changes where there are as many; else prior_period_ns, else the period. That
// of an average is at least its window.
inline constexpr size_t kRhythmSpacings = 8;
Rhythm RhythmOf(const PowerChannel& channel, const std::vector<Sample>& first, int64_t expected_ns);

class ChannelFold {
 public:
  // All that is pointed to must outlive the fold; `pieces` may be null.
  ChannelFold(const PowerChannel& channel, int64_t expected_period_ns, const WindowEdges* edges,
              const std::vector<Suspension>* suspensions, PieceSink* pieces);

  void Add(const Sample& sample);
  void Finish();

  const PowerChannel& channel() const { return channel_; }
  bool has_energy() const { return has_energy_; }
  const Rhythm& rhythm() const { return rhythm_; }  // after Finish
  ReadingPart ReadingsOf(uint32_t window) const { return readings_.Of(window); }
  EnergyPart EnergyOf(uint32_t window) const;

 private:
  static constexpr size_t kFirst = 65;
  void AddEnergy(const Sample& sample);
  void BeginEnergy();

  const PowerChannel channel_;
  const int64_t expected_period_ns_;
  const WindowEdges* const edges_;
  const std::vector<Suspension>* const suspensions_;
  PieceSink* const pieces_;
  const bool has_energy_;
  const int64_t max_plausible_mw_;
  ReadingFold readings_;
  std::vector<Sample> first_;  // until the period is known
  Rhythm rhythm_;
  std::unique_ptr<EnergyFold> energy_;
};

}  // namespace xplane_time::power
