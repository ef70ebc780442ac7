// A timeline, with power if it is known, as a Perfetto trace for ui.perfetto.dev and for SQL.
//
//   run.xplane.pb             a group for each input
//     GPU:0                   and device
//       power                 a counter in watts, by window of the sensor, and the explained part
//       power explained
//       power unknown         a slice for each time without a window
//       steps, runs           slices, as in insight/timeline.h
//       Stream #1 ...         a track for each line; partly overlapping events have extra rows
//
// Perfetto uses whole nanoseconds, so starts and ends are rounded. If rounding changes a start or a
// duration, the slice has the exact value as start_ps or duration_ps. So every time is exact:
//
//   COALESCE(EXTRACT_ARG(arg_set_id, 'debug.duration_ps'), dur * 1000)
//
// Times count from the base of the capture. If there are earlier times, all are moved so that the
// first is 0; then every slice has start_ps. A counter holds its value until the next one, and
// Perfetto draws NaN as 0, so slices mark the unknown times.
#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"
#include "insight/timeline.h"
#include "perfetto/trace_writer.h"
#include "xplane_time/energy.h"

namespace xplane_time::perfetto {

// `inputs`: every input that DeviceRef::input refers to. `energy`: null if power is not requested;
// its timelines are the power. Errors: those of the sink.
absl::Status WriteTrace(insight::Timeline timeline, const EnergyReport* energy,
                        std::span<const InputRow> inputs, Sink sink);

}  // namespace xplane_time::perfetto
