// The error of a command whose filters leave no execution.
#pragma once

#include <string_view>

#include "xplane_time/report.h"

namespace xplane_time::tools {

// `filters`: the options that were given, "--function, --scope". Names functions near to
// --function.
absl::Status NothingMatches(const Trace& trace, const Diagnostics& reading,
                            const ReportOptions& options, std::string_view filters);

}  // namespace xplane_time::tools
