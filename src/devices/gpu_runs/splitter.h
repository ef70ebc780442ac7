// Splits the executions of a GPU into runs. The precedence is stated here and nowhere else.
//
// Runs of a program, by the first way that tells them for all of its kernels:
//   1. scopes    the root of a kernel's scope_range_id: the profiler numbers annotation
//                scopes, and the outermost one is the module's execution
//   2. launches  correlation_id -> host launch -> the host event that executes the module
//                (host_evidence.h); a kernel without one between two of a run is the run's
//   3. sequence  the likeliest split of the sequence of (hlo_op, kernel): in order of launch
//                where correlation ids tell it, and by idle time (likeliest_runs.h)
//
//   python         |-- jit_f:XLA GPU module --|   |-- jit_f:XLA GPU module --|
//   Host Threads/1    |launch 7|  |launch 8|         |launch 9| |launch 10|
//   Stream #16             |--7--| |-8-|                  |--9--| |-10-|
//
// 1 and 2 take one look, and mostly no pass more (early_runs.h). 3 takes a second look where
// the first kernel of a program promised 1 or 2. Runs are uncertain where the host counted
// others, where 1 and 2 disagree, and where another split is about as likely.
#pragma once

#include <memory>

#include "devices/device_kind.h"

namespace xplane_time::gpu_runs {

std::unique_ptr<RunSplitter> MakeSplitter(const SplitContext& context);

}  // namespace xplane_time::gpu_runs
