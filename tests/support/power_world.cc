#include "tests/support/power_world.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <utility>

#include "energy/busy.h"
#include "stats/random.h"

namespace xplane_time::test {
namespace {

using energy::BusyCurve;
using stats::Random;

constexpr double kPsPerS = 1e12;

double Exponential(Random* random) { return -std::log(random->Uniform()); }
double Between(double low, double high, Random* random) {
  return low + (high - low) * random->Uniform();
}

Interval IntervalOf(double from_s, double length_s) {
  const auto start_ps = static_cast<int64_t>(from_s * kPsPerS);
  return {start_ps, start_ps + std::max<int64_t>(1, static_cast<int64_t>(length_s * kPsPerS))};
}

double EndS(const std::vector<std::vector<Interval>>& executions) {
  int64_t end_ps = 0;
  for (const std::vector<Interval>& each : executions) {
    for (const Interval& interval : each) end_ps = std::max(end_ps, interval.end_ps);
  }
  return static_cast<double>(end_ps) / kPsPerS;
}

// Makes the executions of a schedule.
class Scheduler {
 public:
  Scheduler(const WorldOptions& options, double capture_s, Random* random)
      : options_(options), random_(random), executions_(options.kernels) {
    for (size_t k = 0; k < options.kernels; ++k) {
      length_s_.push_back(std::exp(Between(std::log(30e-6), std::log(4e-3), random)));
    }
    // A pair that is often cut by the edge of a window would not be a pair for the sensor.
    if (options.schedule == PowerSchedule::kPairs) {
      for (size_t k = 0; k < 2; ++k) length_s_[k] = std::min(length_s_[k], 2e-4);
    }
    const bool idles = options.schedule != PowerSchedule::kNeverIdle;
    const double begin_s = idles ? 1.2 : 0.0, end_s = capture_s - (idles ? 1.0 : 0.0);
    if (options.schedule == PowerSchedule::kPeriodic) {
      Loop(begin_s, end_s);
    } else if (options.schedule == PowerSchedule::kBlocks) {
      Blocks(begin_s, end_s);
    } else {
      for (size_t stream = 0; stream < options.streams; ++stream) Sections(begin_s, end_s);
    }
  }

  std::vector<std::vector<Interval>> Take() { return std::move(executions_); }

 private:
  double Run(size_t kernel, double at_s) {
    const double length_s = length_s_[kernel] * (1 + 0.02 * random_->Normal());
    executions_[kernel].push_back(IntervalOf(at_s, length_s));
    return at_s + length_s + 0.6e-6 + 3e-6 * Exponential(random_);
  }

  // Shares of time, similar to a Dirichlet distribution: a few kernels take most of a section.
  std::vector<double> Shares() {
    std::vector<double> share;
    for (size_t k = 0; k < options_.kernels; ++k) {
      share.push_back(std::pow(random_->Uniform(), 3) * Exponential(random_) / length_s_[k]);
    }
    return share;
  }

  size_t Draw(const std::vector<double>& share) {
    double sum = 0;
    for (const double each : share) sum += each;
    double at = sum * random_->Uniform();
    for (size_t k = 0; k + 1 < share.size(); ++k) {
      if ((at -= share[k]) < 0) return k;
    }
    return share.size() - 1;
  }

  void Sections(double at_s, double end_s) {
    const bool pairs = options_.schedule == PowerSchedule::kPairs;
    std::vector<double> share = Shares();
    while (at_s < end_s) {
      const double until_s = std::min(end_s, at_s + Between(0.1, 0.9, random_));
      while (at_s < until_s) {
        size_t kernel = Draw(share);
        if (pairs && kernel == 1) kernel = 0;
        at_s = Run(kernel, at_s);
        if (pairs && kernel == 0) at_s = Run(1, at_s);
      }
      if (options_.schedule == PowerSchedule::kOneMixture) continue;
      share = Shares();
      if (options_.schedule != PowerSchedule::kNeverIdle) {
        at_s += Between(0, options_.pause_s, random_);
      }
    }
  }

  void Loop(double begin_s, double end_s) {
    double sum_s = 0;
    for (const double each_s : length_s_) sum_s += each_s;
    for (double& each_s : length_s_) each_s *= 0.65e-3 / sum_s;
    for (double at_s = begin_s; at_s < end_s; at_s += 0.7e-3) {
      double offset_s = 0;
      for (size_t k = 0; k < options_.kernels; ++k) {
        executions_[k].push_back(IntervalOf(at_s + offset_s, length_s_[k]));
        offset_s += length_s_[k] + 1e-6;
      }
    }
  }

  void Blocks(double begin_s, double end_s) {
    const size_t blocks = 2 * options_.kernels;
    const double block_s = (end_s - begin_s) / static_cast<double>(blocks);
    for (size_t block = 0; block < blocks; ++block) {
      double at_s = begin_s + static_cast<double>(block) * block_s;
      const double until_s = at_s + block_s - 0.3;
      while (at_s < until_s) at_s = Run(block % options_.kernels, at_s);
    }
  }

