// Completeness: finds recorded data that the trace lacks, and data that cannot be right. A report
// states this before any number.
//
//   launches without an execution   the profiler lost the records of kernels
//   executions without a launch     launched before the recording, mostly
//   executions before their launch  the clocks of host and device disagree
//   impossible durations            timing/stream_order.h
//   counters                        their samples are in the trace, but are not read
//
// A launch counts as lost if all of this holds:
//
//   - It launches a kernel or a graph (devices/gpu_runs/host_calls.h). Copies and fills of 0 bytes
//     leave no record, and other calls do not launch work.
//   - It is not in a capture of a stream. If captures are not recorded (XPlane) and graphs are
//     launched, only launches of graphs count.
//   - No execution has its correlation id, and all devices of the host were checked.
//   - Its kernel was not pending when the recording ended (FindPending).
//
// These checks are skipped if options exclude executions.
#pragma once

#include <string>

#include "timing/analysis.h"
#include "xplane_time/report.h"
#include "xplane_time/select.h"
#include "xplane_time/trace.h"

namespace xplane_time {

// Adds diagnostics, and marks the cells of kernels with impossible durations. Frees the launches of
// the devices.
void AddCompleteness(const Trace& trace, const Selection& selection, const ReportOptions& options,
                     Analysis* analysis);

// For a trace without executions on its devices: its launches of kernels; empty if there are none.
// "30 launches of kernels (from 1.000 ms to 3.900 ms) are in the trace without an execution ..."
std::string DescribeLostLaunches(const Trace& trace, int threads);

}  // namespace xplane_time
