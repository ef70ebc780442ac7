// Simulates the decider and the rules of other tools on devices with known noise.
//
//   decide_simulation [promises|noise|mixed|curve] [TRIALS]
//
// promises: the cases of docs/deciding-measured.md with their limits; the exit status is 1 if a
// limit is missed. noise: the same cases with other noise. mixed: variants with different noise.
// curve: errors by number of runs, for our rule and others. Markdown on standard output. Seeds are
// fixed, so the numbers are reproducible.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/decide_rules.h"
#include "stats/random.h"
#include "tests/decide/simulated_device.h"
#include "xplane_time/decide.h"

namespace xplane_time::bench {
namespace {

using testing::DeviceNoise;

constexpr int kThreads = 2;
constexpr double kDelta = 0.005;

using LogTimes = std::function<std::vector<double>(stats::Random&)>;
using Rule = std::function<Picked(Device&, uint32_t variants, uint64_t seed)>;

struct Limits {
  double wrong = 0, mean = 0, p95 = 0;  // 0: no limit
};

struct Case {
  std::string name;
  LogTimes log_times;
  DecideConfig config;
  Limits limits;
  enum class Wrong : uint8_t { kRegret, kNotTied, kNotKept } wrong = Wrong::kRegret;
  LogTimes sds = {};  // standard deviation of each variant; empty: that of the noise
};

struct Outcome {
  int trials = 0, wrong = 0;
  double mean = 0, batches = 0;
  int64_t p95 = 0;
};

// Upper end of the one-sided 95 % interval (Clopper and Pearson 1934), by bisection.
double UpperLimit(int wrong, int trials) {
  double low = static_cast<double>(wrong) / trials, high = 1;
  for (int i = 0; i < 60; ++i) {
    const double rate = (low + high) / 2;
    double at_most = 0, log_term = trials * std::log1p(-rate);
    for (int k = 0; k <= wrong; ++k) {
      at_most += std::exp(log_term);
      log_term +=
          std::log(static_cast<double>(trials - k) / (k + 1)) + std::log(rate) - std::log1p(-rate);
    }
    (at_most > 0.05 ? low : high) = rate;
  }
  return high;
}

struct Trial {
  bool wrong = false;
  int64_t runs = 0;
  uint64_t batches = 0;
};

Outcome Repeat(int trials, const std::function<Trial(uint64_t)>& trial) {
  std::vector<Trial> all(static_cast<size_t>(trials));
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (size_t i = static_cast<size_t>(thread); i < all.size(); i += kThreads) {
        all[i] = trial(i);
      }
    });
  }
  threads.clear();
  Outcome outcome{.trials = trials};
  std::vector<int64_t> runs;
  for (const Trial& t : all) {
    outcome.wrong += t.wrong;
    outcome.mean += static_cast<double>(t.runs) / trials;
    outcome.batches += static_cast<double>(t.batches) / trials;
    runs.push_back(t.runs);
  }
  std::sort(runs.begin(), runs.end());
  outcome.p95 = runs[runs.size() * 95 / 100];
  return outcome;
}

// Variants in random order, and the original position of each.
struct Shuffled {
  std::vector<double> log_times;
  std::vector<uint32_t> from;
};

Shuffled Draw(const LogTimes& log_times, stats::Random& random) {
  const std::vector<double> ordered = log_times(random);
  Shuffled result;
  for (uint32_t i = 0; i < ordered.size(); ++i) result.from.push_back(i);
  random.Shuffle(result.from);
  for (const uint32_t i : result.from) result.log_times.push_back(ordered[i]);
  return result;
}

Trial RunCase(const Case& c, const DeviceNoise& noise, uint64_t seed) {
  stats::Random random = stats::RandomFor(11, 5, seed);
  const Shuffled drawn = Draw(c.log_times, random);
  DecideConfig config = c.config;
  config.seed = seed;
  if (config.incumbent) {
    const auto at = std::find(drawn.from.begin(), drawn.from.end(), *config.incumbent);
    config.incumbent = static_cast<uint32_t>(at - drawn.from.begin());
  }
  Space space;
  for (const uint32_t i : drawn.from) space.variants.push_back({.id = std::to_string(i)});
  std::vector<double> sds;
  if (c.sds) {
    const std::vector<double> ordered = c.sds(random);
    for (const uint32_t i : drawn.from) sds.push_back(ordered[i]);
  }
  Device device({.log_times = drawn.log_times, .noise = noise, .sds = sds, .seed = random.Next()});
  absl::StatusOr<Decider> decider = Decider::Open(std::move(space), config);
  Trial trial;
  while (const Batch* next = decider->Next()) {
    const Batch batch = *next;
    ++trial.batches;
    for (size_t i = 0; i < batch.rounds.size(); ++i) {
      if (!decider->Fold(device.Run(batch.batch, i, batch.rounds[i])).ok()) std::abort();
    }
  }
  const Verdict& verdict = decider->verdict();
  trial.runs = verdict.runs;
  switch (c.wrong) {
    case Case::Wrong::kRegret:
      trial.wrong = device.Regret(*verdict.pick) > kDelta;
      break;
    case Case::Wrong::kNotTied:
      trial.wrong = verdict.claim != Claim::kTie;
      break;
    case Case::Wrong::kNotKept:
      trial.wrong = verdict.pick != config.incumbent;
      break;
  }
  return trial;
}

