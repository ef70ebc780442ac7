// Running times of kernels: look-ups by instant, sums by bin, and shares of overlapping kernels.
//
// A curve has the merged intervals of a kernel and their cumulative lengths. A look-up finds the
// first interval that ends after an instant; the time before it is known, and a part of it may be
// added. Instants ascend, so the search continues from the previous interval with doubling steps: a
// look-up costs O(log distance).
//
// IdleShares splits the bins among threads. Each thread sweeps over its bins: a heap has the next
// start of each kernel, a list has the running intervals. Between two events, each of the m running
// kernels gets 1/m of the time.
#include "energy/busy.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>

#include "parallel.h"

namespace xplane_time::energy {
namespace {

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
  // Doubling steps, because the next interval is usually close to the previous one.
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
  std::vector<double> busy_s(instants_s.size(), total_s());
  size_t at = 0;
  for (size_t i = 0; i < instants_s.size();) {
    at = FirstEndingAfter(instants_s[i], at);
    if (at == size()) break;
    const double start_s = Seconds(intervals_[at].start_ps);
    const auto end_ps = static_cast<double>(intervals_[at].end_ps);
    // All instants before the end of this interval.
    for (; i < instants_s.size() && instants_s[i] * kPsPerS < end_ps; ++i) {
      busy_s[i] = before_s_[at] + std::max(0.0, instants_s[i] - start_s);
    }
  }
  return busy_s;
}

void BusyCurve::AddTo(double from_s, double step_s, std::span<double> between_s) const {
  const double length_s = step_s * static_cast<double>(between_s.size());
  for (const Interval& each : intervals_) {
    double at_s = std::max(0.0, Seconds(each.start_ps) - from_s);
    const double to_s = std::min(length_s, Seconds(each.end_ps) - from_s);
    if (at_s >= to_s) continue;
    for (auto bin = static_cast<size_t>(at_s / step_s); bin < between_s.size() && at_s < to_s;
         ++bin) {
      const double until_s = std::clamp(step_s * static_cast<double>(bin + 1), at_s, to_s);
      between_s[bin] += until_s - at_s;
      at_s = until_s;
    }
  }
}

BusyCurve UnionOf(std::span<const BusyCurve> kernels) {
  std::vector<Interval> all;
  for (const BusyCurve& kernel : kernels) {
    all.insert(all.end(), kernel.intervals().begin(), kernel.intervals().end());
  }
  return BusyCurve(std::move(all));
}

namespace {

// Computes the shares of bins [first, end) with a sweep over the intervals that overlap them.
class IdleSweep {
 public:
  IdleSweep(std::span<const BusyCurve> kernels, double bin_s,
            std::vector<std::vector<double>>* shares)
      : kernels_(kernels), bin_s_(bin_s), shares_(*shares) {}

  void Sweep(size_t first, size_t end) {
    now_s_ = static_cast<double>(first) * bin_s_;
    bin_ = first;
    for (uint32_t k = 0; k < kernels_.size(); ++k) {
      PushStart(k, static_cast<uint32_t>(kernels_[k].FirstEndingAfter(now_s_, 0)));
    }
    while (bin_ < end && (!starts_.empty() || !running_.empty())) {
      const auto ends = std::ranges::min_element(running_, {}, &Running::end_ps);
      const bool is_end =
          ends != running_.end() && (starts_.empty() || ends->end_ps <= starts_.top().time_ps);
      ShareUntil(Seconds(is_end ? ends->end_ps : starts_.top().time_ps), end);
      if (is_end) {
        running_.erase(ends);
        continue;
      }
      const Start start = starts_.top();
      starts_.pop();
      PushStart(start.kernel, start.interval + 1);
      running_.push_back({kernels_[start.kernel].intervals()[start.interval].end_ps, start.kernel});
    }
  }

 private:
  struct Start {
    int64_t time_ps;
    uint32_t kernel, interval;
    bool operator>(const Start& other) const { return time_ps > other.time_ps; }
  };
  struct Running {
    int64_t end_ps;
    uint32_t kernel;
  };

  void PushStart(uint32_t kernel, uint32_t interval) {
    const std::span<const Interval> of = kernels_[kernel].intervals();
    if (interval < of.size()) starts_.push({of[interval].start_ps, kernel, interval});
  }

  void ShareUntil(double until_s, size_t end) {
    while (bin_ < end && now_s_ < until_s) {
      const double bin_end_s = static_cast<double>(bin_ + 1) * bin_s_;
      const double to_s = std::min(until_s, bin_end_s);
      const double part_s =
          std::max(0.0, to_s - now_s_) / static_cast<double>(std::max<size_t>(1, running_.size()));
      for (const Running& each : running_) shares_[each.kernel][bin_] += part_s;
      now_s_ = to_s;
      if (until_s >= bin_end_s) ++bin_;
    }
  }

  const std::span<const BusyCurve> kernels_;
  const double bin_s_;
  std::vector<std::vector<double>>& shares_;
  double now_s_ = 0;
  size_t bin_ = 0;
  std::priority_queue<Start, std::vector<Start>, std::greater<>> starts_;
  std::vector<Running> running_;
};

}  // namespace

std::vector<std::vector<double>> IdleShares(std::span<const BusyCurve> kernels, double capture_s,
                                            size_t bins, int threads) {
  constexpr size_t kAtOnce = 64;  // bins that one task takes
  std::vector<std::vector<double>> shares(kernels.size(), std::vector<double>(bins, 0.0));
  const double bin_s = capture_s / static_cast<double>(bins);
  ParallelFor((bins + kAtOnce - 1) / kAtOnce, threads, [&](size_t part) {
    IdleSweep(kernels, bin_s, &shares).Sweep(part * kAtOnce, std::min(bins, (part + 1) * kAtOnce));
  });
  return shares;
}

}  // namespace xplane_time::energy
