#include "energy/busy.h"

#include <algorithm>
#include <cstdint>
#include <queue>
#include <utility>

namespace xplane_time::energy {
namespace {

constexpr double kPsPerS = 1e12;

double Seconds(int64_t ps) { return static_cast<double>(ps) / kPsPerS; }

}  // namespace

BusyCurve::BusyCurve(std::vector<Interval> executions)
    : intervals_(MergeIntervals(std::move(executions))) {
  intervals_.shrink_to_fit();
  before_s_.reserve(size());
  double before_s = 0;
  for (size_t i = 0; i < size(); ++i) {
    before_s_.push_back(before_s);
    before_s += LengthS(i);
  }
}

double BusyCurve::LengthS(size_t i) const {
  return Seconds(intervals_[i].end_ps - intervals_[i].start_ps);
}

size_t BusyCurve::FirstEndingAfter(double instant_s, size_t from) const {
  const double instant_ps = instant_s * kPsPerS;
  const auto is_over = [instant_ps](const Interval& each) {
    return static_cast<double>(each.end_ps) <= instant_ps;
  };
  // Doubling steps: near where the last one was in the usual case.
  size_t step = 1, low = from, high = from;
  while (high < size() && is_over(intervals_[high])) {
    low = high + 1;
    high += step;
    step *= 2;
  }
  const auto begin = intervals_.begin();
  return static_cast<size_t>(
      std::partition_point(begin + static_cast<ptrdiff_t>(low),
                           begin + static_cast<ptrdiff_t>(std::min(high, size())), is_over) -
      begin);
}

std::vector<double> BusyCurve::At(std::span<const double> instants_s) const {
  std::vector<double> busy_s;
  busy_s.reserve(instants_s.size());
  size_t at = 0;
  for (const double instant_s : instants_s) {
    at = FirstEndingAfter(instant_s, at);
    busy_s.push_back(
        at == size() ? total_s()
                     : before_s_[at] + std::max(0.0, instant_s - Seconds(intervals_[at].start_ps)));
  }
  return busy_s;
}

BusyCurve UnionOf(std::span<const BusyCurve> kernels) {
  std::vector<Interval> all;
  for (const BusyCurve& kernel : kernels) {
    all.insert(all.end(), kernel.intervals().begin(), kernel.intervals().end());
  }
  return BusyCurve(std::move(all));
}

std::vector<std::vector<double>> IdleShares(std::span<const BusyCurve> kernels, double capture_s,
                                            size_t bins) {
  std::vector<std::vector<double>> shares(kernels.size(), std::vector<double>(bins, 0.0));
  struct Edge {
    int64_t time_ps;
    size_t kernel, interval;
    bool is_end;
    bool operator>(const Edge& other) const { return time_ps > other.time_ps; }
  };
  std::priority_queue<Edge, std::vector<Edge>, std::greater<>> edges;
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (!kernels[k].intervals().empty()) {
      edges.push({kernels[k].intervals()[0].start_ps, k, 0, false});
    }
  }
  const double bin_s = capture_s / static_cast<double>(bins);
  std::vector<size_t> running;
  double now_s = 0;
  while (!edges.empty()) {
    const Edge edge = edges.top();
    edges.pop();
    const double until_s = std::clamp(Seconds(edge.time_ps), 0.0, capture_s);
    while (!running.empty() && now_s < until_s) {
      const size_t bin = std::min(static_cast<size_t>(now_s / bin_s), bins - 1);
      const double bin_end_s = bin + 1 == bins ? capture_s : static_cast<double>(bin + 1) * bin_s;
      const double to_s = bin_end_s > now_s ? std::min(until_s, bin_end_s) : until_s;
      const double part_s = (to_s - now_s) / static_cast<double>(running.size());
      for (const size_t kernel : running) shares[kernel][bin] += part_s;
      now_s = to_s;
    }
    now_s = until_s;
    const std::span<const Interval> intervals = kernels[edge.kernel].intervals();
    if (!edge.is_end) {
      running.push_back(edge.kernel);
      edges.push({intervals[edge.interval].end_ps, edge.kernel, edge.interval, true});
      continue;
    }
    std::erase(running, edge.kernel);
    if (edge.interval + 1 < intervals.size()) {
      edges.push({intervals[edge.interval + 1].start_ps, edge.kernel, edge.interval + 1, false});
    }
  }
  return shares;
}

}  // namespace xplane_time::energy