LogTimes Fixed(std::vector<double> ratios) {
  for (double& ratio : ratios) ratio = std::log(ratio);
  return [ratios](stats::Random&) { return ratios; };
}

LogTimes LogNormal(int variants, double sd) {
  return [=](stats::Random& random) {
    std::vector<double> log_times;
    for (int i = 0; i < variants; ++i) log_times.push_back(sd * random.Normal());
    return log_times;
  };
}

std::vector<Case> Promises() {
  std::vector<double> twenty;
  for (int i = 0; i < 20; ++i) twenty.push_back(1 + 0.01 * i);
  using Wrong = Case::Wrong;
  return {
      {"two, 1 % apart", Fixed({1, 1.01}), {}, {0.01, 30, 55}},
      {"two, 1 % apart, 33 runs", Fixed({1, 1.01}), {.budget_runs = 33}, {0.01, 33, 33}},
      {"two, 0.6 % apart", Fixed({1, 1.006}), {}, {0.02, 48, 95}},
      {"incumbent 1 % slower", Fixed({1, 1.01}), {.incumbent = 1}, {0.01, 75, 135}},
      {"20, 1 % apart each", Fixed(twenty), {}, {0.005, 110, 150}},
      {"64, log-normal 25 %", LogNormal(64, 0.25), {}, {0.005, 135, 220}},
      {"two identical, claim",
       Fixed({1, 1}),
       {.stop = Stop::kClaim},
       {0.015, 220, 450},
       Wrong::kNotTied},
      {"incumbent and its twin", Fixed({1, 1}), {.incumbent = 1}, {0.015, 0, 0}, Wrong::kNotKept},
      {"two, 0.51 % apart", Fixed({1, 1.0051}), {}, {}},
      {"4, the others 0.51 % slower", Fixed({1, 1.0051, 1.0051, 1.0051}), {}, {}},
      {"two identical", Fixed({1, 1}), {}, {}},
      {"64, log-normal 2 %", LogNormal(64, 0.02), {}, {}},
  };
}

