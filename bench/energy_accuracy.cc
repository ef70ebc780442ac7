// energy_accuracy [SEEDS [NAME]]: the accuracy of attributed energies in simulated worlds
// (tests/support/power_world.h), as the table of docs/energy-method.md. Errors and half-widths are
// relative to a kernel's energy, for kernels with at least 2 % of the total. NAME: only worlds
// whose names contain it.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "energy/attribution.h"
#include "tests/support/power_world.h"

namespace {

using namespace xplane_time;
using test::PowerSchedule;
using test::PowerSensor;
using test::World;
using test::WorldOptions;

struct Case {
  const char* name;
  WorldOptions options;
  bool clock_known = true;
  double loop_s = 0;  // length of a loop instead of a schedule
};

// A sensor of 20 ms with a given time between polls and other deviations.
WorldOptions Instant(double poll_s, bool dated, WorldOptions options = {}) {
  options.sensor = PowerSensor::kInstant;
  options.windows = 700;
  options.poll_s = poll_s;
  options.dated = dated;
  return options;
}

const WorldOptions kQuarterLoop = {.sensor = PowerSensor::kQuarter, .windows = 300};

const Case kCases[] = {
    {"counter, 8 kernels, 600 windows", {}},
    {"60 windows", {.windows = 60}},
    {"200 windows", {.windows = 200}},
    {"6,000 windows", {.windows = 6'000}},
    {"30 kernels", {.kernels = 30}},
    {"25 of 100 ms sampled", {.sensor = PowerSensor::kQuarter}},
    {"mean of 1 s", {.sensor = PowerSensor::kSecond}},
    {"noise 0.2 %", {.noise = 0.002}},
    {"noise 3 %", {.noise = 0.03}},
    {"pauses of 0.5 s", {.pause_s = 0.5}},
    {"never idle", {.schedule = PowerSchedule::kNeverIdle}},
    {"idle drifts", {.drift_w = 4}},
    {"two streams", {.streams = 2}},
    {"polls are missing", {.gaps = 2}},
    {"blocks of seconds", {.kernels = 6, .schedule = PowerSchedule::kBlocks, .windows = 300}},
    {"no capture start", {.pause_s = 0.5}, /*clock_known=*/false},
    {"clock 0.3 s off", {.pause_s = 0.5, .clock_off_s = 0.3}},
    {"a pair always together", {.schedule = PowerSchedule::kPairs}},
    {"one mixture", {.schedule = PowerSchedule::kOneMixture}},
    {"a loop of 0.7 ms", {.schedule = PowerSchedule::kPeriodic}},
    {"another process", {.other_load_w = 60}},
    {"log of an idle machine", {.draws_nothing = true}},
    {"counter, a loop of 3 ms", {.windows = 300}, true, 0.003},
    {"counter, a loop of 10 ms", {.windows = 300}, true, 0.01},
    {"counter, a loop of 50 ms", {.windows = 300}, true, 0.05},
    {"counter, a loop of 0.2 s", {.windows = 300}, true, 0.2},
    {"counter, a loop of 1 s", {.windows = 300}, true, 1},
    {"25 of 100 ms sampled, idle drifts", {.sensor = PowerSensor::kQuarter, .drift_w = 4}},
    {"mean of 1 s, idle drifts", {.sensor = PowerSensor::kSecond, .drift_w = 4}},
    {"25 of 100 ms sampled, no capture start",
     {.sensor = PowerSensor::kQuarter, .pause_s = 0.5},
     /*clock_known=*/false},
    {"dated, 20 ms, polled every 20 ms", Instant(0.02, true)},
    {"dated, 30 kernels", Instant(0.02, true, {.kernels = 30})},
    {"dated, pauses of 0.5 s", Instant(0.02, true, {.pause_s = 0.5})},
    {"dated, no capture start", Instant(0.02, true, {.pause_s = 0.5}), /*clock_known=*/false},
    {"dated, idle drifts", Instant(0.02, true, {.drift_w = 4})},
    {"dated, polled every 5 ms", Instant(0.005, true)},
    {"dated, polled every 10 ms", Instant(0.01, true)},
    {"dated, polled every 17 ms", Instant(0.017, true)},
    {"dated, polled every 23 ms", Instant(0.023, true)},
    {"dated, polled every 40 ms", Instant(0.04, true)},
    {"dated, period of 18 ms, window of 10 ms",
     Instant(0.02, true, {.period_s = 0.018, .window_s = 0.01})},
    {"dated, period of 22 ms, window of 30 ms",
     Instant(0.02, true, {.period_s = 0.022, .window_s = 0.03})},
    {"dated, lag of 5 ms", Instant(0.02, true, {.lag_s = 0.005})},
    {"dated, lag of 60 ms", Instant(0.02, true, {.lag_s = 0.06})},
    {"dated, another process", Instant(0.02, true, {.other_load_w = 60})},
    {"undated, 20 ms, polled every 20 ms", Instant(0.02, false)},
    {"undated, 30 kernels", Instant(0.02, false, {.kernels = 30})},
    {"undated, pauses of 0.5 s", Instant(0.02, false, {.pause_s = 0.5})},
    {"undated, no capture start", Instant(0.02, false, {.pause_s = 0.5}), /*clock_known=*/false},
    {"undated, polled every 5 ms", Instant(0.005, false)},
    {"undated, polled every 10 ms", Instant(0.01, false)},
    {"undated, polled every 17 ms", Instant(0.017, false)},
    {"undated, polled every 23 ms", Instant(0.023, false)},
    {"undated, polled every 40 ms", Instant(0.04, false)},
    {"undated, period of 18 ms, window of 10 ms",
     Instant(0.02, false, {.period_s = 0.018, .window_s = 0.01})},
    {"undated, period of 22 ms, window of 30 ms",
     Instant(0.02, false, {.period_s = 0.022, .window_s = 0.03})},
    {"undated, lag of 60 ms", Instant(0.02, false, {.lag_s = 0.06})},
    {"undated, another process", Instant(0.02, false, {.other_load_w = 60})},
    {"25 of 100 ms sampled, a loop of 3 ms", kQuarterLoop, true, 0.003},
    {"25 of 100 ms sampled, a loop of 10 ms", kQuarterLoop, true, 0.01},
    {"25 of 100 ms sampled, a loop of 50 ms", kQuarterLoop, true, 0.05},
    {"25 of 100 ms sampled, a loop of 0.2 s", kQuarterLoop, true, 0.2},
    {"25 of 100 ms sampled, a loop of 1 s", kQuarterLoop, true, 1},
};

struct Scores {
  double seconds = 0;  // duration of the estimates
  std::vector<double> errors, half_widths;
  size_t kernels = 0, known = 0, inside = 0, groups = 0, groups_inside = 0;
  size_t poor = 0, without_numbers = 0, measured = 0;
  // worlds without poor_fit in which a number is wrong by over 5 % and outside its interval
  size_t wrong = 0;
};

void Score(const Case& of, uint64_t seed, Scores* scores) {
  WorldOptions options = of.options;
  if (of.loop_s > 0) {
    const double capture_s = 0.1 * static_cast<double>(options.windows) + 2;
    options.given = test::Loop(options.kernels, of.loop_s, capture_s, seed);
  }
  const World world = test::MakeWorld(options, seed);
  std::vector<energy::BusyCurve> kernels;
  for (const std::vector<Interval>& each : world.executions) kernels.emplace_back(each);
  PowerChannel channel;
  channel.kind = world.kind;
  if (world.prior_window_s) {
    channel.prior_window_ns = static_cast<int64_t>(*world.prior_window_s * 1e9);
  }
  const auto start = std::chrono::steady_clock::now();
  const energy::Attribution found = energy::Attribute(
      channel, world.polls, kernels, world.capture_s, {.clock_known = of.clock_known});
  scores->seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!found.reason.empty()) {
    ++scores->without_numbers;
    return;
  }
  scores->poor += found.poor_fit.empty() ? 0 : 1;
  const double all_j = std::accumulate(world.energy_j.begin(), world.energy_j.end(), 0.0);
  bool is_wrong = false;
  std::vector<std::vector<size_t>> groups(kernels.size());
  for (size_t k = 0; k < kernels.size(); ++k) {
    if (found.known[k].group) groups[*found.known[k].group].push_back(k);
    if (world.energy_j[k] < 0.02 * all_j) continue;
    ++scores->kernels;
    if (!found.known[k].alone) continue;
    ++scores->known;
    scores->measured += found.measured[k] ? 1 : 0;
    const double off_j =
        std::abs(found.energies.energy_j[static_cast<Eigen::Index>(k)] - world.energy_j[k]);
    const double half_j = found.energies.HalfWidthJ(std::vector<size_t>{k});
    scores->inside += off_j <= half_j ? 1 : 0;
    is_wrong |= off_j > std::max(half_j, 0.05 * world.energy_j[k]);
    scores->errors.push_back(off_j / world.energy_j[k]);
    scores->half_widths.push_back(half_j / world.energy_j[k]);
  }
  scores->wrong += is_wrong && found.poor_fit.empty() ? 1 : 0;
  for (const std::vector<size_t>& group : groups) {
    if (group.empty()) continue;
    ++scores->groups;
    double off_j = 0;
    for (const size_t k : group) {
      off_j += found.energies.energy_j[static_cast<Eigen::Index>(k)] - world.energy_j[k];
    }
    scores->groups_inside += std::abs(off_j) <= found.energies.HalfWidthJ(group) ? 1 : 0;
  }
}

// The value at `share` of the sorted values, in percent: "0.17"; "-" if there are none.
std::string At(std::vector<double> values, double share) {
  if (values.empty()) return "-";
  std::sort(values.begin(), values.end());
  const auto last = values.size() - 1;
  char text[32];
  std::snprintf(text, sizeof text, "%.2f",
                100 * values[static_cast<size_t>(share * static_cast<double>(last))]);
  return text;
}

std::string Share(size_t part, size_t all) {
  if (all == 0) return "-";
  return std::to_string((1000 * part + all / 2) / all / 10) + "." +
         std::to_string((1000 * part + all / 2) / all % 10);
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t seeds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 20;
  const std::string only = argc > 2 ? argv[2] : "";
  std::printf(
      "%lu worlds each; all in %%\n\n"
      "| world | error: median | 99 %% | worst | half-width | intervals hold | with a number | "
      "measured | groups, sums hold | poor_fit | no numbers | wrong without poor_fit | s each |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
      static_cast<unsigned long>(seeds));
  for (const Case& each : kCases) {
    if (!only.empty() && std::string(each.name).find(only) == std::string::npos) continue;
    Scores scores;
    for (uint64_t seed = 1; seed <= seeds; ++seed) Score(each, seed, &scores);
    std::printf("| %s | %s | %s | %s | %s | %s | %s | %s | %zu, %s | %s | %s | %s | %.2f |\n",
                each.name, At(scores.errors, 0.5).c_str(), At(scores.errors, 0.99).c_str(),
                At(scores.errors, 1).c_str(), At(scores.half_widths, 0.5).c_str(),
                Share(scores.inside, scores.known).c_str(),
                Share(scores.known, scores.kernels).c_str(),
                Share(scores.measured, scores.known).c_str(), scores.groups,
                Share(scores.groups_inside, scores.groups).c_str(),
                Share(scores.poor, seeds).c_str(), Share(scores.without_numbers, seeds).c_str(),
                Share(scores.wrong, seeds).c_str(), scores.seconds / static_cast<double>(seeds));
    std::fflush(stdout);
  }
  return 0;
}