  const WorldOptions& options_;
  Random* const random_;
  std::vector<double> length_s_;
  std::vector<std::vector<Interval>> executions_;
};

// The energy that the device has used since time 0, at ascending instants. Before 0 and after the
// capture the device is idle.
class Consumption {
 public:
  Consumption(const WorldOptions& options, double capture_s, std::vector<double> power_w,
              std::vector<BusyCurve> kernels, double idle_w, Random* random)
      : power_w_(std::move(power_w)),
        kernels_(std::move(kernels)),
        idle_w_(idle_w),
        drift_w_(options.drift_w),
        turns_per_s_(Between(0.5, 1.4, random) / capture_s),
        other_w_(options.other_load_w),
        draws_(!options.draws_nothing),
        other_({}) {
    std::vector<Interval> other;
    for (double at_s = Exponential(random); at_s < capture_s; at_s += 1.5 * Exponential(random)) {
      const double length_s = 0.6 * Exponential(random);
      other.push_back(IntervalOf(at_s, length_s));
      at_s += length_s;
    }
    other_ = BusyCurve(std::move(other));
  }

  std::vector<double> AtJ(const std::vector<double>& instants_s) const {
    std::vector<double> energy_j;
    for (const double at_s : instants_s) energy_j.push_back(IdleJ(at_s));
    const auto add = [&](const BusyCurve& curve, double power_w) {
      const std::vector<double> busy_s = curve.At(instants_s);
      for (size_t i = 0; i < busy_s.size(); ++i) energy_j[i] += power_w * busy_s[i];
    };
    for (size_t k = 0; draws_ && k < kernels_.size(); ++k) add(kernels_[k], power_w_[k]);
    if (other_w_ > 0) add(other_, other_w_);
    return energy_j;
  }

  double IdleW(double at_s) const {
    return idle_w_ + drift_w_ * std::sin(2 * std::numbers::pi * turns_per_s_ * at_s);
  }
  const std::vector<BusyCurve>& kernels() const { return kernels_; }

 private:
  double IdleJ(double at_s) const {
    const double turn = 2 * std::numbers::pi * turns_per_s_;
    return idle_w_ * at_s + drift_w_ * (1 - std::cos(turn * at_s)) / turn;
  }

