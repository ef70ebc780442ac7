// Folds the readings of one channel: statistics of the readings, and their energy.
//
// Input: readings with ascending times, and the edges of windows before them. Output: a ReadingPart
// for each window and, for power and energy, an EnergyPart. The first readings are kept until the
// period can be estimated from them. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/numeric/int128.h"
#include "power/energy.h"
#include "stats/order_statistics.h"
#include "stats/quantile_sketch.h"
#include "xplane_time/power.h"

namespace xplane_time::power {

struct Sample {
  int64_t t_ns = 0;
  int64_t value = 0;
  PowerReason reason = PowerReason::kKnown;  // if not kKnown, the value is unknown
  int64_t doubt_ns = 0;  // the time may be wrong by this much in both directions
};

// The readings in [begin, end] of a window. A power that no device can have counts as unknown.
struct ReadingPart {
  uint64_t n = 0, unknown = 0;
  PowerReason reason = PowerReason::kKnown;  // of the last unknown reading
  absl::int128 sum = 0;
  absl::int128 twice_trapezoid = 0;  // the sum of (v0 + v1) (t1 - t0) over adjacent readings
  int64_t longest_gap_ns = 0;        // longest time in the window without a reading
  Sample first, last;                // valid if n is not 0, like the next four
  int64_t min = std::numeric_limits<int64_t>::max(), max = std::numeric_limits<int64_t>::min();
  std::optional<double> median = {};
  std::optional<Sample> before = {}, after = {};  // the nearest readings, if the window has no
                                                  // reading
};

class ReadingFold {
 public:
  // If `with_nearest`, windows without a reading get the nearest readings.
  ReadingFold(const WindowEdges* edges, bool with_median, bool with_nearest)
      : edges_(*edges), with_median_(with_median), with_nearest_(with_nearest) {}

  void Add(const Sample& sample) {
    // A reading at the time of an edge is in the window.
    while (next_edge_ < edges_.size() &&
           (edges_[next_edge_].t_ns < sample.t_ns ||
            (edges_[next_edge_].t_ns == sample.t_ns && !edges_[next_edge_].end))) {
      Meet(edges_[next_edge_++]);
    }
    Readings& now = buckets_.Now();
    if (sample.reason != PowerReason::kKnown) {
      ++now.unknown;
      now.reason = sample.reason;
      return;
    }
    for (const uint32_t window : std::exchange(await_after_, {})) parts_[window].after = sample;
    now.AddKnown({.n = 1,
                  .sum = sample.value,
                  .first = sample,
                  .last = sample,
                  .min = sample.value,
                  .max = sample.value});
    if (with_median_) now.counts.Add(sample.value);
    if (last_.has_value()) {
      Readings& both = buckets_.Since(last_->t_ns);
      const int64_t spacing_ns = sample.t_ns - last_->t_ns;
      both.longest_gap_ns = std::max(both.longest_gap_ns, spacing_ns);
      if (with_median_) {
        both.twice_trapezoid += (absl::int128(last_->value) + sample.value) * spacing_ns;
      }
    }
    last_ = sample;
  }

  void Finish() {
    while (next_edge_ < edges_.size()) Meet(edges_[next_edge_++]);
  }

  ReadingPart Of(uint32_t window) const {
    const auto part = parts_.find(window);
    return part == parts_.end() ? ReadingPart() : part->second;
  }

 private:
  struct Readings : ReadingPart {
    int64_t begin_ns = 0;
    stats::QuantileSketch counts = {};
    void Merge(const Readings& later) {
      unknown += later.unknown;
      if (later.reason != PowerReason::kKnown) reason = later.reason;
      longest_gap_ns = std::max(longest_gap_ns, later.longest_gap_ns);
      twice_trapezoid += later.twice_trapezoid;
      if (later.n > 0) AddKnown(later);
      counts.Merge(later.counts);
    }
    void AddKnown(const ReadingPart& later) {
      if (n == 0) first = later.first;
      n += later.n;
      sum += later.sum;
      last = later.last;
      min = std::min(min, later.min);
      max = std::max(max, later.max);
    }
  };

  void Meet(const WindowEdge& edge) {
    if (!edge.end) {
      buckets_.Begin(edge.window, edge.t_ns);
      buckets_.Now().begin_ns = edge.t_ns;
      return;
    }
    const std::optional<Readings> all = buckets_.End(edge.window);
    if (with_nearest_ && all.has_value() && all->n + all->unknown == 0) {
      parts_[edge.window].before = last_;
      await_after_.push_back(edge.window);
    }
    if (!all.has_value() || all->n + all->unknown == 0) return;
    ReadingPart& part = parts_[edge.window];
    part = *all;
    if (all->n == 0) return;
    part.longest_gap_ns = std::max(
        {all->longest_gap_ns, all->first.t_ns - all->begin_ns, edge.t_ns - all->last.t_ns});
    part.median = all->counts.Median();
  }

