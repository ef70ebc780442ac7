// ScopeAdvice: the advice if --scope matches no op.
#pragma once

#include <string>

#include "xplane_time/diagnostics.h"
#include "xplane_time/report.h"
#include "xplane_time/trace.h"

namespace xplane_time {

// Returns the end of a message, "; ...": similar scopes and the command that lists all of them. If
// no op of the devices has a name scope or a source line, it explains how to record them. Empty if
// `options` has no --scope. Reads the devices again.
std::string ScopeAdvice(const Trace& trace, const ReportOptions& options,
                        const Diagnostics& reading);

}  // namespace xplane_time
