// From polls to the instants of publications.
//
// 1. Dates. If the sensor dates its values, FindDateOffset checks the dates against the brackets:
//    each date, plus one constant offset, must lie in the bracket of its value. Dates that follow
//    the polls at a constant distance only repeat the time of the call, and are ignored. Dated
//    updates keep their own instants, so late and early publications do no harm. Only the period
//    is fitted (FindDatedGrid).
// 2. Equal readings. A counter that publishes grows. But a power may be published again: it is
//    exactly constant, limited, or coarse (whole watts). RepeatPeriodS decides from the changes
//    whether the sensor is polled faster than it publishes: its changes then lie on a grid, a
//    multiple of one period of some polls apart. If so, FindRepeated adds the publications of the
//    same value between two changes, one per period. If not, each poll is an update. If values
//    hardly ever repeat by chance (AreFine), an unchanged value means that nothing was published,
//    except for values that the sensor visibly keeps (at a limit, say).
// 3. Grid. Without dates, one phase and one period must put a publication in each bracket and none
//    in a quiet time. For a given period, BestPhase sweeps the circle of phases: O(n log n).
//    FindGrids tries periods so close to each other that the last publication moves by a quarter
//    of a bracket. For the best ones, Refined solves the linear program exactly: each bracket cuts
//    the polygon of feasible (phase, period), and the result is the polygon's centre.
//
// Which periods are tried: the mean step between updates is within 1 % of the period if brackets
// are short. If polls are about as rare as publications (a sensor of 20 ms polled every 20 ms),
// polls skip publications, and the mean step may be 15 % longer than the period or 2 % shorter.
// Many periods then satisfy all brackets: they differ by one skipped publication over the whole
// log. The brackets cannot decide between them. So FindGrids returns all of them, and the
// regression keeps the one that explains the readings (regression.cc). For powers, it also searches
// the phase and the period that explain the readings best (polled_phase.h), and the times of the
// polls are one more candidate (GridOfPolls). For a counter that publishes more often than it is
// polled this is not solved. The residuals then show it (poor_fit).
#include "energy/publications.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "parallel.h"
#include "stats/order_statistics.h"