std::string Limit(double value, const char* format) {
  if (value == 0) return "-";
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

bool PrintRow(const Case& c, const Outcome& outcome) {
  const double upper = UpperLimit(outcome.wrong, outcome.trials);
  const auto within = [](double value, double limit) { return limit == 0 || value <= limit; };
  const bool passed = within(upper, c.limits.wrong) && within(outcome.mean, c.limits.mean) &&
                      within(static_cast<double>(outcome.p95), c.limits.p95);
  std::printf("| %s | %.2f %% | %.2f %% | %s | %.1f / %lld | %s / %s | %.1f | %s |\n",
              c.name.c_str(), 100.0 * outcome.wrong / outcome.trials, 100 * upper,
              Limit(100 * c.limits.wrong, "%.1f %%").c_str(), outcome.mean,
              static_cast<long long>(outcome.p95), Limit(c.limits.mean, "%.0f").c_str(),
              Limit(c.limits.p95, "%.0f").c_str(), outcome.batches,
              c.limits.wrong == 0 ? ""
              : passed            ? "pass"
                                  : "FAIL");
  std::fflush(stdout);
  return passed;
}

void PrintHead() {
  std::printf(
      "| case | wrong | upper 95 %% | at most | runs mean / p95 | at most | batches | |\n"
      "|---|---|---|---|---|---|---|---|\n");
}

bool PrintCases(const DeviceNoise& noise, int trials, double tolerance, bool limit_runs) {
  PrintHead();
  bool passed = true;
  for (Case c : Promises()) {
    if (!limit_runs && c.limits.wrong == 0) continue;
    c.limits.wrong *= tolerance;
    // With three times the noise, 33 runs are too few for any rule.
    if (c.config.budget_runs && noise.sd > 0.02) c.limits.wrong = 0;
    if (!limit_runs) c.limits.mean = c.limits.p95 = 0;
    passed &= PrintRow(c, Repeat(trials, [&](uint64_t seed) { return RunCase(c, noise, seed); }));
  }
  return passed;
}

// Variants with different noise: that of the fastest differs, or each has a different one.
bool PrintMixed(int trials) {
  struct Mixed {
    const char* name;
    LogTimes log_times, sds;
  };
  std::vector<double> twenty;
  for (int i = 0; i < 20; ++i) twenty.push_back(1 + 0.01 * i);
  const auto odd = [](size_t variants, double fastest, double others) {
    std::vector<double> sds(variants, others);
    sds[0] = fastest;
    return [sds](stats::Random&) { return sds; };
  };
  const auto log_normal = [](int variants) {
    return [=](stats::Random& random) {
      std::vector<double> sds;
      for (int i = 0; i < variants; ++i) sds.push_back(0.01 * std::exp2(random.Normal()));
      return sds;
    };
  };
  const Limits limits = {.wrong = DecideConfig().alpha};
  bool passed = true;
  PrintHead();
  for (const auto& [name, log_times, sds] :
       {Mixed{"20, 1 % apart each; noise: fastest 5 %, others 0.3 %", Fixed(twenty),
              odd(20, 0.05, 0.003)},
        Mixed{"20, 1 % apart each; noise: fastest 2 %, others 0.5 %", Fixed(twenty),
              odd(20, 0.02, 0.005)},
        Mixed{"20, 1 % apart each; noise: fastest 0.3 %, others 2 %", Fixed(twenty),
              odd(20, 0.003, 0.02)},
        Mixed{"4, 1 % apart each; noise: fastest 3 %, others 0.5 %", Fixed({1, 1.01, 1.02, 1.03}),
              odd(4, 0.03, 0.005)},
        Mixed{"20, 1 % apart each; noise: log-normal around 1 %, factor 2", Fixed(twenty),
              log_normal(20)},
        Mixed{"64, log-normal 25 %; noise: log-normal around 1 %, factor 2", LogNormal(64, 0.25),
              log_normal(64)},
        Mixed{"64, log-normal 2 %; noise: log-normal around 1 %, factor 2", LogNormal(64, 0.02),
              log_normal(64)}}) {
    Case c;
    c.name = name;
    c.log_times = log_times;
    c.sds = sds;
    c.limits = limits;
    passed &= PrintRow(c, Repeat(trials, [&](uint64_t seed) { return RunCase(c, {}, seed); }));
  }
  return passed;
}

bool PrintNoise(int trials) {
  struct Named {
    const char* name;
    DeviceNoise noise;
  };
  DeviceNoise quiet, loud, clocks, drift, walk, spikes, first, slope, far;
  quiet.sd = 0.003;
  loud.sd = 0.03;
  clocks.clock_levels = 0.03;
  drift.drift_kind = DeviceNoise::Drift::kAutocorrelated;
  walk.drift_kind = DeviceNoise::Drift::kRandomWalk;
  spikes.spike_rate = 0.1;
  first.first_run = 0.02;
  slope.slope = 0.01;
  far.spikes_log_uniform = true;
  far.spike_min = 0.05;
  far.spike_max = 9;
  bool passed = true;
  for (const Named& named :
       {Named{"noise 0.3 %", quiet}, Named{"noise 3 %", loud},
        Named{"two clock levels 3 % apart", clocks}, Named{"autocorrelated drift (0.9)", drift},
        Named{"drift as a random walk", walk}, Named{"10 % spikes", spikes},
        Named{"first run of a round 2 % slower", first},
        Named{"linear drift within rounds, sd 1 % over 20 runs", slope},
        Named{"spikes of 5 to 900 %", far}}) {
    std::printf("\n### %s\n\n", named.name);
    passed &= PrintCases(named.noise, trials, /*tolerance=*/2, /*limit_runs=*/false);
  }
  return passed;
}

struct CurveRule {
  std::string name;
  Rule rule;
};

Rule Ours(DecideConfig config) {
  return [config](Device& device, uint32_t variants, uint64_t seed) mutable {
    config.seed = seed;
    Space space;
    for (uint32_t v = 0; v < variants; ++v) space.variants.push_back({.id = std::to_string(v)});
    absl::StatusOr<Decider> decider = Decider::Open(std::move(space), config);
    while (const Batch* next = decider->Next()) {
      const Batch batch = *next;
      for (size_t i = 0; i < batch.rounds.size(); ++i) {
        if (!decider->Fold(device.Run(batch.batch, i, batch.rounds[i])).ok()) std::abort();
      }
    }
    return Picked{*decider->verdict().pick, decider->verdict().runs};
  };
}

std::vector<CurveRule> CurveRules(uint32_t variants) {
  std::vector<CurveRule> rules;
  for (const double alpha : {0.3, 0.1, 0.03, 0.01, 0.001}) {
    rules.push_back({"ours, alpha " + Limit(alpha, "%g"), Ours({.alpha = alpha})});
  }
  for (const int64_t rounds : {1, 2, 4, 8, 16}) {
    const int64_t budget = rounds * variants;
    rules.push_back({"ours, budget " + std::to_string(budget), Ours({.budget_runs = budget})});
  }
  for (const int n : {5, 10, 20, 40}) {
    rules.push_back({"tune-jax, " + std::to_string(n) + " rounds",
                     [n](Device& d, uint32_t v, uint64_t s) { return TuneJax(d, v, n, s); }});
  }
  for (const int n : {7, 20, 40}) {
    rules.push_back({"kernel_tuner, mean of " + std::to_string(n),
                     [n](Device& d, uint32_t v, uint64_t) { return MeanOf(d, v, n); }});
  }
  for (const int n : {1, 5, 20}) {
    rules.push_back({"XLA, minimum of " + std::to_string(n),
                     [n](Device& d, uint32_t v, uint64_t) { return MinimumOf(d, v, n); }});
  }
  for (const double se : {0.01, 0.005}) {
    rules.push_back(
        {"nvbench, standard error " + Limit(100 * se, "%g %%"),
         [se](Device& d, uint32_t v, uint64_t) { return UntilStandardError(d, v, se); }});
  }
  for (const int n : {1, 2, 4, 8, 16}) {
    rules.push_back(
        {"successive halving, " + std::to_string(n) + " a rung",
         [n](Device& d, uint32_t v, uint64_t s) { return SuccessiveHalving(d, v, n, s); }});
  }
  return rules;
}

void PrintCurve(int trials) {
  struct Setting {
    const char* name;
    LogTimes log_times;
    uint32_t variants;
  };
  for (const Setting& setting :
       {Setting{"Two variants 1 % apart", Fixed({1, 1.01}), 2},
        Setting{"64 variants, log-normal 25 %", LogNormal(64, 0.25), 64}}) {
    std::printf("\n### %s\n\n| rule | runs, mean | wrong |\n|---|---|---|\n", setting.name);
    for (const CurveRule& rule : CurveRules(setting.variants)) {
      const Outcome outcome = Repeat(trials, [&](uint64_t seed) {
        stats::Random random = stats::RandomFor(12, 5, seed);
        const Shuffled drawn = Draw(setting.log_times, random);
        Device device({.log_times = drawn.log_times, .seed = random.Next()});
        const Picked picked = rule.rule(device, setting.variants, seed);
        return Trial{.wrong = device.Regret(picked.pick) > kDelta, .runs = picked.runs};
      });
      std::printf("| %s | %.1f | %.2f %% |\n", rule.name.c_str(), outcome.mean,
                  100.0 * outcome.wrong / outcome.trials);
      std::fflush(stdout);
    }
  }
}

int Main(int argc, char** argv) {
  const std::string_view table = argc > 1 ? argv[1] : "promises";
  const int trials = argc > 2 ? std::atoi(argv[2]) : 4000;
  if (trials < 1 ||
      (table != "promises" && table != "noise" && table != "mixed" && table != "curve")) {
    std::fprintf(stderr, "usage: decide_simulation [promises|noise|mixed|curve] [TRIALS]\n");
    return 64;
  }
  std::printf("%d trials a row\n\n", trials);
  if (table == "curve") {
    PrintCurve(trials);
    return 0;
  }
  const bool passed = table == "promises"
                          ? PrintCases({}, trials, /*tolerance=*/1, /*limit_runs=*/true)
                      : table == "mixed" ? PrintMixed(trials)
                                         : PrintNoise(trials);
  return passed ? 0 : 1;
}

}  // namespace
}  // namespace xplane_time::bench

int main(int argc, char** argv) { return xplane_time::bench::Main(argc, argv); }
