// NestStack: self times of one timeline, online, without tolerance (nest.h).
//
// Events come in nesting order. The stack holds those that may still contain something;
// what is inside an event is known when it leaves. Memory: the depth of the nesting.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "xplane_time/merge.h"

namespace xplane_time {

class NestStack {
 public:
  // Calls covered(tag, children_ps) for every event that contains something and cannot
  // contain this one or any later. Its self time is its length less children_ps.
  template <typename Covered>
  void Add(const Interval& event, uint64_t tag, Covered covered) {
    while (!open_.empty() && open_.back().end_ps < event.end_ps) Pop(covered);
    if (!open_.empty()) {
      Open& parent = open_.back();
      // Children come in order of start: what is covered is known by its end.
      const int64_t from_ps = std::max(event.start_ps, parent.covered_to_ps);
      if (event.end_ps > from_ps) {
        parent.children_ps += event.end_ps - from_ps;
        parent.covered_to_ps = event.end_ps;
      }
    }
    open_.push_back({event.end_ps, event.start_ps, 0, tag});
  }

  template <typename Covered>
  void Finish(Covered covered) {
    while (!open_.empty()) Pop(covered);
  }

 private:
  struct Open {
    int64_t end_ps, covered_to_ps, children_ps;
    uint64_t tag;
  };

  template <typename Covered>
  void Pop(Covered covered) {
    const Open& top = open_.back();
    if (top.children_ps != 0) covered(top.tag, top.children_ps);
    open_.pop_back();
  }

  std::vector<Open> open_;
};

}  // namespace xplane_time
