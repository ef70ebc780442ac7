// Intervals of one timeline: their union, and which is inside which.
#include "xplane_time/intervals.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>
#include <numeric>
#include <utility>

#include "saturate.h"

namespace xplane_time {
namespace {

constexpr int64_t kBeforeAll = std::numeric_limits<int64_t>::min();

// Exact for every interval, those longer than an int64 included.
uint64_t ComputeWideLengthPs(const Interval& interval) {
  return static_cast<uint64_t>(interval.end_ps) - static_cast<uint64_t>(interval.start_ps);
}

// The nesting order. At equal start, the later end is the longer duration.
std::vector<uint32_t> NestingOrder(std::span<const Interval> events) {
  std::vector<uint32_t> order(events.size());
  std::iota(order.begin(), order.end(), uint32_t{0});
  const auto before = [events](uint32_t a, uint32_t b) {
    if (events[a].start_ps != events[b].start_ps) return events[a].start_ps < events[b].start_ps;
    if (events[a].end_ps != events[b].end_ps) return events[a].end_ps > events[b].end_ps;
    return a < b;
  };
  if (!std::is_sorted(order.begin(), order.end(), before)) {
    std::sort(order.begin(), order.end(), before);
  }
  return order;
}

// The stack holds what may still contain something; its ends never increase upwards.
// An entry that ends before `event` does is dropped for good: whatever it could contain
// from here on, `event` contains too, and `event` is later in the order.
std::vector<uint32_t> ExactParents(std::span<const Interval> events,
                                   std::span<const uint32_t> order) {
  std::vector<uint32_t> parent(events.size(), kNoParent);
  std::vector<uint32_t> stack;
  for (const uint32_t index : order) {
    while (!stack.empty() && events[stack.back()].end_ps < events[index].end_ps) stack.pop_back();
    if (!stack.empty()) parent[index] = stack.back();
    stack.push_back(index);
  }
  return parent;
}

// A maximum tree over the nesting order. Every event is absent until it is inserted.
// Nodes hold indices of events, not ends: no end has to be set aside for "absent".
class EndTree {
 public:
  EndTree(std::span<const Interval> events, std::span<const uint32_t> order)
      : events_(events),
        order_(order),
        leaves_(std::bit_ceil(order.size() + 1)),
        latest_(2 * leaves_, kNoParent) {}

  void Insert(size_t rank) {
    const uint32_t index = order_[rank];
    for (size_t node = leaves_ + rank; node > 0; node /= 2) {
      if (EndsAtOrAfter(node, events_[index].end_ps)) break;
      latest_[node] = index;
    }
  }

  // The last inserted event, in the order, with a rank below `limit` that ends at or after
  // `end_ps`; kNoParent if there is no such event.
  uint32_t FindLast(size_t limit, int64_t end_ps) const {
    for (size_t node = leaves_ + limit; node > 1; node /= 2) {
      // A right child: the node before it covers the ranks just below.
      if (node % 2 == 1 && EndsAtOrAfter(node - 1, end_ps)) return Descend(node - 1, end_ps);
    }
    return kNoParent;
  }

 private:
  bool EndsAtOrAfter(size_t node, int64_t end_ps) const {
    return latest_[node] != kNoParent && events_[latest_[node]].end_ps >= end_ps;
  }

  uint32_t Descend(size_t node, int64_t end_ps) const {
    while (node < leaves_) node = 2 * node + (EndsAtOrAfter(2 * node + 1, end_ps) ? 1 : 0);
    return latest_[node];
  }

