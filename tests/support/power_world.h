// A simulated device: kernels of known power, and a sensor that publishes their power like a real
// one. Estimates of energies are tested against it.
//
//   World world = MakeWorld({.kernels = 8, .sensor = PowerSensor::kCounter}, /*seed=*/1);
//   world.executions[0]      // intervals of kernel 0
//   world.polls              // the readings of a recorder
//   world.energy_j[0]        // energy of kernel 0, with its share of the idle power
//
// Schedules consist of sections of 0.1 to 0.9 s. Each section has its own shares of the kernels, in
// random order.
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
  kCounter,  // energy since a start, every 0.1 s
  kQuarter,  // the mean of the previous 25 ms, every 0.1 s
  kSecond,   // the mean of the previous second, every 0.1 s: windows overlap
  // the mean of the previous 20 ms, every 20 ms; publications are up to 0.3 ms late or early
  kInstant,
};

enum class PowerSchedule {
  kMixtures,
  kNeverIdle,   // no pause between sections, and no start without load
  kPairs,       // kernel 1 always follows kernel 0
  kOneMixture,  // the same shares at all times
  kPeriodic,    // an unchanging loop of 0.7 ms
  kBlocks,      // seconds of one kernel each
};

struct WorldOptions {
  size_t kernels = 8;
  PowerSensor sensor = PowerSensor::kCounter;
  PowerSchedule schedule = PowerSchedule::kMixtures;
  size_t windows = 600;
  double noise = 0.01;         // relative noise of each publication
  double pause_s = 0.06;       // longest pause between sections
  size_t streams = 1;          // number of parallel streams
  double drift_w = 0;          // amplitude of the drift of the idle power
  double other_load_w = 0;     // intermittent load of a process that is in no trace
  bool draws_nothing = false;  // the log is of an idle machine
  size_t gaps = 0;             // number of gaps of up to 3 s without polls
  double poll_s = 0.05;        // time between polls
  double poll_jitter_s = 0;    // maximum random delay of a poll
  double clock_off_s = 0;      // clock of the log minus clock of the trace
  bool dated = false;          // the sensor states when it published each value
  // Properties of the sensor instead of its usual ones. The usual lag is random.
  std::optional<double> period_s = {}, window_s = {}, lag_s = {};
  // Executions by kernel, instead of a schedule. The first and the last second are idle.
  std::vector<std::vector<Interval>> given = {};
};

struct World {
  double capture_s = 0;
  std::vector<std::vector<Interval>> executions;
  std::vector<energy::Poll> polls;
  ReadingKind kind = ReadingKind::kCumulative;
  std::optional<double> prior_window_s;
  // The true properties.
  double period_s = 0, lag_s = 0, window_s = 0, idle_w = 0;
  std::vector<double> power_w;   // above idle
  std::vector<double> energy_j;  // of all executions, with their share of the idle power
};

World MakeWorld(const WorldOptions& options, uint64_t seed);

// Executions for `given`: an unchanging loop in which kernels run one after the other.
std::vector<std::vector<Interval>> Loop(size_t kernels, double loop_s, double capture_s,
                                        uint64_t seed);

}  // namespace xplane_time::test
