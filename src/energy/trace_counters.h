// Power that is in the trace itself: events of no length on a device's `_counters_` line, whose
// value is the stat that has the event's name.
//
//   power_mw          what the device draws
//   NAME_energy_nj    energy: a counter, or, where it goes down, what each event adds
#pragma once

#include <cstdint>
#include <map>
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

struct TraceCounter {
  PowerChannel channel;
  std::vector<Poll> polls = {};  // seconds since `origin_ps`; ascending
  std::string_view reason = {};  // why there is none: no_sensor, several_sensors
  std::string message = {};      // the same in words, with the way out
};

// The one that says most: power, else the only energy, else what `map` names for the device.
// Errors: of reading.
absl::StatusOr<TraceCounter> CounterOf(const Trace& trace, const DevicePlane& device,
                                       int64_t origin_ps,
                                       const std::map<int32_t, std::string>& map);

}  // namespace xplane_time::energy
