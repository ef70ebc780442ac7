// 1. Coarse search: the first section of up to 1,024 updates, on a lattice of periods, phases and
//    lags. Neighbouring periods move the ends of the section by a quarter of a period. Each
//    candidate is scored by the part of the readings' variance that a line through (expected,
//    read) leaves unexplained, so powers that are all wrong by the same factor do no harm. The
//    expected readings are in a table by the end of the window, and a lag is a shift in the table.
// 2. The best candidates that are not neighbours are refined: each step tries the 26 neighbours,
//    and the distance to them halves when none is better.
// 3. The section doubles until it has all updates. The candidates are refined after each doubling,
//    because a longer section determines the period more precisely.
#include "energy/polled_phase.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "parallel.h"

namespace xplane_time::energy {
namespace {

constexpr size_t kFirstUpdates = 1'024;
// Updates that a score uses, so that the cost does not grow with the log.
constexpr size_t kMaxCoarseUpdates = 512, kMaxFineUpdates = 2'048;
constexpr int kPhases = 12, kLagsOfPeriod = 12;
constexpr double kMaxPeriods = 4'000;

// The correlation of pairs of values.
struct Correlation {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0, yy = 0;

  void Add(double of_x, double of_y) {
    ++n, x += of_x, y += of_y;
    xx += of_x * of_x, xy += of_x * of_y, yy += of_y * of_y;
  }
  // The share of the variance of y that a rising line through the pairs does not explain.
  double Unexplained() const {
    const double of_x = xx - x * x / n, of_y = yy - y * y / n, of_both = xy - x * y / n;
    if (!(of_x > 0) || !(of_y > 0) || !(of_both > 0)) return 1;
    return std::max(0.0, 1 - of_both * of_both / (of_x * of_y));
  }
};

// The readings, and the expected ones.
class Prediction {
 public:
  Prediction(std::span<const Update> updates, const ExpectedEnergy& expected, double window_s)
      : updates_(updates), expected_(expected), window_s_(window_s) {
    for (size_t i = 0; i < expected.energy_j.size(); ++i) {
      table_w_.push_back(PowerW(expected.from_s + static_cast<double>(i) * expected.step_s));
    }
  }

  double middle_s(size_t section) const {
    return (updates_[0].polled_s + updates_[section - 1].polled_s) / 2;
  }
  double length_s(size_t section) const {
    return updates_[section - 1].polled_s - updates_[0].polled_s;
  }
  double step_s() const { return expected_.step_s; }

  // The share of the variance of the first `section` readings that the candidate leaves.
  double Unexplained(const PolledPhase& at, size_t section) const {
    Correlation correlation;
    const size_t stride = section / kMaxFineUpdates + 1;
    for (size_t i = 0; i < section; i += stride) {
      correlation.Add(PowerW(PublishedS(at, i) - at.lag_s), ReadW(i));
    }
    return correlation.Unexplained();
  }

  // Returns the best of the lags from `at.lag_s` up to `most_lag_s`, `steps` steps of the table
  // apart. Rounds to steps of the table.
  PolledPhase BestLag(PolledPhase at, double most_lag_s, int64_t steps, size_t section) const {
    std::vector<int64_t> place;  // in the table
    std::vector<double> read_w;
    const size_t stride = section / kMaxCoarseUpdates + 1;
    for (size_t i = 0; i < section; i += stride) {
      place.push_back(
          std::llround((PublishedS(at, i) - at.lag_s - expected_.from_s) / expected_.step_s));
      read_w.push_back(ReadW(i));
    }
    const auto last = static_cast<int64_t>(table_w_.size()) - 1;
    const auto most = static_cast<int64_t>((most_lag_s - at.lag_s) / expected_.step_s);
    PolledPhase best = at;
    for (int64_t later = 0; later <= most; later += steps) {
      Correlation correlation;
      for (size_t i = 0; i < place.size(); ++i) {
        const auto of = static_cast<size_t>(std::clamp<int64_t>(place[i] - later, 0, last));
        correlation.Add(table_w_[of], read_w[i]);
      }
      const double unexplained = correlation.Unexplained();
      if (unexplained >= best.unexplained) continue;
      best.unexplained = unexplained;
      best.lag_s = at.lag_s + static_cast<double>(later) * expected_.step_s;
    }
    return best;
  }

 private:
  // The last publication before a poll.
  double PublishedS(const PolledPhase& at, size_t i) const {
    const double periods = (updates_[i].polled_s - at.phase_s) / at.period_s;
    return at.phase_s + std::floor(periods) * at.period_s;
  }
  // The mean power of a window that ends at an instant.
  double PowerW(double end_s) const {
    return (expected_.AtJ(end_s) - expected_.AtJ(end_s - window_s_)) / window_s_;
  }
  double ReadW(size_t i) const { return static_cast<double>(updates_[i].value) / 1e3; }

