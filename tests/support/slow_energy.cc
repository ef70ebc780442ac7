#include "tests/support/slow_energy.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>

namespace xplane_time::testing {
namespace {

using power::EnergyPart;
using power::EnergyRules;
using power::kGapPeriods;
using power::Suspension;

bool Slept(const std::vector<Suspension>& suspensions, int64_t from_ns, int64_t to_ns) {
  return std::any_of(suspensions.begin(), suspensions.end(), [&](const Suspension& each) {
    return each.from_ns < to_ns && each.to_ns > from_ns;
  });
}

struct Span {
  int64_t begin_ns, end_ns;
  double power_mw;
};

struct Window {
  int64_t begin_ns, end_ns;
  // The length of the part of a span inside the window.
  int64_t Inside(int64_t from_ns, int64_t to_ns) const {
    return std::max<int64_t>(0, std::min(to_ns, end_ns) - std::max(from_ns, begin_ns));
  }
};

// The time span of each reading.
std::vector<Span> HeldSpans(const EnergyRules& rules, const std::vector<TimedValue>& readings,
                            const std::vector<Suspension>& suspensions) {
  const auto slept = [&](size_t i) {
    return Slept(suspensions, readings[i].first, readings[i + 1].first);
  };
  const auto joined = [&](size_t i) {  // with the next reading
    return i + 1 < readings.size() && !slept(i) &&
           readings[i + 1].first - readings[i].first <= kGapPeriods * rules.period_ns;
  };
  std::vector<Span> spans;
  for (size_t i = 0; i < readings.size(); ++i) {
    const auto [t_ns, mw] = readings[i];
    const bool before = i > 0 && joined(i - 1), after = joined(i);
    if (!before && !after) continue;  // alone
    if (!before && !(i > 0 && slept(i - 1))) {
      int64_t from_ns = t_ns - rules.period_ns;
      if (i > 0) from_ns = std::max(from_ns, readings[i - 1].first);
      if (!spans.empty()) from_ns = std::max(from_ns, spans.back().end_ns);
      if (from_ns < t_ns) spans.push_back({from_ns, t_ns, static_cast<double>(mw)});
    }
    int64_t to_ns = t_ns + kGapPeriods * rules.period_ns;
    if (after) to_ns = readings[i + 1].first;
    if (!after && i + 1 < readings.size()) {
      if (slept(i)) continue;
      to_ns = std::min(to_ns, readings[i + 1].first);
    }
    spans.push_back({t_ns, to_ns, static_cast<double>(mw)});
  }
  return spans;
}

EnergyPart SlowHeld(const EnergyRules& rules, std::vector<TimedValue> readings,
                    const std::vector<Suspension>& suspensions, const Window& window) {
  EnergyPart part;
  std::erase_if(readings, [&](const TimedValue& each) {
    return each.second < 0 || each.second > rules.max_plausible_mw;
  });
  for (size_t i = 0; i + 1 < readings.size(); ++i) {
    const int64_t from_ns = readings[i].first, to_ns = readings[i + 1].first;
    if (Slept(suspensions, from_ns, to_ns) && from_ns < window.end_ns && to_ns > window.begin_ns) {
      part.suspended = true;
    }
  }
  for (const Span& span : HeldSpans(rules, readings, suspensions)) {
    const int64_t inside_ns = window.Inside(span.begin_ns, span.end_ns);
    if (inside_ns == 0) continue;
    part.covered_ns += inside_ns;
    part.energy_pj += span.power_mw * static_cast<double>(inside_ns);
    part.peak_mw = std::max(part.peak_mw.value_or(0), span.power_mw);
  }
  return part;
}

// A point of the counter, with the total energy up to it over all segments.
struct CounterPoint {
  int64_t t_ns;
  double total_pj;
  // joined: the energy since the previous point is known; gap: but not when it was used
  bool joined, gap;
  // time of the previous reading, which may have the same value as the previous point
  int64_t before_ns;
};

struct Counter {
  std::vector<CounterPoint> points;
  // Pairs of times between which an event happened.
  std::vector<std::pair<int64_t, int64_t>> resets, wraps, jumps, sleeps;
};

Counter CounterOf(const EnergyRules& rules, const std::vector<TimedValue>& readings,
                  const std::vector<Suspension>& suspensions) {
  Counter counter;
  double total_pj = 0;
  bool gap = false;
  for (size_t i = 0; i < readings.size(); ++i) {
    const auto [t_ns, value] = readings[i];
    if (i == 0) {
      counter.points.push_back({t_ns, 0, false, false, 0});
      continue;
    }
    const auto [before_ns, before] = readings[i - 1];
    // A reading with the same value is not a point.
    const std::pair between(counter.points.back().t_ns, t_ns);
    const auto plausible = [&](int64_t delta_uj) {
      return static_cast<double>(delta_uj) * 1e6 <=
             static_cast<double>(t_ns - counter.points.back().t_ns + rules.update_ns) *
                 static_cast<double>(rules.max_plausible_mw);
    };
    int64_t delta_uj = value - before;
    bool broken = false, wrapped = false;
    if (Slept(suspensions, before_ns, t_ns)) {
      counter.sleeps.push_back(between);
      broken = true;
    } else {
      if (delta_uj < 0 && rules.wrap_range && before <= *rules.wrap_range &&
          delta_uj + *rules.wrap_range + 1 >= 0 && plausible(delta_uj + *rules.wrap_range + 1)) {
        delta_uj += *rules.wrap_range + 1;
        wrapped = true;
      }
      broken = delta_uj < 0 || !plausible(delta_uj);
      if (broken) (delta_uj < 0 ? counter.resets : counter.jumps).push_back(between);
    }
    if (broken) {
      counter.points.push_back({t_ns, total_pj, false, false, before_ns});
      gap = false;
      continue;
    }
    gap = gap || t_ns - before_ns > kGapPeriods * rules.period_ns;
    if (delta_uj == 0) continue;
    if (wrapped) counter.wraps.emplace_back(counter.points.back().t_ns, t_ns);
    total_pj += static_cast<double>(delta_uj) * 1e6;
    counter.points.push_back({t_ns, total_pj, true, gap, before_ns});
    gap = false;
  }
  return counter;
}

// Sets the limits of a window without any break.
void SetSlowLimits(const std::vector<CounterPoint>& points, const Window& window,
                   EnergyPart* part) {
  part->limits = EnergyLimits::kFewUpdates;
  size_t first = points.size();  // first point of the window's segment
  for (size_t i = 0; i < points.size(); ++i) {
    if (!points[i].joined && (first == points.size() || points[i].t_ns <= window.begin_ns)) {
      first = i;
    }
  }
  if (first == points.size()) return;
  double low_pj = points[first].total_pj, lowest_pj = low_pj, step_pj = 0;
  std::optional<double> at_begin_pj, at_end_pj;
  int steps = 0;
  size_t end = first + 1;
  for (; end < points.size() && points[end].joined; ++end) {
    const CounterPoint& point = points[end];
    if (point.t_ns <= window.end_ns) low_pj = point.total_pj;
    if (point.t_ns <= window.begin_ns) lowest_pj = point.total_pj;
    if (!at_begin_pj && point.before_ns >= std::max(window.begin_ns, points[first].t_ns)) {
      at_begin_pj = point.total_pj;
    }
    if (!at_end_pj && point.before_ns >= window.end_ns && points[first].t_ns < window.end_ns) {
      at_end_pj = point.total_pj;
    }
  }
  for (size_t i = 1; i < points.size(); ++i) {
    if (!points[i].joined || points[i].gap) continue;
    step_pj = std::max(step_pj, points[i].total_pj - points[i - 1].total_pj);
    ++steps;
  }
  if (at_begin_pj) part->lo_pj = std::max(0.0, low_pj - *at_begin_pj);
  if (at_end_pj) {
    part->hi_pj = *at_end_pj - lowest_pj;
    part->limits = EnergyLimits::kBounds;
  } else if (end == points.size() && points[first].t_ns < window.end_ns &&
             steps >= power::kFewSteps) {
    part->hi_pj = points.back().total_pj - lowest_pj + step_pj;
    part->limits = EnergyLimits::kInterval;
  }
}

EnergyPart SlowCounter(const EnergyRules& rules, std::vector<TimedValue> readings,
                       const std::vector<Suspension>& suspensions, const Window& window) {
  EnergyPart part;
  std::erase_if(readings, [](const TimedValue& each) { return each.second < 0; });
  const Counter counter = CounterOf(rules, readings, suspensions);
  const auto& points = counter.points;
  for (size_t i = 1; i < points.size(); ++i) {
    const CounterPoint &from = points[i - 1], &to = points[i];
    if (!to.joined) continue;
    const int64_t inside_ns = window.Inside(from.t_ns, to.t_ns);
    if (to.gap && inside_ns != to.t_ns - from.t_ns) continue;
    part.covered_ns += inside_ns;
    part.energy_pj += (to.total_pj - from.total_pj) * static_cast<double>(inside_ns) /
                      static_cast<double>(to.t_ns - from.t_ns);
  }
  const auto count = [&](const std::vector<std::pair<int64_t, int64_t>>& all) {
    return static_cast<uint32_t>(std::count_if(all.begin(), all.end(), [&](const auto& each) {
      return each.first < window.end_ns && each.second > window.begin_ns;
    }));
  };
  part.resets = count(counter.resets);
  part.wraps = count(counter.wraps);
  part.jumps = count(counter.jumps);
  part.suspended = count(counter.sleeps) > 0;
  if (part.resets > 0 || part.jumps > 0 || part.suspended) {
    part.limits = EnergyLimits::kBrokenCounter;
  } else {
    SetSlowLimits(points, window, &part);
  }
  return part;
}

}  // namespace

EnergyPart SlowEnergy(const EnergyRules& rules, const std::vector<TimedValue>& readings,
                      const std::vector<Suspension>& suspensions, int64_t begin_ns,
                      int64_t end_ns) {
  const Window window = {begin_ns, end_ns};
  return rules.counter ? SlowCounter(rules, readings, suspensions, window)
                       : SlowHeld(rules, readings, suspensions, window);
}

}  // namespace xplane_time::testing
