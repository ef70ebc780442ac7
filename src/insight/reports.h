// What `where` and `headroom` say of one analysis, so that a trace is read once for both.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "timing/analysis.h"
#include "xplane_time/headroom.h"
#include "xplane_time/where.h"

namespace xplane_time::insight {

// With such watchers, of everything on the devices.
absl::StatusOr<Analysis> AnalyzeForWhere(const Trace& trace, const WhereOptions& options,
                                         const Diagnostics& reading, MakeWatcher make_watcher);
// Of one whose watchers are WhereWatch. Reads the host where the options ask for it. Lets go of
// each device when it is done with it, unless `keeps_devices`.
absl::StatusOr<WhereReport> WhereOf(const Trace& trace, Analysis* analysis,
                                    const WhereOptions& options, bool keeps_devices);

// InvalidArgument: a peak that no device has.
absl::Status CheckPeaks(const HeadroomOptions& options);
// Of such options. Adds to the diagnostics of the analysis. Errors: of HeadroomOptions::work.
absl::StatusOr<HeadroomReport> HeadroomOf(const Trace& trace, Analysis* analysis,
                                          const HeadroomOptions& options);

}  // namespace xplane_time::insight
