// Completeness: what a trace lacks, although it was recorded, and what in it cannot be right. A
// report states this before any number.
//
//   launches without an execution   the profiler lost the records of kernels
//   executions without a launch     launched before the recording, mostly
//   executions before their launch  the clocks of host and device disagree
//   impossible durations            timing/stream_order.h
//   counters                        their samples are in the trace, and are not read
//
// A launch counts as lost if all of this holds:
//
//   - It launches a kernel or a graph (devices/gpu_runs/host_calls.h). Copies and fills of no bytes
//     leave no record, and other calls launch nothing.
//   - It is not in a capture of a stream. Where captures are not recorded (XPlane) and graphs are
//     launched, only launches of graphs count.
//   - No execution on any device of the host has its correlation id, and all of these are looked
//   at.
//   - Its kernel cannot be what the host had launched ahead when the recording ended (FindPending).
//
// All of it is skipped where options leave executions out.
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
