// Plans an experiment by trial: simulates its analysis and adjusts the running times.
//
// PlanExperiment tries group lengths of 1.5, 3 and 6 times the sensor's resolution (period +
// window), and blocks of over 1 s, and takes the shortest sufficient plan. For one length,
// PlanOfGroups repeats:
// 1. Arrange makes the steps from the running time of each kernel.
// 2. SpreadsOf computes, for each kernel and each assumed case of powers, the standard deviation
//    that the estimator would state (ExpectFit): the covariance only depends on the plan and the
//    noise.
// 3. A variance falls with the running time, so the time of a kernel grows by the square of the
//    ratio of its precision to the wanted one. In the first rounds it may also shrink.
//
// Each round costs a fit for each case: O(windows x kernels^2).
#include "energy/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "energy/energies.h"
#include "energy/regression.h"
#include "parallel.h"
#include "stats/distributions.h"
#include "stats/random.h"

namespace xplane_time::energy {
namespace {

using Eigen::Index;
using stats::Random;

constexpr double kTail = 0.025;  // probability outside of a 95 % interval, on each side
// The plan promises its precision for 95 of 100 experiments. It is computed for 98, because reality
// deviates from the model.
constexpr double kSafeTail = 0.01, kSafeNormal = 2.05;
constexpr double kIdleS = 1;  // minimum idle time before the first step and after the last
// The edges of groups determine the sensor's lag. Several groups of a kernel show whether its power
// is constant.
constexpr size_t kLeastGroups = 3;
constexpr double kMinExperimentWindows = 60;  // of an experiment; fewer windows do not determine
                                              // the sensor's timing
constexpr size_t kIdleTerms = 2;              // the idle power may drift
constexpr double kPlannedBlockS =
    1.2;  // a kernel that runs alone for 1 s or more is measured directly
constexpr double kPollShare = 0.23, kLeastPollS = 1e-3;
constexpr size_t kMostSteps = 20'000;
constexpr size_t kMostAlone = 32, kSteps = 16;
constexpr int kPlanRounds = 12, kShrinkingRounds = 4;  // all rounds of a plan, and the first ones,
                                                       // in which it may shrink

double Between(double low, double high, Random* random) {
  return low + (high - low) * random->Uniform();
}

double EdgeS(const PlanSensor& sensor) {
  return kIdleS + sensor.period_s + sensor.window_s + sensor.lag_s;
}

// Arranges groups of about `group_s`. Each round has the kernels in random order. The rounds end
// when each kernel has run for its busy_s.
Plan Arrange(std::span<const PlanKernel> kernels, const PlanSensor& sensor,
             std::span<const double> busy_s, double group_s, uint64_t seed) {
  Random random = stats::RandomFor(seed, /*what=*/0x706c616e, kernels.size());
  std::vector<size_t> groups;
  size_t rounds = 0;
  for (const double each_s : busy_s) {
    groups.push_back(
        std::max<size_t>(kLeastGroups, static_cast<size_t>(std::llround(each_s / group_s))));
    rounds = std::max(rounds, groups.back());
  }
  Plan plan = {.kernels = std::vector<PlannedKernel>(kernels.size()), .group_s = group_s};
  plan.poll_s = std::max(kLeastPollS, kPollShare * sensor.period_s);
  double at_s = EdgeS(sensor);
  for (size_t round = 0; round < rounds; ++round) {
    std::vector<size_t> order;
    for (size_t k = 0; k < kernels.size(); ++k) {
      // A kernel with fewer groups than rounds is spread over the rounds.
      if ((round + 1) * groups[k] / rounds > round * groups[k] / rounds) order.push_back(k);
    }
    random.Shuffle(order);
    for (const size_t k : order) {
      const double length_s =
          busy_s[k] / static_cast<double>(groups[k]) * Between(0.8, 1.2, &random);
      PlanStep step = {.start_s = at_s, .kernel = k};
      step.repetitions = static_cast<uint64_t>(std::ceil(length_s / kernels[k].duration_s));
      step.duration_s = static_cast<double>(step.repetitions) * kernels[k].duration_s;
      step.pause_s = sensor.period_s * random.Uniform();
      at_s += step.duration_s + step.pause_s;
      plan.kernels[k].repetitions += step.repetitions;
      plan.kernels[k].busy_s += step.duration_s;
      plan.steps.push_back(step);
    }
  }
  plan.total_s = at_s + EdgeS(sensor);
  return plan;
}

std::vector<BusyCurve> CurvesOf(const Plan& plan) {
  std::vector<std::vector<Interval>> executions(plan.kernels.size());
  for (const PlanStep& step : plan.steps) {
    executions[step.kernel].push_back(
        {static_cast<int64_t>(step.start_s * kPsPerS),
         static_cast<int64_t>((step.start_s + step.duration_s) * kPsPerS)});
  }
  std::vector<BusyCurve> curves;
  for (std::vector<Interval>& each : executions) curves.emplace_back(std::move(each));
  return curves;
}

// The expected readings of a plan if kernel `first`, and each `step`-th kernel after it, draws next
// to nothing above idle and the others draw the maximum; or the reverse (not `is_low`).
Expectation Expected(const PlanSensor& sensor, size_t kernels, size_t first, size_t step,
                     bool is_low, bool is_shared, double phase_s) {
  const double most_w = sensor.most_w - sensor.idle_w, least_w = most_w / 100;
  Expectation expected = {.kind = sensor.kind,
                          .phase_s = phase_s,
                          .period_s = sensor.period_s,
                          .lag_s = sensor.lag_s,
                          .window_s = sensor.window_s,
                          .noise = sensor.noise,
                          .shared = is_shared ? 0.99 : 0,
                          .idle_terms = kIdleTerms,
                          .idle_w = sensor.idle_w};
  expected.power_w =
      Eigen::VectorXd::Constant(static_cast<Index>(kernels), is_low ? most_w : least_w);
  for (size_t k = first; k < kernels; k += step) {
    expected.power_w[static_cast<Index>(k)] = is_low ? least_w : most_w;
  }
  return expected;
}

// A kernel's standard deviation as a share of its energy, and the degrees of freedom.
struct Spread {
  double share = std::numeric_limits<double>::infinity(), degrees = 1;

