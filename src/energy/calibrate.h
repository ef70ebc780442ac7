// What a sensor is: how often it publishes, what time its readings are the mean of, and how late
// they come; from a load that was switched on and off at known times.
//
//   load       ____|~~~~~|__|~~|_____|~~~~~~~|___     random lengths: in step with no sensor
//   readings      .  .  :  :  .  :  .  .  :  :  :     each the mean of W, which ended L before
//
//   const Calibration found = Calibrate(polls, ReadingKind::kAverage, BusyCurve(load), capture_s);
//   found.period_s->value      // 0.1, between found.period_s->low and ->high in 95 % of cases
//   found.reason               // why something is empty: "no_response"
//
// The load counts as a kernel, and its fit (regression.h) tells the rest. Not handled: a device
// whose power takes longer than a reading to follow its load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "energy/busy.h"
#include "energy/publications.h"
#include "stats/random.h"
#include "xplane_time/power.h"

namespace xplane_time::energy {

struct Bounded {
  double value = 0, low = 0, high = 0;  // 95 %
};

struct Calibration {
  size_t updates = 0;                                               // that were seen
  std::optional<Bounded> period_s = {}, window_s = {}, lag_s = {};  // a counter has no window
  std::optional<double> idle_w = {}, load_w = {};                   // without the load and with it
  std::optional<double> noise = {};  // standard deviation of a window's energy, as a share of it
  // few_updates, polled_too_slowly (it publishes at least as often as it is polled), irregular (it
  // publishes on no grid), no_response (the load changes nothing), ambiguous (several lags fit).
  std::string reason = {};
};

// `polls` and `load` on one axis, on which the load was watched in [0, capture_s).
Calibration Calibrate(std::span<const Poll> polls, ReadingKind kind, const BusyCurve& load,
                      double capture_s);

// How long it is on, off, on, ...: at least `total_s` in all, from 0.15 to 1.5 s each.
std::vector<double> SquareWave(double total_s, stats::Random* random);

}  // namespace xplane_time::energy
