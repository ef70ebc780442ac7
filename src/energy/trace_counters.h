// Power that is in the trace itself: events of no length on a device's `_counters_` line, whose
// value is the stat that has the event's name.
//
//   power_mw          what the device draws
//   NAME_energy_nj    energy: a counter, or, where it goes down often, what each event adds
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
};

struct CountedSamples {
  std::vector<CounterSample> samples;  // never go down
  uint64_t resets = 0;                 // of the counter; the longest part without one is left
};

// `samples`, by time, are of a counter, or what each adds. A counter that seldom goes down was
// reset: how far it had come is not known, and no width is documented at which it would wrap.
//   1000, 1002, 1004, ..., 1100, 3, 5      1000 ... 1100; one reset
//   20, 31, 0, 25, 40, 38                  20, 51, 51, 76, 116, 154
// Empty: neither (between one in 8 and one in 4 of the changes goes down; a negative value; more
// than an int64_t holds).
std::optional<CountedSamples> CountedFrom(std::vector<CounterSample> samples);

struct TraceCounter {
  PowerChannel channel;
  std::vector<Poll> polls = {};  // seconds since `origin_ps`; ascending
  uint64_t resets = 0;           // of the counter: polls are of the longest part without one
  std::string_view reason = {};  // why there is none: no_sensor, several_sensors, counter_unclear
  std::string message = {};      // the same in words, with the way out
};

// The one that says most: power, else the only energy, else what `map` names for the device.
// Errors: of reading.
absl::StatusOr<TraceCounter> CounterOf(const Trace& trace, const DevicePlane& device,
                                       int64_t origin_ps,
                                       const std::map<int32_t, std::string>& map);

}  // namespace xplane_time::energy
