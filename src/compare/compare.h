// Slowest: a function over all devices of a capture: of each run the slowest device.
#ifndef XPLANE_TIME_SRC_COMPARE_COMPARE_H_
#define XPLANE_TIME_SRC_COMPARE_COMPARE_H_

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "xplane_time/measurements.h"

namespace xplane_time::compare {

// The k-th run on each device is one run, where the devices have equally many and runs
// overlap; else the function has no samples, and a note says so. A function on one device
// stays as it is.
std::vector<Series> SlowestDevice(std::span<const Series> series, std::vector<std::string>* notes);

// The step of the clock that times come from, as far as they show it.
//
// Enters: the captures of both sides. Leaves: the smallest difference between two samples that
// are not equal. In a trace all functions of a device share a clock; a benchmark's times are
// means over iterations, so that each function has a step of its own.
//
//   samples   100   100   104   110 ns
//   step                 4                 a time is off by up to half of it
//
// An upper bound: few samples may show no two neighbours. O(samples log samples).

class ClockSteps {
 public:
  ClockSteps(std::span<const Measurements> base, std::span<const Measurements> head);
  // Of a series of these captures; 0: all samples are equal.
  double StepPs(const Series& series) const;

 private:
  using Key = std::pair<std::string, std::string>;
  static Key KeyOf(const Series& series);

  std::map<Key, double> step_ps_;
};

}  // namespace xplane_time::compare

#endif  // XPLANE_TIME_SRC_COMPARE_COMPARE_H_