  std::span<const Interval> events_;
  std::span<const uint32_t> order_;
  size_t leaves_;                 // more than there are ranks: every limit is a leaf
  std::vector<uint32_t> latest_;  // a node's event with the latest end
};

// With a tolerance a parent may start after its child, and no stack can see it. Instead
// the events enter a tree from the longest to the shortest (at equal length in nesting
// order). Then exactly those that may be the parent of an event by their length are in
// the tree when it is looked for, however many short ones crowd within the tolerance.
std::vector<uint32_t> TolerantParents(std::span<const Interval> events,
                                      std::span<const uint32_t> order, int64_t tolerance_ps) {
  std::vector<uint32_t> ranks(events.size());
  std::iota(ranks.begin(), ranks.end(), uint32_t{0});
  std::stable_sort(ranks.begin(), ranks.end(), [&](uint32_t a, uint32_t b) {
    return ComputeWideLengthPs(events[order[a]]) > ComputeWideLengthPs(events[order[b]]);
  });

  std::vector<uint32_t> parent(events.size(), kNoParent);
  EndTree tree(events, order);
  for (const uint32_t rank : ranks) {
    const Interval& event = events[order[rank]];
    const auto limit = std::upper_bound(
        order.begin(), order.end(), SaturatingAdd(event.start_ps, tolerance_ps),
        [events](int64_t start_ps, uint32_t index) { return start_ps < events[index].start_ps; });
    parent[order[rank]] = tree.FindLast(static_cast<size_t>(limit - order.begin()),
                                        SaturatingSub(event.end_ps, tolerance_ps));
    tree.Insert(rank);
  }
  return parent;
}

// Fills the times and the overlaps. The order is by start, so that the children of any
// one parent arrive by start and the furthest end so far is all there is to remember.
void MeasureChildren(std::span<const Interval> events, Nesting& nesting) {
  nesting.child_ps.assign(events.size(), 0);
  std::vector<int64_t> furthest_end_ps(events.size(), kBeforeAll);
  int64_t furthest_root_end_ps = kBeforeAll;
  for (const uint32_t index : nesting.order) {
    const Interval& event = events[index];
    const uint32_t parent = nesting.parent[index];
    int64_t& furthest_ps = parent == kNoParent ? furthest_root_end_ps : furthest_end_ps[parent];
    if (event.start_ps < furthest_ps && event.end_ps > furthest_ps) ++nesting.partial_overlaps;
    if (parent != kNoParent) {
      const int64_t start_ps = std::max({event.start_ps, furthest_ps, events[parent].start_ps});
      const int64_t end_ps = std::min(event.end_ps, events[parent].end_ps);
      int64_t& child_ps = nesting.child_ps[parent];
      if (start_ps < end_ps) child_ps = SaturatingAdd(child_ps, SaturatingSub(end_ps, start_ps));
    }
    furthest_ps = std::max(furthest_ps, event.end_ps);
  }

  nesting.self_ps.resize(events.size());
  for (size_t i = 0; i < events.size(); ++i) {
    nesting.self_ps[i] = SaturatingSub(events[i].end_ps, events[i].start_ps) - nesting.child_ps[i];
  }
}

// At equal length: whether the parent comes first in the nesting order. One that is not
// among the events comes before its equals.
bool ParentComesFirst(const Interval& parent, uint32_t self, const Interval& event, size_t index) {
  if (parent.start_ps != event.start_ps) return parent.start_ps < event.start_ps;
  return self == kNoParent || self < index;
}

bool StartsBefore(const Interval& a, const Interval& b) { return a.start_ps < b.start_ps; }

// Traces are sorted nearly always; looking first makes that case linear.
void SortByStart(std::vector<Interval>& intervals) {
  if (std::is_sorted(intervals.begin(), intervals.end(), StartsBefore)) return;
  std::sort(intervals.begin(), intervals.end(), StartsBefore);
}

}  // namespace

int64_t UnionLengthPs(std::vector<Interval> intervals) {
  SortByStart(intervals);
  UnionLength length;
  for (const Interval& interval : intervals) length.Add(interval.start_ps, interval.end_ps);
  return length.length_ps();
}

std::vector<Interval> MergeIntervals(std::vector<Interval> intervals) {
  SortByStart(intervals);
  size_t merged = 0;  // so many, in the same memory
  for (const Interval interval : intervals) {
    if (interval.start_ps == interval.end_ps) continue;
    if (merged == 0 || intervals[merged - 1].end_ps < interval.start_ps) {
      intervals[merged++] = interval;
    } else {
      intervals[merged - 1].end_ps = std::max(intervals[merged - 1].end_ps, interval.end_ps);
    }
  }
  intervals.resize(merged);
  return intervals;
}

Nesting Nest(std::span<const Interval> events, int64_t tolerance_ps) {
  assert(tolerance_ps >= 0);
  assert(events.size() < kNoParent);
  Nesting nesting;
  nesting.order = NestingOrder(events);
  nesting.parent = tolerance_ps == 0 ? ExactParents(events, nesting.order)
                                     : TolerantParents(events, nesting.order, tolerance_ps);
  MeasureChildren(events, nesting);
  return nesting;
}

int64_t ChildTimePs(const Interval& parent, uint32_t self, std::span<const Interval> events,
                    int64_t tolerance_ps) {
  assert(tolerance_ps >= 0);
  const int64_t earliest_ps = SaturatingSub(parent.start_ps, tolerance_ps);
  const int64_t latest_ps = SaturatingAdd(parent.end_ps, tolerance_ps);
  std::vector<Interval> children;
  for (size_t i = 0; i < events.size(); ++i) {
    const Interval& event = events[i];
    if (i == self || event.start_ps < earliest_ps || event.end_ps > latest_ps) continue;
    if (ComputeWideLengthPs(event) > ComputeWideLengthPs(parent)) continue;
    if (ComputeWideLengthPs(event) == ComputeWideLengthPs(parent) &&
        !ParentComesFirst(parent, self, event, i))
      continue;
    const Interval clipped = {std::max(event.start_ps, parent.start_ps),
                              std::min(event.end_ps, parent.end_ps)};
    // Within the tolerance an event may lie wholly outside.
    if (clipped.start_ps < clipped.end_ps) children.push_back(clipped);
  }
  return UnionLengthPs(std::move(children));
}

}  // namespace xplane_time