namespace xplane_time::energy {
namespace {

constexpr double kPeriodReach = 0.01;  // search range around the usual step, as a share of it, to
                                       // both sides
// If polls are about as rare as publications, they miss some, and nearly each poll sees a new
// value. The period may then be anything between these multiples of the usual step.
constexpr double kShortestPeriod = 0.85, kLongestPeriod = 1.02;
constexpr double kRarePolls = 0.6;  // polls are rare if brackets are longer than this share of
                                    // the usual step
constexpr double kMaxSearchedPeriods = 20'000;  // limit of the search; after hours of polling the
                                                // resolution is coarser than the data allow
constexpr size_t kMostGrids = 6, kMostGridsOfRarePolls = 48;
constexpr size_t kMostBrackets = 2'000;  // that the search uses

// --- The best phase for one period: it lies in the most brackets and in the fewest quiet times.

struct Arc {
  double from_s, length_s;
  int weight;
};

struct PhaseScore {
  int score = -1;
  double phase_s = 0;
};

// Sweeps around the circle of phases of one period.
PhaseScore BestPhase(std::span<const Arc> arcs, double period_s) {
  std::vector<std::pair<double, int>> ends;
  ends.reserve(2 * arcs.size());
  int open = 0;
  for (const Arc& arc : arcs) {
    if (arc.length_s >= period_s) {
      if (arc.weight > 0) continue;  // every phase lies in this bracket
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

// --- The exact solution: feasible phases and periods form a convex polygon that each bracket cuts.

struct Corner {
  double phase_s, period_s;
};

// Returns the part of the polygon with phase + number x period <= limit (sign 1) or > limit (sign
// -1).
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

// Numbers each update by the last publication before the end of its poll.
void Number(std::span<const Update> updates, Grid* grid) {
  grid->number.clear();
  for (const Update& update : updates) {
    grid->number.push_back(
        static_cast<int64_t>(std::floor((update.high_s - grid->phase_s) / grid->period_s + 1e-12)));
  }
}

// Moves a grid to the middle of the grids that put its publications into their brackets. Returns
// how far it moved.
double MoveToMiddle(std::span<const Update> updates, Grid* grid) {
  std::vector<size_t> order(updates.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_partition(order.begin(), order.end(),
                        [&](size_t i) { return grid->InstantS(i) > updates[i].low_s; });
  const double u = grid->period_s, p = grid->phase_s;
  std::vector<Corner> polygon = {
      {p - u, u * 0.99}, {p + u, u * 0.99}, {p + u, u * 1.01}, {p - u, u * 1.01}};
  grid->misfits = 0;
  for (const size_t i : order) {
    const auto number = static_cast<double>(grid->number[i]);
    std::vector<Corner> left = Cut(polygon, 1, number, updates[i].high_s);
    left = Cut(left, -1, number, updates[i].low_s);
    if (left.size() < 3) {
      ++grid->misfits;
    } else {
      polygon = std::move(left);
    }
  }
  Corner middle = {0, 0};
  double least_s = polygon[0].period_s, most_s = least_s;
  const double middle_number = grid->MiddleNumber();
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
      std::abs(middle.phase_s - grid->phase_s) + std::abs(middle.period_s - grid->period_s);
  grid->phase_s = middle.phase_s;
  grid->period_s = middle.period_s;
  grid->period_slack_s = most_s - least_s;
  grid->middle_slack_s = last_s - first_s;
  return moved_s;
}

// Moves a grid that satisfies nearly all brackets to the middle of the feasible grids.
Grid Refined(std::span<const Update> updates, Grid grid) {
  constexpr int kRounds = 8;
  for (int round = 0; round < kRounds; ++round) {
    Number(updates, &grid);
    if (MoveToMiddle(updates, &grid) < 1e-12) break;
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

// The approximate time between publications: the mean of the steps that are at most `most` times
// the median step.
double UsualStepS(std::span<const Update> updates, double most) {
  std::vector<double> steps_s;
  for (size_t i = 1; i < updates.size(); ++i) {
    steps_s.push_back(
        (updates[i].low_s + updates[i].high_s - updates[i - 1].low_s - updates[i - 1].high_s) / 2);
  }
  std::vector<double> any_order = steps_s;
  const double median_s = stats::Median(any_order);
  double sum_s = 0, count = 0;
  for (const double step_s : steps_s) {
    if (step_s < 0.25 * median_s || step_s > most * median_s) continue;
    sum_s += step_s;
    ++count;
  }
  return count > 0 ? sum_s / count : median_s;
}

double MedianWidthS(std::span<const Update> updates) {
  std::vector<double> widths_s;
  for (const Update& update : updates) widths_s.push_back(update.high_s - update.low_s);
  return stats::Median(widths_s);
}

// --- Dates from the sensor.

// The offset to add to the sensor's dates so that they lie in the brackets; 0 if they already do.
// Empty if there are no dates, or if they are not dates of publications.
std::optional<double> FindDateOffset(std::span<const Poll> polls) {
  constexpr double kLeastInBrackets = 0.95, kMostUndated = 0.02;
  constexpr double kLeastSpread = 0.1;  // spread of the values' ages at the polls, as a share of
                                        // the usual step
  const auto is_dated = [](const Poll& poll) { return poll.sampled_s.has_value(); };
  if (!std::ranges::all_of(polls, is_dated)) return std::nullopt;
  std::vector<double> steps_s, ages_s;
  std::vector<std::pair<double, int>> ends;  // the ends of the offsets that each bracket allows
  size_t undated = 0, changes = 0;
  for (size_t i = 1; i < polls.size(); ++i) {
    const Poll &before = polls[i - 1], &now = polls[i];
    const double step_s = *now.sampled_s - *before.sampled_s;
    if (step_s < 0) return std::nullopt;
    changes += now.value != before.value;
    undated += now.value != before.value && step_s == 0;
    if (step_s == 0) continue;
    steps_s.push_back(step_s);
    ages_s.push_back(now.before_s - *now.sampled_s);
    ends.emplace_back(before.before_s - *now.sampled_s, 1);
    ends.emplace_back(now.after_s - *now.sampled_s, -1);
  }
  if (steps_s.size() < kLeastUpdates ||
      static_cast<double>(undated) > kMostUndated * static_cast<double>(changes)) {
    return std::nullopt;
  }
  // Dates that follow each poll at a constant distance are the times of the polls.
  std::ranges::sort(ages_s);
  const double spread_s = ages_s[ages_s.size() * 9 / 10] - ages_s[ages_s.size() / 10];
  if (spread_s < kLeastSpread * stats::Median(steps_s)) return std::nullopt;
  // Choose the offset that most brackets allow; among those, the one nearest to 0.
  std::ranges::sort(ends);
  int open = 0, most = 0;
  double offset_s = 0;
  for (size_t i = 0; i + 1 < ends.size(); ++i) {
    open += ends[i].second;
    const double from_s = ends[i].first, to_s = ends[i + 1].first;
    const double nearest_s = from_s <= 0 && to_s >= 0 ? 0 : (from_s + to_s) / 2;
    if (open > most || (open == most && std::abs(nearest_s) < std::abs(offset_s))) {
      most = open, offset_s = nearest_s;
    }
  }
  if (most < kLeastInBrackets * static_cast<double>(steps_s.size())) return std::nullopt;
  return offset_s;
}

Publications FindDated(std::span<const Poll> polls, double offset_s) {
  Publications found;
  found.dated = true;
  for (size_t i = 1; i < polls.size(); ++i) {
    if (*polls[i].sampled_s == *polls[i - 1].sampled_s) continue;
    const double at_s = *polls[i].sampled_s + offset_s;
    found.updates.push_back({at_s, at_s, polls[i].value, at_s, polls[i].part});
  }
  return found;
}

// Fits the grid of dated updates by least squares. Updates may be missing between two that were
// seen.
Grid FindDatedGrid(std::span<const Update> updates) {
  constexpr int kMostMissing = 6;
  constexpr double kOffGrid = 0.25, kMostOffGrid = 0.002, kLongStep = 2.5;
  std::vector<double> steps_s;
  for (size_t i = 1; i < updates.size(); ++i) {
    steps_s.push_back(updates[i].high_s - updates[i - 1].high_s);
  }
  std::vector<double> sorted_s = steps_s;
  std::ranges::sort(sorted_s);
  const double shortest_s = sorted_s[sorted_s.size() / 20];
  Grid grid;
  for (int parts = 1; parts <= kMostMissing; ++parts) {
    double period_s = shortest_s / parts, sum_s = 0, sum = 0, off_grid = 0;
    for (const double step_s : steps_s) {
      const double steps = step_s / period_s;
      if (steps > kLongStep * parts) continue;  // much too long: polls are missing
      if (std::abs(steps - std::round(steps)) > kOffGrid) {
        ++off_grid;
      } else {
        sum_s += step_s;
        sum += std::round(steps);
      }
    }
    if (sum > 0) period_s = sum_s / sum;
    if (parts == 1) grid.period_s = period_s;
    if (off_grid > kMostOffGrid * static_cast<double>(steps_s.size())) continue;
    grid.period_s = period_s;
    break;
  }
  grid.number.push_back(0);
  for (const double step_s : steps_s) {
    const auto steps = std::llround(step_s / grid.period_s);
    grid.number.push_back(grid.number.back() + std::max<int64_t>(1, steps));
  }
  const auto count = static_cast<double>(updates.size());
  double mean = 0, mean_s = 0, square = 0, product = 0;
  for (size_t i = 0; i < updates.size(); ++i) {
    mean += static_cast<double>(grid.number[i]) / count;
    mean_s += updates[i].high_s / count;
    grid.dated_s.push_back(updates[i].high_s);
  }
  for (size_t i = 0; i < updates.size(); ++i) {
    const double off = static_cast<double>(grid.number[i]) - mean;
    square += off * off;
    product += off * (updates[i].high_s - mean_s);
  }
  grid.period_s = product / square;
  grid.phase_s = mean_s - mean * grid.period_s;
  double squares = 0;
  for (size_t i = 0; i < updates.size(); ++i) {
    const double off_s =
        updates[i].high_s - grid.phase_s - static_cast<double>(grid.number[i]) * grid.period_s;
    squares += off_s * off_s;
    grid.misfits += std::abs(off_s) > kOffGrid * grid.period_s ? 1 : 0;
  }
  grid.period_slack_s = 4 * std::sqrt(squares / count / square);
  return grid;
}

// --- Equal readings.

// True if two successive readings are hardly ever equal. Then an unchanged value means that nothing
// new was published. Compares the share of equal values among updates that are 2 to 5 apart with
// the share of unchanged polls. If many of them are equal, the sensor has few values.
bool AreFine(std::span<const Update> updates, size_t polls) {
  constexpr size_t kNearest = 2, kFarthest = 5;
  constexpr double kMostEqual = 0.1;
  if (updates.size() < kLeastUpdates) return false;
  size_t equal = 0;
  for (size_t i = kNearest; i < updates.size(); ++i) {
    for (size_t apart = kNearest; apart <= kFarthest && apart <= i; ++apart) {
      equal += updates[i].value == updates[i - apart].value;
    }
  }
  const double by_chance = static_cast<double>(equal) / (kFarthest - kNearest + 1);
  const size_t unchanged = polls - 1 - updates.size();
  return by_chance <= kMostEqual * static_cast<double>(std::min(unchanged, updates.size()));
}

double MiddleS(const Poll& poll) { return (poll.before_s + poll.after_s) / 2; }
double MiddleS(const Update& update) { return (update.low_s + update.high_s) / 2; }

double UsualPollS(std::span<const Poll> polls) {
  std::vector<double> steps_s;
  for (size_t i = 1; i < polls.size(); ++i) {
    steps_s.push_back(polls[i].before_s - polls[i - 1].before_s);
  }
  return stats::Median(steps_s);
}

// The sensor's period, if the steps between changes show that it is several polls long: many steps
// are about as long as the shortest, or all are multiples of one period. Empty otherwise.
std::optional<double> RepeatPeriodS(std::span<const Update> changes, double poll_s) {
  constexpr double kLeastPolls = 1.75;  // in a period
  // If a period is shorter than this many polls, nearly all steps are near a multiple of it.
  constexpr double kLeastPollsOfGrid = 3;
  constexpr double kOffPolls = 1.05;  // a step is off by up to a poll, because its two ends are
  constexpr double kLeastConcentrated = 0.25, kLeastOnGrid = 0.95, kMostRare = 0.05;
  if (changes.size() < kLeastUpdates) return std::nullopt;
  std::vector<double> steps_s;
  for (size_t i = 1; i < changes.size(); ++i) {
    steps_s.push_back(MiddleS(changes[i]) - MiddleS(changes[i - 1]));
  }
  std::ranges::sort(steps_s);
  const auto count = static_cast<double>(steps_s.size());
  const double shortest_s = steps_s[static_cast<size_t>(kMostRare * count)];
  if (shortest_s < kLeastPolls * poll_s) return std::nullopt;
  // The period for which `shortest_s` is `parts` periods, and the share of steps on its grid.
  const auto fit = [&](int parts) {
    double period_s = shortest_s / parts, sum_s = 0, sum = 0, on_grid = 0;
    for (const double step_s : steps_s) {  // the longer the step, the better is the period known
      const double periods = std::max(1.0, std::round(step_s / period_s));
      if (std::abs(step_s - periods * period_s) > kOffPolls * poll_s) continue;
      ++on_grid;
      sum_s += step_s, sum += periods;
      if (sum > 0) period_s = sum_s / sum;
    }
    return std::pair(period_s, on_grid / count);
  };
  for (int parts = 1; shortest_s / parts > kLeastPollsOfGrid * poll_s; ++parts) {
    const auto [period_s, on_grid] = fit(parts);
    if (on_grid >= kLeastOnGrid) return period_s;
  }
  double sum_s = 0, concentrated = 0;
  for (const double step_s : steps_s) {
    if (std::abs(step_s - shortest_s) > kOffPolls * poll_s) continue;
    sum_s += step_s;
    ++concentrated;
  }
  if (concentrated < kLeastConcentrated * count) return std::nullopt;
  return sum_s / concentrated;
}

// The values that stay for three usual steps or more, more than once.
std::set<int64_t> KeptValues(std::span<const Update> changes, double usual_s) {
  constexpr double kLong = 3;
  std::set<int64_t> once, kept;
  for (size_t i = 1; i < changes.size(); ++i) {
    if (MiddleS(changes[i]) - MiddleS(changes[i - 1]) < kLong * usual_s) continue;
    const int64_t value = changes[i - 1].value;
    if (!once.insert(value).second) kept.insert(value);
  }
  return kept;
}

// Adds the publications between changes of a sensor that publishes every `period_s`, and up to some
// periods before the first and after the last: each instant is as well known as those of the
// changes. Adds none where polls are missing. `repeats` decides by value.
template <typename Repeats>
std::vector<Update> FindRepeated(std::span<const Poll> polls, std::span<const Update> changes,
                                 double period_s, double poll_s, const Repeats& repeats) {
  constexpr double kMostMissing = 2.5, kMostBeyond = 20;
  std::vector<Update> all;
  size_t at = 0;  // the last poll before the publication
  const auto add = [&](double low_s, double high_s, int64_t value) {
    const double middle_s = (low_s + high_s) / 2;
    while (at + 1 < polls.size() && MiddleS(polls[at + 1]) < middle_s) ++at;
    const bool is_seen =
        at + 1 < polls.size() && MiddleS(polls[at]) <= middle_s &&
        polls[at + 1].before_s - polls[at].before_s < kMostMissing * std::max(poll_s, period_s);
    if (is_seen) all.push_back({low_s, high_s, value, MiddleS(polls[at + 1])});
  };
  const Update &first = changes.front(), &last = changes.back();
  if (repeats(polls.front().value)) {
    const double before_s = MiddleS(first) - MiddleS(polls.front());
    for (double n = std::min(kMostBeyond, std::floor(before_s / period_s)); n > 0; --n) {
      add(first.low_s - n * period_s, first.high_s - n * period_s, polls.front().value);
    }
  }
  for (size_t i = 0; i + 1 < changes.size(); ++i) {
    const Update &from = changes[i], &to = changes[i + 1];
    all.push_back(from);
    const double periods = std::round((MiddleS(to) - MiddleS(from)) / period_s);
    for (double n = 1; n < periods && repeats(from.value); ++n) {
      add(std::lerp(from.low_s, to.low_s, n / periods),
          std::lerp(from.high_s, to.high_s, n / periods), from.value);
    }
  }
  all.push_back(last);
  for (double n = 1; n <= kMostBeyond && repeats(last.value); ++n) {
    add(last.low_s + n * period_s, last.high_s + n * period_s, last.value);
  }
  return all;
}

// Each poll is an update.
std::vector<Update> EachPoll(std::span<const Poll> polls) {
  std::vector<Update> updates;
  for (size_t i = 0; i < polls.size(); ++i) {
    // The first value is as old as the others.
    const double low_s = i > 0 ? polls[i - 1].before_s : 2 * polls[0].before_s - polls[1].before_s;
    updates.push_back({low_s, polls[i].after_s, polls[i].value, MiddleS(polls[i])});
  }
  return updates;
}

// Adds equal readings that are updates to those that differ. `found` has the changes.
void AddEqual(std::span<const Poll> polls, double poll_s, PollSource source, Publications* found) {
  if (AreFine(found->updates, polls.size())) {
    const double usual_s = UsualStepS(found->updates, 1.75);
    const std::set<int64_t> kept = KeptValues(found->updates, usual_s);
    if (kept.empty()) return;
    const auto repeats = [&](int64_t value) { return kept.contains(value); };
    found->updates = FindRepeated(polls, found->updates, usual_s, poll_s, repeats);
    size_t at = 0;
    std::erase_if(found->quiet, [&](const Publications::Quiet& quiet) {
      while (polls[at].after_s < quiet.from_s) ++at;
      return repeats(polls[at].value);
    });
    return;
  }
  found->quiet.clear();
  found->may_be_momentary = true;
  const std::optional<double> period_s =
      source == PollSource::kTrack ? std::nullopt : RepeatPeriodS(found->updates, poll_s);
  found->updates = period_s.has_value() ? FindRepeated(polls, found->updates, *period_s, poll_s,
                                                       [](int64_t) { return true; })
                                        : EachPoll(polls);
}

// The times at which the values were read, as a grid.
Grid GridOfPolls(std::vector<Update> updates) {
  for (Update& update : updates) update.high_s = update.polled_s;
  Grid grid = FindDatedGrid(updates);
  grid.misfits = 0;  // polls need no grid
  return grid;
}

}  // namespace

Publications FindPublications(std::span<const Poll> polls, ReadingKind kind, PollSource source) {
  // A track with a new value at about each sample has the sensor's own instants.
  constexpr double kMostPollsOfTrack = 1.5;
  if (const std::optional<double> offset_s = FindDateOffset(polls)) {
    return FindDated(polls, *offset_s);
  }
  Publications found;
  for (size_t i = 1; i < polls.size(); ++i) {
    const Poll &before = polls[i - 1], &now = polls[i];
    if (now.part != before.part) continue;
    if (now.value != before.value) {
      found.updates.push_back({before.before_s, now.after_s, now.value, MiddleS(now), now.part});
    } else {
      found.quiet.push_back({before.after_s, now.before_s});
    }
  }
  if (kind == ReadingKind::kCumulative) return found;
  const double poll_s = polls.size() < kLeastUpdates ? 0 : UsualPollS(polls);
  if (!(poll_s > 0)) {
    found.quiet.clear();
    return found;
  }
  AddEqual(polls, poll_s, source, &found);
  found.may_be_instants_of_polls = true;
  const bool has_each = found.updates.size() >= kLeastUpdates &&
                        UsualStepS(found.updates, 1.75) < kMostPollsOfTrack * poll_s;
  if (source == PollSource::kTrack && has_each) {
    for (Update& update : found.updates) update.low_s = update.high_s = update.polled_s;
    found.dated = found.may_be_momentary = true;
  }
  return found;
}

std::vector<PeriodRange> FindPeriodsOfRarePolls(const Publications& publications) {
  constexpr double kShortestHalf = 0.47, kLongestHalf = 0.53;
  const std::vector<Update>& updates = publications.updates;
  if (updates.size() < kLeastUpdates || publications.dated) return {};
  const double usual_s = UsualStepS(updates, 1.75);
  if (!(MedianWidthS(updates) > kRarePolls * usual_s)) return {};
  return {{kShortestPeriod * usual_s, kLongestPeriod * UsualStepS(updates, 2.5)},
          {kShortestHalf * usual_s, kLongestHalf * usual_s}};
}

Grid NumberUpdates(std::span<const Update> updates, double phase_s, double period_s) {
  Grid grid = {.phase_s = phase_s, .period_s = period_s};
  for (const Update& update : updates) {
    grid.number.push_back(static_cast<int64_t>(std::floor((update.polled_s - phase_s) / period_s)));
  }
  MoveToMiddle(updates, &grid);
  return grid;
}

std::vector<Grid> FindGrids(const Publications& publications, int threads) {
  const std::vector<Update>& updates = publications.updates;
  if (updates.size() < kLeastUpdates) return {};
  if (publications.dated) return {FindDatedGrid(updates)};
  const double usual_s = UsualStepS(updates, 1.75), origin_s = updates[0].low_s;
  const double width_s = MedianWidthS(updates);
  const double steps = (updates.back().high_s - origin_s) / usual_s;
  const std::vector<PeriodRange> of_rare_polls = FindPeriodsOfRarePolls(publications);
  const bool polls_are_rare = !of_rare_polls.empty();
  const PeriodRange range =
      polls_are_rare ? of_rare_polls[0]
                     : PeriodRange{(1 - kPeriodReach) * usual_s, (1 + kPeriodReach) * usual_s};
  // A quarter of the change that moves the last publication by a bracket.
  const double step_s =
      std::max(width_s / steps / 4, (range.longest_s - range.shortest_s) / kMaxSearchedPeriods);
  if (!(step_s > 0)) return {};
  const std::vector<Arc> arcs = ArcsOf(publications, origin_s);
  const auto count = static_cast<size_t>((range.longest_s - range.shortest_s) / step_s) + 1;
  std::vector<std::pair<int, double>> scores(count);  // score, period
  ParallelFor(count, threads, [&](size_t i) {
    const double period_s = range.shortest_s + static_cast<double>(i) * step_s;
    scores[i] = {BestPhase(arcs, period_s).score, period_s};
  });
  std::stable_sort(scores.begin(), scores.end(), [&](const auto& a, const auto& b) {
    if (a.first != b.first || !polls_are_rare) return a.first > b.first;
    return std::abs(a.second - usual_s) < std::abs(b.second - usual_s);
  });
  const size_t most_grids = polls_are_rare ? kMostGridsOfRarePolls : kMostGrids;
  std::vector<double> chosen_s;
  for (const auto& [score, period_s] : scores) {
    const bool is_near =
        std::any_of(chosen_s.begin(), chosen_s.end(), [&, period_s = period_s](double other_s) {
          return std::abs(other_s - period_s) < 6.5 * step_s;
        });
    if (!is_near) chosen_s.push_back(period_s);
    if (chosen_s.size() == most_grids) break;
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
  // A grid that assigns two updates to one publication is wrong. A sensor that is sometimes late
  // may cause it for all grids; then keep them.
  const auto is_sound = [](const Grid& grid) {
    return std::ranges::adjacent_find(grid.number, std::greater_equal()) == grid.number.end();
  };
  if (std::ranges::any_of(grids, is_sound)) std::erase_if(grids, std::not_fn(is_sound));
  std::stable_sort(grids.begin(), grids.end(),
                   [](const Grid& a, const Grid& b) { return a.misfits < b.misfits; });
  if (polls_are_rare && publications.may_be_instants_of_polls) {
    grids.insert(grids.begin() + 1, GridOfPolls(updates));
  }
  return grids;
}

}  // namespace xplane_time::energy
