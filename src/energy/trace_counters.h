// Power that the trace itself contains: events without a duration on a device's `_counters_` line.
// The value of such an event is the stat that has the event's name.
//
//   power_mw          the device's power
//   NAME_energy_nj    energy: a counter or, if it often decreases, increments
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "energy/publications.h"
#include "xplane_time/diagnostics.h"
#include "xplane_time/power.h"
#include "xplane_time/select.h"
#include "xplane_time/trace.h"

namespace xplane_time::energy {

struct CounterSample {
  int64_t t_ps = 0, value = 0;
  uint32_t part = 0;  // grows at each reset
};

// Decides whether `samples` (in order of time) are values of a counter or increments. A counter
// that seldom decreases was reset. The increase at a reset is unknown, because no width is
// documented at which the counter would wrap.
//   1000, 1002, 1004, ..., 1100, 3, 5      the same, in two parts: 1000 ... 1100 and 3, 5
//   20, 31, 0, 25, 40, 38                  20, 51, 51, 76, 116, 154
// Empty if it is unclear (more than an eighth of the changes decrease, but less than a quarter), if
// an increment is negative, or if the sum exceeds an int64_t.
std::optional<std::vector<CounterSample>> CountedFrom(std::vector<CounterSample> samples);

struct TraceCounter {
  PowerChannel channel;
  std::vector<Poll> polls = {};    // seconds since `origin_ps`; ascending
  NegativeReadings negative = {};  // of power; not in `polls`
  std::string_view reason = {};    // why there is no counter: no_sensor, several_sensors,
                                   // counter_unclear
  std::string message = {};        // the reason in words, and what to do
};

// Chooses the counter that `map` names for the device; otherwise the power; otherwise the energy,
// if there is only one. Errors: read errors.
absl::StatusOr<TraceCounter> CounterOf(const Trace& trace, const DevicePlane& device,
                                       int64_t origin_ps,
                                       const std::map<int32_t, std::string>& map);

}  // namespace xplane_time::energy
