// Lost runs: which runs lack executions because launches of them have none in the trace.
//
//   host     |- jit_f 0 -|   |- jit_f 1 -|   |- jit_f 2 -|
//              1   2           3   4           5   6         launches
//   device       |1| |2|         |3|             |5| |6|     run 1 of jit_f is incomplete
//
// 1. An owner of each launch without an execution is found: the execution of a module by the host
//    (HostEvidence::executions) that contains it on its own thread, else the only one on any
//    thread; else the ranges of host time around it.
// 2. A run is incomplete if the host executions of its function from its first to its last launch
//    own such a launch. An incomplete run is suspect, so it counts in no statistics and no verdict.
// 3. A launch that is pending (its kernel may run after the recording) also makes its run
//    incomplete, but never the only run of a function that would count.
// 4. Launches without an owner may belong to any run of the functions that the host has no
//    executions of. If they are more than 1 % of the launches of their device, these runs are in
//    doubt. 1 % is the smallest change that comparisons report by default.
// 5. Functions that the host executed, that lost launches, and that no device executed are counted
//    in Analysis::lost_functions.
//
// O(launches without an execution * log executions + runs * log executions).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "timing/analysis.h"

namespace xplane_time {

// A launch without an execution.
struct LostLaunch {
  gpu_runs::Launch launch;
  const DeviceAnalysis* device = nullptr;  // null: any device of the host
  bool is_pending = false;
};

// `devices`: all devices of one host, with their LaunchCheck. `compared`: the number of launches of
// the host that were compared with executions.
void MarkLostRuns(const Trace& trace, const gpu_runs::HostEvidence& evidence,
                  std::span<DeviceAnalysis* const> devices, std::span<const LostLaunch> lost,
                  uint64_t compared, Analysis* analysis);

}  // namespace xplane_time
