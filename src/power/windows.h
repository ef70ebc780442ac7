// WindowEdges: where windows begin and end, in the order of time, for folds that meet every
// edge once; Buckets: what each of several overlapping windows holds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace xplane_time::power {

struct WindowEdge {
  int64_t t_ns = 0;
  uint32_t window = 0;
  bool end = false;
};

// By time; at the same time begins come before ends. A fold keeps the index of its next edge,
// so an edge may be inserted only after every edge that a fold has met.
class WindowEdges {
 public:
  void Insert(const WindowEdge& edge) {
    const auto before = [](const WindowEdge& a, const WindowEdge& b) {
      return a.t_ns != b.t_ns ? a.t_ns < b.t_ns : a.end < b.end;
    };
    auto at = edges_.end();
    while (at != edges_.begin() && before(edge, *(at - 1))) --at;
    edges_.insert(at, edge);
  }
  size_t size() const { return edges_.size(); }
  const WindowEdge& operator[](size_t i) const { return edges_[i]; }

 private:
  std::vector<WindowEdge> edges_;
};

// A time at which the machine slept: somewhere in (from, to].
struct Suspension {
  int64_t from_ns = 0, to_ns = 0, slept_ns = 0;
};

// What each window holds, where windows overlap: one accumulator from every begin of an open
// window to the next begin. What happens goes into one of them; a window is all of them since
// its begin; when it ends, its own goes into the one before.
//
//   windows        a[-----------------]     b[------------------]
//   accumulators  | 0 |       a       |        b                |
//
// So memory is that of the open windows, and something that happens costs the same whatever
// their number; an end costs as many merges as windows began later and are still open.
// `Of` has Merge(const Of& later).
template <typename Of>
class Buckets {
 public:
  Buckets() { buckets_.emplace_back(); }
  void Begin(uint32_t window, int64_t t_ns) { buckets_.push_back({window, t_ns, {}}); }
  Of& Now() { return buckets_.back().of; }
  // The one of all windows that began at `t_ns` or before.
  Of& Since(int64_t t_ns) {
    size_t at = buckets_.size() - 1;
    while (at > 0 && buckets_[at].begin_ns > t_ns) --at;
    return buckets_[at].of;
  }
  // Empty: the window is not open.
  std::optional<Of> End(uint32_t window) {
    size_t at = buckets_.size() - 1;
    while (at > 0 && buckets_[at].window != window) --at;
    if (at == 0) return std::nullopt;
    Of all = buckets_[at].of;
    for (size_t later = at + 1; later < buckets_.size(); ++later) all.Merge(buckets_[later].of);
    buckets_[at - 1].of.Merge(buckets_[at].of);
    buckets_.erase(buckets_.begin() + static_cast<std::ptrdiff_t>(at));
    return all;
  }

 private:
  struct Bucket {
    uint32_t window = 0;
    int64_t begin_ns = 0;
    Of of = {};
  };
  std::vector<Bucket> buckets_;  // the first one is of no window
};

}  // namespace xplane_time::power
