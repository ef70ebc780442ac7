// The error for filters that leave no execution.
#pragma once

#include <string_view>

#include "xplane_time/report.h"

namespace xplane_time::tools {

// `filters` are the given options, such as "--function, --scope". The error names functions similar
// to --function.
absl::Status NothingMatches(const Trace& trace, const Diagnostics& reading,
                            const ReportOptions& options, std::string_view filters);

}  // namespace xplane_time::tools
