// A diff of captures that are measured already.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "insight/diff_capture.h"
#include "xplane_time/diff.h"

namespace xplane_time::insight {

// Neither side is empty. Errors: as FindDiff.
absl::StatusOr<DiffReport> DiffOf(std::vector<DiffCapture> base, std::vector<DiffCapture> head,
                                  const DiffOptions& options);

}  // namespace xplane_time::insight
