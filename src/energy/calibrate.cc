// Calibrates a sensor from its polls and the times of a load.
//
// 1. FindPublications and FindGrids (publications.h) find the period. If polls saw a new value
//    nearly every time, publications may have been missed ("polled_too_slowly"). If many updates
//    contradict the grid, the sensor is irregular; it is tried again with every second poll,
//    because jitter matters less then.
// 2. FitPowers (regression.h) treats the load as the only kernel. It finds the lag, the averaging
//    window and the power of the load.
// 3. The load must stand out: at least six standard deviations, and 1 % of the idle power. If
//    another lag fits nearly as well, the calibration is ambiguous.
// 4. Intervals of the period follow from the brackets (SlackOf), those of window and lag from the
//    fit.
#include "energy/calibrate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "energy/regression.h"
#include "stats/distributions.h"

namespace xplane_time::energy {
namespace {

constexpr LagRange kLags = {-0.1, 1.2};
constexpr double kMostMisfits = 0.1;  // share of the updates; above it there is no regular grid
constexpr double kEveryPoll = 0.8;    // share of the polls that saw a new value; above it polls may
                                      // have missed publications
constexpr double kLeastResponse = 6;  // power of the load, in standard deviations
constexpr double kLeastShare = 0.01;  // power of the load, as a share of the idle power
constexpr double kAmbiguous = 1.05;   // multiple of the best lag's sum of squares

Bounded Around(double value, double half_width) {
  return {value, value - half_width, value + half_width};
}

// The uncertainty of the period and of the publication instants of `grid`, by the brackets. It
// includes other grids that satisfy as many brackets.
struct Slack {
  double period_s = 0, instants_s = 0;
};

Slack SlackOf(std::span<const Grid> grids, const Grid& grid) {
  const auto middle_s = [](const Grid& of) { return of.phase_s + of.MiddleNumber() * of.period_s; };
  Slack slack;
  for (const Grid& other : grids) {
    if (other.misfits > grids[0].misfits) continue;
    slack.period_s = std::max(slack.period_s,
                              std::abs(other.period_s - grid.period_s) + other.period_slack_s / 2);
    const double away_s = std::remainder(middle_s(other) - middle_s(grid), grid.period_s);
    slack.instants_s = std::max(slack.instants_s, std::abs(away_s) + other.middle_slack_s / 2);
  }
  return slack;
}

double PollStepS(std::span<const Poll> polls) {
  return (polls.back().before_s - polls.front().before_s) / static_cast<double>(polls.size() - 1);
}

bool IsIrregular(const Grid& grid) {
  return static_cast<double>(grid.misfits) > kMostMisfits * static_cast<double>(grid.number.size());
}

// True if most polls saw a new value: then some polls may have missed a publication.
bool MayMiss(const Sensor& sensor, size_t polls) {
  return static_cast<double>(sensor.publications.updates.size()) >
         kEveryPoll * static_cast<double>(polls);
}

void KeepEverySecond(std::vector<Poll>* polls) {
  for (size_t i = 0; 2 * i < polls->size(); ++i) (*polls)[i] = (*polls)[2 * i];
  polls->resize((polls->size() + 1) / 2);
}

}  // namespace

Calibration Calibrate(std::span<const Poll> all_polls, ReadingKind kind, const BusyCurve& load,
                      double capture_s) {
  Calibration found;
  std::vector<Poll> polls(all_polls.begin(), all_polls.end());
  Sensor sensor = {.kind = kind, .publications = FindPublications(polls, kind)};
  std::vector<Grid> grids = FindGrids(sensor.publications);
  // If publications jitter by more than the distance of the polls, use fewer polls.
  while (!grids.empty() && IsIrregular(grids[0]) && !MayMiss(sensor, polls.size() / 2)) {
    KeepEverySecond(&polls);
    sensor.publications = FindPublications(polls, kind);
    grids = FindGrids(sensor.publications);
  }
  found.updates = sensor.publications.updates.size();
  if (grids.empty()) {
    found.reason = "few_updates";
    return found;
  }
  if (MayMiss(sensor, polls.size())) {
    found.reason = "polled_too_slowly";
  } else if (IsIrregular(grids[0])) {
    found.reason = "irregular";
  } else {
    found.period_s = Around(grids[0].period_s, SlackOf(grids, grids[0]).period_s);
  }
  const std::optional<Fit> fit = FitPowers(sensor, {&load, 1}, capture_s, kLags);
  if (!fit.has_value()) {
    found.reason = "few_updates";
    return found;
  }
  const double idle_w = fit->IdleTerms(capture_s / 2, capture_s).dot(fit->power_w);
  const double load_w = fit->power_w[0];
  found.idle_w = idle_w;
  if (load_w < kLeastResponse * std::sqrt(fit->covariance(0, 0)) || load_w < kLeastShare * idle_w) {
    found.reason = "no_response";
    return found;
  }
  found.load_w = idle_w + load_w;
  found.noise = fit->relative_noise;
  if (fit->rival > 0 && fit->rival < kAmbiguous) {
    found.reason = "ambiguous";
    return found;
  }
  const double quantile = stats::StudentQuantile(0.025, fit->degrees);
  if (kind != ReadingKind::kCumulative) {
    // The noise that overlapping readings share is only known roughly.
    const double widening = fit->window_s > fit->grid.period_s ? 2 : 1;
    found.window_s = Around(fit->window_s, widening * quantile * fit->window_sd_s);
  }
  const double slack_s =
      found.period_s.has_value() ? SlackOf(grids, fit->grid).instants_s : PollStepS(polls);
  found.lag_s = Around(fit->lag_s, quantile * fit->lag_sd_s + slack_s);
  return found;
}

std::vector<double> SquareWave(double total_s, stats::Random* random) {
  constexpr double kShortestS = 0.15, kLongestS = 1.5;
  std::vector<double> lengths_s;
  double sum_s = 0;
  while (sum_s < total_s || lengths_s.size() % 2 == 1) {
    lengths_s.push_back(kShortestS * std::pow(kLongestS / kShortestS, random->Uniform()));
    sum_s += lengths_s.back();
  }
  return lengths_s;
}

}  // namespace xplane_time::energy
