// A timeline, and power where it is known, as a Perfetto trace: for ui.perfetto.dev and for SQL.
//
//   run.xplane.pb             a group for each input
//     GPU:0                   and device
//       power                 a counter in watts, by window of the sensor, and what explains it
//       power explained
//       power unknown         a slice wherever no window is
//       steps, runs           slices, as insight/timeline.h has them
//       Stream #1 ...         a track a line; events that overlap in part are on rows of their own
//
// Perfetto counts whole nanoseconds. Starts and ends are rounded to them; where that changes a
// start or a duration, the slice has it as start_ps or duration_ps. So every time is exact:
//
//   COALESCE(EXTRACT_ARG(arg_set_id, 'debug.duration_ps'), dur * 1000)
//
// Times count from the base of the capture. Where something is before it, all are moved so that the
// first is at 0; then every slice has start_ps. A counter holds its value until the next one, and
// Perfetto draws what is not a number as 0: what is unknown is told by the slices.
#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"
#include "insight/timeline.h"
#include "perfetto/trace_writer.h"
#include "xplane_time/energy.h"

namespace xplane_time::perfetto {

// `inputs`: all that DeviceRef::input counts. `energy`: none where power is no subject; its
// timelines are the power. Errors: those of the sink.
absl::Status WriteTrace(insight::Timeline timeline, const EnergyReport* energy,
                        std::span<const InputRow> inputs, Sink sink);

}  // namespace xplane_time::perfetto