  std::vector<double> power_w_;
  std::vector<BusyCurve> kernels_;
  double idle_w_, drift_w_, turns_per_s_, other_w_;
  bool draws_;
  BusyCurve other_;
};

// The value of each publication.
std::vector<int64_t> Publish(const WorldOptions& options, const World& world,
                             const Consumption& consumption, const std::vector<double>& at_s,
                             Random* random) {
  const auto earlier = [&](double by_s) {
    std::vector<double> instants_s = at_s;
    for (double& each_s : instants_s) each_s -= by_s;
    return consumption.AtJ(instants_s);
  };
  const auto noisy = [&](double value) { return value * (1 + options.noise * random->Normal()); };
  std::vector<int64_t> values;
  const std::vector<double> now_j = earlier(world.lag_s);
  if (options.sensor == PowerSensor::kCounter) {
    double sum_j = 1000;
    for (size_t i = 0; i < now_j.size(); ++i) {
      if (i > 0) sum_j += noisy(now_j[i] - now_j[i - 1]);
      values.push_back(std::llround(sum_j * 1e3) * 1000);
    }
  } else if (options.sensor != PowerSensor::kSecond) {
    const std::vector<double> before_j = earlier(world.lag_s + world.window_s);
    for (size_t i = 0; i < now_j.size(); ++i) {
      values.push_back(std::llround(noisy((now_j[i] - before_j[i]) / world.window_s) * 1e3));
    }
  } else {  // ten parts of a tenth of the window, which share their noise
    const std::vector<double> before_j = earlier(world.lag_s + world.period_s);
    std::vector<double> part_w;
    for (size_t i = 0; i < now_j.size(); ++i) {
      part_w.push_back(noisy((now_j[i] - before_j[i]) / world.period_s));
      double sum_w = 0;
      const size_t first = i >= 9 ? i - 9 : 0;
      for (size_t j = first; j <= i; ++j) sum_w += part_w[j];
      values.push_back(std::llround(sum_w / static_cast<double>(i - first + 1) * 1e3));
    }
  }
  return values;
}

void Poll(const WorldOptions& options, const std::vector<double>& published_s,
          const std::vector<int64_t>& values, Random* random, World* world) {
  std::vector<std::pair<double, double>> gaps;
  for (size_t i = 0; i < options.gaps; ++i) {
    const double from_s = Between(5, world->capture_s - 10, random);
    gaps.emplace_back(from_s, from_s + Between(0.4, 3, random));
  }
  size_t last = 0;
  for (double at_s = published_s[3]; at_s < published_s.back(); at_s += options.poll_s) {
    double before_s = at_s + 4e-4 * random->Uniform();
    if (options.poll_jitter_s > 0) before_s += options.poll_jitter_s * random->Uniform();
    const double after_s = before_s + 6e-4 + 1e-4 * random->Uniform();
    if (std::any_of(gaps.begin(), gaps.end(), [&](const auto& gap) {
          return gap.first < before_s && before_s < gap.second;
        })) {
      continue;
    }
    while (last + 1 < published_s.size() && published_s[last + 1] <= (before_s + after_s) / 2) {
      ++last;
    }
    energy::Poll& poll = world->polls.emplace_back();
    poll.before_s = before_s + options.clock_off_s;
    poll.after_s = after_s + options.clock_off_s;
    poll.value = values[last];
    if (options.dated) poll.sampled_s = published_s[last] + options.clock_off_s;
  }
}

// The true energy of each kernel: its own energy, and the idle power for its share of the time.
void SetEnergies(const WorldOptions& options, const Consumption& consumption, World* world) {
  constexpr size_t kBins = 4096;
  const std::vector<std::vector<double>> shares =
      energy::IdleShares(consumption.kernels(), world->capture_s, kBins);
  for (size_t k = 0; k < shares.size(); ++k) {
    double energy_j =
        options.draws_nothing ? 0 : world->power_w[k] * consumption.kernels()[k].total_s();
    for (size_t bin = 0; bin < kBins; ++bin) {
      const double at_s = (static_cast<double>(bin) + 0.5) * world->capture_s / kBins;
      energy_j += shares[k][bin] * consumption.IdleW(at_s);
    }
    world->energy_j.push_back(energy_j);
  }
}

}  // namespace

World MakeWorld(const WorldOptions& options, uint64_t seed) {
  Random random =
      stats::RandomFor(seed, /*what=*/0x776f726c, static_cast<uint64_t>(options.sensor));
  World world;
  const double usual_s = options.sensor == PowerSensor::kInstant ? 0.02 : 0.1;
  world.period_s = usual_s * (1 + Between(-0.004, 0.004, &random));
  if (options.period_s.has_value()) world.period_s = *options.period_s;
  world.capture_s = static_cast<double>(options.windows) * world.period_s + 2;
  if (!options.given.empty()) world.capture_s = EndS(options.given) + 1;
  world.lag_s = Between(0.001, 0.045, &random);
  if (options.lag_s.has_value()) world.lag_s = *options.lag_s;
  world.idle_w = Between(60, 120, &random);
  world.kind = ReadingKind::kAverage;
  if (options.sensor == PowerSensor::kInstant)
    world.kind = ReadingKind::kInstant, world.window_s = 0.02;
  if (options.sensor == PowerSensor::kCounter) world.kind = ReadingKind::kCumulative;
  if (options.sensor == PowerSensor::kQuarter) world.window_s = 0.025, world.prior_window_s = 0.025;
  if (options.sensor == PowerSensor::kSecond) {
    world.window_s = 10 * world.period_s;
    world.prior_window_s = 1;
  }
  if (options.window_s.has_value()) world.window_s = *options.window_s;
  const size_t count = options.given.empty() ? options.kernels : options.given.size();
  for (size_t k = 0; k < count; ++k) {
    world.power_w.push_back(Between(120, 400, &random));
  }
  world.executions = options.given;
  if (options.given.empty()) {
    world.executions = Scheduler(options, world.capture_s, &random).Take();
  }
  std::vector<BusyCurve> kernels;
  for (const std::vector<Interval>& each : world.executions) kernels.emplace_back(each);
  const Consumption consumption(options, world.capture_s, world.power_w, std::move(kernels),
                                world.idle_w, &random);
  std::vector<double> published_s;
  for (double at_s = -3.5 + world.period_s * random.Uniform(); at_s < world.capture_s + 2.5;
       at_s += world.period_s) {
    published_s.push_back(at_s);
    if (options.sensor == PowerSensor::kInstant)
      published_s.back() += Between(-3e-4, 3e-4, &random);
  }
  const std::vector<int64_t> values = Publish(options, world, consumption, published_s, &random);
  Poll(options, published_s, values, &random, &world);
  SetEnergies(options, consumption, &world);
  return world;
}

std::vector<std::vector<Interval>> Loop(size_t kernels, double loop_s, double capture_s,
                                        uint64_t seed) {
  stats::Random random = stats::RandomFor(seed, 11, 0);
  std::vector<double> part_s(kernels);
  for (double& part : part_s) part = 0.2 + random.Uniform();
  const double all = std::accumulate(part_s.begin(), part_s.end(), 0.0) / (0.93 * loop_s);
  std::vector<std::vector<Interval>> executions(kernels);
  for (double from_s = 1.2; from_s + loop_s < capture_s - 1; from_s += loop_s) {
    double at_s = from_s;
    for (size_t k = 0; k < kernels; ++k) {
      const double to_s = at_s + part_s[k] / all;
      executions[k].push_back({std::llround(at_s * 1e12), std::llround(to_s * 1e12)});
      at_s = to_s;
    }
  }
  return executions;
}

}  // namespace xplane_time::test
