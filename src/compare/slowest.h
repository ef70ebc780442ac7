// Slowest: a function over all devices of a capture: of each run the slowest device.
#ifndef XPLANE_TIME_SRC_COMPARE_SLOWEST_H_
#define XPLANE_TIME_SRC_COMPARE_SLOWEST_H_

#include <span>
#include <string>
#include <vector>

#include "xplane_time/measurements.h"

namespace xplane_time::compare {

// The k-th run on each device is one run, where the devices have equally many and runs
// overlap; else the function has no samples, and a note says so. A function on one device
// stays as it is.
std::vector<Series> SlowestDevice(std::span<const Series> series, std::vector<std::string>* notes);

}  // namespace xplane_time::compare

#endif  // XPLANE_TIME_SRC_COMPARE_SLOWEST_H_
