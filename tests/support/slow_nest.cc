#include "tests/support/slow_nest.h"

#include <algorithm>
#include <limits>

namespace xplane_time {
namespace {

__extension__ typedef __int128 Wide;

Wide Duration(const Interval& interval) { return Wide{interval.end_ps} - interval.start_ps; }

int64_t Narrow(Wide value) {
  return static_cast<int64_t>(std::min<Wide>(value, std::numeric_limits<int64_t>::max()));
}

// Whether `a` comes first: start ascending, duration descending, position ascending. A position of
// -1 represents an event that is not among the others.
bool ComesFirst(const Interval& a, int64_t a_position, const Interval& b, int64_t b_position) {
  if (a.start_ps != b.start_ps) return a.start_ps < b.start_ps;
  if (Duration(a) != Duration(b)) return Duration(a) > Duration(b);
  return a_position < b_position;
}

bool IsInside(const Interval& e, int64_t e_position, const Interval& p, int64_t p_position,
              int64_t tolerance_ps) {
  if (e_position == p_position) return false;
  if (Wide{p.start_ps} - tolerance_ps > e.start_ps) return false;
  if (Wide{p.end_ps} + tolerance_ps < e.end_ps) return false;
  if (Duration(p) != Duration(e)) return Duration(p) > Duration(e);
  return ComesFirst(p, p_position, e, e_position);
}

Interval Clip(const Interval& event, const Interval& parent) {
  const int64_t start_ps = std::clamp(event.start_ps, parent.start_ps, parent.end_ps);
  return {start_ps, std::clamp(event.end_ps, start_ps, parent.end_ps)};
}

// The events in nesting order. The rank of an event is the number of events that come first.
std::vector<uint32_t> Order(std::span<const Interval> events) {
  std::vector<uint32_t> order(events.size());
  for (size_t e = 0; e < events.size(); ++e) {
    size_t rank = 0;
    for (size_t other = 0; other < events.size(); ++other) {
      if (ComesFirst(events[other], static_cast<int64_t>(other), events[e],
                     static_cast<int64_t>(e))) {
        ++rank;
      }
    }
    order[rank] = static_cast<uint32_t>(e);
  }
  return order;
}

uint64_t PartialOverlaps(std::span<const Interval> events, const Nesting& nesting) {
  uint64_t overlaps = 0;
  for (size_t rank = 0; rank < events.size(); ++rank) {
    const uint32_t e = nesting.order[rank];
    bool starts_inside = false, ends_past_all = true;
    for (size_t earlier = 0; earlier < rank; ++earlier) {
      const uint32_t sibling = nesting.order[earlier];
      if (nesting.parent[sibling] != nesting.parent[e]) continue;
      if (events[e].start_ps < events[sibling].end_ps) starts_inside = true;
      if (events[e].end_ps <= events[sibling].end_ps) ends_past_all = false;
    }
    if (starts_inside && ends_past_all) ++overlaps;
  }
  return overlaps;
}

}  // namespace

// Between two adjacent bounds, either every point is covered or no point is.
std::vector<Interval> SlowMerge(std::span<const Interval> intervals) {
  std::vector<int64_t> bounds;
  for (const Interval& interval : intervals) {
    bounds.push_back(interval.start_ps);
    bounds.push_back(interval.end_ps);
  }
  std::sort(bounds.begin(), bounds.end());

  std::vector<Interval> merged;
  for (size_t i = 1; i < bounds.size(); ++i) {
    const Interval piece = {bounds[i - 1], bounds[i]};
    if (piece.start_ps == piece.end_ps) continue;
    const bool covered =
        std::any_of(intervals.begin(), intervals.end(), [&](const Interval& interval) {
          return interval.start_ps <= piece.start_ps && piece.end_ps <= interval.end_ps;
        });
    if (!covered) continue;
    if (!merged.empty() && merged.back().end_ps == piece.start_ps) {
      merged.back().end_ps = piece.end_ps;
    } else {
      merged.push_back(piece);
    }
  }
  return merged;
}

int64_t SlowUnionLength(std::span<const Interval> intervals) {
  Wide length = 0;
  for (const Interval& interval : SlowMerge(intervals)) length += Duration(interval);
  return Narrow(length);
}

Nesting SlowNest(std::span<const Interval> events, int64_t tolerance_ps) {
  Nesting nesting;
  nesting.order = Order(events);
  nesting.parent.assign(events.size(), kNoParent);
  for (size_t e = 0; e < events.size(); ++e) {
    for (const uint32_t p : nesting.order) {
      if (IsInside(events[e], static_cast<int64_t>(e), events[p], p, tolerance_ps)) {
        nesting.parent[e] = p;
      }
    }
  }
  for (size_t p = 0; p < events.size(); ++p) {
    std::vector<Interval> children;
    for (size_t e = 0; e < events.size(); ++e) {
      if (nesting.parent[e] == p) children.push_back(Clip(events[e], events[p]));
    }
    nesting.child_ps.push_back(SlowUnionLength(children));
    nesting.self_ps.push_back(Narrow(Duration(events[p])) - nesting.child_ps[p]);
  }
  nesting.partial_overlaps = PartialOverlaps(events, nesting);
  return nesting;
}

int64_t SlowChildTime(const Interval& parent, uint32_t self, std::span<const Interval> events,
                      int64_t tolerance_ps) {
  const int64_t position = self == kNoParent ? -1 : int64_t{self};
  std::vector<Interval> children;
  for (size_t e = 0; e < events.size(); ++e) {
    if (IsInside(events[e], static_cast<int64_t>(e), parent, position, tolerance_ps)) {
      children.push_back(Clip(events[e], parent));
    }
  }
  return SlowUnionLength(children);
}

void ForEachTinyTrace(size_t max_events, int64_t max_value,
                      const std::function<void(std::span<const Interval>)>& check) {
  const size_t values = static_cast<size_t>(max_value) + 1;
  size_t traces = 1;
  for (size_t count = 0; count <= max_events; ++count, traces *= values * values) {
    std::vector<Interval> events(count);
    for (size_t trace = 0; trace < traces; ++trace) {
      size_t digits = trace;
      for (Interval& event : events) {
        event.start_ps = static_cast<int64_t>(digits % values);
        digits /= values;
        event.end_ps = event.start_ps + static_cast<int64_t>(digits % values);
        digits /= values;
      }
      check(events);
    }
  }
}

std::vector<Interval> RandomIntervals(size_t count, int64_t first, uint64_t range,
                                      uint64_t max_length, std::mt19937_64& random) {
  std::vector<Interval> intervals(count);
  for (Interval& interval : intervals) {
    interval.start_ps = first + static_cast<int64_t>(random() % range);
    interval.end_ps = interval.start_ps + static_cast<int64_t>(random() % (max_length + 1));
  }
  return intervals;
}

std::ostream& operator<<(std::ostream& out, const Shown& shown) {
  for (const Interval& interval : shown.intervals) {
    out << "[" << interval.start_ps << ", " << interval.end_ps << ") ";
  }
  return out;
}

}  // namespace xplane_time