  std::span<const Update> updates_;
  const ExpectedEnergy& expected_;
  const double window_s_;
  std::vector<double> table_w_;  // PowerW of each instant of `expected_`
};

// The publication nearest to an instant, as the phase.
PolledPhase PivotedAt(PolledPhase at, double instant_s) {
  at.phase_s += std::round((instant_s - at.phase_s) / at.period_s) * at.period_s;
  return at;
}

// The best first.
constexpr auto kByPrediction = [](const PolledPhase& a, const PolledPhase& b) {
  return std::tie(a.unexplained, a.period_s, a.phase_s, a.lag_s) <
         std::tie(b.unexplained, b.period_s, b.phase_s, b.lag_s);
};

// Moves a candidate to the best place nearby.
PolledPhase MovedToBest(const Prediction& prediction, size_t section, PolledPhase best) {
  constexpr int kHalvings = 6, kMaxMoves = 40;
  best = PivotedAt(best, prediction.middle_s(section));
  best.unexplained = prediction.Unexplained(best, section);
  double part = 1.0 / kPhases;  // of a period
  for (int halving = 0, steps = 0; halving < kHalvings && steps < kMaxMoves; ++steps) {
    const double move_s = part * best.period_s;
    const double of_period_s = 2 * move_s * best.period_s / prediction.length_s(section);
    PolledPhase next = best;
    for (const double later : {-1.0, 0.0, 1.0}) {
      for (const double more_lag : {-1.0, 0.0, 1.0}) {
        for (const double longer : {-1.0, 0.0, 1.0}) {
          PolledPhase tried = best;
          tried.phase_s += later * move_s;
          tried.lag_s += more_lag * move_s;
          tried.period_s += longer * of_period_s;
          tried.unexplained = prediction.Unexplained(tried, section);
          if (tried.unexplained < next.unexplained) next = tried;
        }
      }
    }
    if (next.unexplained < best.unexplained) {
      best = next;
    } else {
      part /= 2;
      ++halving;
    }
  }
  return best;
}

// The best candidates for one period.
std::vector<PolledPhase> TryPeriod(const Prediction& prediction, size_t section, double period_s,
                                   const PhaseRange& range) {
  constexpr size_t kMostOfPeriod = 2;
  const auto steps =
      std::max<int64_t>(1, std::llround(period_s / kLagsOfPeriod / prediction.step_s()));
  std::vector<PolledPhase> tried;
  for (int phase = 0; phase < kPhases; ++phase) {
    const double phase_s = prediction.middle_s(section) + period_s * phase / kPhases;
    tried.push_back(prediction.BestLag({phase_s, period_s, range.least_lag_s}, range.most_lag_s,
                                       steps, section));
  }
  std::ranges::sort(tried, kByPrediction);
  tried.resize(kMostOfPeriod);
  return tried;
}

}  // namespace

double ExpectedEnergy::AtJ(double instant_s) const {
  const auto last = static_cast<double>(energy_j.size() - 1);
  const double place = std::clamp((instant_s - from_s) / step_s, 0.0, last);
  const auto at = static_cast<size_t>(place);
  if (at + 1 >= energy_j.size()) return energy_j.back();
  return std::lerp(energy_j[at], energy_j[at + 1], place - static_cast<double>(at));
}

std::vector<PolledPhase> FindPolledPhases(std::span<const Update> updates,
                                          const ExpectedEnergy& expected, double window_s,
                                          const PhaseRange& range, size_t most, int threads) {
  const Prediction prediction(updates, expected, window_s);
  size_t section = std::min(updates.size(), kFirstUpdates);
  if (section < kLeastUpdates || !(prediction.length_s(section) > 0)) return {};
  const double step_s = std::max(
      range.periods.shortest_s * range.periods.shortest_s / prediction.length_s(section) / 4,
      (range.periods.longest_s - range.periods.shortest_s) / kMaxPeriods);
  const auto periods =
      static_cast<size_t>((range.periods.longest_s - range.periods.shortest_s) / step_s) + 1;
  std::vector<std::vector<PolledPhase>> of_period(periods);
  ParallelFor(periods, threads, [&](size_t i) {
    of_period[i] = TryPeriod(prediction, section,
                             range.periods.shortest_s + static_cast<double>(i) * step_s, range);
  });
  std::vector<PolledPhase> tried;
  for (const std::vector<PolledPhase>& each : of_period) {
    tried.insert(tried.end(), each.begin(), each.end());
  }
  std::ranges::sort(tried, kByPrediction);
  std::vector<PolledPhase> best;
  const auto are_near = [](const PolledPhase& a, const PolledPhase& b, double period_s,
                           double phase_s) {
    return std::abs(a.period_s - b.period_s) < period_s &&
           std::abs(std::remainder(a.phase_s - b.phase_s, a.period_s)) < phase_s;
  };
  const auto add = [&](const PolledPhase& each, double period_s, double phase_s) {
    const bool is_new = std::ranges::none_of(
        best, [&](const PolledPhase& other) { return are_near(each, other, period_s, phase_s); });
    if (is_new && best.size() < most) best.push_back(each);
  };
  for (const PolledPhase& each : tried) {
    add(each, 1.5 * step_s, 1.5 * range.periods.shortest_s / kPhases);
  }
  for (;; section = std::min(2 * section, updates.size())) {
    ParallelFor(best.size(), threads,
                [&](size_t i) { best[i] = MovedToBest(prediction, section, best[i]); });
    if (section == updates.size()) break;
  }
  std::vector<PolledPhase> refined = std::move(best);
  std::ranges::sort(refined, kByPrediction);
  best.clear();
  for (const PolledPhase& each : refined) {
    add(each, each.period_s * each.period_s / prediction.length_s(section) / 100,
        each.period_s / 100);
  }
  return best;
}

}  // namespace xplane_time::energy
