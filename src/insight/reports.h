// `where` and `headroom` of one analysis, so that a trace is read once for both.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "timing/analysis.h"
#include "xplane_time/headroom.h"
#include "xplane_time/where.h"

namespace xplane_time::insight {

// With such watchers, of everything on the devices.
absl::StatusOr<Analysis> AnalyzeForWhere(const Trace& trace, const WhereOptions& options,
                                         const Diagnostics& reading, MakeWatcher make_watcher);
// For an analysis with WhereWatch watchers. Reads the host if the options request it. Releases each
// device after its use, unless `keeps_devices`.
absl::StatusOr<WhereReport> WhereOf(const Trace& trace, Analysis* analysis,
                                    const WhereOptions& options, bool keeps_devices);

// Reasons to doubt the steps of a device, a sentence each: marks of several
// names, executions outside of all marks, work that was launched before the trace began.
std::vector<std::string> DescribeStepDoubts(const WhereDevice& device);

// InvalidArgument: a peak that no device has.
absl::Status CheckPeaks(const HeadroomOptions& options);
// For an analysis with these options. Adds to its diagnostics. Errors: those of
// HeadroomOptions::work.
absl::StatusOr<HeadroomReport> HeadroomOf(const Trace& trace, Analysis* analysis,
                                          const HeadroomOptions& options);

}  // namespace xplane_time::insight