  // Half of the 95 % interval.
  double HalfWidth() const { return share * stats::StudentQuantile(kTail, degrees); }
  // The share that must not exceed the precision. Then all of `kernels` are within the precision of
  // the truth, and so are their intervals, whose widths are based on an estimated noise.
  double Needed(size_t kernels) const {
    const double all = stats::StudentQuantile(kSafeTail / static_cast<double>(kernels), degrees);
    const double noise = 1 + kSafeNormal / std::sqrt(2 * degrees);
    const double correlation = 1 + kSafeNormal / std::sqrt(degrees);
    return share * std::max(all, stats::StudentQuantile(kTail, degrees) * noise * correlation);
  }
};

// The worst spread of all cases. If there are many kernels, each fit assumes low (or high) power
// for every kSteps-th kernel at once: kernels that run at other times hardly influence each other.
std::vector<Spread> SpreadsOf(const Plan& plan, const PlanSensor& sensor,
                              const PlanOptions& options) {
  const std::vector<BusyCurve> curves = CurvesOf(plan);
  const double phase_s =
      sensor.period_s * stats::RandomFor(options.seed, /*what=*/0x70686173, 0).Uniform();
  const bool overlaps = sensor.window_s > 1.5 * sensor.period_s;
  const OwnEnergies energies(curves, plan.total_s, kIdleTerms, options.threads);
  std::vector<Spread> spreads(curves.size(), Spread{0, 1});
  const size_t step = curves.size() > kMostAlone ? kSteps : curves.size();
  ParallelFor(step, options.threads, [&](size_t first) {
    for (int which = 0; which < (overlaps ? 4 : 2); ++which) {
      const Expectation expected =
          Expected(sensor, curves.size(), first, step, which % 2 == 0, which / 2 == 1, phase_s);
      const std::optional<Fit> fit = ExpectFit(expected, curves, plan.total_s);
      for (size_t k = first; k < curves.size(); k += step) {
        if (!fit.has_value() || fit->degrees < 1) {
          spreads[k] = {};
          continue;
        }
        const OwnEnergies::Own own = energies.Of(*fit, k);
        const double share = own.sd_j / own.energy_j;
        if (share > spreads[k].share) spreads[k] = {share, fit->degrees};
      }
    }
  });
  return spreads;
}

// `best` may be empty.
bool IsBetter(const Plan& plan, const Plan& best) {
  if (plan.steps.empty() || best.steps.empty()) return best.steps.empty();
  if (plan.is_reached != best.is_reached) return plan.is_reached;
  if (plan.is_reached) return plan.total_s < best.total_s;
  const auto worst = [](const Plan& of) {
    return std::ranges::max(of.kernels, {}, &PlannedKernel::half_width).half_width;
  };
  return worst(plan) < worst(best);
}

// Returns the shortest sufficient plan with groups of that length; otherwise the most precise plan.
Plan PlanOfGroups(std::span<const PlanKernel> kernels, const PlanSensor& sensor,
                  const PlanOptions& options, double group_s) {
  const auto count = static_cast<double>(kernels.size());
  const double least_s = kMinExperimentWindows * sensor.period_s / count;
  const double most_s = options.most_s / count;
  std::vector<double> busy_s(kernels.size(), std::max(group_s, least_s));
  Plan best;
  for (int round = 0; round < kPlanRounds; ++round) {
    Plan plan = Arrange(kernels, sensor, busy_s, group_s, options.seed);
    if (plan.steps.size() > kMostSteps || plan.total_s > options.most_s) break;
    const std::vector<Spread> spreads = SpreadsOf(plan, sensor, options);
    const std::vector<double> before_s = busy_s;
    plan.is_reached = true;
    for (size_t k = 0; k < kernels.size(); ++k) {
      plan.kernels[k].half_width = spreads[k].HalfWidth();
      const double ratio = spreads[k].Needed(kernels.size()) / options.precision;
      plan.is_reached &= ratio <= 1;
      // Plan slightly more than needed, because the next plan will have other random lengths.
      const double least = round < kShrinkingRounds ? 0.25 : 1;
      busy_s[k] = std::clamp(busy_s[k] * std::clamp(1.05 * ratio * ratio, least, 16.0), least_s,
                             std::max(least_s, most_s));
    }
    const bool is_done = plan.is_reached && (round >= kShrinkingRounds || busy_s == before_s);
    if (IsBetter(plan, best)) best = std::move(plan);
    if (is_done) break;
  }
  return best;
}

}  // namespace

Plan PlanExperiment(std::span<const PlanKernel> kernels, const PlanSensor& sensor,
                    const PlanOptions& options) {
  const double resolution_s = sensor.period_s + sensor.window_s;
  Plan best;
  for (const double group_s : {1.5 * resolution_s, 3 * resolution_s, 6 * resolution_s,
                               std::max(kPlannedBlockS, 3 * resolution_s)}) {
    Plan plan = PlanOfGroups(kernels, sensor, options, group_s);
    if (IsBetter(plan, best)) best = std::move(plan);
  }
  return best;
}

}  // namespace xplane_time::energy
