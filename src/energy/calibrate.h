// Calibrates a sensor with a load that was switched on and off at known times: how often the sensor
// publishes, over what time its readings are averaged, and how late they come.
//
//   load       ____|~~~~~|__|~~|_____|~~~~~~~|___     random lengths: in step with no sensor
//   readings      .  .  :  :  .  :  .  .  :  :  :     each the mean over W, which ended L before
//
//   const Calibration found = Calibrate(polls, ReadingKind::kAverage, BusyCurve(load), capture_s);
//   found.period_s->value      // 0.1, between found.period_s->low and ->high in 95 % of cases
//   found.reason               // why something is empty: "no_response"
//
// The load counts as a kernel. The fit of its power (regression.h) yields window and lag. Not
// handled: a device whose power follows its load more slowly than one reading.
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
  double value = 0, low = 0, high = 0;  // 95 % interval
};

struct Calibration {
  size_t updates = 0;                                               // updates that were seen
  std::optional<Bounded> period_s = {}, window_s = {}, lag_s = {};  // a counter has no window
  std::optional<double> idle_w = {}, load_w = {};                   // without the load, and with it
  std::optional<double> noise = {};  // standard deviation of a window's energy, as a share of it
  // few_updates, polled_too_slowly (the sensor publishes about as often as it is polled, or more
  // often), irregular (it publishes on no grid), no_response (the load changes nothing), ambiguous
  // (several lags fit).
  std::string reason = {};
};

// `polls` and `load` are on one axis. The load was observed in [0, capture_s).
Calibration Calibrate(std::span<const Poll> polls, ReadingKind kind, const BusyCurve& load,
                      double capture_s);

// Lengths of the load's phases: on, off, on, ...; each 0.15 to 1.5 s, at least `total_s` in all.
std::vector<double> SquareWave(double total_s, stats::Random* random);

}  // namespace xplane_time::energy
