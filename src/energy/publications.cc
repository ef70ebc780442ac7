#include "energy/publications.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "parallel.h"
#include "stats/order_statistics.h"

namespace xplane_time::energy {
namespace {

constexpr double kPeriodReach = 0.01;    // of the usual step, to both sides
constexpr double kMostPeriods = 20'000;  // that are tried: of hours of polls fewer than they tell
constexpr size_t kMostGrids = 6;
constexpr size_t kMostBrackets = 2'000;  // that the search looks at

// --- Of one period: the phase that lies in most brackets, and in least quiet times.

struct Arc {
  double from_s, length_s;
  int weight;
};

struct PhaseScore {
  int score = -1;
  double phase_s = 0;
};

// A sweep around the circle of one period.
PhaseScore BestPhase(std::span<const Arc> arcs, double period_s) {
  std::vector<std::pair<double, int>> ends;
  ends.reserve(2 * arcs.size());
  int open = 0;
  for (const Arc& arc : arcs) {
    if (arc.length_s >= period_s) {
      if (arc.weight > 0) continue;  // every phase lies in it
      open += arc.weight;
      continue;
    }
    const double from_s = arc.from_s - std::floor(arc.from_s / period_s) * period_s;
    const double to_s = from_s + arc.length_s;
    ends.emplace_back(from_s, arc.weight);
    if (to_s < period_s) {
      ends.emplace_back(to_s, -arc.weight);
    } else {
      open += arc.weight;
      ends.emplace_back(to_s - period_s, -arc.weight);
    }
  }
  std::sort(ends.begin(), ends.end());
  PhaseScore best;
  for (size_t i = 0; i < ends.size(); ++i) {
    open += ends[i].second;
    const double next_s = i + 1 < ends.size() ? ends[i + 1].first : period_s;
    if (open > best.score && next_s > ends[i].first) {
      best = {open, (ends[i].first + next_s) / 2};
    }
  }
  return best;
}

// --- All that fits: phases and periods are a convex polygon, which each bracket cuts.

struct Corner {
  double phase_s, period_s;
};

// What of the polygon has phase + number x period <= limit (sign 1) or > limit (sign -1).
std::vector<Corner> Cut(const std::vector<Corner>& polygon, double sign, double number,
                        double limit_s) {
  std::vector<Corner> left;
  const auto over = [&](const Corner& corner) {
    return sign * (corner.phase_s + number * corner.period_s - limit_s);
  };
  for (size_t i = 0; i < polygon.size(); ++i) {
    const Corner &p = polygon[i], &q = polygon[(i + 1) % polygon.size()];
    const double at_p = over(p), at_q = over(q);
    if (at_p <= 0) left.push_back(p);
    if ((at_p < 0) != (at_q < 0) && at_p != 0 && at_q != 0) {
      const double part = at_p / (at_p - at_q);
      left.push_back(
          {std::lerp(p.phase_s, q.phase_s, part), std::lerp(p.period_s, q.period_s, part)});
    }
  }
  return left;
}

// The last publication before each update's poll was over.
void Number(std::span<const Update> updates, Grid* grid) {
  grid->number.clear();
  for (const Update& update : updates) {
    grid->number.push_back(
        static_cast<int64_t>(std::floor((update.high_s - grid->phase_s) / grid->period_s + 1e-12)));
  }
}

// From a grid that meets nearly all brackets to the middle of those that do.
Grid Refined(std::span<const Update> updates, Grid grid) {
  constexpr int kRounds = 8;
  for (int round = 0; round < kRounds; ++round) {
    Number(updates, &grid);
    std::vector<size_t> order(updates.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_partition(order.begin(), order.end(),
                          [&](size_t i) { return grid.InstantS(i) > updates[i].low_s; });
    const double u = grid.period_s, p = grid.phase_s;
    std::vector<Corner> polygon = {
        {p - u, u * 0.99}, {p + u, u * 0.99}, {p + u, u * 1.01}, {p - u, u * 1.01}};
    grid.misfits = 0;
    for (const size_t i : order) {
      const auto number = static_cast<double>(grid.number[i]);
      std::vector<Corner> left = Cut(polygon, 1, number, updates[i].high_s);
      left = Cut(left, -1, number, updates[i].low_s);
      if (left.size() < 3) {
        ++grid.misfits;
      } else {
        polygon = std::move(left);
      }
    }
    Corner middle = {0, 0};
    double least_s = polygon[0].period_s, most_s = least_s;
    const double middle_number = grid.MiddleNumber();
    double first_s = polygon[0].phase_s + middle_number * least_s, last_s = first_s;
    for (const Corner& corner : polygon) {
      const double instant_s = corner.phase_s + middle_number * corner.period_s;
      first_s = std::min(first_s, instant_s);
      last_s = std::max(last_s, instant_s);
      middle.phase_s += corner.phase_s / static_cast<double>(polygon.size());
      middle.period_s += corner.period_s / static_cast<double>(polygon.size());
      least_s = std::min(least_s, corner.period_s);
      most_s = std::max(most_s, corner.period_s);
    }
    const double moved_s =
        std::abs(middle.phase_s - grid.phase_s) + std::abs(middle.period_s - grid.period_s);
    grid.phase_s = middle.phase_s;
    grid.period_s = middle.period_s;
    grid.period_slack_s = most_s - least_s;
    grid.middle_slack_s = last_s - first_s;
    if (moved_s < 1e-12) break;
  }
  Number(updates, &grid);
  return grid;
}

std::vector<Arc> ArcsOf(const Publications& publications, double origin_s) {
  std::vector<Arc> arcs;
  const size_t step = publications.updates.size() / kMostBrackets + 1;
  for (size_t i = 0; i < publications.updates.size(); i += step) {
    const Update& update = publications.updates[i];
    arcs.push_back({update.low_s - origin_s, update.high_s - update.low_s, 1});
  }
  for (size_t i = 0; i < publications.quiet.size(); i += step) {
    const Publications::Quiet& quiet = publications.quiet[i];
    if (quiet.to_s > quiet.from_s) {
      arcs.push_back({quiet.from_s - origin_s, quiet.to_s - quiet.from_s, -1});
    }
  }
  return arcs;
}

// The time from one publication to the next, roughly: the mean of the steps near the median one.
double UsualStepS(std::span<const Update> updates) {
  std::vector<double> steps_s;
  for (size_t i = 1; i < updates.size(); ++i) {
    steps_s.push_back(
        (updates[i].low_s + updates[i].high_s - updates[i - 1].low_s - updates[i - 1].high_s) / 2);
  }
  std::vector<double> any_order = steps_s;
  const double median_s = stats::Median(any_order);
  double sum_s = 0, count = 0;
  for (const double step_s : steps_s) {
    if (step_s < 0.25 * median_s || step_s > 1.75 * median_s) continue;
    sum_s += step_s;
    ++count;
  }
  return count > 0 ? sum_s / count : median_s;
}

}  // namespace

Publications FindPublications(std::span<const Poll> polls, ReadingKind kind) {
  Publications found;
  for (size_t i = 1; i < polls.size(); ++i) {
    const Poll &before = polls[i - 1], &now = polls[i];
    if (now.value != before.value) {
      found.updates.push_back({before.before_s, now.after_s, now.value});
    } else if (kind == ReadingKind::kCumulative) {
      found.quiet.push_back({before.after_s, now.before_s});
    }
  }
  return found;
}

std::vector<Grid> FindGrids(const Publications& publications, int threads) {
  const std::vector<Update>& updates = publications.updates;
  if (updates.size() < kLeastUpdates) return {};
  const double usual_s = UsualStepS(updates), origin_s = updates[0].low_s;
  std::vector<double> widths_s;
  for (const Update& update : updates) widths_s.push_back(update.high_s - update.low_s);
  const double steps = (updates.back().high_s - origin_s) / usual_s;
  // A quarter of what moves the last publication by a bracket.
  const double reach_s = kPeriodReach * usual_s;
  const double step_s = std::max(stats::Median(widths_s) / steps / 4, 2 * reach_s / kMostPeriods);
  if (!(step_s > 0)) return {};
  const std::vector<Arc> arcs = ArcsOf(publications, origin_s);
  const double first_s = usual_s - reach_s;
  const auto count = static_cast<size_t>(2 * reach_s / step_s) + 1;
  std::vector<std::pair<int, double>> scores(count);  // score, period
  ParallelFor(count, threads, [&](size_t i) {
    const double period_s = first_s + static_cast<double>(i) * step_s;
    scores[i] = {BestPhase(arcs, period_s).score, period_s};
  });
  std::stable_sort(scores.begin(), scores.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<double> chosen_s;
  for (const auto& [score, period_s] : scores) {
    const bool is_near =
        std::any_of(chosen_s.begin(), chosen_s.end(), [&, period_s = period_s](double other_s) {
          return std::abs(other_s - period_s) < 6.5 * step_s;
        });
    if (!is_near) chosen_s.push_back(period_s);
    if (chosen_s.size() == kMostGrids) break;
  }
  std::vector<Grid> grids;
  for (const double around_s : chosen_s) {
    PhaseScore best;
    double period_s = around_s;
    for (int i = -20; i <= 20; ++i) {
      const double finer_s = around_s + i * step_s / 10;
      const PhaseScore score = BestPhase(arcs, finer_s);
      if (score.score > best.score) best = score, period_s = finer_s;
    }
    Grid grid = Refined(updates, {.phase_s = origin_s + best.phase_s, .period_s = period_s});
    const bool is_new = std::ranges::none_of(grids, [&](const Grid& other) {
      return other.number == grid.number && other.period_s == grid.period_s;
    });
    if (is_new) grids.push_back(std::move(grid));
  }
  // Two updates are not one publication; a sensor that is late now and then may look so.
  const auto is_sound = [](const Grid& grid) {
    return std::ranges::adjacent_find(grid.number, std::greater_equal()) == grid.number.end();
  };
  if (std::ranges::any_of(grids, is_sound)) std::erase_if(grids, std::not_fn(is_sound));
  std::stable_sort(grids.begin(), grids.end(),
                   [](const Grid& a, const Grid& b) { return a.misfits < b.misfits; });
  return grids;
}

}  // namespace xplane_time::energy