  const WindowEdges& edges_;
  const bool with_median_, with_nearest_;
  std::vector<uint32_t> await_after_;  // windows that wait for the next known reading
  size_t next_edge_ = 0;
  std::optional<Sample> last_;
  Buckets<Readings> buckets_;
  absl::flat_hash_map<uint32_t, ReadingPart> parts_;  // of windows that have readings
};

// The usual time between readings and the usual age of a value, estimated from the first readings.
struct Rhythm {
  int64_t period_ns = 0, update_ns = 0;
};

class ChannelFold {
 public:
  // All pointers must outlive the fold. `columns` is the size of the series; 0 means no series.
  // `with_nearest` only applies to channels without energy.
  ChannelFold(const PowerChannel& of, int64_t expected_period_ns, const WindowEdges* edges,
              const std::vector<Suspension>* suspensions, size_t columns, bool with_nearest = false)
      : channel(of),
        is_counter(of.kind == ReadingKind::kCumulative),
        has_energy(is_counter ? of.quantity == "energy_uj"
                              : of.quantity == "power_mw" && of.kind != ReadingKind::kGauge),
        expected_period_ns_(expected_period_ns),
        edges_(edges),
        suspensions_(suspensions),
        max_plausible_mw_(
            std::clamp<int64_t>(of.max_plausible_mw.value_or(kMostPlausibleMw), 0, kMostMw)),
        readings_(edges, !is_counter, with_nearest && !has_energy) {
    constexpr int64_t kFirstColumnNs = 1'000'000;
    if (columns > 0) series.emplace(kFirstColumnNs, columns);
  }

  void Add(const Sample& sample) {
    if (!has_energy) return readings_.Add(sample);
    const bool known = sample.reason == PowerReason::kKnown;
    const bool implausible =
        known && !is_counter && (sample.value < 0 || sample.value > max_plausible_mw_);
    readings_.Add(implausible ? Sample{sample.t_ns, 0, PowerReason::kImplausible} : sample);
    if (energy_ != nullptr) return AddEnergy(sample);
    // Keep only the first of successive failures, so that they cannot fill the buffer.
    if (!known && (first_.empty() || first_.back().reason == sample.reason)) return;
    first_.push_back(sample);
    if (first_.size() == kFirst) BeginEnergy();
  }

  void Finish() {
    readings_.Finish();
    if (!has_energy) return;
    if (energy_ == nullptr) BeginEnergy();
    energy_->Finish();
  }

  ReadingPart ReadingsOf(uint32_t window) const { return readings_.Of(window); }
  EnergyPart EnergyOf(uint32_t window) const {
    return energy_ == nullptr ? EnergyPart() : energy_->Of(window);
  }

  const PowerChannel channel;
  const bool is_counter, has_energy;
  Rhythm rhythm;                 // valid after Finish
  std::optional<Series> series;  // only of channels with energy

 private:
  static constexpr size_t kFirst = 65;
  // Periods are below 2^50 ns (13 days) and powers below a gigawatt, so sums cannot overflow.
  static constexpr int64_t kLongestPeriodNs = int64_t{1} << 50;
  static constexpr int64_t kMostMw = 1'000'000'000'000;

  void AddEnergy(const Sample& sample) {
    if (sample.reason == PowerReason::kKnown) {
      return energy_->Add(sample.t_ns, sample.value, sample.doubt_ns);
    }
    energy_->Fail(sample.t_ns, sample.reason == PowerReason::kReset);
  }

  void BeginEnergy() {
    SetRhythm();
    energy_ = std::make_unique<EnergyFold>(EnergyRules{.counter = is_counter,
                                                       .period_ns = rhythm.period_ns,
                                                       .update_ns = rhythm.update_ns,
                                                       .wrap_range = channel.wrap_range,
                                                       .max_plausible_mw = max_plausible_mw_},
                                           edges_, suspensions_, series ? &*series : nullptr);
    for (const Sample& sample : first_) AddEnergy(sample);
    first_ = {};
  }

  // The period is the lower median of at least kLeast spacings. With fewer spacings, it is the
  // expected period, unless that is 0. The update period of a counter is the lower median of the
  // times between changes, if there are at least kLeast; otherwise it is prior_period_ns or, if
  // unknown, the period. The update period of an average is at least its window.
  void SetRhythm() {
    constexpr size_t kLeast = 8;
    const auto in_bounds = [](int64_t ns) { return std::clamp<int64_t>(ns, 1, kLongestPeriodNs); };
    std::vector<int64_t> spacings_ns = SpacingsOfFirst(/*changes=*/false);
    const bool tells =
        spacings_ns.size() >= kLeast || (expected_period_ns_ == 0 && !spacings_ns.empty());
    rhythm.period_ns = in_bounds(tells ? stats::LowerMedian(spacings_ns) : expected_period_ns_);
    rhythm.update_ns = channel.prior_period_ns.value_or(rhythm.period_ns);
    if (is_counter) {
      std::vector<int64_t> changes_ns = SpacingsOfFirst(/*changes=*/true);
      if (changes_ns.size() >= kLeast) rhythm.update_ns = stats::LowerMedian(changes_ns);
    } else if (channel.kind == ReadingKind::kAverage) {
      rhythm.update_ns = std::max(rhythm.update_ns, channel.prior_window_ns.value_or(0));
    }
    rhythm.update_ns = in_bounds(rhythm.update_ns);
  }

  // Times between adjacent readings; if `changes`, between readings whose values changed.
  std::vector<int64_t> SpacingsOfFirst(bool changes) const {
    std::vector<int64_t> spacings_ns;
    std::optional<int64_t> last_ns, before;
    for (const Sample& sample : first_) {
      if (sample.reason != PowerReason::kKnown) continue;
      const bool counts = !changes || (before.has_value() && sample.value != *before);
      before = sample.value;
      if (!counts) continue;
      if (last_ns.has_value()) spacings_ns.push_back(sample.t_ns - *last_ns);
      last_ns = sample.t_ns;
    }
    return spacings_ns;
  }

  const int64_t expected_period_ns_;
  const WindowEdges* const edges_;
  const std::vector<Suspension>* const suspensions_;
  const int64_t max_plausible_mw_;
  ReadingFold readings_;
  std::vector<Sample> first_;  // kept until the period is known
  std::unique_ptr<EnergyFold> energy_;
};

}  // namespace xplane_time::power
