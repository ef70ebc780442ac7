// A made-up device: kernels of known power, and a sensor that publishes what they drew as real ones
// do. What an estimate of energies is tested against.
//
//   World world = MakeWorld({.kernels = 8, .sensor = PowerSensor::kCounter}, /*seed=*/1);
//   world.executions[0]      // intervals of kernel 0
//   world.polls              // what a recorder would have read
//   world.energy_j[0]        // what kernel 0 took, with its part of the idle power
//
// Schedules: sections of 0.1 to 0.9 s, each with kernels in random order and shares of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "energy/publications.h"
#include "xplane_time/intervals.h"
#include "xplane_time/power.h"

namespace xplane_time::test {

enum class PowerSensor {
  kCounter,  // energy since, every 0.1 s
  kQuarter,  // the mean of the 25 ms before, every 0.1 s
  kSecond,   // the mean of the second before, every 0.1 s: windows overlap
  kInstant,  // the mean of the 20 ms before, every 20 ms; publications are up to 0.3 ms late or
             // early
};

enum class PowerSchedule {
  kMixtures,
  kNeverIdle,   // no pause between sections, nor a start without load
  kPairs,       // kernel 1 always follows kernel 0
  kOneMixture,  // the same shares all the time
  kPeriodic,    // a loop of 0.7 ms, always the same
  kBlocks,      // seconds of one kernel each
};

struct WorldOptions {
  size_t kernels = 8;
  PowerSensor sensor = PowerSensor::kCounter;
  PowerSchedule schedule = PowerSchedule::kMixtures;
  size_t windows = 600;
  double noise = 0.01;         // of each publication
  double pause_s = 0.06;       // at most, between sections
  size_t streams = 1;          // that run beside each other
  double drift_w = 0;          // of the idle power, up and down
  double other_load_w = 0;     // of a process that no trace shows, on and off
  bool draws_nothing = false;  // the log is of an idle machine
  size_t gaps = 0;             // times of up to 3 s without a poll
  double poll_s = 0.05;        // from one poll to the next
  double poll_jitter_s = 0;    // each poll is up to this much later
  double clock_off_s = 0;      // of the log against the trace
  bool dated = false;          // the sensor states when it published each value
  // Of the sensor, instead of its usual ones. The usual lag is a random one.
  std::optional<double> period_s = {}, window_s = {}, lag_s = {};
  // What runs, by kernel, instead of a schedule; the first and last second are idle.
  std::vector<std::vector<Interval>> given = {};
};

struct World {
  double capture_s = 0;
  std::vector<std::vector<Interval>> executions;
  std::vector<energy::Poll> polls;
  ReadingKind kind = ReadingKind::kCumulative;
  std::optional<double> prior_window_s;
  // The truth.
  double period_s = 0, lag_s = 0, window_s = 0, idle_w = 0;
  std::vector<double> power_w;   // above idle
  std::vector<double> energy_j;  // of all executions, with their part of the idle power
};

World MakeWorld(const WorldOptions& options, uint64_t seed);

// To be `given`: kernels one after the other, each a part of the loop, always the same.
std::vector<std::vector<Interval>> Loop(size_t kernels, double loop_s, double capture_s,
                                        uint64_t seed);

}  // namespace xplane_time::test
